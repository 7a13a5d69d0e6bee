// SPDX-License-Identifier: Apache-2.0
// Numbers, addresses, colours, events and the series of charts.
import assert from "node:assert/strict";
import { test } from "node:test";

const {
  EventReader,
  Trail,
  format,
  heat,
  isLight,
  joined,
  kDefaults,
  kTrailMs,
  nextPlace,
  numberRanges,
  parseHash,
  parseRange,
  rangeText,
  stepFor,
  stepOf,
  summaryOf,
  toHash,
} = await import(process.env.GPUWARDEN_WEB_MODULES);

const plain = (text) => text.replace(/\u202f/g, " ");

test("numbers are written as people read them, and a dash stands for what is not known", () => {
  assert.equal(plain(format.percent(86.6)), "87 %");
  assert.equal(format.percent(null), "–");
  assert.equal(format.percent(NaN), "–");
  assert.equal(plain(format.bytes(0)), "0 B");
  assert.equal(plain(format.bytes(85520809984)), "79.6 GiB");
  assert.equal(plain(format.bytes(1023)), "1023 B");
  assert.equal(plain(format.bytesOf(65498251264, 85520809984)), "61.0 / 80 GiB");
  assert.equal(format.bytesOf(null, 1), "–");
  assert.equal(plain(format.watts(12345)), "12.3 kW");
  assert.equal(plain(format.byteRate(3.006e9)), "3.0 GB/s");
  assert.equal(plain(format.hours(1800)), "30 min");
  assert.equal(plain(format.hours(5400)), "1.5 h");
  assert.equal(plain(format.inUnit(1979.6, "MHz")), "1980 MHz");
});

test("times are written in their largest units", () => {
  assert.equal(plain(format.duration(0)), "0 s");
  assert.equal(plain(format.duration(90061)), "1 d 1 h");
  assert.equal(plain(format.duration(3600)), "1 h");
  assert.equal(plain(format.duration(62)), "1 min 2 s");
  assert.equal(format.ago(1000, 2000), "just now");
  assert.equal(plain(format.ago(0, 240_000)), "4 min ago");
  assert.equal(plain(format.ago(10_000, 0)), "just now");
  assert.equal(format.ago(null, 0), "–");
});

test("a view goes into the address and comes back; defaults are not written", () => {
  assert.equal(toHash(kDefaults), "");
  const view = { ...kDefaults, gpu: "GPU-1&2", node: "n 1", range: "6h" };
  assert.deepEqual(parseHash(toHash(view)), view);
  assert.equal(parseHash("#range=6h&unknown=1").range, "6h");
  assert.equal(parseHash(`#gpu=${"x".repeat(201)}`).gpu, "");
});

test("ranges are a length that ends now, or two times; nonsense is an hour", () => {
  const now = 1_700_000_000_000;
  assert.deepEqual(parseRange("10m", now), { from: now - 600_000, to: now, live: true });
  assert.deepEqual(parseRange("1700000000-1700003600", 0), {
    from: 1_700_000_000_000,
    to: 1_700_003_600_000,
    live: false,
  });
  for (const nonsense of ["", "0h", "1700003600-1700000000", "h", "-1h", "99999h"])
    assert.equal(parseRange(nonsense, now).to - parseRange(nonsense, now).from, 3_600_000, nonsense);
  assert.equal(rangeText({ from: 1_700_000_000_999, to: 1_700_003_600_001, live: false }), "1700000000-1700003601");
});

test("cividis goes from dark blue to yellow, and text on it is readable at both ends", () => {
  assert.equal(heat(0), "rgb(0 34 78)");
  assert.equal(heat(1), "rgb(254 232 56)");
  assert.equal(heat(7), heat(1));
  assert.ok(!isLight(0));
  assert.ok(isLight(1));
  assert.equal(stepOf(-1), 0);
});

test("events come out of pieces of a stream, wherever it was cut", () => {
  const text =
    ': still there\n\nid: 4\nevent: reading\ndata: {"a":1}\n\nevent: alert\r\ndata: one\r\ndata: two\r\n\r\nretry: 2000\n\n';
  for (const size of [1, 2, 3, 7, 1000]) {
    const reader = new EventReader();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...reader.take(text.slice(at, at + size)));
    assert.deepEqual(
      events,
      [
        { type: "reading", data: '{"a":1}' },
        { type: "alert", data: "one\ntwo" },
      ],
      `pieces of ${size}`,
    );
  }
});

test("series of one chart share their times; a missing stretch is a gap and not a line", () => {
  const history = (metric, step, times) => ({
    uuid: "",
    metric,
    unit: "",
    step_seconds: step,
    points: times.map((time) => [time * 1000, 1, 2, 3]),
  });
  const rows = joined([history("a", 1, [1, 2, 9]), history("b", 4, [1, 5, 9])]);
  assert.deepEqual(
    rows.map(([time]) => time.getTime() / 1000),
    [1, 2, 3, 5, 9],
  );
  assert.deepEqual(rows[0].slice(1), [
    [1, 2, 3],
    [1, 2, 3],
  ]);
  assert.deepEqual(rows[1].slice(1), [
    [1, 2, 3],
    [null, null, null],
  ]);
  assert.deepEqual(rows[2].slice(1), [
    [NaN, NaN, NaN],
    [null, null, null],
  ]);
  assert.deepEqual(joined([null]), []);
});

test("a summary has the least of the least and the most of the most", () => {
  assert.deepEqual(
    summaryOf({
      points: [
        [0, 1, 2, 3],
        [1, 0, 4, 9],
      ],
    }),
    { min: 0, mean: 3, max: 9 },
  );
  assert.equal(summaryOf({ points: [] }), null);
  assert.equal(stepFor(0, 600_000), 2);
  assert.equal(stepFor(0, 86_400_000), 300);
});

test("a trail keeps minutes: means per column, nothing where nothing was read", () => {
  const trail = new Trail();
  const end = 10_000_000;
  trail.add(end - kTrailMs / 2, 0.5);
  trail.add(end, 1);
  trail.add(end, 0); // time stood still: not taken
  trail.prepend([
    [end - kTrailMs + 1, 0.25],
    [end, 0.9],
  ]);
  const columns = trail.columns(10, end);
  assert.equal(columns[9], 1);
  assert.equal(columns[4], 0.5);
  assert.equal(columns[0], 0.25);
  assert.equal(columns[7], null);
});

test("arrows go by order sideways and by sight up and down", () => {
  const box = (column, row) => ({ left: column * 24, right: column * 24 + 20, top: row * 24, bottom: row * 24 + 20 });
  const boxes = [box(0, 0), box(1, 0), box(2, 0), box(0, 1), box(1, 1), box(0, 2), box(2, 3)];
  assert.equal(nextPlace("ArrowRight", 2, boxes), 3);
  assert.equal(nextPlace("ArrowRight", 6, boxes), -1);
  assert.equal(nextPlace("ArrowDown", 2, boxes), 4);
  assert.equal(nextPlace("ArrowDown", 4, boxes), 5);
  assert.equal(nextPlace("ArrowUp", 6, boxes), 5);
  assert.equal(nextPlace("ArrowUp", 0, boxes), -1);
  assert.equal(nextPlace("End", 0, boxes), 6);
  assert.equal(nextPlace("a", 0, boxes), -1);
  assert.equal(nextPlace("Home", 0, []), -1);
});

test("numbers are written as ranges", () => {
  assert.equal(numberRanges([3, 0, 1, 2, 6]), "0–3, 6");
  assert.equal(numberRanges([]), "");
});
