# Bounded Perl: hashes of arrays, string building, splitting, substitution, sorting. Prints one number.
use strict;
use warnings;

my ($state, $total) = (12345, 0);
sub random { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state >> 12 }

for my $round (1 .. 3) {
    my %index;
    push @{ $index{ sprintf("w%x", random() % 20000) } }, $_ for 1 .. 80000;
    my $text = join "\n", map { "$_=" . join(",", @{ $index{$_} }) } sort keys %index;
    for my $line (split /\n/, $text) {
        my ($word, $places) = split /=/, $line;
        my @places = split /,/, $places;
        $line =~ s/(\d)(\d)/$2$1/g;
        $total += length($line) + @places;
    }
}
print "$total\n";
