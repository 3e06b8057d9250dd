#!/bin/sh
# A server with four threads and little memory under several clients: values, counters, evictions; answers are compared.
set -eu
memcached=$1
client=$(dirname "$0")/client.pl
user=""
[ "$(id -u)" = 0 ] && user="-u root"
# shellcheck disable=SC2086  # two words or none
"$memcached" $user -s "$PWD/socket" -t 4 -m 256 -o slab_reassign,slab_automove=2 2>log &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
n=0
until [ -S socket ]; do
  n=$((n + 1))
  [ $n -lt 400 ]
  sleep 0.05
done
perl "$client" memcached "$PWD/socket"
kill -TERM $server
wait $server || [ $? -eq 143 ]
trap - EXIT
if grep 'freehold:' log; then exit 1; fi
