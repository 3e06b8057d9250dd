#!/bin/sh
# mariadb.sh SERVER: a cluster is made, filled, asked by eight clients, killed and recovered; sums and checks are compared.
set -eu
server=$1
umask 022
user=""
[ "$(id -u)" = 0 ] && user="--user=root"
common="--no-defaults $user --datadir=$PWD/data --lc-messages-dir=/usr/share/mysql --innodb-flush-log-at-trx-commit=2"
# shellcheck disable=SC2086
mariadb-install-db $common --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1
start() {
  # shellcheck disable=SC2086
  "$server" $common --skip-networking --socket="$PWD/s" --pid-file="$PWD/pid" --innodb-buffer-pool-size=64M \
    --thread-handling=pool-of-threads >>server.log 2>&1 &
  pid=$!
  n=0
  until mariadb-admin --no-defaults -u root -S "$PWD/s" ping >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 600 ]
    sleep 0.1
  done
}
ask() { mariadb --no-defaults -u root -S "$PWD/s" -N -B "$@"; }
trap 'kill -9 $pid 2>/dev/null || true' EXIT
start
ask <<'SQL'
CREATE DATABASE soak;
USE soak;
CREATE TABLE t (i INT PRIMARY KEY, k INT, body TEXT, KEY (k)) ENGINE=InnoDB;
INSERT INTO t SELECT seq, seq * 7919 % 1009, REPEAT(MD5(seq), seq % 50) FROM seq_1_to_20000;
CREATE TABLE c (n INT PRIMARY KEY, hits INT) ENGINE=InnoDB;
INSERT INTO c SELECT seq, 0 FROM seq_1_to_50;
SELECT COUNT(*), SUM(LENGTH(body)), BIT_XOR(CRC32(body)) FROM t;
SELECT k, COUNT(*), MD5(GROUP_CONCAT(i ORDER BY i)) FROM t GROUP BY k ORDER BY k LIMIT 20;
SELECT MD5(GROUP_CONCAT(JSON_OBJECT('i', i, 'b', LEFT(body, 20)) ORDER BY i)) FROM t WHERE i < 3000;
WITH RECURSIVE f (n, a, b) AS (SELECT 1, CAST(0 AS DECIMAL(40)), CAST(1 AS DECIMAL(40)) UNION ALL SELECT n + 1, b, a + b FROM f WHERE n < 60) SELECT MAX(b) FROM f;
SQL
clients=""
for client in 1 2 3 4 5 6 7 8; do
  awk -v c=$client 'BEGIN { for (i = 1; i <= 300; i++) { printf "UPDATE c SET hits = hits + 1 WHERE n = %d;\n", i * c % 50 + 1;
    printf "SELECT COUNT(*) FROM t WHERE k = %d AND body LIKE \"%%%d%%\";\n", i * c % 1009, i % 10 } }' |
    ask soak >"out$client" &
  clients="$clients $!"
done
for client in $clients; do wait "$client"; done
cat out? | cksum
ask soak -e 'SELECT SUM(hits) FROM c'
kill -9 $pid
wait $pid 2>/dev/null || true
start
ask soak -e 'SELECT COUNT(*), SUM(LENGTH(body)) FROM t; SELECT SUM(hits) FROM c; CHECK TABLE t, c EXTENDED; ALTER TABLE t FORCE; CHECK TABLE t'
mariadb-admin --no-defaults -u root -S "$PWD/s" shutdown
wait $pid
trap - EXIT
if grep 'freehold:' server.log; then exit 1; fi
