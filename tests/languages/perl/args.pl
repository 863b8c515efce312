print scalar(@ARGV), "\n";
print "$_\n" for @ARGV;
