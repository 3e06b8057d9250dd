# client.pl http|memcached SOCKET: six processes ask a server at once; prints what they heard, in an order that is fixed.
use strict;
use warnings;
use IO::Socket::UNIX;

my ($kind, $path) = @ARGV;
my @pipes;
for my $client (1 .. 6) {
    defined(my $pid = open my $pipe, '-|') or die "fork: $!";
    if (!$pid) { $kind eq 'http' ? http($client) : memcached($client); exit 0 }
    push @pipes, $pipe;
}
for my $pipe (@pipes) { print while <$pipe>; close $pipe or die "a client failed\n" }

sub dial { IO::Socket::UNIX->new(Peer => $path) or die "$path: $!" }

sub http {
    my $client = shift;
    my ($sum, $bytes) = (0, 0);
    for my $round (1 .. 60) {
        my $name = $round % 9 ? 'f' . ($round % 9 * $client % 8 + 1) . '.txt' : "missing$round?" . 'q' x ($round * 40);
        my $packed = $round % 2 ? "Accept-Encoding: gzip\r\n" : '';
        my $socket = dial();
        print $socket "GET /$name HTTP/1.0\r\nHost: x\r\n$packed\r\n";
        my $answer = do { local $/; <$socket> };
        my ($head, $body) = split /\r\n\r\n/, $answer, 2;
        my ($status) = $head =~ m{^HTTP/1\.\d (\d+)} or die "no answer: $head";
        $sum = ($sum * 31 + $status + unpack '%32C*', $body) % 4294967291;
        $bytes += length $body;
    }
    print "$client: $sum $bytes\n";
}

sub memcached {
    my $client = shift;
    my $socket = dial();
    my $ask = sub { print $socket shift; scalar <$socket> };
    my %stored;
    for my $n (1 .. 4000) {
        my $value = chr(97 + $n % 26) x ($n * $client * 13 % 6000 + 1);
        my $key = "k$client." . $n % 700;
        $ask->("set $key 0 0 " . length($value) . "\r\n$value\r\n") =~ /^STORED/ or die 'not stored';
        $stored{$key} = $value;
        if ($n % 5 == 0) { $ask->("delete $key\r\n") =~ /^DELETED/ or die 'not deleted'; delete $stored{$key} }
        if ($n % 7 == 0) { $ask->("append $key 0 0 3\r\nend\r\n"); $stored{$key} .= 'end' if exists $stored{$key} }
    }
    $ask->("set n$client 0 0 1\r\n0\r\n");
    my $count = 0;
    $count = $ask->("incr n$client 3\r\n") + 0 for 1 .. 500;
    my $right = 0;
    for my $key (sort keys %stored) {
        my $head = $ask->("get $key\r\n");
        my ($length) = $head =~ /^VALUE \S+ 0 (\d+)/ or die "lost $key";
        read $socket, my $value, $length + 7;
        $right++ if $value eq "$stored{$key}\r\nEND\r\n";
    }
    my $large = 'L' x 1_000_000;
    my $answer = $ask->("set large$client 0 0 1000000\r\n$large\r\n");
    print "$client: ", scalar(keys %stored), " $right $count $answer";
}
