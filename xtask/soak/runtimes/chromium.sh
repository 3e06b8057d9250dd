#!/bin/sh
# A page with a canvas, a table and a worker is laid out and painted; its text and its picture are compared.
set -eu
cat >page.html <<'HTML'
<!DOCTYPE html><meta charset=utf-8><title>Soak</title>
<style>body { font: 16px monospace; background: #fed } td { border: 1px solid #369; border-radius: 4px }</style>
<canvas id=c width=400 height=200></canvas><table id=t></table><p id=p>waiting</p>
<script>
const context = document.getElementById('c').getContext('2d');
for (let i = 0; i < 2000; i++) {
  context.fillStyle = `rgb(${i % 256},${i * 7 % 256},${i * 13 % 256})`;
  context.fillRect(i * 17 % 400, i * 31 % 200, 9, 9);
}
const table = document.getElementById('t');
for (let row = 0; row < 60; row++) {
  const line = table.insertRow();
  for (let cell = 0; cell < 20; cell++) line.insertCell().textContent = (row * cell * 2654435761 % 9973).toString(16);
}
let sum = 0;
for (let round = 0; round < 50; round++) sum += JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, t: 'x'.repeat(i % 50) }))).length;
document.getElementById('p').textContent = `sum ${sum}`;
</script>
HTML
flags="--headless=new --disable-gpu --no-sandbox --no-first-run --disable-extensions --disable-background-networking
  --disable-dev-shm-usage --hide-scrollbars --force-device-scale-factor=1 --user-data-dir=$PWD/profile"
# shellcheck disable=SC2086  # a list of words
"$1" $flags --dump-dom "file://$PWD/page.html" 2>dom.log | cksum
# shellcheck disable=SC2086
"$1" $flags --window-size=800,600 --screenshot="$PWD/page.png" "file://$PWD/page.html" >/dev/null 2>png.log
cksum <page.png
if grep -h 'freehold:' dom.log png.log; then exit 1; fi
