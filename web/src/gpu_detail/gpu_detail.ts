// SPDX-License-Identifier: Apache-2.0
// One GPU: what it is and does, its charts over a range, its processes. Open while the address names a GPU.
import type { HistoryJson, ProcessJson } from "../api/types";
import { el, prefersStillness, setAttribute, setText } from "../base/dom";
import { bytes, clockTime, percent } from "../base/format";
import { Table } from "../base/table";
import { parseRange, rangeText, type Range, type ViewState } from "../base/view_state";
import { findGpu, type Fleet } from "../model/fleet";
import { gpuName, useWords, type Gpu } from "../model/gpu";
import { stateRow } from "../model/state";
import type { Page } from "../page";
import { kChartRows } from "./chart_rows";
import type { Charts } from "./charts";
import { factsOf } from "./gpu_facts";
import type { Overview } from "./overview";
import { stepFor } from "./series";

const kRanges = ["10m", "1h", "6h", "24h", "7d", "30d"];
const kMostProcesses = 200;

/** The longer past shown below the charts: the next of the ranges. */
function wholeOf(range: Range): Range {
  const length = range.to - range.from;
  const spans = kRanges.map((text) => parseRange(text, 0)).map((other) => other.to - other.from);
  const span = spans.find((other) => other > length * 1.01) ?? length;
  const to = range.live ? range.to : Math.min(Date.now(), range.to + (span - length) / 2);
  return { from: Math.min(range.from, to - span), to, live: range.live };
}

export class GpuDetail {
  private readonly title = el("h2", { id: "detail-title", tabindex: -1 });
  private readonly model = el("span.panel-note");
  private readonly badge = el("span.badge");
  private readonly reason = el("p.detail-reason", { hidden: true });
  private readonly facts = el("dl.facts");
  private readonly rangeButtons = el("div.ranges", { role: "group", "aria-label": "Range of the charts" });
  private readonly rangeNote = el("span.panel-note");
  private readonly chartRoot = el("div.charts");
  private readonly overviewRoot = el("div.overview");
  private readonly chartNote = el("p.empty", { hidden: true });
  private readonly processes: Table<ProcessJson>;
  private readonly noProcesses = el("p.empty");
  private readonly nodeLink = el("a.node-link", { hidden: true });
  private charts: Charts | null = null;
  private overview: Overview | null = null;
  private shown = "";
  private asked = 0;
  private wanted = "";
  private request: AbortController | null = null;
  onClose: (key: string) => void = () => undefined;

  constructor(
    private readonly root: HTMLElement,
    private readonly page: Page,
  ) {
    const close = el("button", { type: "button" }, "Close");
    close.addEventListener("click", () => this.close());
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    this.processes = new Table<ProcessJson>(
      [
        { title: "PID", number: true, text: (row) => (row.pid ? String(row.pid) : "–") },
        { title: "User", text: (row) => row.user || "–" },
        { title: "Type", minor: true, text: (row) => row.type },
        { title: "Memory", number: true, text: (row) => bytes(row.memory_bytes) },
        { title: "SM", number: true, text: (row) => percent(row.utilization?.sm_percent) },
        { title: "Command", wide: true, text: (row) => row.command || "–" },
        {
          title: "Job",
          minor: true,
          text: (row) =>
            row.slurm_job ? `slurm ${row.slurm_job}` : row.pod ? `pod ${row.pod}` : (row.container ?? "–"),
        },
      ],
      (row) => `${row.pid ?? ""} ${row.type} ${row.command}`,
      "Processes on this GPU",
    );
    root.append(
      el("div.panel-head", {}, this.title, this.badge, this.model, this.nodeLink, el("span.spring"), close),
      this.reason,
      el(
        "div.detail-body",
        {},
        el(
          "div.detail-charts",
          {},
          el("div.range-line", {}, this.rangeButtons, this.rangeNote),
          this.chartRoot,
          this.chartNote,
          this.overviewRoot,
        ),
        this.facts,
      ),
      el("h3", {}, "Processes"),
      this.processes.root,
      this.noProcesses,
    );
    this.makeRanges();
    page.feed.on((fleet) => this.draw(fleet));
    page.view.on((now, before) => this.moved(now, before));
    page.view.on(() => {
      if (page.feed.now) this.draw(page.feed.now);
    });
  }

  private makeRanges(): void {
    this.rangeButtons.replaceChildren(
      ...kRanges.map((range) => {
        const button = el(
          "button",
          { type: "button", "data-range": range },
          range.replace(/m$/, " min").replace(/h$/, " h").replace(/d$/, " d"),
        );
        button.addEventListener("click", () => this.page.view.set({ range }));
        return button;
      }),
    );
  }

  private close(): void {
    const key = this.shown;
    this.page.view.set({ gpu: "", node: "" });
    if (key !== "") this.onClose(key);
  }

  private moved(now: ViewState, before: ViewState): void {
    if (now.range !== before.range || now.gpu !== before.gpu || now.node !== before.node) this.asked = 0;
  }

  private draw(fleet: Fleet): void {
    const view = this.page.view.now;
    const gpu = findGpu(fleet, view.gpu, view.node);
    if (!gpu) return this.hide(view.gpu, fleet);
    const opened = this.shown !== gpu.key;
    this.shown = gpu.key;
    this.root.hidden = false;
    this.describe(gpu, fleet);
    for (const button of this.rangeButtons.children)
      setAttribute(button, "aria-pressed", String(button.getAttribute("data-range") === view.range));
    const range = parseRange(view.range, fleet.time || Date.now());
    setText(
      this.rangeNote,
      range.live
        ? ""
        : `${new Date(range.from).toLocaleDateString("en-GB")} ${clockTime(range.from, false)} to ${clockTime(range.to, false)}`,
    );
    if (opened) this.reveal();
    void this.refresh(gpu, range);
  }

