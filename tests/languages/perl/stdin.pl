my $sum = 0;
$sum += $_ while <STDIN>;
print "$sum\n";
