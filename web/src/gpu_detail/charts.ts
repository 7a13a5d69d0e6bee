// SPDX-License-Identifier: Apache-2.0
// The charts of one GPU: bands for least and most, one cursor through all of them. Loaded when the first GPU is opened:
// dygraphs is most of the page.
import Dygraph, { type Options } from "dygraphs/dygraph.js";
import Axes from "dygraphs/plugins/axes.js";
import Grid from "dygraphs/plugins/grid.js";
import type { HistoryJson } from "../api/types";
import { el, setText } from "../base/dom";
import { clockTime, inUnit } from "../base/format";
import { variable } from "../base/theme_colours";
import type { Range } from "../base/view_state";
import type { Gpu } from "../model/gpu";
import { kChartRows, type ChartRow } from "./chart_rows";
import { joined, summaryOf, type SeriesRow, type Triple } from "./series";

// The others set style attributes, which the page's Content-Security-Policy forbids, and are not used.
Dygraph.PLUGINS = [Axes, Grid];

interface Chart {
  row: ChartRow;
  labels: HTMLElement[]; // what the series are at the cursor
  time: HTMLElement;
  graph: Dygraph;
  data: SeriesRow[];
  histories: (HistoryJson | null)[];
}

export class Charts {
  private charts: Chart[] = [];
  private limits = new Map<ChartRow, number>();
  private busy = false;
  private readonly onTheme = (): void =>
    this.charts.forEach((chart) => chart.graph.updateOptions(this.colours(chart.row)));
  private readonly resizes = new ResizeObserver(() => this.charts.forEach((chart) => chart.graph.resize()));

  constructor(
    private readonly root: HTMLElement,
    private readonly onZoom: (from: number, to: number) => void,
  ) {
    document.addEventListener("themechange", this.onTheme);
    this.resizes.observe(root);
  }

  destroy(): void {
    document.removeEventListener("themechange", this.onTheme);
    this.resizes.disconnect();
    this.charts.forEach((chart) => chart.graph.destroy());
    this.charts = [];
    this.root.replaceChildren();
  }

  /** `histories` by metric; a chart for which there is no data at all is left out. */
  show(gpu: Gpu, histories: ReadonlyMap<string, HistoryJson>, range: Range): void {
    const rows = kChartRows.filter((row) =>
      row.series.some((series) => (histories.get(series.metric)?.points.length ?? 0) > 0),
    );
    for (const row of kChartRows) {
      const limit = row.limit?.(gpu);
      if (typeof limit === "number") this.limits.set(row, limit);
      else this.limits.delete(row);
    }
    if (rows.length !== this.charts.length || rows.some((row, i) => this.charts[i]?.row !== row)) this.build(rows);
    for (const chart of this.charts) {
      chart.histories = chart.row.series.map((series) => histories.get(series.metric) ?? null);
      chart.data = joined(chart.histories);
      const top = chart.row.top?.(gpu) ?? null;
      chart.graph.updateOptions({
        file: chart.data,
        dateWindow: [range.from, range.to],
        valueRange: [this.lowEnd(chart.row), top ?? this.highEnd(chart)],
      });
      this.tell(chart, -1);
    }
  }

  private lowEnd(row: ChartRow): number {
    return row.unit === "°C" ? 20 : 0;
  }

  private highEnd(chart: Chart): number {
    const most = Math.max(
      1,
      this.limits.get(chart.row) ?? 0,
      ...chart.histories.map((history) => summaryOf(history)?.max ?? 0),
    );
    return most * 1.08;
  }

  private build(rows: readonly ChartRow[]): void {
    this.charts.forEach((chart) => chart.graph.destroy());
    const plots = rows.map((row) => el("div.plot", { role: "img", "aria-label": `${row.title} over time` }));
    this.root.replaceChildren();
    this.charts = rows.map((row, i) => this.chart(row, plots[i]!));
  }

  private chart(row: ChartRow, plot: HTMLElement): Chart {
    const labels = row.series.map(() => el("span"));
    const time = el("span.readout-time");
    const keyed = labels.map((label, i) =>
      el(
        "span.readout-series",
        {},
        row.series.length > 1 ? el(`i.key-${i + 1}`, { "aria-hidden": "true" }) : null,
        label,
      ),
    );
    this.root.append(
      el("figure.chart", {}, el("figcaption.readout", {}, el("strong", {}, row.title), ...keyed, time), plot),
    );
    const empty: SeriesRow[] = [[new Date(), ...row.series.map((): [null, null, null] => [null, null, null])]];
    const chart: Omit<Chart, "graph"> = { row, labels, time, data: [], histories: [] };
    return Object.assign(chart, { graph: new Dygraph(plot, empty, this.options(chart as Chart)) });
  }

