// Objects, strings, arrays and maps that come and go: a second or so of an ordinary script. V8 has them in its own heap, buffers in malloc's.
const index = new Map();
let kept = [];
for (let i = 0; i < 400000; i++) {
  const key = `key-${i % 5000}`;
  const node = { key, words: key.split("-"), at: i, text: String(i * 7) };
  if (!index.has(key)) index.set(key, []);
  index.get(key).push(node);
  if (i % 10 === 0) kept.push(Buffer.from(node.text.repeat(20)));
  if (kept.length === 1000) kept = [];
}
let sum = 0;
for (const values of index.values()) sum += values.length;
console.log(sum, JSON.stringify([...index.keys()].sort()).length);
