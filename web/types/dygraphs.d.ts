// SPDX-License-Identifier: Apache-2.0
// What the page uses of dygraphs 2.2; the build says where the library lies.
declare module "dygraphs/dygraph.js" {
  export type Row = [Date, ...([number, number, number] | [null, null, null])[]];

  export interface AxisOptions {
    axisLabelFormatter?: (value: number | Date, granularity: number) => string;
    axisLabelWidth?: number;
    drawGrid?: boolean;
    drawAxis?: boolean;
    pixelsPerLabel?: number;
    gridLineColor?: string;
    axisLineColor?: string;
  }

  export interface Options {
    labels?: string[];
    colors?: string[];
    customBars?: boolean;
    fillAlpha?: number;
    strokeWidth?: number;
    connectSeparatedPoints?: boolean;
    legend?: "never";
    showRangeSelector?: boolean;
    rangeSelectorHeight?: number;
    rangeSelectorVeilColour?: string;
    labelsKMG2?: boolean;
    rangeSelectorPlotFillColor?: string;
    rangeSelectorPlotFillGradientColor?: string;
    rangeSelectorPlotStrokeColor?: string;
    rangeSelectorBackgroundStrokeColor?: string;
    rangeSelectorForegroundStrokeColor?: string;
    valueRange?: [number | null, number | null];
    dateWindow?: [number, number] | null;
    highlightCircleSize?: number;
    gridLineColor?: string;
    axisLineColor?: string;
    axisLabelFontSize?: number;
    rightGap?: number;
    animatedZooms?: boolean;
    axes?: { x?: AxisOptions; y?: AxisOptions };
    file?: Row[];
    width?: number;
    height?: number;
    interactionModel?: object;
    plugins?: unknown[];
    xAxisHeight?: number;
    drawCallback?: (chart: Dygraph, isInitial: boolean) => void;
    underlayCallback?: (
      context: CanvasRenderingContext2D,
      area: { x: number; y: number; w: number; h: number },
      chart: Dygraph,
    ) => void;
    highlightCallback?: (event: MouseEvent, x: number, points: object[], row: number) => void;
    unhighlightCallback?: () => void;
    zoomCallback?: (from: number, to: number) => void;
  }

  export default class Dygraph {
    static PLUGINS: unknown[];
    constructor(element: HTMLElement, data: Row[], options: Options);
    updateOptions(options: Options, delayed?: boolean): void;
    xAxisRange(): [number, number];
    toDomYCoord(value: number): number;
    setSelection(row: number | false): boolean;
    clearSelection(): void;
    getSelection(): number;
    numRows(): number;
    getValue(row: number, column: number): unknown;
    resize(): void;
    destroy(): void;
  }
}

declare module "dygraphs/plugins/axes.js" {
  const Plugin: unknown;
  export default Plugin;
}
declare module "dygraphs/plugins/grid.js" {
  const Plugin: unknown;
  export default Plugin;
}
declare module "dygraphs/plugins/range-selector.js" {
  const Plugin: unknown;
  export default Plugin;
}
