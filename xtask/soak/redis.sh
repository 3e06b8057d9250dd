#!/bin/sh
# redis.sh REQUESTS: a server under load saves by fork, reloads and rewrites; its digest of all data is compared.
set -eu
socket=$PWD/s
ask() { redis-cli -s "$socket" "$@"; }
redis-server --port 0 --unixsocket "$socket" --enable-debug-command yes --save '' --appendonly yes \
  --appendfsync no --dir "$PWD" >server.log 2>&1 &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
n=0
until ask ping >/dev/null 2>&1; do
  n=$((n + 1))
  [ $n -lt 200 ]
  sleep 0.05
done
# Fixed data: its digest is known to both runs.
awk 'BEGIN { for (i = 0; i < 20000; i++) {
  printf "SET k%d %0*d\n", i, i % 400 + 1, i
  printf "HSET h%d f%d v%d\n", i % 500, i, i
  printf "ZADD z%d %d m%d\n", i % 300, i % 1000, i
  printf "RPUSH l%d e%d\n", i % 200, i
  printf "SADD s%d %d\n", i % 100, i * 7
  printf "XADD x%d %d-1 a %d\n", i % 50, i + 1, i
  if (i % 3 == 0) printf "DEL k%d\n", i
  if (i % 4 == 0) printf "APPEND k%d %0*d\n", i + 1, i % 3000 + 1, i
} }' | ask >/dev/null
ask debug digest
ask eval 'local t = {} for i = 1, 20000 do t[i] = string.rep(i, i % 30) end return #table.concat(t)' 0
ask bgrewriteaof >/dev/null
redis-benchmark -s "$socket" -q -n "$1" -c 20 -P 16 -r 50000 -d 300 -t set,get,incr,lpush,lpop,sadd,hset,zadd,mset >/dev/null
ask bgsave >/dev/null
redis-benchmark -s "$socket" -q -n "$1" -c 50 -r 50000 -d 30 -t set,lpush,lrange_100 >/dev/null
while ask info persistence | grep -qE 'bgsave_in_progress:1|rewrite_in_progress:1'; do sleep 0.1; done
ask info persistence | grep -E 'last_bgsave_status|last_bgrewrite_status' | tr -d '\r'
before=$(ask debug digest)
ask debug reload >/dev/null
[ "$before" = "$(ask debug digest)" ] && echo 'the same after a reload'
ask debug loadaof >/dev/null
[ "$before" = "$(ask debug digest)" ] && echo 'the same from the log'
ask flushall async >/dev/null
ask debug digest
ask shutdown nosave >/dev/null 2>&1 || true
wait $server
trap - EXIT
if grep -E 'BUG REPORT|freehold:' server.log; then exit 1; fi
