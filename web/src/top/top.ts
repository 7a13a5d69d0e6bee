// SPDX-License-Identifier: Apache-2.0
// The head of the page: what is watched, whether it is live, whether it is real.
import type { Liveness } from "../api/live";
import { el, setAttribute, setText } from "../base/dom";
import { clockTime, count, duration } from "../base/format";
import type { Fleet } from "../model/fleet";
import type { Page } from "../page";
import { ThemeSwitch } from "./theme";
import type { TokenForm } from "./token_form";

export class Top {
  private readonly place = el("span.top-place");
  private readonly models = el("span.top-models");
  private readonly simulated = el(
    "span.badge.simulated",
    { hidden: true, title: "These GPUs are simulated: nothing here is a real machine" },
    "simulated",
  );
  private readonly state = el("span.live-text");
  private readonly live = el(
    "span.live",
    { "data-state": "connecting" },
    el("span.live-dot", { "aria-hidden": "true" }),
    this.state,
  );
  private asking = false;

  constructor(
    root: HTMLElement,
    page: Page,
    private readonly token: TokenForm,
  ) {
    const theme = el("button.theme", { type: "button" });
    root.append(
      el(
        "div.top-name",
        {},
        el("span.logo", { "aria-hidden": "true" }, el("i"), el("i"), el("i"), el("i")),
        el("h1", {}, "gpuwarden"),
      ),
      el("div.top-what", {}, this.place, this.models, this.simulated),
      el("div.top-right", {}, this.live, theme),
      this.token.root,
    );
    new ThemeSwitch(theme);
    page.feed.on((fleet) => this.show(fleet));
  }

  liveness(now: Liveness): void {
    setAttribute(this.live, "data-state", now.kind);
    setText(this.state, words(now));
    setAttribute(this.live, "title", now.kind === "stale" && now.why !== "" ? `${now.why}; trying again` : null);
    if (now.kind === "locked" && !this.asking) {
      this.asking = true;
      void this.token.ask().then((given) => {
        if (given) this.asking = false;
      });
    }
  }

  private show(fleet: Fleet): void {
    const first = fleet.nodes[0];
    setText(this.place, fleet.several ? count(fleet.nodes.length, "node") : (first?.name ?? ""));
    setText(this.models, modelsOf(fleet));
    this.simulated.hidden = !fleet.simulated;
    const lost = fleet.gpus.filter((gpu) => gpu.standing === "lost").length;
    const where = fleet.several ? `${fleet.nodes.length} nodes` : (first?.name ?? "");
    document.title = `${lost > 0 ? `(${lost} lost) ` : ""}${where} · gpuwarden`;
  }
}

function words(now: Liveness): string {
  switch (now.kind) {
    case "connecting":
      return "connecting";
    case "locked":
      return "needs a token";
    case "live":
      return `live ${clockTime(now.last)}`;
    case "stale":
      return now.since > 0
        ? `not live since ${duration((Date.now() - now.since) / 1000)}`
        : "no answer from the server";
  }
}

/** "8 × H100 80GB HBM3, 4 × A100": most first. */
export function modelsOf(fleet: Fleet): string {
  const models = new Map<string, number>();
  for (const gpu of fleet.gpus) {
    const name = gpu.name.replace(/^NVIDIA /, "");
    if (name !== "") models.set(name, (models.get(name) ?? 0) + 1);
  }
  const sorted = [...models].sort((a, b) => b[1] - a[1]);
  const shown = sorted.slice(0, 3).map(([name, many]) => `${many.toLocaleString("en")} × ${name}`);
  if (sorted.length > 3) shown.push(`${sorted.length - 3} other models`);
  return shown.join(", ");
}
