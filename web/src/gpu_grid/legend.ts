// SPDX-License-Identifier: Apache-2.0
// What the colours mean, and the choice of what they show.
import { el, setText } from "../base/dom";
import { metricsOf, type GridMetric } from "../model/grid_metrics";
import type { Gpu } from "../model/gpu";

export class Legend {
  readonly root: HTMLElement;
  readonly choice = el("select", { id: "color" });
  private readonly low = el("span");
  private readonly high = el("span");
  private offered = "";

  constructor(onChoice: (id: string) => void) {
    const sample = (kind: string, standing: string, glyph: string, words: string, held = false): HTMLElement =>
      el(
        "span.sample",
        {},
        el(
          "i.cell",
          {
            "data-kind": kind,
            "data-standing": standing,
            "data-held": held ? "idle" : undefined,
            "aria-hidden": "true",
          },
          glyph,
        ),
        words,
      );
    this.root = el(
      "div.legend",
      {},
      el("span.legend-choice", {}, el("label", { for: "color" }, "Colour"), this.choice),
      el("span.legend-scale", {}, this.low, el("i.scale", { "aria-hidden": "true" }), this.high),
      el(
        "span.legend-samples",
        {},
        sample("idle", "ok", "", "idle"),
        sample("idle", "ok", "", "held, idle", true),
        sample("unknown", "ok", "", "no data"),
        sample("idle", "warn", "!", "warning"),
        sample("unknown", "lost", "×", "lost"),
      ),
    );
    this.choice.addEventListener("change", () => onChoice(this.choice.value));
  }

  show(gpus: readonly Gpu[], metric: GridMetric): void {
    const metrics = metricsOf(gpus);
    const offered = metrics.map((other) => other.id).join();
    if (offered !== this.offered) {
      this.offered = offered;
      this.choice.replaceChildren(...metrics.map((other) => el("option", { value: other.id }, other.title)));
    }
    if (this.choice.value !== metric.id) this.choice.value = metric.id;
    setText(this.low, metric.low);
    setText(this.high, metric.high);
  }
}
