print "grüße 世界 🦀\n";
