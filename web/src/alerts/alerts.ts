// SPDX-License-Identifier: Apache-2.0
// What lasts and wants somebody: worst first, with what to do, and "acknowledge" where the server allows it.
import { el, setAttribute, setText } from "../base/dom";
import { ago, count, inUnit } from "../base/format";
import { levelRank, type Fleet, type FleetAlert } from "../model/fleet";
import type { Page } from "../page";

const kMost = 50;
const kGlyphs: Record<string, string> = { critical: "×", error: "×", warning: "!", info: "i" };

interface Line {
  root: HTMLElement;
  since: HTMLElement;
  text: HTMLElement;
  more: HTMLElement;
  actions: HTMLElement;
  state: string;
}

export class Alerts {
  private readonly list = el("ul.alert-list");
  private readonly note = el("span.panel-note");
  private readonly empty = el("p.empty", {}, "No alert.");
  private readonly lines = new Map<string, Line>();
  private readonly problems = new Map<string, string>();

  constructor(
    root: HTMLElement,
    private readonly page: Page,
  ) {
    root.append(el("div.panel-head", {}, el("h2", { id: "alerts-title" }, "Alerts"), this.note), this.list, this.empty);
    page.feed.on((fleet) => this.draw(fleet));
  }

  private draw(fleet: Fleet): void {
    const shown = fleet.alerts.slice(0, kMost);
    const open = fleet.alerts.filter((alert) => !alert.acknowledged_by).length;
    setText(
      this.note,
      fleet.alerts.length === 0
        ? ""
        : `${count(fleet.alerts.length, "alert")}${open < fleet.alerts.length ? `, ${open} not acknowledged` : ""}${shown.length < fleet.alerts.length ? `, the worst ${kMost} shown` : ""}`,
    );
    this.empty.hidden = shown.length > 0;
    const keys = new Set(shown.map(keyOf));
    for (const [key, line] of this.lines) {
      if (keys.has(key)) continue;
      line.root.remove();
      this.lines.delete(key);
    }
    shown.forEach((alert, place) => {
      const line = this.lineOf(alert, fleet);
      this.fill(line, alert, fleet);
      if (this.list.children[place] !== line.root) this.list.insertBefore(line.root, this.list.children[place] ?? null);
    });
  }

  private lineOf(alert: FleetAlert, fleet: Fleet): Line {
    const old = this.lines.get(keyOf(alert));
    if (old) return old;
    const level = alert.level.toLowerCase();
    const line: Line = {
      since: el("span.alert-since"),
      text: el("p.alert-text"),
      more: el("p.alert-more"),
      actions: el("span.alert-actions"),
      root: el("li.alert"),
      state: "",
    };
    const gpu = el("button.link", { type: "button" }, `${fleet.several ? `${alert.node} ` : ""}GPU ${alert.gpu}`);
    gpu.addEventListener("click", () => this.open(alert));
    line.root.append(
      el("span.alert-glyph", { "aria-hidden": "true" }, kGlyphs[level] ?? "i"),
      el(
        "div.alert-body",
        {},
        el("p.alert-head", {}, el("strong", {}, level), gpu, line.since, line.actions),
        line.text,
        line.more,
      ),
    );
    setAttribute(line.root, "data-rank", String(levelRank(level)));
    this.lines.set(keyOf(alert), line);
    return line;
  }

  /** By its place: what has no UUID has a made-up one in alerts. */
  private open(alert: FleetAlert): void {
    const now = this.page.feed.now;
    const gpu = now?.byKey.get(`${alert.node}#${alert.gpu}`);
    if (now && gpu) this.page.view.set({ gpu: gpu.uuid || gpu.key, node: now.several ? gpu.node : "" });
  }

  private fill(line: Line, alert: FleetAlert, fleet: Fleet): void {
    setText(line.since, ago(alert.since_unix_ms, fleet.time));
    setText(line.text, alert.message);
    const value =
      typeof alert.value === "number" && alert.unit !== undefined ? `now ${inUnit(alert.value, alert.unit)}` : "";
    setText(
      line.more,
      [
        alert.stale ? "the last word of a node that does not answer" : "",
        value,
        alert.condition ? `rule ${alert.rule}: ${alert.condition}` : `rule ${alert.rule}`,
        alert.next_step ?? "",
        this.problems.get(keyOf(alert)) ?? "",
      ]
        .filter((part) => part !== "")
        .join(" · "),
    );
    setAttribute(line.root, "data-acknowledged", alert.acknowledged_by ? "" : null);
    this.showActions(line, alert);
  }

  private showActions(line: Line, alert: FleetAlert): void {
    // What another node tells is acknowledged there: its ids are its own.
    const can = this.page.session().actions_possible && alert.nodeUrl === "";
    const state = alert.acknowledged_by ? `acknowledged by ${alert.acknowledged_by}` : can ? "open" : "";
    if (line.state === state) return;
    line.state = state;
    if (state !== "open") return line.actions.replaceChildren(state);
    const button = el("button", { type: "button", "aria-label": `Acknowledge: ${alert.message}` }, "Acknowledge");
    button.addEventListener("click", () => void this.acknowledge(button, alert));
    line.actions.replaceChildren(button);
  }

  private async acknowledge(button: HTMLButtonElement, alert: FleetAlert): Promise<void> {
    if (!this.page.session().actions_allowed && !(await this.page.askToken())) return;
    button.disabled = true;
    try {
      await this.page.client.acknowledge(alert.id);
      this.problems.delete(keyOf(alert));
      this.page.announce("Acknowledged.");
    } catch (error) {
      this.problems.set(keyOf(alert), error instanceof Error ? error.message : String(error));
      this.page.announce("Not acknowledged.");
    }
    button.disabled = false;
    if (this.page.feed.now) this.draw(this.page.feed.now);
  }
}

const keyOf = (alert: FleetAlert): string => `${alert.node} ${alert.id}`;
