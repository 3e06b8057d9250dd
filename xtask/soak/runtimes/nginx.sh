#!/bin/sh
# A server with two workers answers many clients at once, compresses, reloads twice and ends; all answers are compared.
set -eu
nginx=$1
client=$(dirname "$0")/client.pl
mkdir -p www logs
for n in 1 2 3 4 5 6 7 8; do seq 1 $((n * n * 3000)) >"www/f$n.txt"; done
chmod 755 . www
user=""
[ "$(id -u)" = 0 ] && user="user root;"
cat >nginx.conf <<CONF
$user
worker_processes 2;
pid $PWD/nginx.pid;
error_log $PWD/logs/error.log warn;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path $PWD/logs/body; proxy_temp_path $PWD/logs/proxy;
  fastcgi_temp_path $PWD/logs/fastcgi; uwsgi_temp_path $PWD/logs/uwsgi; scgi_temp_path $PWD/logs/scgi;
  gzip on; gzip_types text/plain; gzip_min_length 100; gzip_comp_level 6;
  proxy_cache_path $PWD/logs/cache keys_zone=zone:1m;
  server { listen unix:$PWD/back; root $PWD/www; types { text/plain txt; } }
  server {
    listen unix:$PWD/front;
    location / { proxy_pass http://unix:$PWD/back:; proxy_cache zone; proxy_cache_valid 1m; proxy_buffers 4 4k; }
    location /echo { return 200 "\$request_uri \$args\n"; }
  }
}
CONF
"$nginx" -e logs/start.log -c "$PWD/nginx.conf" -p "$PWD" -g 'daemon off;' &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
n=0
until [ -S front ] && [ -s nginx.pid ]; do
  n=$((n + 1))
  [ $n -lt 400 ]
  sleep 0.05
done
master=$(cat nginx.pid)
perl "$client" http "$PWD/front"
kill -HUP "$master"
perl "$client" http "$PWD/back"
kill -HUP "$master"
perl "$client" http "$PWD/front"
kill -QUIT "$master"
wait $server
trap - EXIT
cat logs/start.log >>logs/error.log
if grep -E 'signal|alert|emerg|freehold:' logs/error.log; then exit 1; fi
