// SPDX-License-Identifier: Apache-2.0
// Histories joined into the rows of a chart.
import type { HistoryJson } from "../api/types";

export type Triple = [number, number, number] | [null, null, null];
export type SeriesRow = [Date, ...Triple[]];

/** Neither null, which is drawn across, nor a value: nothing was read here. */
const kGap: Triple = [NaN, NaN, NaN];

/** One row for each time that any of them has, null for those that do not have it. Where steps are missing there is a gap. */
export function joined(histories: readonly (HistoryJson | null)[]): SeriesRow[] {
  const rows = new Map<number, Triple[]>();
  histories.forEach((history, column) => {
    const step = (history?.step_seconds ?? 1) * 1000;
    let before = -Infinity;
    for (const [time, min, mean, max] of history?.points ?? []) {
      if (time - before > 2.5 * Math.max(step, 1000) && before > 0)
        rowOf(rows, before + step, histories.length)[column] = kGap;
      rowOf(rows, time, histories.length)[column] = [min, mean, max];
      before = time;
    }
  });
  return [...rows].sort(([a], [b]) => a - b).map(([time, triples]): SeriesRow => [new Date(time), ...triples]);
}

function rowOf(rows: Map<number, Triple[]>, time: number, columns: number): Triple[] {
  const row = rows.get(time) ?? Array.from({ length: columns }, (): Triple => [null, null, null]);
  rows.set(time, row);
  return row;
}

export interface Summary {
  min: number;
  mean: number;
  max: number;
}

export function summaryOf(history: HistoryJson | null): Summary | null {
  if (!history || history.points.length === 0) return null;
  let min = Infinity;
  let max = -Infinity;
  let sum = 0;
  for (const point of history.points) {
    min = Math.min(min, point[1]);
    max = Math.max(max, point[3]);
    sum += point[2];
  }
  return { min, mean: sum / history.points.length, max };
}

/** Steps that a chart of some hundred points wants, of those that histories keep. */
export function stepFor(fromMs: number, toMs: number): number {
  const wanted = (toMs - fromMs) / 1000 / 480;
  return [1, 2, 5, 10, 30, 60, 120, 300, 900, 3600, 7200, 21600, 86400].find((step) => step >= wanted) ?? 86400;
}
