// Everything but what follows works without this.
'use strict';

// The page of a run that goes on: it keeps its place when it loads itself again, and says when the run is silent for too long.
const state = document.getElementById('status');
if (document.querySelector('meta[http-equiv=refresh]')) {
  const place = 'kiln ' + location.pathname;
  try {
    scrollTo(0, Number(sessionStorage.getItem(place)));
    addEventListener('pagehide', () => sessionStorage.setItem(place, String(scrollY)));
  } catch { /* a browser that keeps nothing */ }
}
if (state && Date.now() / 1000 > Number(state.dataset.until))
  state.textContent = 'no news for a long time: probably killed';

// `<name class=…>text</name>` in `parent`.
function add(parent, name, properties = {}) {
  return parent.appendChild(Object.assign(document.createElement(name), properties));
}

// A choice among `values`, the first of which is `all`; none for a single value.
function choice(parent, name, values, changed) {
  const select = document.createElement('select');
  select.ariaLabel = name;
  add(select, 'option', {value: '', textContent: name});
  for (const value of values) add(select, 'option', {value, textContent: value});
  select.addEventListener('change', changed);
  if (values.length > 1) parent.append(select);
  return select;
}

// Tables: a click on a heading sorts by its column, numbers by value; long ones are filtered by what is typed.
const numberIn = text => /^[−-]?[\d.,]+(\s?[%s])?$/.test(text) ? parseFloat(text.replace(/,/g, '').replace('−', '-')) : NaN;
const percent = share => isFinite(share) ? (100 * share).toFixed(1) + '\u00a0%' : '–';
for (const table of document.querySelectorAll('table:not(.matrix)')) {
  const body = table.tBodies[0], rows = [...body.rows];
  if (!table.tHead || rows.length < 3) continue;
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    if (!cell.textContent) return;
    const button = add(cell, 'button', {className: 'sort', textContent: cell.textContent});
    cell.replaceChildren(button);
    button.addEventListener('click', () => {
      const turn = cell.ariaSort === 'descending' ? 1 : -1;
      for (const other of cell.parentNode.cells) other.removeAttribute('aria-sort');
      cell.ariaSort = turn < 0 ? 'descending' : 'ascending';
      const value = row => row.cells[column].textContent;
      rows.sort((a, b) => {
        const x = numberIn(value(a)), y = numberIn(value(b));
        if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
        return turn * (isNaN(x) ? value(a).localeCompare(value(b)) : x - y);
      });
      body.append(...rows);
    });
  });
  if (rows.length <= 20) continue;
  const box = document.createElement('input');
  Object.assign(box, {type: 'search', placeholder: 'filter rows', ariaLabel: 'filter rows'});
  table.parentNode.before(box);
  box.addEventListener('input', () => {
    const wanted = box.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}

// Pictures beside the page, which was moved without them.
addEventListener('error', event => {
  const note = document.getElementById('missing');
  if (note && event.target.matches?.('.picture img')) note.hidden = false;
}, true);

// A picture, large, with all that is known of it; arrow keys go on to the next one.
const viewer = add(document.body, 'dialog', {className: 'viewer', ariaLabel: 'Picture'});
let seen = [], place = 0;
function view(figures, i) {
  if (i < 0 || i >= figures.length) return;
  seen = figures;
  place = i;
  const figure = figures[i].cloneNode(true), picture = figure.querySelector('.picture');
  for (const hidden of figure.querySelectorAll('[hidden]')) hidden.hidden = false;
  picture?.removeAttribute('tabindex');
  const file = figure.querySelector('.file'), folder = document.querySelector('main').dataset.images;
  file.textContent = folder ? '' : figure.dataset.file;
  if (folder) add(file, 'a', {textContent: figure.dataset.file, href: [folder, ...figure.dataset.file.split('/').map(encodeURIComponent)].join('/')});
  const bar = document.createElement('form');
  bar.method = 'dialog';
  for (const [text, step] of [['← previous', -1], ['next →', 1]])
    add(bar, 'button', {type: 'button', textContent: text, disabled: !figures[i + step]}).addEventListener('click', () => view(seen, place + step));
  add(bar, 'span', {textContent: `${i + 1} of ${figures.length}`});
  add(bar, 'button', {textContent: 'close'});
  viewer.replaceChildren(bar, figure);
  if (!viewer.open) viewer.showModal();
}
viewer.addEventListener('keydown', event => {
  const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (step) view(seen, place + step);
});
viewer.addEventListener('click', event => event.target === viewer && viewer.close());

// Galleries: what is shown is chosen, sorted and opened; figures in the template are shown when asked for.
const galleries = [];
for (const box of document.querySelectorAll('.gallery')) {
  const held = box.querySelector('template');
  const all = [...box.querySelectorAll('figure'), ...(held ? held.content.querySelectorAll('figure') : [])];
  const values = name => [...new Set(all.flatMap(figure => (figure.dataset[name] || '').split(name === 'kinds' ? ',' : '\n')))].filter(Boolean).sort();
  const bar = document.createElement('div');
  bar.className = 'bar-of-choices';
  const kind = choice(bar, 'all kinds', values('kinds'), () => show(24));
  const label = choice(bar, 'all labels', values('label'), () => show(24));
  const answer = choice(bar, 'all answers', values('answer'), () => show(24));
  const order = choice(bar, 'in this order', all.some(figure => figure.dataset.confidence) ? ['surest first', 'least sure first', 'by name'] : [], () => show(24));
  const least = document.createElement('input');
  Object.assign(least, {type: 'range', min: 0, max: 100, value: 0, ariaLabel: 'least confidence in percent', title: 'least confidence'});
  least.addEventListener('input', () => show(24));
  if (all.some(figure => figure.dataset.confidence)) bar.append(least);
  const count = add(bar, 'span', {className: 'quiet'});
  count.setAttribute('role', 'status');
  const more = document.createElement('button');
  more.textContent = 'show more';
  function show(most) {
    const sure = figure => Number(figure.dataset.confidence || 1);
    const chosen = all.filter(figure =>
      (!kind.value || figure.dataset.kinds.split(',').includes(kind.value)) && (!label.value || figure.dataset.label === label.value) &&
      (!answer.value || figure.dataset.answer === answer.value) && 100 * sure(figure) >= least.value);
    if (order.value === 'by name') chosen.sort((a, b) => a.dataset.file.localeCompare(b.dataset.file));
    else if (order.value) chosen.sort((a, b) => (order.value === 'surest first' ? 1 : -1) * (sure(b) - sure(a)));
    box.replaceChildren(...chosen.slice(0, most));
    count.textContent = `${chosen.length} of ${all.length}` + (least.value > 0 ? `, from ${least.value}\u00a0%` : '');
    more.hidden = chosen.length <= most;
    more.onclick = () => show(most + 48);
    box.chosen = chosen;
  }
  const open = target => {
    const figure = target.closest('.picture')?.closest('figure');
    if (figure) view(box.chosen, box.chosen.indexOf(figure));
  };
  box.addEventListener('click', event => open(event.target));
  box.addEventListener('keydown', event => event.key === 'Enter' && open(event.target));
  for (const picture of all.map(figure => figure.querySelector('.picture')).filter(Boolean))
    Object.assign(picture, {tabIndex: 0, role: 'button', ariaLabel: 'open the picture'});
  box.before(bar);
  box.after(more);
  galleries.push({box, all, label, answer, show});
  show(24);
}

// The matrix: a cell shows its images, a name those of its class; counts or shares of the row.
const answers = galleries.find(({box}) => box.closest('#pictures'));
for (const table of document.querySelectorAll('.matrix')) {
  const names = [...table.tHead.rows[0].cells].slice(1).map(cell => cell.textContent);
  const look = (cell, label, answer) => {
    if (!answers?.all.some(({dataset}) => (!label || dataset.label === label) && (!answer || dataset.answer === answer))) return;
    Object.assign(cell, {tabIndex: 0, role: 'button', title: 'show its images'});
    const go = () => {
      for (const [select, name] of [[answers.label, label], [answers.answer, answer]]) {
        select.value = name;
      }
      answers.show(24);
      answers.box.closest('section').scrollIntoView();
    };
    cell.addEventListener('click', go);
    cell.addEventListener('keydown', event => event.key === 'Enter' && go());
  };
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row, truth) => {
    look(row.cells[0], names[truth], '');
    names.forEach((name, guess) => row.cells[guess + 1].textContent && look(row.cells[guess + 1], names[truth], name));
  });
  const counts = rows.map(row => names.map((_, i) => Number(row.cells[i + 1].textContent)));
  const button = document.createElement('button');
  const text = (n, sum, isShare) => n === 0 ? '' : isShare ? (100 * n / sum).toFixed(0) : String(n);
  let isShare = true;
  button.onclick = () => {
    isShare = !isShare;
    rows.forEach((row, truth) => {
      const sum = counts[truth].reduce((a, b) => a + b, 0);
      counts[truth].forEach((n, i) => { row.cells[i + 1].textContent = text(n, sum, isShare); });
    });
    button.textContent = isShare ? 'show counts' : 'show percent of the row';
  };
  button.onclick();
  table.closest('section').querySelector('p').after(button);
}

