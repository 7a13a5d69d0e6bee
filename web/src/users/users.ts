// SPDX-License-Identifier: Apache-2.0
// Who uses what: a row for each user with a small heat map of his GPUs, and what of his time they stood idle.
import { el, setAttribute, setText } from "../base/dom";
import { bytes, hours, percent } from "../base/format";
import { Table } from "../base/table";
import { heat, kSteps, stepOf } from "../model/colour";
import type { Fleet } from "../model/fleet";
import { isHeldIdle, spokenName, type Gpu } from "../model/gpu";
import { userRows, type UserRow } from "../model/users";
import { gridMetric, shadeOf } from "../model/grid_metrics";
import type { Page } from "../page";

/** So many GPUs are drawn one by one; the rest is a number. */
const kMostMarks = 40;

export class Users {
  private readonly table: Table<UserRow>;
  private readonly empty = el("p.empty", {}, "Nobody uses a GPU.");

  constructor(
    root: HTMLElement,
    private readonly page: Page,
  ) {
    this.table = new Table<UserRow>(
      [
        { title: "User", fill: (cell, row) => this.user(cell, row) },
        { title: "GPUs", number: true, text: (row) => String(row.gpus.length) },
        { title: "Which", wide: true, fill: (cell, row) => this.marks(cell, row) },
        { title: "Busy", number: true, text: (row) => percent(row.meanBusy) },
        { title: "Idle now", number: true, minor: true, fill: (cell, row) => idleNow(cell, row) },
        { title: "Memory", number: true, minor: true, text: (row) => bytes(row.memory) },
        { title: "GPU time", number: true, minor: true, text: (row) => hours(row.gpuSeconds) },
        { title: "of it idle", number: true, text: (row) => idleShare(row) },
      ],
      (row) => row.user,
      "Users and the GPUs that they hold",
    );
    root.append(
      el("div.panel-head", {}, el("h2", { id: "users-title" }, "Who uses what")),
      this.table.root,
      this.empty,
    );
    root.addEventListener("click", (event) => this.clicked(event));
    page.feed.on((fleet) => this.draw(fleet));
  }

  private draw(fleet: Fleet): void {
    const rows = userRows(fleet.gpus, this.page.uses());
    this.table.show(rows);
    this.empty.hidden = rows.length > 0;
    this.table.root.hidden = rows.length === 0;
  }

  private user(cell: HTMLElement, row: UserRow): void {
    setText(cell, row.user || "not visible");
    setAttribute(cell, "data-quiet", row.user === "" || row.gpus.length === 0 ? "" : null);
  }

  private marks(cell: HTMLElement, row: UserRow): void {
    const several = this.page.feed.now?.several ?? false;
    const shown = row.gpus.slice(0, kMostMarks);
    const keys = shown.map((gpu) => gpu.key).join();
    if (cell.dataset["keys"] !== keys) {
      cell.dataset["keys"] = keys;
      const rest = row.gpus.length - shown.length;
      cell.replaceChildren(el("span.marks", {}, ...grouped(shown, several), rest > 0 ? `+${rest}` : ""));
    }
    const marks = cell.querySelectorAll<HTMLElement>(".mark");
    shown.forEach((gpu, i) => {
      const mark = marks[i];
      if (mark) paint(mark, gpu, several);
    });
  }

  private clicked(event: Event): void {
    const mark = event.target instanceof Element ? event.target.closest<HTMLElement>(".mark") : null;
    const gpu = this.page.feed.now?.byKey.get(mark?.dataset["mark"] ?? "");
    if (gpu) this.page.view.set({ gpu: gpu.uuid || gpu.key, node: this.page.feed.now?.several ? gpu.node : "" });
  }
}

/** One node's marks stay together, behind its name. */
function grouped(gpus: readonly Gpu[], several: boolean): Node[] {
  const groups: { node: string; marks: HTMLElement[] }[] = [];
  for (const gpu of gpus) {
    const mark = el(
      "button.mark",
      { type: "button", tabindex: several ? -1 : 0, "data-mark": gpu.key },
      several ? "" : String(gpu.index),
    );
    const last = groups[groups.length - 1];
    if (last?.node === gpu.node) last.marks.push(mark);
    else groups.push({ node: gpu.node, marks: [mark] });
  }
  return groups.map((group) =>
    el("span.mark-group", {}, several ? el("span.mark-node", {}, group.node) : null, ...group.marks),
  );
}

function paint(mark: HTMLElement, gpu: Gpu, several: boolean): void {
  const shade = shadeOf(gpu, gridMetric("busy"));
  const step = shade.kind === "heat" ? stepOf(shade.share) : -1;
  setAttribute(mark, "aria-label", spokenName(gpu, several));
  setAttribute(mark, "title", spokenName(gpu, several));
  setAttribute(mark, "data-kind", gpu.standing === "lost" ? "lost" : shade.kind);
  if (mark.dataset["step"] === String(step)) return;
  mark.dataset["step"] = String(step);
  mark.style.backgroundColor = step < 0 ? "" : heat(step / kSteps);
  mark.style.color = step < 0 ? "" : step / kSteps > 0.5 ? "#000" : "#fff";
}

function idleNow(cell: HTMLElement, row: UserRow): void {
  setText(cell, row.idle === 0 ? "–" : `${row.idle}`);
  setAttribute(cell, "data-waste", row.idle > 0 ? "" : null);
  setAttribute(
    cell,
    "title",
    row.idle > 0
      ? `held and idle: GPU ${row.gpus
          .filter(isHeldIdle)
          .map((gpu) => gpu.index)
          .slice(0, 16)
          .join(", ")}`
      : null,
  );
}

const idleShare = (row: UserRow): string =>
  row.idleSeconds === null || !row.gpuSeconds
    ? "–"
    : `${hours(row.idleSeconds)} (${percent((100 * row.idleSeconds) / row.gpuSeconds)})`;
