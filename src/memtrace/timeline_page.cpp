// SPDX-License-Identifier: Apache-2.0
#include "memtrace/timeline_page.hpp"

namespace gpuwarden::memtrace {

const std::string_view kTimelineStyle = R"css(
:root { color-scheme: light dark; --back: #fff; --text: #1a1a1a; --faint: #667; --rule: #ccd; --mapped: #e4e7ee; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181d; --text: #e8e8ea; --faint: #9aa; --rule: #3a3f4a; --mapped: #2a2e38; }
}
body { margin: 1rem auto; max-width: 90rem; padding: 0 1rem; font: 15px/1.45 system-ui, sans-serif;
       background: var(--back); color: var(--text); }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
p { margin: .2rem 0; overflow-wrap: anywhere; }
.controls { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; align-items: center; margin: .6rem 0; }
canvas { display: block; width: 100%; border: 1px solid var(--rule); touch-action: none; }
canvas:focus-visible { outline: 3px solid #0072b2; }
#curve { height: 12rem; } #map { height: 30rem; border-top: 0; }
#tip { min-height: 3em; font-variant-numeric: tabular-nums; }
#key span { display: inline-block; margin-right: 1.2em; }
#key i { display: inline-block; width: .9em; height: .9em; margin-right: .35em; vertical-align: -.1em; }
)css";

const std::string_view kTimelineBody = R"html(
<div class="controls">
<label>Across: <select id="axis"><option value="operation">operations</option><option value="time">time</option></select></label>
<label>Colour: <select id="colour"><option value="size">by size</option><option value="stream">by stream</option>
<option value="phase">by phase</option></select></label>
<button id="reset" type="button">Show everything</button>
<span>Zoom: wheel, + and -. Move: drag, arrow keys.</span>
</div>
<canvas id="curve" tabindex="0" role="img" aria-label="Live and mapped memory over the operations"></canvas>
<canvas id="map" tabindex="0" role="img" aria-label="Blocks by address, over the operations"></canvas>
<p id="tip" role="status">Point at a block to see what it is.</p>
<p id="key"></p>
)html";

