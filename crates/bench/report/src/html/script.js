'use strict';
(() => {
  const all = (what, within) => Array.from((within || document).querySelectorAll(what));

  // Tables are sorted by a click on a column's head, numbers by their values.
  const valueOf = (cell) => {
    const value = cell ? cell.dataset.v : undefined;
    return value === undefined ? null : Number(value);
  };
  const compare = (a, b) => {
    const x = valueOf(a), y = valueOf(b);
    if (x !== null) return y === null ? -1 : x - y;
    if (y !== null) return 1;
    return a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
  };
  const sortBy = (table, head) => {
    const at = Array.from(head.parentNode.children).indexOf(head);
    const way = head.getAttribute('aria-sort') === 'ascending' ? 'descending' : 'ascending';
    all('th', table.tHead).forEach((other) => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', way);
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => compare(a.cells[at], b.cells[at]));
    if (way === 'descending') rows.reverse();
    table.tBodies[0].append(...rows);
    table.classList.add('sorted');
  };
  all('table.sortable').forEach((table) => {
    table.classList.add('sorting');
    all('th:not(.plot)', table).forEach((head) => {
      head.tabIndex = 0;
      head.addEventListener('click', () => sortBy(table, head));
      head.addEventListener('keydown', (event) => {
        if (event.key === 'Enter') sortBy(table, head);
      });
    });
  });

  // The filter keeps what holds all of its words.
  const filter = document.getElementById('filter');
  if (filter) {
    filter.hidden = false;
    const keyed = all('[data-k]');
    filter.addEventListener('input', () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      keyed.forEach((one) => {
        one.hidden = !words.every((word) => one.dataset.k.includes(word));
      });
      all('.raw h4').forEach((title) => {
        title.hidden = all('figure', title.nextElementSibling).every((figure) => figure.hidden);
      });
    });
  }

  // What a mark or a field is, at once instead of after a second.
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  const wordsOf = (target) => {
    const mark = target.closest('svg *, svg, [title]');
    if (!mark) return '';
    if (mark.hasAttribute('title')) {
      mark.dataset.tip = mark.getAttribute('title');
      mark.removeAttribute('title');
    }
    if (mark.dataset.tip) return mark.dataset.tip;
    const own = mark.querySelector(':scope > title') || (mark.closest('svg') || mark).querySelector(':scope > title');
    return own ? own.textContent : '';
  };
  const place = (event) => {
    const right = event.clientX + 14, below = event.clientY + 16;
    const roomX = innerWidth - tip.offsetWidth - 8, roomY = innerHeight - tip.offsetHeight - 8;
    tip.style.left = Math.max(4, Math.min(right, roomX)) + 'px';
    tip.style.top = (below > roomY ? event.clientY - tip.offsetHeight - 10 : below) + 'px';
  };
  document.addEventListener('mouseover', (event) => {
    const target = event.target.closest ? event.target : null;
    const words = target ? wordsOf(target.closest('[data-tip]') || target) : '';
    tip.textContent = words;
    tip.hidden = !words;
    if (words) place(event);
  });
  document.addEventListener('mousemove', (event) => { if (!tip.hidden) place(event); });

  // On paper nothing is folded up.
  addEventListener('beforeprint', () => all('details').forEach((one) => { one.open = true; }));

  // The data that is in the page, as files.
  const data = document.getElementById('report').textContent;
  const save = (name, type, text) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const field = (value) => /[",\r\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : String(value);
  const runs = () => {
    const lines = [['workload', 'cache', 'guests', 'platform', 'tracer', 'block', 'label', 'start_unix_s', 'metric', 'unit', 'value', 'excluded']];
    JSON.parse(data).cells.forEach((cell) => cell.points.forEach((point) => lines.push([
      cell.workload, cell.cache, cell.guests, cell.platform, cell.tracer, point.block, point.label,
      (point.unix_ns / 1e9).toFixed(6), cell.metric, cell.unit, point.value, point.excluded.join('; ')])));
    return lines.map((line) => line.map((value) => field(String(value))).join(',') + '\r\n').join('');
  };
  const offer = (text, act) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = text;
    button.addEventListener('click', act);
    document.getElementById('save').append(button);
  };
  offer('Save all data (JSON)', () => save('report.json', 'application/json', data));
  offer('Save every run (CSV)', () => save('runs.csv', 'text/csv', runs()));
})();
