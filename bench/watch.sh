#!/bin/sh
# What watching costs: instructions (callgrind) of real programs under the options that watch calls, as ratios.
#   bench/watch.sh LIBRARY      e.g. target/preload/libfreehold_capi.so; needs valgrind, sqlite3, perl and python3
# Instructions, not time: they are the same on a busy machine. "empty" is a program that does nothing: fixed costs.
set -eu
library=$(realpath "${1:?usage: bench/watch.sh LIBRARY}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(python3 -c 'import sys; print(sys.executable)')

count() { # name, option, command…
  name=$1 option=$2
  shift 2
  env "$option" PYTHONHASHSEED=0 PERL_HASH_SEED=0 LD_PRELOAD="$library" \
    valgrind --tool=callgrind --callgrind-out-file="$work/callgrind" "$@" 2>&1 >/dev/null |
    awk '/Collected/ { print $NF }'
}

row() { # name, command…
  name=$1
  shift
  plain=$(count "$name" FREEHOLD_PURGE=on "$@")
  printf '%-16s %14s' "$name" "$plain"
  for option in "FREEHOLD_PROFILE=$work/profile.pb" FREEHOLD_STATS=on FREEHOLD_SECURE=on; do
    count "$name" "$option" "$@" | awk -v plain="$plain" '{ printf " %9.4f", $1 / plain }'
  done
  echo
}

cat >"$work/words.py" <<'P'
import json, re
data = [{"id": i, "name": "user%d" % i, "tags": ["a", "b", str(i % 7)], "v": i * 1.5} for i in range(3000)]
for _ in range(6):
    text = json.dumps(data)
    json.loads(text)
    counts = {}
    for word in re.findall(r"\w+", text):
        counts[word] = counts.get(word, 0) + 1
P

printf '%-16s %14s %9s %9s %9s\n' program instructions profile stats secure
row empty true
row sqlite3 sqlite3 :memory: "create table t(a integer primary key, b text);
  with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into t select i, 'name' || (i * 7919 % 100003) from n;
  create index x on t(b);
  select count(*) from t a join t b on a.b = b.b where a.a % 50 = 0;
  delete from t where a % 3 = 0;"
row perl perl -e 'my %h; for my $i (1 .. 200000) { $h{"k" . ($i * 7919 % 20011)} .= "x$i" }
  my @a = sort keys %h; print scalar(@a), join(",", map { length $h{$_} } @a[0 .. 9]);'
row python3 "$python" "$work/words.py"
export PYTHONMALLOC=malloc # every object by malloc: the worst case
row python3-malloc "$python" "$work/words.py"
