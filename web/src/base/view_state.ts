// SPDX-License-Identifier: Apache-2.0
// What is looked at, as the part of the address after '#', so that a view can be linked.
export interface ViewState {
  gpu: string; // a UUID, "" for none
  node: string; // its node, where several have the same UUID or the GPU has none
  range: string; // "10m", "1h", or "FROM-TO" in Unix seconds
  color: string; // the metric that colours the grid
  show: string; // which GPUs are not dimmed: "", "lost", "throttled", ...
}

export const kDefaults: ViewState = { gpu: "", node: "", range: "10m", color: "busy", show: "" };
const keys = Object.keys(kDefaults) as (keyof ViewState)[];

export function parseHash(hash: string): ViewState {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...kDefaults };
  for (const key of keys) {
    const value = given.get(key);
    if (value !== null && value.length <= 200) state[key] = value;
  }
  return state;
}

export function toHash(state: ViewState): string {
  const given = new URLSearchParams();
  for (const key of keys) {
    if (state[key] !== kDefaults[key]) given.set(key, state[key]);
  }
  const text = given.toString();
  return text === "" ? "" : `#${text}`;
}

/** The view's state, kept in the address; listeners hear of every change, whoever made it. */
export class View {
  private state = parseHash(location.hash);
  private readonly listeners: ((now: ViewState, before: ViewState) => void)[] = [];

  constructor() {
    addEventListener("hashchange", () => this.become(parseHash(location.hash)));
  }

  get now(): ViewState {
    return this.state;
  }

  on(listener: (now: ViewState, before: ViewState) => void): void {
    this.listeners.push(listener);
  }

  /** Going to another GPU can be gone back from; the rest replaces the address. */
  set(changes: Partial<ViewState>): void {
    const next = { ...this.state, ...changes };
    const address = location.pathname + location.search + toHash(next);
    if (next.gpu !== this.state.gpu || next.node !== this.state.node) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.become(next);
  }

  private become(next: ViewState): void {
    const before = this.state;
    this.state = next;
    for (const listener of this.listeners) listener(next, before);
  }
}

/** A stretch of time in Unix milliseconds. `live`: it ends now and moves on. */
export interface Range {
  from: number;
  to: number;
  live: boolean;
}

const lengths: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

export function parseRange(text: string, nowMs: number): Range {
  const length = /^(\d{1,4})([smhd])$/.exec(text);
  if (length) {
    const seconds = Number(length[1]) * (lengths[length[2] ?? "h"] ?? 3600);
    if (seconds > 0) return { from: nowMs - seconds * 1000, to: nowMs, live: true };
  }
  const ends = /^(\d{9,11})-(\d{9,11})$/.exec(text);
  if (ends && Number(ends[2]) > Number(ends[1]))
    return { from: Number(ends[1]) * 1000, to: Number(ends[2]) * 1000, live: false };
  return { from: nowMs - 3600_000, to: nowMs, live: true };
}

export function rangeText(range: Range): string {
  return `${Math.floor(range.from / 1000)}-${Math.ceil(range.to / 1000)}`;
}