// Drawn anew as a whole each time: 60,000 rectangles take a canvas some tens of milliseconds.
const std::string_view kTimelineScript = R"js(
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($('data').textContent);
  const blocks = data.blocks, mapped = data.mapped, curve = data.curve;
  const GRAIN = 512;
  // The colours of Okabe and Ito, told apart by colour-blind people too.
  const COLOURS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b8a800', '#888888'];
  const SIZES = [[1 << 20, 'below 1 MiB'], [8 << 20, '1 to 8 MiB'], [32 << 20, '8 to 32 MiB'],
    [128 << 20, '32 to 128 MiB'], [Infinity, '128 MiB and more']];
  const streams = [...new Set(blocks.stream)].sort((a, b) => a - b);
  let axis = 'operation', colour = 'size', from = 0, to = 1, chosen = -1;

  const size = (bytes) => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    while (bytes >= 1024 && unit < 4) { bytes /= 1024; ++unit; }
    return `${unit === 0 ? bytes : bytes.toFixed(1)} ${units[unit]}`;
  };
  const time = (us) => us < 1e3 ? `${us} us` : us < 1e6 ? `${(us / 1e3).toFixed(2)} ms` : `${(us / 1e6).toFixed(3)} s`;
  const across = (value) => axis === 'time' ? time(value) : `operation ${Math.round(value).toLocaleString('en')}`;
  const last = () => Math.max(1, axis === 'time' ? data.duration_us : data.operations);
  const begins = (set) => axis === 'time' ? set.begin_us : set.begin;
  const ends = (set) => axis === 'time' ? set.end_us : set.end;
  const whole = () => { from = 0; to = last(); };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || '#888';

  const group = (i) => {
    if (colour === 'stream') return streams.indexOf(blocks.stream[i]);
    if (colour === 'phase') return blocks.before[i];
    return SIZES.findIndex(([most]) => blocks.size[i] < most);
  };
  const groups = () => {
    if (colour === 'stream') return streams.map((s) => `stream ${s}`);
    if (colour === 'phase') return ['allocated while recording', 'live before the recording'];
    return SIZES.map(([, name]) => name);
  };

  const open = (canvas) => {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '12px system-ui, sans-serif';
    return { pen, width, height };
  };
  const place = (value, width) => (value - from) / (to - from) * width;

  const drawCurve = () => {
    const { pen, width, height } = open($('curve'));
    const top = Math.max(1, ...curve.mapped, ...curve.live);
    const xs = axis === 'time' ? curve.time_us : curve.operation;
    const up = (bytes) => height - bytes / top * (height - 16);
    const path = (values) => {
      pen.beginPath();
      pen.moveTo(place(xs[0] || 0, width), height);
      for (let i = 0; i < xs.length; ++i) {
        pen.lineTo(place(xs[i], width), up(i === 0 ? values[0] : values[i - 1]));
        pen.lineTo(place(xs[i], width), up(values[i]));
      }
      pen.lineTo(place(last(), width), height);
    };
    path(curve.mapped);
    pen.fillStyle = css('--mapped');
    pen.fill();
    pen.strokeStyle = css('--faint');
    pen.stroke();
    path(curve.live);
    pen.fillStyle = COLOURS[0];
    pen.fill();
    pen.fillStyle = css('--text');
    pen.fillText(size(top), 4, 12);
  };

  const drawMap = () => {
    const { pen, width, height } = open($('map'));
    const scale = height / Math.max(1, data.height);
    const box = (set, i, grains) => {
      const x0 = Math.max(0, place(begins(set)[i], width));
      const x1 = Math.min(width, place(ends(set)[i], width));
      if (x1 < 0 || x0 > width) return;
      const tall = Math.max(0.6, grains * scale);
      pen.fillRect(x0, height - set.place[i] * scale - tall, Math.max(0.6, x1 - x0), tall);
    };
    pen.fillStyle = css('--mapped');
    for (let i = 0; i < mapped.place.length; ++i) box(mapped, i, mapped.size[i]);
    for (let one = 0; one < groups().length; ++one) {
      pen.fillStyle = COLOURS[one % COLOURS.length];
      for (let i = 0; i < blocks.size.length; ++i) if (group(i) === one) box(blocks, i, blocks.size[i] / GRAIN);
    }
    if (chosen >= 0) {
      pen.fillStyle = css('--text');
      box(blocks, chosen, blocks.size[chosen] / GRAIN);
    }
    pen.fillStyle = css('--text');
    pen.fillText(`${size(data.height * GRAIN)} of addresses that had memory`, 4, 12);
  };

  const drawKey = () => {
    const key = $('key');
    key.textContent = '';
    const add = (fill, text) => {
      const item = document.createElement('span'), mark = document.createElement('i');
      mark.style.background = fill;
      item.append(mark, text);
      key.append(item);
    };
    groups().forEach((name, i) => add(COLOURS[i % COLOURS.length], name));
    add('var(--mapped)', 'mapped, not live');
  };
  const draw = () => { drawCurve(); drawMap(); drawKey(); };

  const describe = (i) => {
    const ending = blocks.freed[i] ? `freed at operation ${blocks.end[i].toLocaleString('en')} (${time(blocks.end_us[i])})`
      : 'live at the end';
    const beginning = blocks.before[i] && blocks.begin_us[i] === 0 ? 'live before the recording'
      : `allocated at operation ${blocks.begin[i].toLocaleString('en')} (${time(blocks.begin_us[i])})`;
    return `Block ${blocks.block[i]}: ${size(blocks.size[i])} (${blocks.size[i].toLocaleString('en')} bytes), ` +
      `stream ${blocks.stream[i]}, ${beginning}, ${ending}.`;
  };
  const pointed = (x, y, width, height) => {
    const at = from + x / width * (to - from), grain = (height - y) / height * data.height;
    const slack = (to - from) / width / 2;
    for (let i = blocks.size.length - 1; i >= 0; --i) {
      const inside = blocks.place[i] <= grain && grain <= blocks.place[i] + blocks.size[i] / GRAIN;
      if (inside && begins(blocks)[i] - slack <= at && at <= ends(blocks)[i] + slack) return i;
    }
    return -1;
  };
  const pointedCurve = (x, width) => {
    const at = from + x / width * (to - from);
    const xs = axis === 'time' ? curve.time_us : curve.operation;
    let i = 0;
    while (i + 1 < xs.length && xs[i] < at) ++i;
    return `${across(xs[i] || 0)}: ${size(curve.live[i] || 0)} live, ${size(curve.mapped[i] || 0)} mapped.`;
  };

  const zoom = (factor, centre) => {
    const wide = Math.min(last(), Math.max((to - from) * factor, axis === 'time' ? 1 : 4));
    const share = (centre - from) / (to - from);
    from = Math.min(Math.max(0, centre - wide * share), last() - wide);
    to = from + wide;
    draw();
  };
  const move = (by) => {
    const wide = to - from;
    from = Math.min(Math.max(0, from + by), last() - wide);
    to = from + wide;
    draw();
  };

  let dragged = null;
  for (const canvas of [$('curve'), $('map')]) {
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, from + event.offsetX / canvas.clientWidth * (to - from));
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      dragged = event.offsetX;
      if (canvas.setPointerCapture) canvas.setPointerCapture(event.pointerId);
    });
    for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => { dragged = null; });
    canvas.addEventListener('pointermove', (event) => {
      if (dragged !== null) {
        const by = (dragged - event.offsetX) / canvas.clientWidth * (to - from);
        dragged = event.offsetX;
        move(by);
        return;
      }
      if (canvas === $('curve')) {
        $('tip').textContent = pointedCurve(event.offsetX, canvas.clientWidth);
        return;
      }
      const found = pointed(event.offsetX, event.offsetY, canvas.clientWidth, canvas.clientHeight);
      $('tip').textContent = found < 0 ? 'No block.' : describe(found);
      if (found !== chosen) { chosen = found; drawMap(); }
    });
    canvas.addEventListener('keydown', (event) => {
      const wide = to - from;
      const acts = { '+': () => zoom(0.8, from + wide / 2), '-': () => zoom(1.25, from + wide / 2),
        ArrowLeft: () => move(-wide / 10), ArrowRight: () => move(wide / 10) };
      if (!(event.key in acts)) return;
      event.preventDefault();
      acts[event.key]();
    });
  }
  $('axis').addEventListener('change', () => { axis = $('axis').value; whole(); draw(); });
  $('colour').addEventListener('change', () => { colour = $('colour').value; draw(); });
  $('reset').addEventListener('click', () => { whole(); draw(); });
  window.addEventListener('resize', draw);
  whole();
  draw();
})();
)js";

}  // namespace gpuwarden::memtrace
