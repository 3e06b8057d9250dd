<?php
// Arrays, strings, objects, regular expressions, JSON, compression, big buffers and forks; what it prints is compared.
ini_set('memory_limit', '-1');
mt_srand(18);
$rows = [];
for ($i = 0; $i < 60000; $i++) {
    $key = sprintf('%x', ($i * 2654435761) % 65521);
    $rows[$key][] = ['id' => $i, 'text' => str_repeat($key, $i % 40)];
    if ($i % 3 == 0) unset($rows[sprintf('%x', (($i - 300) * 2654435761) % 65521)]);
}
ksort($rows);
echo count($rows), ' ', crc32(json_encode($rows)), "\n";
$text = implode(' ', array_map(fn($n) => "w$n=" . str_repeat('x', $n % 50), range(1, 20000)));
echo preg_match_all('/\bw(\d*7\d*)=(x{3,9})\b/', $text), ' ', crc32(preg_replace_callback('/\d+/', fn($m) => '<' . $m[0] * 3 . '>', $text)), "\n";
class Node { public $left, $right, $value; function __construct($v) { $this->value = $v; } }
function tree($depth) {
    $node = new Node($depth);
    if ($depth) { $node->left = tree($depth - 1); $node->right = tree($depth - 1); $node->left->value = [$node]; }
    return $node;
}
for ($round = 0; $round < 6; $round++) { $tree = tree(13); $tree = null; }
echo 'cycles ', gc_collect_cycles() >= 0 ? 'collected' : '', "\n";
$heap = new SplPriorityQueue;
for ($i = 0; $i < 30000; $i++) $heap->insert("e$i", mt_rand());
$sum = '';
while (!$heap->isEmpty()) $sum = md5($sum . $heap->extract());
echo $sum, "\n";
foreach ([1, 6, 9] as $level) {
    $packed = gzcompress($text, $level);
    if (gzuncompress($packed) !== $text) exit(1);
}
echo crc32(serialize(unserialize(serialize($rows)))), "\n";
for ($size = 1 << 16; $size <= 1 << 26; $size <<= 1) { $buffer = str_repeat("\1", $size); $buffer .= 'end'; }
echo strlen($buffer), ' ', crc32(substr($buffer, -1000)), "\n";
function numbers($n) { for ($i = 0; $i < $n; $i++) yield $i => [$i, str_repeat('y', $i % 100)]; }
$sum = 0;
foreach (numbers(50000) as $i => [$j, $s]) $sum += $j + strlen($s);
echo $sum, "\n";
$document = new ArrayObject(iterator_to_array(numbers(1000)));
echo md5(var_export($document->getArrayCopy(), true)), "\n";
$failed = 0;
for ($child = 0; $child < 4; $child++) {
    if (pcntl_fork() == 0) exit(count(array_unique(array_map(fn($n) => $n % 997, range(1, 50000)))) == 997 ? 0 : 1);
}
while (pcntl_wait($status) > 0) $failed += $status != 0;
echo "failed children: $failed\n";