// A threshold to move: what the model answers from this confidence on, and how much of it is right.
for (const line of document.querySelectorAll('.thresholds[data-bins]')) {
  const bins = line.dataset.bins.split(',').map(bin => bin.split(' ').map(Number));
  const sum = (i, column) => bins.slice(i).reduce((total, bin) => total + bin[column], 0);
  const all = sum(0, 1);
  const slider = Object.assign(document.createElement('input'), {type: 'range', min: 0, max: bins.length - 1, value: 0, ariaLabel: 'confidence threshold'});
  const update = () => {
    const n = sum(slider.value, 1), right = sum(slider.value, 2);
    line.textContent = `From a confidence of ${bins[slider.value][0]} on: ${n.toLocaleString('en')} of ${all.toLocaleString('en')} images answered (${percent(n / all)}), ` +
      `${right.toLocaleString('en')} right (${percent(right / n)}), ${(n - right).toLocaleString('en')} wrong.`;
  };
  slider.addEventListener('input', update);
  line.before(slider);
  line.hidden = bins.length < 2;
  slider.hidden = line.hidden;
  line.setAttribute('role', 'status');
  update();
}

// The classes, counted from another confidence on.
const binned = [...document.querySelectorAll('#classes [data-bins]')].map(name => {
  const row = name.closest('tr'), titles = [...row.closest('table').tHead.rows[0].cells];
  const cells = Object.fromEntries(titles.map((title, i) => [title.textContent, row.cells[i]]));
  const before = titles.map((_, i) => [row.cells[i], [...row.cells[i].childNodes]]);
  return {cells, before, images: numberIn(cells.images.textContent), bins: name.dataset.bins.trim().split(' ').map(Number)};
});
if (binned.length > 0) {
  const line = document.createElement('p'), text = add(line, 'label'), own = 'threshold' in binned[0].cells;
  const slider = add(line, 'input', {type: 'range', min: 0, max: 95, step: 5, value: 0, ariaLabel: 'least confidence counted'});
  const told = add(line, 'span', {className: 'quiet'});
  document.querySelector('#classes p').after(line);
  const show = (cell, text, share) => {
    const bar = isNaN(share) ? null : cell?.querySelector('.bar');
    bar?.style.setProperty('--value', 100 * share + '%');
    if (cell) (bar ?? cell).textContent = text;
  };
  slider.addEventListener('input', () => {
    const all = {guesses: 0, hits: 0, images: 0}, count = n => n.toLocaleString('en');
    for (const {cells, before, images, bins} of binned) {
      for (const [cell, nodes] of before) cell.replaceChildren(...nodes.map(node => node.cloneNode(true)));
      const sum = column => bins.filter((_, i) => i % 2 === column && 5 * (i >> 1) >= slider.value).reduce((a, b) => a + b, 0);
      const guesses = sum(0), hits = sum(1);
      all.guesses += guesses;
      all.hits += hits;
      all.images += images;
      if (Number(slider.value) === 0) continue;
      for (const [title, share] of [['recall', hits / images], ['precision', hits / guesses]]) show(cells[title], percent(share), share);
      show(cells.F1, percent(2 * hits / (guesses + images)));
      show(cells.threshold, (slider.value / 100).toFixed(3));
      for (const [title, n] of [['right', hits], ['missed', images - hits], ['false', guesses - hits], ['predicted', guesses]]) show(cells[title], count(n));
    }
    const isOwn = own && Number(slider.value) === 0;
    text.textContent = isOwn ? 'Counted from the threshold of each class on ' : `Counted from a confidence of ${slider.value}\u00a0% on `;
    told.textContent = isOwn ? '' : ` ${count(all.hits)} of ${count(all.images)} found (recall ${percent(all.hits / all.images)}), ${count(all.guesses - all.hits)} false (precision ${percent(all.hits / all.guesses)})`;
  });
  slider.dispatchEvent(new Event('input'));
}

