// SPDX-License-Identifier: Apache-2.0
// Every GPU at a glance: cards for a machine, a heat map by node for a cluster. One stop of the Tab key; arrows move.
import { el, setAttribute, setText } from "../base/dom";
import { count } from "../base/format";
import { findGpu, shortNames, type Fleet, type FleetNode } from "../model/fleet";
import type { Gpu } from "../model/gpu";
import { gridMetric, type GridMetric } from "../model/grid_metrics";
import type { Page } from "../page";
import { Card, DenseCell, type Cell } from "./cell";
import { nextPlace } from "./keys";
import { Legend } from "./legend";
import { Tip } from "./tip";
import { kTrailMs } from "./trail";

/** Up to so many GPUs have cards; a history is asked for at most this many. */
const kMostCards = 32;
const kMostSeeds = 16;
/** Characters of a node's name beside its cells. */
const kLongestName = 18;
const kNameWidth = 7.4; // pixels of a wide character

const kShows: Record<string, (gpu: Gpu) => boolean> = {
  busy: (gpu) => gpu.standing !== "lost" && (gpu.busy ?? 0) > 0,
  idle: (gpu) => gpu.standing !== "lost" && gpu.busy === 0,
  lost: (gpu) => gpu.standing === "lost" || gpu.standing === "error",
  throttled: (gpu) => gpu.throttled,
  disabled: (gpu) => gpu.standing === "off",
};

export class GpuGrid {
  private readonly title = el("span.panel-note");
  private readonly grid = el("div.grid", { role: "grid", "aria-labelledby": "gpus-title" });
  private readonly empty = el("p.empty", { hidden: true });
  private readonly legend: Legend;
  private readonly tip = new Tip();
  private cells = new Map<string, Cell>();
  private layout = "";
  private metric = "";
  private current = ""; // the cell that Tab reaches

  constructor(
    root: HTMLElement,
    private readonly page: Page,
  ) {
    this.legend = new Legend((id) => page.view.set({ color: id }));
    root.append(
      el("div.panel-head", {}, el("h2", { id: "gpus-title" }, "GPUs"), this.title, this.legend.root),
      this.grid,
      this.empty,
      this.tip.root,
    );
    this.grid.addEventListener("click", (event) => this.choose(this.keyAt(event.target)));
    this.grid.addEventListener("keydown", (event) => this.pressed(event));
    this.grid.addEventListener("focusin", (event) => this.reached(event.target));
    this.grid.addEventListener("focusout", () => this.tip.hide());
    this.grid.addEventListener("pointerover", (event) => this.pointAt(event.target));
    this.grid.addEventListener("pointerleave", () => this.tip.hide());
    addEventListener("scroll", () => this.tip.hide(), { passive: true });
    page.feed.on((fleet) => this.draw(fleet));
    page.view.on(() => {
      if (page.feed.now) this.draw(page.feed.now);
    });
    const redraw = (): void =>
      this.cells.forEach((cell) => {
        if (cell instanceof Card) cell.draw();
      });
    document.addEventListener("themechange", redraw);
    new ResizeObserver(redraw).observe(this.grid);
  }

  /** Gives the keyboard back to the cell of a GPU. */
  focus(key: string): void {
    this.cells.get(key)?.root.focus();
  }

  private draw(fleet: Fleet): void {
    const view = this.page.view.now;
    const metric = gridMetric(view.color);
    this.legend.show(fleet.gpus, metric);
    setText(
      this.title,
      fleet.several ? `${count(fleet.gpus.length, "GPU")} in ${count(fleet.nodes.length, "node")}` : "",
    );
    this.lay(fleet, metric);
    const selected = findGpu(fleet, view.gpu, view.node);
    const shown = kShows[view.show];
    for (const gpu of fleet.gpus) {
      const look = {
        metric,
        several: fleet.several,
        selected: gpu === selected,
        dimmed: shown !== undefined && !shown(gpu),
      };
      this.cells.get(gpu.key)?.update(gpu, look, fleet.time);
    }
    this.empty.hidden = fleet.gpus.length > 0;
    setText(
      this.empty,
      fleet.nodes.some((node) => node.problem)
        ? "No GPU can be read; the reason stands above."
        : "This machine has no GPU.",
    );
  }

