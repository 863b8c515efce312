$| = 1;
print "before\n";
1 while 1;