  private options(chart: Chart): Options {
    const row = chart.row;
    return {
      labels: ["time", ...row.series.map((series) => series.title)],
      customBars: true,
      connectSeparatedPoints: true,
      legend: "never",
      strokeWidth: 1.6,
      fillAlpha: 0.22,
      highlightCircleSize: 3.5,
      axisLabelFontSize: 11,
      rightGap: 6,
      animatedZooms: false,
      labelsKMG2: row.unit === "B",
      ...(matchMedia("(pointer: coarse)").matches ? { interactionModel: {} } : {}), // a finger scrolls the page
      axes: {
        x: { axisLabelFormatter: timeLabel, drawGrid: false, pixelsPerLabel: 84 },
        y: { axisLabelFormatter: (value) => axisText(Number(value), row.unit), axisLabelWidth: 58, pixelsPerLabel: 24 },
      },
      underlayCallback: (context, area, graph) => this.drawLimit(context, area, graph, row),
      highlightCallback: (_event, _x, _points, index) => this.point(chart, index),
      unhighlightCallback: () => this.point(chart, -1),
      zoomCallback: (from, to) => this.onZoom(from, to),
      ...this.colours(row),
    };
  }

  private colours(row: ChartRow): Options {
    return {
      colors: [variable("--chart-1"), variable("--chart-2")].slice(0, row.series.length),
      gridLineColor: variable("--grid"),
      axisLineColor: variable("--line-2"),
    };
  }

  private drawLimit(
    context: CanvasRenderingContext2D,
    area: { x: number; y: number; w: number; h: number },
    graph: Dygraph,
    row: ChartRow,
  ): void {
    const limit = this.limits.get(row);
    if (limit === undefined) return;
    const y = graph.toDomYCoord(limit);
    if (y < area.y || y > area.y + area.h) return;
    context.save();
    context.strokeStyle = variable("--lost");
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo(area.x, y);
    context.lineTo(area.x + area.w, y);
    context.stroke();
    context.setLineDash([]);
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = variable("--text-2");
    context.textAlign = "right";
    context.fillText(
      `${row.limitTitle ?? ""} ${inUnit(limit, row.unit)}`,
      area.x + area.w - 2,
      y - area.y > 14 ? y - 4 : y + 11,
    );
    context.restore();
  }

  /** One chart's cursor is every chart's. */
  private point(from: Chart, index: number): void {
    if (this.busy) return;
    this.busy = true;
    const time = from.data[index]?.[0].getTime() ?? null;
    for (const chart of this.charts) {
      const place = time === null ? -1 : nearestRow(chart.data, time);
      if (chart !== from) {
        if (place < 0) chart.graph.clearSelection();
        else chart.graph.setSelection(place);
      }
      this.tell(chart, place);
    }
    this.busy = false;
  }

  /** The line above a chart: the values under the cursor, else mean and most of the range. */
  private tell(chart: Chart, place: number): void {
    const row = chart.data[place];
    chart.row.series.forEach((series, i) => {
      const name = chart.row.series.length > 1 ? `${series.title} ` : "";
      const words = row
        ? valueWords(row[i + 1] as Triple, chart.row.unit)
        : rangeWords(chart.histories[i] ?? null, chart.row.unit);
      const label = chart.labels[i];
      if (!label) return;
      setText(label, words === "" ? "" : `${name}${words}`);
      if (label.parentElement) label.parentElement.hidden = words === "";
    });
    setText(chart.time, row ? clockTime(row[0].getTime()) : "");
  }
}

function valueWords(triple: Triple | undefined, unit: string): string {
  if (!triple || triple[1] === null || Number.isNaN(triple[1])) return "";
  const [min, mean, max] = triple;
  return min === max ? inUnit(mean, unit) : `${inUnit(mean, unit)} (${inUnit(min, unit)} to ${inUnit(max, unit)})`;
}

function rangeWords(history: HistoryJson | null, unit: string): string {
  const summary = summaryOf(history);
  return summary ? `mean ${inUnit(summary.mean, unit)}, max ${inUnit(summary.max, unit)}` : "";
}

function nearestRow(data: readonly SeriesRow[], time: number): number {
  let low = 0;
  let high = data.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((data[middle]?.[0].getTime() ?? 0) < time) low = middle + 1;
    else high = middle;
  }
  const before = data[low - 1];
  return before && Math.abs(before[0].getTime() - time) < Math.abs((data[low]?.[0].getTime() ?? 0) - time)
    ? low - 1
    : low;
}

const kMonths = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function timeLabel(value: number | Date): string {
  const time = new Date(value);
  if (time.getHours() === 0 && time.getMinutes() === 0 && time.getSeconds() === 0)
    return `${time.getDate()} ${kMonths[time.getMonth()] ?? ""}`;
  return clockTime(time.getTime(), time.getSeconds() !== 0);
}

function axisText(value: number, unit: string): string {
  if (unit === "B") return `${Math.round(value / 2 ** 30)}\u202fGiB`;
  return inUnit(value, unit);
}
