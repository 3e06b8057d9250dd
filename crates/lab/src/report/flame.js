'use strict';
// The flame graph and the timeline of a report, made movable: the page shows both without this script, too.
(() => {
  const data = JSON.parse(document.getElementById('sites-data').textContent);
  const make = (tag, of, text) => {
    const element = document.createElement(tag);
    Object.assign(element, of);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const bytes = n => {
    let unit = 0;
    for (; n >= 1024 && unit < 6; unit++) n /= 1024;
    return (unit ? n.toPrecision(3) : n) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit];
  };
  const share = (part, all) => (all ? (part / all * 100).toFixed(1) : '0.0') + ' %';

  // The flame graph. A branch is [name, place, bytes of each measure, branches].
  const box = document.getElementById('flame'), said = document.getElementById('flame-said');
  const search = document.getElementById('flame-search'), back = document.getElementById('flame-back');
  let measure = 0, path = [data.tree], cells = [];
  const label = branch => (data.names[branch[0]] || 'all') + (branch[1] < 0 ? '' : ' (' + data.names[branch[1]] + ')');
  const describe = branch => label(branch) + ': ' + bytes(branch[2][measure]) + ' ' + data.measures[measure] + ', ' +
    share(branch[2][measure], data.tree[2][measure]);
  const draw = () => {
    const wanted = search.value.toLowerCase(), shown = document.createDocumentFragment();
    let deepest = 0, found = 0;
    cells = [];
    const put = (branch, left, width, depth, trail, inside, caller) => {
      if (width < 0.08) return;
      const hit = wanted && label(branch).toLowerCase().includes(wanted);
      if (hit && !inside) found += branch[2][measure];
      const cell = make('button', { className: 'g' + branch[0] % 3 + (hit ? ' hit' : ''), title: describe(branch) },
        branch === data.tree ? 'all ' + data.measures[measure] : data.names[branch[0]]);
      cell.style.cssText = `left:${left}%;width:${width}%;top:${depth * 22}px`;
      cell.onclick = () => { path = trail; draw(); cells[0].cell.focus(); };
      cell.onmouseenter = cell.onfocus = () => { said.textContent = describe(branch); };
      cell.tabIndex = caller ? -1 : 0;
      shown.append(cell);
      const own = { cell, depth, caller };
      cells.push(own);
      deepest = Math.max(deepest, depth);
      let at = left;
      const all = branch[2][measure];
      for (const next of [...branch[3]].sort((a, b) => b[2][measure] - a[2][measure])) {
        const part = all ? width * next[2][measure] / all : 0;
        put(next, at, part, depth + 1, [...trail, next], inside || hit, own);
        at += part;
      }
    };
    const top = path[path.length - 1];
    put(top, 0, 100, 0, path, false, null);
    box.replaceChildren(shown);
    box.style.height = (deepest + 1) * 22 + 'px';
    back.disabled = path.length < 2;
    said.textContent = wanted ? bytes(found) + ', ' + share(found, top[2][measure]) + ' match' : describe(top);
  };
  const goBack = () => {
    if (path.length < 2) return;
    path.pop();
    draw();
  };
  search.oninput = draw;
  back.onclick = goBack;
  // Arrows go from box to box, Enter looks into one, Escape goes back; tab passes the graph by.
  box.onkeydown = event => {
    const here = cells.find(own => own.cell === document.activeElement);
    if (!here) return;
    const row = cells.filter(own => own.depth === here.depth), at = row.indexOf(here);
    let next;
    if (event.key === 'Escape') {
      goBack();
      next = cells[0];
    } else if (event.key === 'ArrowDown') next = cells.find(own => own.caller === here);
    else if (event.key === 'ArrowUp') next = here.caller;
    else if (event.key === 'ArrowRight') next = row[at + 1];
    else if (event.key === 'ArrowLeft') next = row[at - 1];
    else return;
    event.preventDefault();
    if (!next) return;
    here.cell.tabIndex = -1;
    next.cell.tabIndex = 0;
    next.cell.focus();
  };
  document.querySelectorAll('input[name=flame-of]').forEach(choice => {
    choice.onchange = () => { measure = +choice.value; draw(); };
  });
  document.getElementById('flame-tools').hidden = false;
  draw();

  // The timeline's cursor.
  const cursor = document.getElementById('moment'), list = document.getElementById('moment-sites');
  if (!cursor) return;
  const line = document.getElementById('moment-line');
  const show = () => {
    const at = +cursor.value, all = data.held.map(site => site[at] || 0);
    const sum = all.reduce((a, b) => a + b, 0);
    const order = all.map((n, i) => [n, i]).filter(one => one[0]).sort((a, b) => b[0] - a[0]).slice(0, 8);
    document.getElementById('moment-said').textContent = data.times[at] + ': ' + bytes(sum) + ' alive';
    list.replaceChildren(...order.map(([n, i]) =>
      make('li', {}, bytes(n) + ', ' + share(n, sum) + ': ' + data.sites[i])));
    line.setAttribute('x1', (at + 1) / data.times.length * 1000);
    line.setAttribute('x2', (at + 1) / data.times.length * 1000);
    line.removeAttribute('visibility');
  };
  cursor.oninput = show;
  document.getElementById('moment-tools').hidden = false;
  show();
})();
