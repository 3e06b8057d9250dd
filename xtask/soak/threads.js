// Workers that parse, compress, hash and pass buffers around; what is printed is compared.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

function work(seed) {
  const hash = crypto.createHash('sha256');
  for (let round = 0; round < 40; round++) {
    const rows = [];
    for (let i = 0; i < 2000; i++) rows.push({ i, text: 'x'.repeat((i * seed) % 90), list: [i, i % 7, { seed }] });
    const text = JSON.stringify(rows);
    const packed = zlib.deflateSync(Buffer.from(text), { level: 1 + (round % 9) });
    if (zlib.inflateSync(packed).toString() !== text) throw new Error('inflated to something else');
    hash.update(JSON.stringify(JSON.parse(text).map((row) => row.list)));
    hash.update(Buffer.alloc(100000 + round * 3000, seed));
  }
  return hash.digest('hex');
}

if (isMainThread) {
  const seeds = [1, 2, 3, 4, 5, 6];
  const run = (seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  });
  Promise.all(seeds.map(run)).then((all) => {
    all.forEach((digest, at) => console.log(seeds[at], digest));
    return Promise.all(seeds.map((seed) => new Promise((resolve) => zlib.gzip(Buffer.alloc(1 << 20, seed), (e, b) => resolve(b)))));
  }).then((all) => console.log(all.map((b) => zlib.gunzipSync(b).length).join(' ')));
} else {
  parentPort.postMessage(work(workerData));
}
