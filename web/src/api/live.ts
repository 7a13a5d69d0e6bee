// SPDX-License-Identifier: Apache-2.0
// Keeps the page live: listens to the server's events, reads anew when something happened, and connects again.
import type { Client } from "./client";
import { Refusal } from "./client";
import { EventReader } from "./events";
import type { NodeJson } from "./types";

export type Liveness =
  | { kind: "connecting" }
  | { kind: "live"; last: number }
  | { kind: "stale"; since: number; why: string }
  | { kind: "locked" };

export interface LiveListener {
  nodes(nodes: NodeJson[]): void;
  liveness(now: Liveness): void;
}

const kSilence = 40_000; // the server says something at least every 15 s
const kHiddenPause = 15_000; // between readings while nobody looks
const kBackoff = [500, 1000, 2000, 4000, 8000, 15_000];

export class Live {
  private attempts = 0;
  private lastEvent = 0;
  private interval = 1000; // between readings, as they come
  private loading = false;
  private again = false;
  private loaded = 0;
  private locked = false;
  private problem = "";
  private stream: AbortController | null = null;
  private silence = 0;

  constructor(
    private readonly client: Client,
    private readonly listener: LiveListener,
    private readonly selected: () => string = () => "",
  ) {}

  start(): void {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void this.load();
    });
    setInterval(() => this.tellLiveness(), 1000);
    void this.load();
    void this.connect();
  }

  /** Something else is looked at: what is shown of it is asked for now. */
  refresh(): void {
    if (this.loaded > 0) void this.load();
  }

  /** After a login: what was refused is asked for again. */
  unlock(): void {
    if (!this.locked) return void this.load();
    this.locked = false;
    this.attempts = 0;
    void this.load();
    void this.connect();
  }

  private async connect(): Promise<void> {
    if (this.locked) return;
    this.stream?.abort();
    const stream = (this.stream = new AbortController());
    try {
      const response = await this.client.request("/api/v1/events", {
        headers: { Accept: "text/event-stream" },
        signal: stream.signal,
      });
      if (response.status === 401 || response.status === 403) return this.lock();
      if (!response.ok || !response.body) throw new Refusal(response.status, `the server answered ${response.status}`);
      await this.listen(response.body.getReader());
      this.problem = "the server ended the stream";
    } catch (error) {
      if (!stream.signal.aborted || this.stream === stream)
        this.problem = error instanceof Error ? error.message : String(error);
    }
    clearTimeout(this.silence);
    if (this.stream !== stream) return;
    const pause = kBackoff[Math.min(this.attempts++, kBackoff.length - 1)] ?? 15_000;
    this.tellLiveness();
    setTimeout(() => this.reconnect(), pause);
  }

  /** Without a stream (a server has room for so many) the page is at least not older than the pause. */
  private reconnect(): void {
    void this.load();
    void this.connect();
  }

  private async listen(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    const events = new EventReader();
    const text = new TextDecoder();
    for (;;) {
      this.expectMore();
      const { done, value } = await reader.read();
      if (done) return;
      for (const event of events.take(text.decode(value, { stream: true }))) this.heard(event.type);
    }
  }

  private expectMore(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.stream?.abort(), kSilence) as unknown as number;
  }

  private heard(type: string): void {
    const now = Date.now();
    this.attempts = 0;
    if (type === "reading") {
      if (this.lastEvent > 0) this.interval = Math.min(60_000, 0.7 * this.interval + 0.3 * (now - this.lastEvent));
      this.lastEvent = now;
      if (document.hidden && now - this.loaded < kHiddenPause) return;
    }
    void this.load();
  }

  /** One request at a time; what happens meanwhile is read after it. */
  private async load(): Promise<void> {
    if (this.locked) return;
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    try {
      const nodes = await this.client.nodes(this.selected());
      this.loaded = Date.now();
      this.listener.nodes(nodes);
    } catch (error) {
      if (error instanceof Refusal && (error.status === 401 || error.status === 403)) this.lock();
      else this.problem = error instanceof Error ? error.message : String(error);
    }
    this.loading = false;
    this.tellLiveness();
    if (this.again) {
      this.again = false;
      void this.load();
    }
  }

  private lock(): void {
    this.locked = true;
    this.tellLiveness();
  }

  private tellLiveness(): void {
    const last = Math.min(this.lastEvent, this.loaded);
    if (this.locked) return this.listener.liveness({ kind: "locked" });
    if (last === 0) {
      return this.listener.liveness(
        this.problem === "" ? { kind: "connecting" } : { kind: "stale", since: this.loaded, why: this.problem },
      );
    }
    const patience = document.hidden ? kSilence : Math.max(5000, 3 * this.interval);
    if (Date.now() - last <= patience) return this.listener.liveness({ kind: "live", last });
    this.listener.liveness({ kind: "stale", since: last, why: this.problem });
  }
}
