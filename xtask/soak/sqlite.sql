-- A database that grows, is indexed, joined, searched, cut down and repaired; what it prints is compared.
PRAGMA journal_mode = wal;
CREATE TABLE words(id INTEGER PRIMARY KEY, word TEXT, len INT, payload BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
  INSERT INTO words SELECT i, printf('%x-%d', i * 2654435761 % 4294967296, i), i % 97, zeroblob(i % 700) FROM n;
CREATE INDEX by_word ON words(word);
CREATE INDEX by_len ON words(len, word);
ANALYZE;
SELECT count(*), sum(length(payload)), min(word), max(word) FROM words;
SELECT len, count(*), group_concat(substr(word, 1, 3), '') FROM (SELECT * FROM words WHERE id < 3000 ORDER BY word) GROUP BY len;
CREATE VIRTUAL TABLE docs USING fts5(body);
INSERT INTO docs SELECT word || ' ' || len || ' lies beside ' || (id % 1000) FROM words WHERE id <= 20000;
SELECT count(*) FROM docs WHERE docs MATCH 'beside 7*';
SELECT body FROM docs WHERE docs MATCH '77 NOT 777' ORDER BY rank, rowid LIMIT 5;
BEGIN;
UPDATE words SET payload = randomblob(0) || word, len = len + 1 WHERE id % 3 = 0;
DELETE FROM words WHERE id % 5 = 0;
SAVEPOINT half;
DELETE FROM words;
ROLLBACK TO half;
COMMIT;
SELECT a.len, count(*), sum(length(a.word || b.word)) FROM words a JOIN words b ON a.id = b.id + 1 WHERE a.len < 9 GROUP BY a.len;
SELECT id, sum(len) OVER (PARTITION BY len % 7 ORDER BY id ROWS 20 PRECEDING) AS s FROM words WHERE id < 400 ORDER BY s, id LIMIT 20;
SELECT json_group_array(json_object('id', id, 'word', word)) FROM (SELECT id, word FROM words ORDER BY word DESC LIMIT 50);
WITH RECURSIVE tree(id, path) AS (SELECT 1, '1' UNION ALL SELECT id * 2, path || '/' || id * 2 FROM tree WHERE id < 4000)
  SELECT count(*), max(path) FROM tree;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(len) FROM words;
