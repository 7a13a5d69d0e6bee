// SPDX-License-Identifier: Apache-2.0
// The longer past of a GPU as one low band, with handles that choose the range of the charts.
import Dygraph, { type Options } from "dygraphs/dygraph.js";
import { variable } from "../base/theme_colours";
import RangeSelector from "dygraphs/plugins/range-selector.js";
import type { HistoryJson } from "../api/types";
import { el } from "../base/dom";
import type { Range } from "../base/view_state";
import { joined } from "./series";

const kHeight = 44;

export class Overview {
  private readonly plot = el("div.overview-plot");
  private graph: Dygraph | null = null;
  private readonly onTheme = (): void => this.graph?.updateOptions(colours());
  private readonly resizes = new ResizeObserver(() => this.graph?.resize());

  constructor(
    private readonly root: HTMLElement,
    private readonly onRange: (from: number, to: number) => void,
  ) {
    root.replaceChildren(this.plot);
    document.addEventListener("themechange", this.onTheme);
    this.resizes.observe(root);
  }

  destroy(): void {
    document.removeEventListener("themechange", this.onTheme);
    this.resizes.disconnect();
    this.graph?.destroy();
    this.root.replaceChildren();
  }

  show(history: HistoryJson, whole: Range, range: Range): void {
    const rows = joined([history]);
    this.root.hidden = rows.length < 2;
    if (rows.length < 2) return;
    // The ends of the data are the ends of the selector.
    if ((rows[0]?.[0].getTime() ?? 0) > range.from)
      rows.unshift([new Date(Math.max(whole.from, range.from)), [NaN, NaN, NaN]]);
    if ((rows[rows.length - 1]?.[0].getTime() ?? 0) < range.to) rows.push([new Date(range.to), [NaN, NaN, NaN]]);
    const window: [number, number] = [range.from, range.to];
    if (this.graph) this.graph.updateOptions({ file: rows, dateWindow: window });
    else this.graph = new Dygraph(this.plot, rows, this.options(window));
  }

  private options(window: [number, number]): Options {
    return {
      labels: ["time", "GPU busy"],
      customBars: true,
      connectSeparatedPoints: true,
      legend: "never",
      plugins: [RangeSelector],
      showRangeSelector: true,
      rangeSelectorHeight: kHeight,
      xAxisHeight: 1,
      height: kHeight + 10,
      dateWindow: window,
      valueRange: [0, 100],
      strokeWidth: 0,
      fillAlpha: 0,
      interactionModel: {},
      axes: { y: { axisLabelWidth: 0, drawGrid: false, drawAxis: false }, x: { drawGrid: false, drawAxis: false } },
      zoomCallback: (from, to) => this.onRange(from, to),
      ...colours(),
    };
  }
}

const colours = (): Options => ({
  colors: ["transparent"],
  axisLineColor: "transparent",
  rangeSelectorVeilColour: variable("--veil"),
  rangeSelectorPlotFillColor: variable("--chart-1"),
  rangeSelectorPlotFillGradientColor: variable("--surface"),
  rangeSelectorPlotStrokeColor: variable("--chart-1"),
  rangeSelectorBackgroundStrokeColor: variable("--line-2"),
  rangeSelectorForegroundStrokeColor: variable("--text-2"),
});
