// SPDX-License-Identifier: Apache-2.0
// One GPU in the grid: a cell of the dense map, or a card where there is room.
import { el, setAttribute, setText } from "../base/dom";
import { bytesOf, celsius, watts } from "../base/format";
import { heat, isLight, kSteps, stepOf } from "../model/colour";
import { isHeldIdle, isUsed, memoryPercent, spokenName, useWords, type Gpu } from "../model/gpu";
import { shadeOf, type GridMetric, type Shade } from "../model/grid_metrics";
import { stateRow } from "../model/state";
import { drawTrail, Trail } from "./trail";

export interface Look {
  metric: GridMetric;
  several: boolean;
  selected: boolean;
  dimmed: boolean;
}

export interface Cell {
  readonly root: HTMLElement;
  update(gpu: Gpu, look: Look, time: number): void;
}

/** What every cell has in common; says whether anything changed. */
function mark(root: HTMLElement, gpu: Gpu, look: Look, shade: Shade): void {
  setAttribute(root, "aria-label", spokenName(gpu, look.several));
  setAttribute(root, "aria-selected", String(look.selected));
  setAttribute(root, "data-kind", gpu.standing === "lost" ? "unknown" : shade.kind);
  setAttribute(root, "data-standing", gpu.standing);
  setAttribute(root, "data-held", isHeldIdle(gpu) ? "idle" : null);
  setAttribute(root, "data-dimmed", look.dimmed ? "" : null);
}

const newRoot = (kind: string, key: string): HTMLElement =>
  el(`div.${kind}`, { role: "gridcell", tabindex: -1, "data-key": key });

export class DenseCell implements Cell {
  readonly root: HTMLElement;
  private step = -1;

  constructor(key: string) {
    this.root = newRoot("cell", key);
  }

  update(gpu: Gpu, look: Look): void {
    const shade = shadeOf(gpu, look.metric);
    mark(this.root, gpu, look, shade);
    setText(this.root, stateRow(gpu.state).glyph);
    const step = shade.kind === "heat" && gpu.standing !== "lost" ? stepOf(shade.share) : -1;
    if (step === this.step) return;
    this.step = step;
    if (step < 0) return void this.root.removeAttribute("style");
    this.root.style.backgroundColor = heat(step / kSteps);
    this.root.style.color = isLight(step / kSteps) ? "#000" : "#fff";
  }
}

export class Card implements Cell {
  readonly root: HTMLElement;
  private readonly name = el("span.card-name");
  private readonly state = el("span.card-state");
  private readonly value = el("span.card-value");
  private readonly users = el("span.card-users");
  private readonly facts = el("span.card-facts");
  private readonly memory = el("span.card-memory-text");
  private readonly bar = el("i");
  private readonly canvas = el("canvas.card-trail", { "aria-hidden": "true" });
  readonly trail = new Trail();
  private end = 0;

  constructor(key: string) {
    this.root = newRoot("card", key);
    this.root.append(
      el("span.card-head", {}, this.name, this.state),
      el("span.card-middle", {}, this.value, this.canvas),
      el("span.card-line", {}, this.users, this.facts),
      el("span.card-memory", {}, el("span.card-bar", {}, this.bar), this.memory),
    );
  }

  update(gpu: Gpu, look: Look, time: number): void {
    const shade = shadeOf(gpu, look.metric);
    mark(this.root, gpu, look, shade);
    const lost = gpu.standing === "lost";
    setText(this.name, `GPU ${gpu.index}`);
    setText(this.state, gpu.standing === "ok" ? "" : `${stateRow(gpu.state).glyph} ${stateRow(gpu.state).words}`);
    setText(this.value, lost ? "–" : shade.text);
    setText(this.users, lost || gpu.standing === "error" ? gpu.reason : usersText(gpu));
    setText(this.facts, lost ? "" : `${celsius(gpu.temperature)}   ${watts(gpu.power)}`);
    setText(this.memory, lost ? "" : bytesOf(gpu.memoryUsed, gpu.memoryTotal));
    this.bar.style.width = `${memoryPercent(gpu) ?? 0}%`;
    if (shade.kind !== "unknown") this.trail.add(time, shade.share);
    this.end = time;
    this.draw();
  }

  draw(): void {
    drawTrail(this.canvas, this.trail, this.end, getComputedStyle(this.root).getPropertyValue("--line"));
  }
}

function usersText(gpu: Gpu): string {
  if (gpu.users.length === 0) return isUsed(gpu) ? "user not visible" : useWords(gpu);
  const named = gpu.users.map((user) => (user === "" ? "somebody" : user)).join(", ");
  return isHeldIdle(gpu) ? `${named}, idle` : named;
}
