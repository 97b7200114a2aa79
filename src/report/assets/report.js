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
  const topOf = y => (1 - (y - yLow) / (yHigh - yLow)) * height;
  const nearest = (list, x) => list.reduce((best, value, i) => Math.abs(value - x) < Math.abs(list[best] - x) ? i : best, 0);
  const shown = y => svg.dataset.unit === '%' ? (100 * y).toFixed(1) + ' %' : String(Number(y.toPrecision(4)));
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
    tip.replaceChildren(Object.assign(document.createElement('p'), {textContent: svg.dataset.xName + ' ' + (svg.dataset.xUnit ? (100 * x).toFixed(1) + ' %' : Number(x.toFixed(2)))}));
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
