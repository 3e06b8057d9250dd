# Strings, hashes, sorting, closures, regular expressions, forks and threads; what it prints is compared.
use strict;
use warnings;
use Config;

my (%count, @rows);
for my $i (1 .. 60_000) {
    my $key = sprintf '%x', $i * 2_654_435_761 % 65_521;
    $count{$key}++;
    push @{ $rows[$i % 97] }, { id => $i, key => $key, text => $key x ($i % 40) };
    delete $count{ sprintf '%x', ($i - 300) * 2_654_435_761 % 65_521 } if $i % 3 == 0 && $i > 300;
}
print scalar(keys %count), ' ', join(',', (sort keys %count)[0 .. 9]), "\n";
my @sorted = sort { length $a->{text} <=> length $b->{text} || $a->{id} <=> $b->{id} } map { @$_ } grep { defined } @rows;
print join(',', map { $_->{id} } @sorted[0, 1000, 20_000, -1]), "\n";
my $text = join ' ', map { "w$_=" . 'x' x ($_ % 50) } 1 .. 20_000;
my $matches = () = $text =~ /\bw(\d*7\d*)=(x{3,9})\b/g;
(my $other = $text) =~ s/(\d+)/<$1>/g;
print "$matches ", length $other, ' ', unpack('%32C*', $other), "\n";
my @closures = map { my $n = $_; sub { $n += shift } } 1 .. 5_000;
my $sum = 0;
$sum += $_->(3) for @closures;
print "$sum\n";
my $packed = pack 'N*', 1 .. 50_000;
print unpack('%32N*', $packed), ' ', length(join '', reverse split //, $packed), "\n";
for my $child (1 .. 4) {
    defined(my $pid = fork) or die "fork: $!";
    if (!$pid) { my %h = map { $_ => [1 .. $_ % 20] } 1 .. 5_000; exit(keys %h == 5_000 ? 0 : 1) }
}
my $failed = 0;
while (wait != -1) { $failed++ if $? }
print "failed children: $failed\n";
if ($Config{useithreads}) {
    require threads;
    my @threads = map { my $n = $_; threads->create(sub { my @a = map { [$_ x $n] } 1 .. 3_000; scalar @a }) } 1 .. 6;
    my $got = 0;
    $got += $_->join for @threads;
    print "threads: $got\n";
}
