-- A table, an index, joins and updates in memory.
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO item SELECT i, 'item-' || i, i % 97, i * 0.25 FROM n;
CREATE INDEX item_kind ON item (kind, name);
SELECT count(*), sum(a.price) FROM item a JOIN item b ON a.id = b.id + 1 WHERE a.kind < 40;
UPDATE item SET name = name || '-' || kind WHERE kind < 30;
SELECT kind, count(*), max(name), group_concat(substr(name, 1, 6)) FROM item GROUP BY kind LIMIT 3;
DELETE FROM item WHERE kind % 3 = 0;
SELECT count(*) FROM item;
