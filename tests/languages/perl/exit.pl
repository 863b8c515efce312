print "before\n";
exit 7;
