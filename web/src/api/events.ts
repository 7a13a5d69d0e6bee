// SPDX-License-Identifier: Apache-2.0
// Server-sent events out of the bytes of a stream (html.spec.whatwg.org, 9.2.6). Not EventSource: that one
// hides the comments by which a silent server shows that it lives, and tells no status.
export interface ServerEvent {
  type: string;
  data: string;
}

export class EventReader {
  private rest = "";
  private type = "";
  private data: string[] = [];

  /** The events that are complete with this text. */
  take(text: string): ServerEvent[] {
    const all = this.rest + text;
    // A carriage return at the end may be half of an end of line.
    const complete = all.endsWith("\r") ? all.slice(0, -1) : all;
    const lines = complete.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + all.slice(complete.length);
    const events: ServerEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) events.push({ type: this.type || "message", data: this.data.join("\n") });
        this.type = "";
        this.data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") this.type = value;
      if (field === "data") this.data.push(value);
    }
    return events;
  }
}