  /** Builds the cells anew where the GPUs are others than before; only then. */
  private lay(fleet: Fleet, metric: GridMetric): void {
    const dense = fleet.gpus.length > kMostCards;
    const layout = `${dense}${fleet.several}${fleet.gpus.map((gpu) => gpu.key).join()}${fleet.nodes.map((node) => node.problem !== null).join()}`;
    if (layout === this.layout && (dense || metric.id === this.metric)) return;
    const focused = this.grid.contains(document.activeElement);
    this.layout = layout;
    this.metric = metric.id;
    this.cells = new Map(
      fleet.gpus.map((gpu): [string, Cell] => [gpu.key, dense ? new DenseCell(gpu.key) : new Card(gpu.key)]),
    );
    setAttribute(this.grid, "data-dense", dense ? "" : null);
    const names = shortNames(fleet.nodes.map((node) => node.name));
    const longest = Math.max(5, ...[...names.values()].map((name) => name.length));
    this.grid.style.setProperty("--name", `${Math.min(longest, kLongestName) * kNameWidth + 6}px`);
    this.grid.replaceChildren(
      ...fleet.nodes
        .filter((node) => node.gpus.length > 0 || node.problem)
        .map((node) => this.nodeRow(node, fleet.several ? (names.get(node.name) ?? node.name) : "")),
    );
    if (!this.cells.has(this.current)) this.current = fleet.gpus[0]?.key ?? "";
    this.cells.get(this.current)?.root.setAttribute("tabindex", "0");
    if (focused) this.focus(this.current);
    if (!dense) this.seed(fleet, metric);
  }

  private nodeRow(node: FleetNode, name: string): HTMLElement {
    const cells = node.gpus.map((gpu) => this.cells.get(gpu.key)?.root ?? null);
    const head =
      name !== ""
        ? el(
            "span.node-name",
            {
              role: "rowheader",
              title: node.problem ? `${node.name}: ${node.problem.message}` : node.name,
              "data-lost": node.problem !== null,
            },
            name,
          )
        : null;
    return el("div.node", { role: "row" }, head, el("div.node-cells", { role: "presentation" }, ...cells));
  }

  /** What was before the page was opened. A server without a history leaves the trails empty. */
  private seed(fleet: Fleet, metric: GridMetric): void {
    const end = fleet.time;
    for (const gpu of fleet.gpus.slice(0, kMostSeeds)) {
      const card = this.cells.get(gpu.key);
      if (!(card instanceof Card) || gpu.uuid === "" || fleet.several) continue;
      this.page.client.history(gpu.uuid, metric.series, end - kTrailMs, end, 2, new AbortController().signal).then(
        (history) => {
          card.trail.prepend(history.points.map(([time, , mean]) => [time, metric.share(gpu, mean)]));
          card.draw();
        },
        () => undefined,
      );
    }
  }

  private keyAt(target: EventTarget | null): string {
    return target instanceof Element ? (target.closest<HTMLElement>("[data-key]")?.dataset["key"] ?? "") : "";
  }

  private choose(key: string): void {
    const gpu = this.page.feed.now?.byKey.get(key);
    if (!gpu) return;
    this.tip.hide();
    this.page.view.set({ gpu: gpu.uuid || gpu.key, node: this.page.feed.now?.several ? gpu.node : "" });
  }

  private reached(target: EventTarget | null): void {
    const key = this.keyAt(target);
    if (key === "" || key === this.current) return this.pointAt(target);
    this.cells.get(this.current)?.root.setAttribute("tabindex", "-1");
    this.cells.get(key)?.root.setAttribute("tabindex", "0");
    this.current = key;
    this.pointAt(target);
  }

  private pointAt(target: EventTarget | null): void {
    const fleet = this.page.feed.now;
    const gpu = fleet?.byKey.get(this.keyAt(target));
    const cell = gpu && this.cells.get(gpu.key);
    if (fleet && gpu && cell instanceof DenseCell) this.tip.show(gpu, fleet.several, cell.root);
    else this.tip.hide();
  }

  private pressed(event: KeyboardEvent): void {
    const keys = [...this.cells.keys()];
    const from = keys.indexOf(this.keyAt(event.target));
    if (from < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.choose(keys[from] ?? "");
    }
    if (event.key === "Escape") return this.tip.hide();
    const to = nextPlace(
      event.key,
      from,
      [...this.cells.values()].map((cell) => cell.root.getBoundingClientRect()),
    );
    if (to < 0) return;
    event.preventDefault();
    this.focus(keys[to] ?? "");
  }
}
