# What malloc.pages.zst was recorded of: a script with many objects, a compiler, a database in memory and a sort, in two
# rounds with rests between.
#   freehold record -o malloc.fht -- sh studies/banks/rounds.sh
# Run in the project's folder; needs python3, g++ and sqlite3.
work=$(mktemp -d)
export PYTHONMALLOC=malloc
for round in 1 2; do
    python3 -c "
import json, random
random.seed($round)
for turn in range(3):
    rows = [{'key': i, 'text': 'x' * random.randrange(200), 'list': list(range(i % 17))} for i in range(40000)]
    text = json.dumps(rows)
    back = [row for row in json.loads(text) if row['key'] % 3]
    del rows, text, back
" &
    g++ -O0 -g -c studies/fragmentation/words.cc -o "$work/words.o" &
    sleep 3
    sqlite3 :memory: "create table t(a integer primary key, b blob);
        with recursive n(x) as (select 1 union all select x + 1 from n where x < ${round}000 * 30)
        insert into t select x, randomblob(abs(random()) % 900) from n;
        update t set b = randomblob(50) where a % 2 = 0; delete from t where a % 5 < 3; vacuum;" &
    seq 1 $((round * 400000)) | sort -r -S 60M >"$work/sorted" &
    wait
    sleep $((round * 5))
done
rm -r "$work"
