// SPDX-License-Identifier: Apache-2.0
// Who has reserved which GPUs through gpuwarden: a row for each run.
import { el, setText } from "../base/dom";
import { ago, count } from "../base/format";
import { Table } from "../base/table";
import type { LeaseHolderJson } from "../api/types";
import type { Fleet } from "../model/fleet";
import type { Gpu } from "../model/gpu";
import type { Page } from "../page";

interface LeaseRow {
  key: string;
  node: string;
  gpus: Gpu[];
  holder: LeaseHolderJson | null;
  shared: boolean;
}

/** One row for all GPUs of a run on a node. */
export function leaseRows(fleet: Fleet): LeaseRow[] {
  const rows = new Map<string, LeaseRow>();
  for (const gpu of fleet.gpus) {
    if (!gpu.lease) continue;
    const holder = gpu.lease.holders[0] ?? null;
    const key = `${gpu.node} ${holder ? `${holder.run_id} ${holder.pid ?? ""} ${holder.user}` : gpu.key}`;
    const row = rows.get(key);
    if (row) row.gpus.push(gpu);
    else rows.set(key, { key, node: gpu.node, gpus: [gpu], holder, shared: gpu.lease.shared });
  }
  return [...rows.values()];
}

/** What a holder runs; of what is left of a run whose launcher was killed that, with the command that ends it. */
export function commandText(holder: LeaseHolderJson | null): string {
  const command = holder?.command || "–";
  if (!holder?.orphaned) return command;
  return `${command} (left over of a run whose launcher was killed; to end: gpuwarden run --end-leftovers ${holder.run_id})`;
}

/** "0-3, 6": numbers as people write them. */
export function numberRanges(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const ranges: [number, number][] = [];
  for (const number of sorted) {
    const last = ranges[ranges.length - 1];
    if (last && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}–${to}`)).join(", ");
}

export class Leases {
  private readonly table: Table<LeaseRow>;
  private readonly note = el("span.panel-note");
  private readonly empty = el("p.empty", {}, "No GPU is reserved.");
  private now = 0;

  constructor(root: HTMLElement, page: Page) {
    this.table = new Table<LeaseRow>(
      [
        {
          title: "GPUs",
          text: (row) =>
            `${page.feed.now?.several ? `${row.node}: ` : ""}${numberRanges(row.gpus.map((gpu) => gpu.index))}${row.shared ? " (shared)" : ""}`,
        },
        { title: "User", text: (row) => row.holder?.user || "not visible" },
        { title: "Command", wide: true, text: (row) => commandText(row.holder) },
        {
          title: "Process",
          number: true,
          minor: true,
          text: (row) => (row.holder?.pid ? String(row.holder.pid) : "–"),
        },
        { title: "Since", number: true, text: (row) => ago(row.holder?.since_unix_ms, this.now) },
      ],
      (row) => row.key,
      "Reservations",
    );
    root.append(
      el("div.panel-head", {}, el("h2", { id: "leases-title" }, "Leases"), this.note),
      this.table.root,
      this.empty,
    );
    page.feed.on((fleet) => this.draw(fleet));
  }

  private draw(fleet: Fleet): void {
    this.now = fleet.time;
    const rows = leaseRows(fleet);
    setText(
      this.note,
      rows.length > 0
        ? `${count(
            rows.reduce((all, row) => all + row.gpus.length, 0),
            "GPU",
          )} reserved`
        : "",
    );
    this.table.show(rows);
    this.table.root.hidden = rows.length === 0;
    const unknown = fleet.nodes.find((node) => node.leasesProblem !== "");
    this.empty.hidden = rows.length > 0 && unknown === undefined;
    setText(
      this.empty,
      unknown === undefined
        ? "No GPU is reserved."
        : `It is not known who has reserved GPUs${fleet.several ? ` of ${unknown.name}` : ""}: ${unknown.leasesProblem}`,
    );
  }
}