// Decisions on doubtful labels, to be saved as the table that `--labels` reads.
for (const {box, all} of galleries.filter(({box}) => 'asks' in box.dataset)) {
  const decided = new Map(), section = box.closest('section');
  const classes = [...new Set([...box.dataset.asks.split('\n'), ...all.flatMap(({dataset}) => [dataset.label, dataset.answer])])].filter(Boolean).sort();
  const cell = text => /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  const out = document.createElement('details');
  add(out, 'summary', {textContent: 'Decisions as a table'});
  const text = add(out, 'textarea', {readOnly: true, rows: 6, ariaLabel: 'Decisions as a table'});
  const save = document.createElement('a');
  save.download = 'decisions.csv';
  save.className = 'save';
  const update = () => {
    text.value = 'path,label\n' + [...decided].map(row => row.map(cell).join(',') + '\n').join('');
    save.href = 'data:text/csv;charset=utf-8,' + encodeURIComponent(text.value);
    save.textContent = `Save decisions.csv (${decided.size})`;
  };
  box.addEventListener('click', event => {
    const button = event.target.closest('.decide button');
    if (!button) return;
    const figure = button.closest('figure'), label = button.value === 'other' ? button.previousSibling.value : button.value;
    if (figure.dataset.decided === button.textContent) decided.delete(figure.dataset.file);
    else decided.set(figure.dataset.file, label);
    figure.dataset.decided = decided.has(figure.dataset.file) ? button.textContent : '';
    for (const other of figure.querySelectorAll('.decide button')) other.ariaPressed = String(other.textContent === figure.dataset.decided);
    update();
  });
  for (const figure of all) {
    const bar = add(figure, 'div', {className: 'decide'});
    add(bar, 'button', {textContent: 'is ' + figure.dataset.answer, value: figure.dataset.answer});
    if (figure.dataset.label) add(bar, 'button', {textContent: 'right as it is', value: figure.dataset.label});
    add(bar, 'button', {textContent: 'leave out', value: ''});
    const other = add(bar, 'select', {ariaLabel: 'another class'});
    for (const name of classes) add(other, 'option', {value: name, textContent: name});
    add(bar, 'button', {textContent: 'is this', value: 'other'});
  }
  update();
  section.append(save, out);
}

