#!/bin/bash
# Records twenty-eight programs of Debian, each with three inputs, for the page docs/which-policy.md: record.sh FOLDER [FREEHOLD]
# FREEHOLD is the command, `freehold` if none is named. Inputs are made here, of a fixed seed; only programs and headers are the machine's.
# Debian: apt install perl python3 sqlite3 git g++ binutils cmake make jq ruby php-cli lua5.4 gdb redis-server openssl xz-utils
set -euo pipefail
to=$(mkdir -p "$1" && cd "$1" && pwd)
freehold=$(command -v "${2:-freehold}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export LC_ALL=C HOME=$work PYTHONHASHSEED=0 PERL_HASH_SEED=0

# LINES lines of eight words out of 4,000.
text() {
  awk -v lines="$1" -v seed="$2" 'BEGIN { srand(seed); for (i = 0; i < lines; i++) { s = ""; for (j = 0; j < 8; j++) s = s sprintf("w%d ", int(4000 * rand() * rand())); print s } }'
}

# RECORDS objects as JSON.
objects() {
  awk -v n="$1" 'BEGIN { srand(7); printf "["; for (i = 0; i < n; i++) printf "%s{\"id\":%d,\"name\":\"n%d\",\"tags\":[%d,%d],\"of\":{\"x\":%f}}", i ? "," : "", i, 900 * rand(), i % 7, i % 11, rand(); print "]" }'
}

# FUNCTIONS functions in C that call one another.
functions() {
  echo '#include <stdio.h>'
  for i in $(seq "$1"); do
    echo "struct s$i { int a, b[$i]; }; static int f$i(struct s$i *s, int n) { int sum = 0; for (int i = 0; i < n; i++) { sum += s->b[i % $i] * i; if (sum > 1000) sum -= s->a; } return sum; }"
    echo "int g$i(int n) { struct s$i s = {n, {1}}; printf(\"%d\\n\", n); return f$i(&s, n) + $i; }"
  done
}

record() {
  name=$1
  shift
  "$freehold" record --stacks off -o "$to/$name.fht" -- "$@" >/dev/null 2>"$work/said" </dev/null || true
  [ -s "$to/$name.fht" ] || { echo "$name was not recorded: $(head -3 "$work/said")" >&2; exit 1; }
}

for n in 1 2 3; do
  text $((n * 2000)) "$n" > text
  text $((n * 2000)) "$((n + 10))" > other
  objects $((n * 1500)) > objects.json
  functions $((n * 60)) > many.c
  gcc -O1 -g -c many.c -o many.o
  echo "#include <map>
#include <string>
#include <vector>
int count(const std::vector<std::string> &words) { std::map<std::string, int> all; for (auto &word : words) ++all[word]; return all.size(); }" > words.cc
  [ "$n" = 1 ] || echo "#include <iostream>
void show(int n) { std::cout << n; }" >> words.cc
  [ "$n" != 3 ] || echo "#include <algorithm>
#include <functional>
#include <unordered_map>
std::unordered_map<int, std::function<int()>> table;" >> words.cc
  cc1=$(gcc -print-prog-name=cc1) cc1plus=$(g++ -print-prog-name=cc1plus)

  record "awk-$n" awk '{ for (i = 1; i <= NF; i++) count[$i]++ } END { for (w in count) print w, count[w] }' text
  record "sort-$n" sort --parallel=1 text
  record "grep-$n" grep -E 'w(1+2|3[0-9]*4) .*w(5|6)+' text
  record "sed-$n" sed -E 's/w([0-9])([0-9]+)/\2-\1/g;H;$!d;x' text
  record "diff-$n" diff text other
  record "bash-$n" bash -c "declare -A a; for ((i = 0; i < $n * 4000; i++)); do a[k\$((i % 700))]+=x\$i; done; echo \${#a[@]}"
  record "perl-$n" perl -ne '$n{$_}++ for split; push @l, [split]; END { print scalar keys %n, scalar @l }' text
  record "python3-$n" env PYTHONMALLOC=malloc python3 -c "import json, collections
a = json.load(open('objects.json')); d = collections.defaultdict(list)
for o in a: d[o['name']].append(o)
print(len(json.dumps(d)))"
  record "sqlite3-$n" sqlite3 :memory: "create table t(a integer primary key, b text, c real); with recursive n(i) as (select 1 union all select i + 1 from n where i < $n * 5000) insert into t select i, 'name ' || (i * 7919 % 1000), i / 3.0 from n; create index i on t(b); select b, count(*), sum(c) from t group by b order by 3; delete from t where a % 3 = 0; select count(*) from t a join t b on a.b = b.b;"
  rm -rf repository && git init -q repository
  for i in $(seq $((n * 15))); do
    head -n $((i * 40)) text > repository/file
    git -C repository add file
    git -C repository -c user.name=n -c user.email=n@n -c gc.auto=0 commit -qm "number $i"
  done
  record "git-log-$n" git -C repository log -p
  record "git-repack-$n" git -C repository -c pack.threads=1 repack -adfq
  record "cc1-$n" "$cc1" -quiet -O2 many.c -o many.s
  record "cc1plus-$n" "$cc1plus" -quiet -O0 words.cc -o words.s -D_GNU_SOURCE -I/usr/include/x86_64-linux-gnu
  gcc -O1 -g -S many.c -o many.s
  record "as-$n" as --64 many.s -o again.o
  record "ld-$n" ld -r many.o again.o -z muldefs -o both.o
  record "objdump-$n" objdump -dSl many.o
  record "readelf-$n" readelf --debug-dump=info,line many.o
  record "nm-$n" nm -Cl many.o
  { echo 'all:'; for i in $(seq $((n * 300))); do echo "all: t$i
t$i: \$(wildcard *.h) \$(addsuffix .o,a b c$i)
%$i.o: ; @:"; done; } > Makefile
  record "make-$n" make -n -f Makefile
  { echo 'cmake_minimum_required(VERSION 3.18)
project(p NONE)'; for i in $(seq $((n * 150))); do echo "set(l$i a;b;$i)
list(APPEND all \${l$i})
add_custom_target(t$i COMMAND echo \${l$i})"; done; } > CMakeLists.txt
  record "cmake-$n" cmake -S . -B "built-$n"
  record "jq-$n" jq 'group_by(.name) | map({(.[0].name): map(.of.x) | add}) | add' objects.json
  record "ruby-$n" ruby -rjson -e 'a = JSON.parse(File.read("objects.json")); puts a.group_by { |o| o["name"] }.map { |k, v| [k, v.sum { |o| o["of"]["x"] }] }.sort.to_s.size'
  record "php-$n" env USE_ZEND_ALLOC=0 php -n -r '$a = json_decode(file_get_contents("objects.json"), true); $g = []; foreach ($a as $o) $g[$o["name"]][] = $o; ksort($g); echo strlen(json_encode($g));'
  record "lua-$n" lua5.4 -e 'local t = {} for line in io.lines("text") do for w in line:gmatch("%S+") do t[w] = (t[w] or "") .. #w end end local n = 0 for k in pairs(t) do n = n + 1 end print(n)'
  record "gdb-$n" gdb -nx -batch -ex 'info functions g1' -ex 'info types s' -ex 'disassemble g7' many.o
  { for i in $(seq $((n * 3000))); do echo "SET key:$((i * 7919 % 5000)) $(printf %0$((i % 90 + 1))d $i)"; [ $((i % 3)) != 0 ] || echo "DEL key:$((i * 31 % 5000))"; [ $((i % 5)) != 0 ] || echo "RPUSH list:$((i % 40)) item$i"; done; echo 'SHUTDOWN NOSAVE'; } > commands
  (for _ in $(seq 100); do [ -S redis.sock ] && break; sleep 0.1; done; redis-cli -s redis.sock < commands > /dev/null 2>&1 || :) &
  record "redis-$n" redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no
  wait
  rm -f redis.sock
  record "openssl-$n" openssl asn1parse -genstr "SEQWRAP,UTF8:$(head -c $((n * 3000)) text | tr -d '\n' | tr ' ' _)"
  record "xz-$n" xz -kc -T1 -6 text
done
