#!/bin/sh
# redis.sh FOLDER REQUESTS [TOOL …]: a bounded load on a redis-server that runs under the tool;
# prints the seconds that the load took.
set -eu
folder=$1 requests=$2
shift 2
socket=$folder/redis.sock
rm -f "$socket"
"$@" redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$folder" >"$folder/redis.log" 2>&1 &
server=$!
tries=0
until redis-cli -s "$socket" ping >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 200 ] || { cat "$folder/redis.log" >&2; exit 1; }
  sleep 0.05
done
begun=$(date +%s%N)
redis-benchmark -s "$socket" -n "$requests" -r 10000 -c 20 -q -t set,get,lpush,hset >/dev/null
ended=$(date +%s%N)
redis-cli -s "$socket" shutdown nosave >/dev/null 2>&1 || true
wait "$server" || true
grep '^{' "$folder/redis.log" >&2 || true
awk -v ns=$((ended - begun)) 'BEGIN { printf "measured %.6f\n", ns / 1e9 }'