  private hide(named: string, fleet: Fleet): void {
    this.root.hidden = true;
    this.shown = "";
    this.request?.abort();
    this.charts?.destroy();
    this.overview?.destroy();
    this.charts = this.overview = null;
    if (named !== "" && fleet.gpus.length > 0 && this.wanted !== named)
      this.page.announce("The GPU of this address is not here.");
    this.wanted = named;
  }

  private reveal(): void {
    this.root.scrollIntoView({ behavior: prefersStillness() ? "auto" : "smooth", block: "start" });
    this.title.focus({ preventScroll: true });
  }

  private describe(gpu: Gpu, fleet: Fleet): void {
    const state = stateRow(gpu.state);
    setText(this.title, gpuName(gpu, fleet.several));
    setText(this.model, gpu.name);
    setText(this.badge, gpu.standing === "ok" ? useWords(gpu) : `${state.glyph} ${state.words}`);
    setAttribute(this.badge, "data-standing", gpu.standing);
    this.reason.hidden = gpu.reason === "" && gpu.nextStep === "";
    setText(this.reason, [gpu.reason, gpu.nextStep].filter((part) => part !== "").join(". "));
    const facts = factsOf(gpu);
    const titles = facts.map(([title]) => title).join();
    if (this.facts.dataset["titles"] !== titles) {
      this.facts.dataset["titles"] = titles;
      this.facts.replaceChildren(...facts.map(([title]) => el("div", {}, el("dt", {}, title), el("dd"))));
    }
    facts.forEach(([, text], i) => {
      const value = this.facts.children[i]?.lastElementChild;
      if (value) setText(value, text);
    });
    this.linkNode(gpu, fleet);
    const processes = (gpu.processes ?? []).slice(0, kMostProcesses);
    this.processes.show(processes);
    this.processes.root.hidden = processes.length === 0;
    this.noProcesses.hidden = processes.length > 0;
    setText(this.noProcesses, gpu.processes === null ? "Its processes are not visible." : "No process.");
  }

  /** Only addresses of the web: a list of peers is no reason to open anything else. */
  private linkNode(gpu: Gpu, fleet: Fleet): void {
    const url = fleet.nodes.find((node) => node.name === gpu.node)?.url ?? "";
    this.nodeLink.hidden = !/^https?:\/\//.test(url);
    if (this.nodeLink.hidden) return;
    setText(this.nodeLink, "its own page, with charts");
    setAttribute(this.nodeLink, "href", `${url.replace(/\/+$/, "")}/#gpu=${encodeURIComponent(gpu.uuid)}`);
    setAttribute(this.nodeLink, "rel", "noreferrer");
  }

  /** Reads the histories anew when a step of the charts is over; what is asked for twice is asked once. */
  private async refresh(gpu: Gpu, range: Range): Promise<void> {
    const step = stepFor(range.from, range.to);
    const now = Date.now();
    const wait = range.live ? Math.max(2000, step * 1000) : Infinity;
    if (this.asked > 0 && now - this.asked < wait) return;
    this.asked = now;
    this.request?.abort();
    const request = (this.request = new AbortController());
    if (gpu.uuid === "") return this.noCharts("This GPU does not tell its UUID; it has no history.");
    if (!this.nodeLink.hidden)
      return this.noCharts("A server keeps the history of its own GPUs: the charts stand on this machine's own page.");
    try {
      const [histories, past, module] = await Promise.all([
        this.histories(gpu, range, step, request.signal),
        this.past(gpu, range, request.signal),
        import("./chart_parts"),
      ]);
      if (request.signal.aborted || this.shown !== gpu.key) return;
      this.charts ??= new module.Charts(this.chartRoot, (from, to) => this.zoom(from, to));
      this.overview ??= new module.Overview(this.overviewRoot, (from, to) => this.zoom(from, to));
      this.charts.show(gpu, histories, range);
      if (past) this.overview.show(past, wholeOf(range), range);
      if (histories.size > 0) this.chartNote.hidden = true;
      else this.noCharts("There is no history of this GPU in this range.");
    } catch (error) {
      if (!request.signal.aborted)
        this.noCharts(`No history: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async histories(
    gpu: Gpu,
    range: Range,
    step: number,
    signal: AbortSignal,
  ): Promise<Map<string, HistoryJson>> {
    const metrics = kChartRows.flatMap((row) => row.series.map((series) => series.metric));
    const answers = await Promise.allSettled(
      metrics.map((metric) => this.page.client.history(gpu.uuid, metric, range.from, range.to, step, signal)),
    );
    const found = answers.flatMap((answer) =>
      answer.status === "fulfilled" && answer.value.points.length > 0 ? [answer.value] : [],
    );
    const refused = answers.find((answer): answer is PromiseRejectedResult => answer.status === "rejected");
    if (found.length === 0 && refused) throw refused.reason;
    return new Map(found.map((history) => [history.metric, history]));
  }

  private past(gpu: Gpu, range: Range, signal: AbortSignal): Promise<HistoryJson | null> {
    const whole = wholeOf(range);
    return this.page.client
      .history(gpu.uuid, "utilization", whole.from, whole.to, stepFor(whole.from, whole.to), signal)
      .catch(() => null);
  }

  private zoom(from: number, to: number): void {
    if (to - from < 5000) return;
    this.page.view.set({ range: rangeText({ from, to, live: false }) });
  }

  private noCharts(why: string): void {
    this.charts?.destroy();
    this.overview?.destroy();
    this.charts = this.overview = null;
    this.chartNote.hidden = false;
    setText(this.chartNote, why);
  }
}
