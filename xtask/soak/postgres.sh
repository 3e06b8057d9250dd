#!/bin/sh
# postgres.sh BIN SCALE SECONDS: a cluster is made, loaded by pgbench, crashed, recovered and checked.
# Started as root it becomes `nobody`, since the server refuses root; so it works where any user can.
set -eu
bin=$1 scale=$2 seconds=$3
if [ -z "${SOAK_FOLDER:-}" ]; then
  SOAK_FOLDER=$(mktemp -d)
  export SOAK_FOLDER
  cp "$0" "$SOAK_FOLDER/postgres.sh"
  chmod -R 755 "$SOAK_FOLDER"
  trap 'rm -rf "$SOAK_FOLDER"' EXIT
  become=""
  if [ "$(id -u)" = 0 ]; then
    chown nobody "$SOAK_FOLDER"
    become="setpriv --reuid=nobody --regid=nogroup --clear-groups"
  fi
  cd "$SOAK_FOLDER"
  $become env HOME="$SOAK_FOLDER" sh ./postgres.sh "$@"
  exit
fi
export PATH="$bin:$PATH" PGHOST="$SOAK_FOLDER" PGUSER=soak PGDATABASE=postgres LC_ALL=C
initdb -D data -U soak -A trust --no-sync >initdb.log
trap 'pg_ctl -D data -m immediate stop >/dev/null 2>&1 || true' EXIT
start() {
  pg_ctl -D data -w -l server.log -o "-k $SOAK_FOLDER -c listen_addresses= -c fsync=off -c shared_buffers=32MB \
    -c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0 -c work_mem=1MB" start >start.log
}
start
pgbench -i -q -s "$scale" 2>pgbench-init.log
pgbench -n -c 8 -j 2 -T "$seconds" >pgbench.log 2>&1
pgbench -n -S -M prepared -C -c 4 -j 2 -T 2 >pgbench-select.log 2>&1
psql -qAtc "SELECT b.s = a.s AND a.s = t.s AND t.s = h.s FROM
  (SELECT coalesce(sum(abalance), 0) s FROM pgbench_accounts) a, (SELECT sum(bbalance) s FROM pgbench_branches) b,
  (SELECT sum(tbalance) s FROM pgbench_tellers) t, (SELECT sum(delta) s FROM pgbench_history) h"
psql -qAt <<'SQL'
SELECT count(*), md5(string_agg(aid || ':' || bid, ',' ORDER BY aid DESC)) FROM pgbench_accounts;
CREATE TABLE texts AS SELECT i, repeat(md5(i::text), i % 50) AS body FROM generate_series(1, 20000) i;
CREATE INDEX ON texts (md5(body), i);
SELECT left(body, 1), count(*), sum(length(body)) FROM texts GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM texts a JOIN texts b ON a.body = b.body AND a.i < b.i;
SELECT md5(jsonb_agg(jsonb_build_object('i', i, 'b', left(body, 40)) ORDER BY i)::text) FROM texts WHERE i < 5000;
DO $$ BEGIN FOR i IN 1 .. 300 LOOP BEGIN PERFORM 1 / (i % 3); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$;
SQL
pg_ctl -D data -m immediate stop >/dev/null
start
psql -qAtc "SELECT count(*), sum(i), md5(string_agg(body, '' ORDER BY i)) FROM texts"
psql -qAtc "CREATE EXTENSION amcheck" -c "SELECT bool_and(bt_index_check(c.oid, true) IS NOT NULL) FROM pg_class c
  JOIN pg_am ON pg_am.oid = c.relam AND amname = 'btree' WHERE relkind = 'i'"
if grep -E 'PANIC|terminated by signal|freehold:' server.log; then exit 1; fi
pg_ctl -D data -m fast -w stop >/dev/null
trap - EXIT