// Values under the pointer, or under the cursor that the arrow keys move.
for (const svg of document.querySelectorAll('svg[data-frame]')) {
  const [xLow, xHigh, yLow, yHigh] = svg.dataset.frame.split(' ').map(Number);
  const lines = [...svg.querySelectorAll('g[data-x]')].map(line => ({
    name: line.dataset.name, color: [...line.classList].find(name => /^c\d$/.test(name)),
    isStack: line.classList.contains('stack'),
    x: line.dataset.x.split(' ').map(Number), y: line.dataset.y.split(' ').map(Number),
  })).filter(line => line.x.length > 0);
  const places = [...new Set(lines.flatMap(line => line.x))].sort((a, b) => a - b);
  if (places.length === 0) continue;

  const {width, height} = svg.viewBox.baseVal;
  const leftOf = x => (x - xLow) / (xHigh - xLow) * width;
  const along = svg.dataset.scale === 'log' ? Math.log10 : y => y;
  const topOf = y => (1 - (along(y) - along(yLow)) / (along(yHigh) - along(yLow))) * height;
  const nearest = (list, x) => list.reduce((best, value, i) => Math.abs(value - x) < Math.abs(list[best] - x) ? i : best, 0);
  const shown = y => svg.dataset.unit === '%' ? percent(y) : String(Number(y.toPrecision(4)));
  const draw = (name, parent, attributes) => {
    const shape = parent.appendChild(document.createElementNS(svg.namespaceURI, name));
    for (const key in attributes) shape.setAttribute(key, attributes[key]);
    return shape;
  };

  const cursor = draw('g', svg, {class: 'cursor'});
  const figure = svg.closest('figure');
  const tip = figure.appendChild(document.createElement('div'));
  tip.className = 'tip';
  tip.setAttribute('role', 'status');
  tip.hidden = true;
  let at = -1;

  function show(place) {
    at = place;
    const x = places[at];
    cursor.replaceChildren();
    tip.replaceChildren(Object.assign(document.createElement('p'), {textContent: svg.dataset.xName + ' ' + (svg.dataset.xUnit ? percent(x) : Number(x.toFixed(2)))}));
    draw('path', cursor, {class: 'at', d: `M${leftOf(x)} 0V${height}`});
    for (const line of lines) {
      const i = nearest(line.x, x);
      const row = tip.appendChild(document.createElement('p'));
      row.className = line.color;
      row.append(line.name + ' ', Object.assign(document.createElement('b'), {textContent: shown(line.y[i])}));
      if (line.isStack) continue;
      draw('path', cursor, {class: 'dot ' + line.color, d: `M${leftOf(line.x[i])} ${topOf(line.y[i])}h0`});
    }
    const box = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    tip.hidden = false;
    const share = leftOf(x) / width;
    const beside = share * box.width + (share > .5 ? -tip.offsetWidth - 12 : 12);
    tip.style.left = Math.max(0, beside + box.left - outer.left) + 'px';
    tip.style.top = box.top - outer.top + 'px';
  }
  function hide() {
    at = -1;
    tip.hidden = true;
    cursor.replaceChildren();
  }
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    show(nearest(places, xLow + (event.clientX - box.left) / box.width * (xHigh - xLow)));
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', event => {
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === 'Escape') hide();
    if (!move) return;
    event.preventDefault();
    show(at < 0 ? (move < 0 ? places.length - 1 : 0) : Math.min(places.length - 1, Math.max(0, at + move)));
  });
}

// A click on a name of a legend hides its curve, in all charts of the section.
for (const item of document.querySelectorAll('.charts .legend:not(.stacked) li')) {
  const name = item.firstChild.textContent.trim();
  Object.assign(item, {tabIndex: 0, role: 'button', ariaPressed: 'true', title: 'hide or show'});
  const turn = () => {
    const shows = item.ariaPressed !== 'true';
    for (const other of item.closest('section').querySelectorAll('.legend li'))
      if (other.firstChild.textContent.trim() === name) other.ariaPressed = String(shows);
    for (const line of item.closest('section').querySelectorAll('g[data-name]'))
      if (line.dataset.name === name) line.style.display = shows ? '' : 'none';
  };
  item.addEventListener('click', turn);
  item.addEventListener('keydown', event => event.key === 'Enter' && turn());
}
