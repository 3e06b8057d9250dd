-- Bulk insert, indexes, joins and aggregates in memory: what sqlite3 does with malloc.
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -64000;
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customers SELECT i, 'customer ' || i, 'city ' || (i * 7919 % 500) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO orders SELECT i, 1 + i * 7919 % 20000, i * 31 % 1000, printf('order %d of %s', i, hex(i * 65537)) FROM n;
CREATE INDEX by_customer ON orders(customer, amount);
CREATE INDEX by_note ON orders(note);
SELECT city, count(*), sum(amount) FROM customers JOIN orders ON customer = customers.id GROUP BY city ORDER BY 3 DESC LIMIT 5;
SELECT group_concat(substr(note, -3)) FROM (SELECT note FROM orders WHERE note LIKE '%777%' ORDER BY note LIMIT 200);
UPDATE orders SET note = note || ' paid' WHERE amount > 500;
DELETE FROM orders WHERE amount % 3 = 0;
SELECT count(*), sum(length(note)) FROM orders;
