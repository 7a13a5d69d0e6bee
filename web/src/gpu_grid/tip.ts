// SPDX-License-Identifier: Apache-2.0
// The little window beside a cell under the pointer or the keyboard. What it says is in the cell's name as well.
import { el } from "../base/dom";
import { bytesOf, celsius, percent, watts } from "../base/format";
import { gpuName, type Gpu } from "../model/gpu";
import { stateRow, throttleWords } from "../model/state";

export class Tip {
  readonly root = el("div.tip", { hidden: true, "aria-hidden": "true" });

  show(gpu: Gpu, several: boolean, beside: HTMLElement): void {
    const state = stateRow(gpu.state);
    const users = gpu.users.map((user) => user || "somebody").join(", ");
    const throttle = (gpu.json.throttle_reasons ?? [])
      .map(throttleWords)
      .filter((words) => words !== "")
      .join(", ");
    const line = (title: string, value: string): Node[] =>
      value === "" ? [] : [el("dt", {}, title), el("dd", {}, value)];
    const facts =
      gpu.standing === "lost"
        ? line("why", gpu.reason)
        : [
            ...line("busy", percent(gpu.busy)),
            ...line("memory", bytesOf(gpu.memoryUsed, gpu.memoryTotal)),
            ...line("heat", celsius(gpu.temperature)),
            ...line("power", `${watts(gpu.power)} of ${watts(gpu.powerLimit)}`),
            ...line("users", users),
            ...line("clocks", throttle),
            ...line("why", gpu.reason),
          ];
    this.root.replaceChildren(
      el("strong", {}, gpuName(gpu, several)),
      el(
        "span.tip-state",
        { "data-standing": gpu.standing },
        gpu.standing === "ok" ? "" : `${state.glyph} ${state.words}`,
      ),
      el("dl", {}, ...facts),
    );
    this.root.hidden = false;
    this.place(beside.getBoundingClientRect());
  }

  hide(): void {
    this.root.hidden = true;
  }

  private place(cell: DOMRect): void {
    const own = this.root.getBoundingClientRect();
    const left = Math.max(
      8,
      Math.min(cell.left + cell.width / 2 - own.width / 2, document.documentElement.clientWidth - own.width - 8),
    );
    const below = cell.bottom + 8 + own.height < innerHeight;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${below ? cell.bottom + 8 : Math.max(8, cell.top - own.height - 8)}px`;
  }
}
