// SPDX-License-Identifier: Apache-2.0
#include "recording/html_page.hpp"

namespace gpuwarden::recording {

const std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --back: #f4f6f8; --card: #fff; --text: #14181d; --faint: #5a6572; --rule: #dde2e8;
  --none: #e9edf1; --bad: #b3400a; --warn: #8a5a00; --info: #1a5f96; --ok: #0b7355;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b5568f; --c4: #c98700; --c5: #3f97d3; --c6: #7d5bb5; --c7: #555f6b; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0f1216; --card: #171b21; --text: #e7eaee; --faint: #99a4b1; --rule: #2b323b;
    --none: #232932; --bad: #ff9361; --warn: #f0bb55; --info: #76bdf0; --ok: #45c9a2;
    --c0: #4ba6e3; --c1: #ff8a45; --c2: #33c49a; --c3: #e69ac6; --c4: #f2bb4d; --c5: #93d2fb; --c6: #b79be5; --c7: #b4bcc6; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1.5rem 1.25rem 3rem; font: 15px/1.45 system-ui, sans-serif;
  background: var(--back); color: var(--text); }
h1 { font-size: 1.45rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
code { font: .92em ui-monospace, monospace; }
.faint, .heatkey, figcaption small { color: var(--faint); font-weight: normal; }
.badge { display: inline-block; padding: .05rem .5rem; margin-left: .4rem; border: 1px solid currentColor; border-radius: 1rem;
  font-size: .8rem; vertical-align: .15em; color: var(--warn); }
.card, figure, .tiles > div, .finding { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .6rem; margin: 1.1rem 0 0; }
@media (max-width: 70rem) { .tiles { grid-template-columns: repeat(4, 1fr); } }
@media (max-width: 38rem) { .tiles { grid-template-columns: repeat(2, 1fr); } }
.tiles > div { padding: .6rem .8rem; }
.tiles dt { color: var(--faint); font-size: .82rem; }
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tiles dd small { display: block; font-size: .8rem; font-weight: normal; color: var(--faint); }
.findings { list-style: none; padding: 0; margin: 0; display: grid; gap: .5rem; }
.finding { padding: .55rem .8rem .55rem 2.3rem; border-left: .3rem solid var(--tone); position: relative; }
.finding::before { content: attr(data-glyph); position: absolute; left: .75rem; color: var(--tone); font-weight: 700; }
.finding b { font-weight: 600; } .finding span { color: var(--faint); display: block; }
.critical, .error { --tone: var(--bad); } .warning { --tone: var(--warn); } .info { --tone: var(--info); }
.ok { --tone: var(--ok); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding: .5rem .7rem; font-size: .85rem; caption-side: bottom; }
th, td { padding: .38rem .7rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--rule); }
thead th { border-top: 0; color: var(--faint); font-weight: 500; font-size: .85rem; }
th.text, td.text { text-align: left; } td.wrap { white-space: normal; overflow-wrap: anywhere; } td.wide { white-space: normal; }
tbody th { text-align: left; font-weight: 600; position: sticky; left: 0; background: var(--card); }
td small { display: block; color: var(--faint); font-size: .8rem; } td.wide { min-width: 10rem; }
td .meter { display: inline-block; width: 3.6rem; height: .55rem; margin-right: .5rem; }
.meter .all { fill: var(--none); } .meter .part { fill: var(--c0); }
.bad { color: var(--bad); font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: .8rem; }
figure { margin: 0; padding: .6rem .7rem .4rem; overflow-x: auto; } figure.wide { grid-column: 1 / -1; }
figcaption { font-weight: 600; margin-bottom: .2rem; }
.heatkey { float: right; font-size: .8rem; } .heatkey i { display: inline-block; width: .9rem; height: .7rem; vertical-align: -.05rem; }
svg.chart { display: block; width: 100%; height: auto; touch-action: pan-y; } svg.chart { min-width: 22rem; } svg.heat { min-width: 44rem; }
svg text { font: 11px system-ui, sans-serif; fill: var(--faint); } .y { text-anchor: end; } .x { text-anchor: middle; }
.wide svg text { font-size: 6px; }
svg:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
.rule { stroke: var(--rule); fill: none; } .limit { stroke: var(--faint); stroke-dasharray: 2 4; fill: none; }
.line { fill: none; stroke: var(--c); stroke-width: 1.4; stroke-linejoin: round; } .band { fill: var(--c); opacity: .16; }
.dash .line { stroke-dasharray: 5 2.5; }
.s0 { --c: var(--c0); } .s1 { --c: var(--c1); } .s2 { --c: var(--c2); } .s3 { --c: var(--c3); }
.s4 { --c: var(--c4); } .s5 { --c: var(--c5); } .s6 { --c: var(--c6); } .s7 { --c: var(--c7); }
.mark path { stroke: var(--bad); stroke-dasharray: 3 2; fill: none; } .mark .flag { fill: var(--bad); stroke: none; }
.cursor { stroke: var(--text); stroke-width: .8; visibility: hidden; } .none { fill: var(--none); background: var(--none); }
.h0 { fill: #00224e; background: #00224e; } .h1 { fill: #10306d; background: #10306d; } .h2 { fill: #333f6c; background: #333f6c; }
.h3 { fill: #4b4f6c; background: #4b4f6c; } .h4 { fill: #61606e; background: #61606e; } .h5 { fill: #777776; background: #777776; }
.h6 { fill: #908976; background: #908976; } .h7 { fill: #ab9f6d; background: #ab9f6d; } .h8 { fill: #cdb95e; background: #cdb95e; }
.h9 { fill: #fde737; background: #fde737; }
@media (prefers-color-scheme: dark) { .h0 { stroke: #33507e; stroke-width: .4; } }
.keys { display: flex; flex-wrap: wrap; gap: .35rem; margin: 0 0 .6rem; }
.key { font: inherit; font-size: .85rem; padding: .12rem .6rem; border: 1px solid var(--rule); border-radius: 1rem;
  background: var(--card); color: var(--text); cursor: pointer; }
.key::before { content: ""; display: inline-block; width: .9rem; border-top: 3px solid var(--c); margin-right: .4rem; vertical-align: .25em; }
.key.dash::before { border-top-style: dashed; } .key[aria-pressed=false] { opacity: .45; }
.key:focus-visible { outline: 2px solid var(--c0); }
.hidden { display: none; }
#tip { position: fixed; pointer-events: none; padding: .4rem .6rem; background: var(--card); color: var(--text);
  border: 1px solid var(--rule); border-radius: .4rem; box-shadow: 0 3px 14px #0004; font-size: .84rem; z-index: 2; visibility: hidden;
  font-variant-numeric: tabular-nums; }
#tip div { display: flex; gap: .5rem; align-items: center; } #tip i { width: .7rem; border-top: 3px solid var(--c); }
#tip b { margin-left: auto; padding-left: .8rem; font-weight: 600; } #tip small { color: var(--faint); }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .85rem; }
@media print { body { background: #fff; max-width: none; } .keys { display: none; } figure, .finding { break-inside: avoid; } }
)css";

const std::string_view kPageScript = R"js(
'use strict';
(() => {
  const element = document.getElementById('data');
  if (!element) return;
  const data = JSON.parse(element.textContent);
  const tip = document.getElementById('tip');
  const charts = [...document.querySelectorAll('svg.chart')];
  const keys = [...document.querySelectorAll('.key')];
  const hidden = new Set();
  let bin = -1;

  const number = (value, digits) => value.toLocaleString('en', { maximumFractionDigits: digits });
  const text = (value, unit) => {
    if (unit !== 'B') return `${number(value, value < 10 ? 1 : 0)} ${unit}`;
    return value < 1024 ? `${number(value, 0)} MiB` : `${number(value / 1024, 1)} GiB`;
  };
  const moment = (at) => {
    const ms = data.from + at * data.step;
    if (!data.relative) return new Date(ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
    const seconds = Math.round(at * data.step / 1000);
    return `${Math.floor(seconds / 3600)}:${String(Math.floor(seconds / 60) % 60).padStart(2, '0')}:${String(seconds % 60).padStart(2, '0')} after the start`;
  };
  const row = (line, values, unit) => {
    const item = document.createElement('div'), colour = document.createElement('i'), name = document.createElement('span');
    const value = document.createElement('b'), range = document.createElement('small');
    colour.className = `s${line % 8}`;
    name.textContent = data.names[line];
    const mean = values.mean[bin];
    value.textContent = mean === null ? 'no reading' : text(mean, unit);
    if (mean !== null && values.min && values.min[bin] !== values.max[bin])
      range.textContent = `${text(values.min[bin], unit)} to ${text(values.max[bin], unit)}`;
    item.append(colour, name, value, range);
    return item;
  };
  const fill = (chart) => {
    const shown = data.charts[chart.dataset.metric];
    const head = document.createElement('small');
    head.textContent = moment(bin);
    tip.replaceChildren(head);
    shown.lines.forEach((values, line) => { if (!hidden.has(line)) tip.append(row(line, values, shown.unit)); });
  };
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16)}px`;
    tip.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - box.height - 8))}px`;
  };
  const show = (chart, next, x, y) => {
    bin = Math.max(0, Math.min(data.bins - 1, next));
    for (const other of charts) {
      const view = other.viewBox.baseVal.width;
      const cursor = other.querySelector('.cursor');
      cursor.setAttribute('transform', `translate(${(data.left + (bin + 0.5) / data.bins * data.width) * view} 0)`);
      cursor.style.visibility = 'visible';
    }
    fill(chart);
    tip.style.visibility = 'visible';
    place(x, y);
  };
  const hide = () => {
    tip.style.visibility = 'hidden';
    for (const chart of charts) chart.querySelector('.cursor').style.visibility = 'hidden';
  };
  const byKey = (chart, next) => {
    const box = chart.getBoundingClientRect();
    const at = Math.max(0, Math.min(data.bins - 1, next));
    show(chart, at, box.left + (data.left + (at + 0.5) / data.bins * data.width) * box.width, box.top + 20);
  };
  for (const chart of charts) {
    chart.addEventListener('pointermove', (event) => {
      const box = chart.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width - data.left) / data.width;
      show(chart, Math.floor(share * data.bins), event.clientX, event.clientY);
    });
    chart.addEventListener('pointerleave', hide);
    chart.addEventListener('blur', hide);
    chart.addEventListener('keydown', (event) => {
      const wide = Math.max(1, Math.round(data.bins / 20));
      const to = { ArrowLeft: bin - 1, ArrowRight: bin + 1, PageUp: bin - wide, PageDown: bin + wide, Home: 0, End: data.bins - 1 };
      if (event.key === 'Escape') hide();
      if (!(event.key in to)) return;
      event.preventDefault();
      byKey(chart, to[event.key]);
    });
  }
  keys.forEach((key, line) => key.addEventListener('click', () => {
    const off = !hidden.delete(line);
    if (off) hidden.add(line);
    key.setAttribute('aria-pressed', String(!off));
    for (const drawn of document.querySelectorAll(`[data-line="${line}"]`)) drawn.classList.toggle('hidden', off);
  }));
})();
)js";

}  // namespace gpuwarden::recording
