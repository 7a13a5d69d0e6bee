// SPDX-License-Identifier: Apache-2.0
// The one live region: says at most one thing in a few seconds, and the last one wins.
import { setText } from "../base/dom";

const kPause = 4000;

export class Announcer {
  private next = "";
  private quietUntil = 0;
  private timer = 0;

  constructor(private readonly root: HTMLElement) {}

  say(words: string): void {
    if (words === "") return;
    this.next = words;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.speak(), Math.max(0, this.quietUntil - Date.now())) as unknown as number;
  }

  private speak(): void {
    setText(this.root, this.next);
    this.quietUntil = Date.now() + kPause;
  }
}
