// SPDX-License-Identifier: Apache-2.0
// Runs a timeline's script on a document of its own making and works its controls: node timeline_page.js PAGE.html
'use strict';
const fs = require('fs');
const vm = require('vm');

const page = fs.readFileSync(process.argv[2], 'utf8');
const part = (begin) => {
  const at = page.indexOf(begin);
  if (at < 0) throw new Error(`the page has no ${begin}`);
  return page.slice(at + begin.length, page.indexOf('</script>', at));
};
const check = (holds, what) => {
  if (!holds) throw new Error(what);
};
check(!/(src|href)=/.test(page) && !/https?:/.test(page), 'the page asks for something from outside');

let rectangles = 0;
const pen = new Proxy({}, {
  get: (target, name) => name in target ? target[name] : (...numbers) => {
    for (const one of numbers) check(typeof one === 'string' || Number.isFinite(one), `${String(name)}(${numbers})`);
    if (name === 'fillRect') ++rectangles;
  },
  set: (target, name, value) => { target[name] = value; return true; },
});
const element = () => ({
  style: {}, children: [], listeners: {}, textContent: '', value: '', clientWidth: 1000, clientHeight: 500,
  getContext: () => pen,
  append(...items) { this.children.push(...items); },
  addEventListener(name, act) { this.listeners[name] = act; },
  fire(name, event) { this.listeners[name]({ preventDefault() {}, ...event }); },
});
const elements = {};
for (const [, id] of page.matchAll(/ id="(\w+)"/g)) elements[id] = element();
elements.data.textContent = part('<script type="application/json" id="data">');
const data = JSON.parse(elements.data.textContent);
const window = { devicePixelRatio: 2, addEventListener() {} };
vm.runInNewContext(part('<script>'), {
  window, document: { getElementById: (id) => elements[id], createElement: element, documentElement: {} },
  getComputedStyle: () => ({ getPropertyValue: () => '#123456' }),
});

const { map, curve, tip, axis, colour, reset } = elements;
check(rectangles >= data.blocks.size.length, `only ${rectangles} rectangles were drawn`);
// The middle of each block shows that block, or one that covers it on the screen.
let hits = 0;
for (let i = 0; i < data.blocks.size.length; ++i) {
  map.fire('pointermove', {
    offsetX: (data.blocks.begin[i] + data.blocks.end[i]) / 2 / data.operations * 1000,
    offsetY: 500 - (data.blocks.place[i] + data.blocks.size[i] / 1024) / data.height * 500,
  });
  check(/^Block \d+: .* bytes\), stream \d+, .*\.$/.test(tip.textContent), tip.textContent);
  hits += tip.textContent.startsWith(`Block ${data.blocks.block[i]}:`) ? 1 : 0;
}
check(hits >= data.blocks.size.length * 0.9, `${hits} of ${data.blocks.size.length} blocks were found`);
map.fire('pointermove', { offsetX: 999, offsetY: -1e6 });
check(tip.textContent === 'No block.', tip.textContent);
curve.fire('pointermove', { offsetX: 500, offsetY: 10 });
check(/live, .* mapped\.$/.test(tip.textContent), tip.textContent);
for (const canvas of [map, curve]) {
  canvas.fire('wheel', { deltaY: -1, offsetX: 300 });
  canvas.fire('pointerdown', { offsetX: 300, pointerId: 1 });
  canvas.fire('pointermove', { offsetX: 200, offsetY: 10 });
  canvas.fire('pointerup', {});
  for (const key of ['+', '-', 'ArrowLeft', 'ArrowRight', 'x']) canvas.fire('keydown', { key });
}
for (const value of ['stream', 'phase', 'size']) { colour.value = value; colour.fire('change', {}); }
for (const value of ['time', 'operation']) { axis.value = value; axis.fire('change', {}); }
reset.fire('click', {});
console.log(`${data.blocks.size.length} blocks, ${rectangles} rectangles`);
