// SPDX-License-Identifier: Apache-2.0
// The last minutes of one value, and its drawing as bars in the colours of the heat map.
import { heat } from "../model/colour";

export const kTrailMs = 300_000;
const kPitch = 3;

/** Shares of 0 to 1 with their times (Unix ms), oldest first. */
export class Trail {
  private times: number[] = [];
  private shares: number[] = [];

  add(time: number, share: number): void {
    if (time <= (this.times[this.times.length - 1] ?? 0)) return;
    this.times.push(time);
    this.shares.push(share);
    const old = this.times.findIndex((other) => other > time - kTrailMs);
    if (old > 60) {
      this.times.splice(0, old);
      this.shares.splice(0, old);
    }
  }

  /** What was before the page was opened. */
  prepend(points: readonly [number, number][]): void {
    const first = this.times[0] ?? Infinity;
    const older = points.filter(([time]) => time < first);
    this.times = [...older.map(([time]) => time), ...this.times];
    this.shares = [...older.map(([, share]) => share), ...this.shares];
  }

  /** The mean share of each of `columns` steps until `end`; null where nothing was read. */
  columns(columns: number, end: number): (number | null)[] {
    const sums = new Array<number>(columns).fill(0);
    const counts = new Array<number>(columns).fill(0);
    this.times.forEach((time, i) => {
      const column = columns - 1 - Math.floor(((end - time) / kTrailMs) * columns);
      if (column < 0 || column >= columns) return;
      sums[column] = (sums[column] ?? 0) + (this.shares[i] ?? 0);
      counts[column] = (counts[column] ?? 0) + 1;
    });
    return sums.map((sum, i) => ((counts[i] ?? 0) > 0 ? sum / (counts[i] ?? 1) : null));
  }
}

export function drawTrail(canvas: HTMLCanvasElement, trail: Trail, end: number, baseline: string): void {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (width === 0 || height === 0) return;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.fillStyle = baseline;
  context.fillRect(0, height - 1, width, 1);
  const columns = Math.floor(width / kPitch);
  trail.columns(columns, end).forEach((share, i) => {
    if (share === null || share < 0.005) return;
    const tall = Math.max(1, share * height);
    context.fillStyle = heat(share);
    context.fillRect(width - (columns - i) * kPitch, height - tall, kPitch - 1, tall);
  });
}
