# Strings, hashes, objects, the collector (also compacting), threads, fibers, ractors, forks; what it prints is compared.
require 'json'
require 'zlib'
require 'digest'
require 'set'
require 'stringio'

rows = Hash.new { |hash, key| hash[key] = [] }
15_000.times do |i|
  key = (i * 2_654_435_761 % 65_521).to_s(16)
  rows[key] << { 'id' => i, 'text' => key * (i % 40) }
  rows.delete(((i - 300) * 2_654_435_761 % 65_521).to_s(16)) if i % 3 == 0
end
puts rows.size, Zlib.crc32(JSON.generate(rows.sort.to_h))
text = (1..5_000).map { |n| "w#{n}=#{'x' * (n % 50)}" }.join(' ')
puts text.scan(/\bw(\d*7\d*)=(x{3,9})\b/).size, Zlib.crc32(text.gsub(/\d+/) { |m| "<#{m.to_i * 3}>" })
puts Digest::SHA256.hexdigest(Marshal.dump(Marshal.load(Marshal.dump(rows.sort))))
Pair = Struct.new(:left, :right)
build = ->(depth) { depth.zero? ? nil : Pair.new(build.(depth - 1), build.(depth - 1)) }
6.times { build.(12) }
GC.start
GC.compact if GC.respond_to?(:compact)
[1, 6, 9].each { |level| exit 1 unless Zlib.inflate(Zlib.deflate(text, level)) == text }
sums = (1..8).map { |seed| Thread.new { (1..800).sum { |n| ('z' * (n * seed % 700)).sum } } }.map(&:value)
puts sums.join(' ')
fibers = (1..500).map { |n| Fiber.new { Fiber.yield [n] * 50; n } }
puts fibers.sum { |fiber| fiber.resume.size } + fibers.sum(&:resume)
$VERBOSE = nil
puts (1..4).map { |n| Ractor.new(n) { |m| (1..20_000).map { |i| (i * m).to_s }.join.size } }.map(&:take).join(' ')
puts (3**5_000).to_s.sum, (1..2_000).inject(:*).to_s.size
out = StringIO.new
20_000.times { |n| out << n.to_s(36) }
puts out.string.size, Set.new(out.string.chars.each_slice(3).map(&:join)).size
buffer = +''
(16..25).each { |bits| buffer = "\1" * (1 << bits); buffer << 'end' }
puts buffer.size
children = (1..4).map { fork { GC.start; exit!((1..50_000).map { |n| (n % 997).to_s }.uniq.size == 997 ? 0 : 1) } }
puts "failed children: #{children.count { |pid| !Process.wait2(pid)[1].success? }}"
IO.popen(['cat'], 'r+') { |io| io.write('q' * 50_000); io.close_write; puts io.read.size }
