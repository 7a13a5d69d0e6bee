// SPDX-License-Identifier: Apache-2.0
// The first line: how many GPUs there are and should be, and what is wrong. Figures of GPUs in trouble are buttons that
// show which ones.
import { el, setAttribute, setText } from "../base/dom";
import { ago, bytes, count, percent, watts } from "../base/format";
import { countsOf, type Counts, type Fleet } from "../model/fleet";
import type { Page } from "../page";

type Tone = "" | "lost" | "warn" | "off" | "ok";

interface Figure {
  value: string;
  note: string;
  tone: Tone;
}

/** A row: what is shown, and which GPUs a click shows (see kShows). */
interface FigureRow {
  title: string;
  show?: string;
  figure(counts: Counts, fleet: Fleet, now: number): Figure | null; // null: not shown
}

const figure = (value: string | number, note = "", tone: Tone = ""): Figure => ({
  value: typeof value === "number" ? value.toLocaleString("en") : value,
  note,
  tone,
});

const rows: readonly FigureRow[] = [
  {
    title: "Present",
    figure: (c) => {
      const missing = c.expected - c.present;
      return figure(
        c.present,
        missing > 0
          ? `of ${c.expected.toLocaleString("en")} expected`
          : `all ${c.expected.toLocaleString("en")} expected`,
        missing > 0 ? "lost" : "ok",
      );
    },
  },
  {
    title: "Nodes",
    figure: (c, fleet) =>
      fleet.several
        ? figure(
            c.nodes - c.nodesLost,
            c.nodesLost > 0 ? `${c.nodesLost} ${c.nodesLost === 1 ? "does" : "do"} not answer` : "all answer",
            c.nodesLost > 0 ? "lost" : "ok",
          )
        : null,
  },
  {
    title: "Busy",
    show: "busy",
    figure: (c) => figure(c.busy, percent(c.present > 0 ? (100 * c.busy) / c.present : null)),
  },
  {
    title: "Idle",
    show: "idle",
    figure: (c) =>
      figure(c.idle, c.idle === 0 ? "none" : c.heldIdle > 0 ? `${c.heldIdle} of them held` : "nobody holds them"),
  },
  {
    title: "Lost",
    show: "lost",
    figure: (c) =>
      figure(
        c.lost,
        c.unfit > 0 ? `and ${c.unfit} in error` : c.lost > 0 ? "not usable" : "none",
        c.lost + c.unfit > 0 ? "lost" : "ok",
      ),
  },
  {
    title: "Throttled",
    show: "throttled",
    figure: (c) =>
      figure(c.throttled, c.throttled > 0 ? "by heat or hardware" : "none", c.throttled > 0 ? "warn" : "ok"),
  },
  {
    title: "Disabled",
    show: "disabled",
    figure: (c) => (c.disabled > 0 ? figure(c.disabled, "taken out of use", "off") : null),
  },
  {
    title: "Last Xid",
    figure: (_c, fleet, now) => {
      const xid = fleet.lastXid;
      if (!xid) return figure("–", "none seen", "ok");
      const gpu = fleet.gpus.find((other) => other.node === xid.node && other.uuid === xid.uuid);
      const where = `${fleet.several ? `${xid.node} ` : ""}GPU ${gpu?.index ?? xid.index ?? "?"}`;
      return figure(
        xid.code,
        `${where}, ${ago(xid.time_unix_ms, now)}`,
        now - xid.time_unix_ms < 3600_000 ? "warn" : "",
      );
    },
  },
  {
    title: "Power",
    figure: (c) =>
      c.power === null
        ? null
        : figure(
            c.power >= 1000 ? `${(c.power / 1000).toFixed(1)}\u202fkW` : watts(c.power),
            c.powerLimit ? `${percent((100 * c.power) / c.powerLimit)} of the limits` : "",
          ),
  },
  {
    title: "Memory",
    figure: (c) => (c.memoryTotal > 0 ? figure(bytes(c.memoryUsed), `of ${bytes(c.memoryTotal)}`) : null),
  },
  {
    title: "Driver",
    figure: (_c, fleet) => {
      if (fleet.drivers.length === 0) return figure("–", "not known", "warn");
      if (fleet.drivers.length === 1) return figure(fleet.drivers[0] ?? "", fleet.several ? "on all nodes" : "");
      return figure(
        count(fleet.drivers.length, "version"),
        fleet.drivers
          .map((driver) => `${driver} (${fleet.nodes.filter((node) => node.driver === driver).length})`)
          .join(", "),
        "warn",
      );
    },
  },
];

interface Tile {
  row: FigureRow;
  root: HTMLElement;
  value: HTMLElement;
  note: HTMLElement;
}

export class HealthStrip {
  private readonly tiles: Tile[];
  private readonly problem = el("p.strip-problem", { hidden: true });

  constructor(
    root: HTMLElement,
    private readonly page: Page,
  ) {
    this.tiles = rows.map((row) => this.tile(row));
    root.append(el("div.figures", {}, ...this.tiles.map((tile) => tile.root)), this.problem);
    page.feed.on((fleet) => this.draw(fleet));
    page.view.on(() => this.mark());
    this.mark();
  }

  private tile(row: FigureRow): Tile {
    const value = el("span.figure-value", {}, "–");
    const note = el("span.figure-note");
    const inside = [el("span.figure-title", {}, row.title), value, note];
    if (!row.show) return { row, root: el("div.figure", {}, ...inside), value, note };
    const root = el("button.figure", { type: "button", title: "Show which" }, ...inside);
    root.addEventListener("click", () =>
      this.page.view.set({ show: this.page.view.now.show === row.show ? "" : (row.show ?? "") }),
    );
    return { row, root, value, note };
  }

  private draw(fleet: Fleet): void {
    const counts = countsOf(fleet);
    for (const tile of this.tiles) {
      const now = tile.row.figure(counts, fleet, Date.now());
      tile.root.hidden = now === null;
      if (now === null) continue;
      setText(tile.value, now.value);
      setText(tile.note, now.note);
      setAttribute(tile.root, "data-tone", now.tone);
      setAttribute(tile.value, "data-long", now.value.length > 8 ? "" : null);
    }
    const trouble = fleet.nodes.filter((node) => node.problem !== null);
    this.problem.hidden = trouble.length === 0;
    const told = trouble
      .slice(0, 3)
      .map(
        (node) =>
          `${fleet.several ? `${node.name}: ` : ""}${node.problem?.message ?? ""}${node.problem?.hint ? ` (${node.problem.hint})` : ""}`,
      );
    if (trouble.length > 3) told.push(`${trouble.length - 3} more nodes`);
    setText(this.problem, told.join("; "));
  }

  private mark(): void {
    for (const tile of this.tiles) {
      if (tile.row.show) setAttribute(tile.root, "aria-pressed", String(this.page.view.now.show === tile.row.show));
    }
  }
}
