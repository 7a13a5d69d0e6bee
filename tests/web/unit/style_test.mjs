// SPDX-License-Identifier: Apache-2.0
// The style sheet keeps its promise: text has a contrast of at least 4.5 (WCAG 2, 1.4.3) on what it stands on.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(new URL("../../../web/src/styles/base.css", import.meta.url), "utf8");

/** The colours of a block that begins with `start`. */
function colours(start) {
  const from = css.indexOf(start);
  assert.ok(from >= 0, start);
  const block = css.slice(from, css.indexOf("}", from));
  return new Map([...block.matchAll(/--([a-z0-9-]+): (#[0-9a-f]{6});/g)].map(([, name, colour]) => [name, colour]));
}

function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

const light = colours(":root {");
const chosenDark = colours(':root[data-theme="dark"] {');
const systemDark = colours(':root:not([data-theme="light"]) {');

for (const [name, own] of [
  ["light", light],
  ["dark", chosenDark],
]) {
  test(`text stands out in the ${name} theme`, () => {
    const all = new Map([...light, ...own]);
    for (const text of ["text", "text-2", "text-3", "lost-text", "warn-text", "accent"]) {
      for (const surface of ["back", "surface", "surface-2", "surface-3"]) {
        const found = contrast(all.get(text), all.get(surface));
        assert.ok(found >= 4.5, `${text} on ${surface}: ${found.toFixed(2)}`);
      }
    }
  });
}

test("dark is the same whether the system or the reader chose it", () => assert.deepEqual(systemDark, chosenDark));
