#!/usr/bin/env bash
# defrag.sh SOURCE LIBRARY: valkey, built against Freehold by flags alone, moves its values to fuller slabs (activedefrag)
# and ends near what is alive; without it, it does not; both hold the same keys and values.
set -euo pipefail
source=$1 library=$2 here=$(cd "$(dirname "$0")" && pwd)
headers=$here/../../../crates/capi/include
ln -sf "$library" libfreehold.so.1
cc -O2 -c -I"$headers" -o adapter.o "$here/adapter.c"
cp -r "$source" valkey
cd valkey/src
own=$(dirname "$(dirname "$PWD")")
# What valkey calls only where it was built with its own jemalloc.
flags="-DHAVE_DEFRAG '-Dmallocx(size,flags)=({void*freehold_malloc_packed(unsigned long);freehold_malloc_packed(size);})'"
flags="$flags '-Ddallocx(block,flags)=({void freehold_free_packed(void*);freehold_free_packed(block);})'"
make distclean >/dev/null
make MALLOC=libc OPTIMIZATION=-O2 CFLAGS="$flags" \
  LDFLAGS="-Wl,--wrap=zmalloc_get_allocator_info $own/adapter.o $own/libfreehold.so.1 -Wl,-rpath,$own" \
  valkey-server valkey-cli >"$own/build.log" 2>&1 || { tail "$own/build.log"; exit 1; }

socket=$own/socket
ask() { ./valkey-cli -s "$socket" "$@"; }
fields() { ask info "$1" | tr -d '\r' | sed -n "s/^$2://p"; }

# Keys of two sizes, most of the first deleted: what stays is a block here and there in every slab. Prints used and resident bytes.
serve() {
  ./valkey-server --port 0 --unixsocket "$socket" --save '' --appendonly no --enable-debug-command yes --loglevel warning \
    --activedefrag "$1" --active-defrag-ignore-bytes 1mb --active-defrag-threshold-lower 5 >"$own/server.log" 2>&1 &
  for _ in $(seq 100); do [ "$(ask ping 2>/dev/null)" = PONG ] && break; sleep 0.1; done
  ask eval "for i = 1, 400000 do redis.call('set', 'key:' .. i, string.rep('x', 40 + i % 200)) end" 0 >/dev/null
  ask eval "for i = 1, 400000 do if i % 5 ~= 0 then redis.call('del', 'key:' .. i) end end" 0 >/dev/null
  ask eval "for i = 1, 64000 do redis.call('set', 'more:' .. i, string.rep('y', 600)) end" 0 >/dev/null
  for _ in $(seq 60); do sleep 1; [ "$(fields memory active_defrag_running)" = 0 ] && break; done
  ask memory purge >/dev/null
  sleep 1
  echo "$(fields memory used_memory) $(fields memory used_memory_rss) $(fields stats active_defrag_hits) $(ask debug digest)"
  ask shutdown nosave >/dev/null 2>&1 || true
  wait
}
read -r used plain _ before <<<"$(serve no)"
read -r _ packed moved after <<<"$(serve yes)"
echo "$used bytes used; resident $plain without moves, $packed after $moved moves"
[ "$before" = "$after" ] || { echo "the keys differ: $before and $after"; exit 1; }
[ "$moved" -gt 1000 ]
[ "$packed" -lt $((used * 5 / 4)) ]
[ "$plain" -gt $((used * 3 / 2)) ]
