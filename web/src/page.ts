// SPDX-License-Identifier: Apache-2.0
// What a widget is handed: the feed of fleets, the view's state, and the server.
import type { Client } from "./api/client";
import type { SessionJson, UseJson } from "./api/types";
import type { View } from "./base/view_state";
import type { Fleet } from "./model/fleet";

type Listener = (fleet: Fleet, before: Fleet | null) => void;

export class Feed {
  private fleet: Fleet | null = null;
  private readonly listeners: Listener[] = [];

  get now(): Fleet | null {
    return this.fleet;
  }

  on(listener: Listener): void {
    this.listeners.push(listener);
  }

  tell(fleet: Fleet): void {
    const before = this.fleet;
    this.fleet = fleet;
    for (const listener of this.listeners) listener(fleet, before);
  }
}

export interface Page {
  client: Client;
  view: View;
  feed: Feed;
  session(): SessionJson;
  uses(): readonly UseJson[];
  /** Says it to those who hear the page instead of seeing it. */
  announce(words: string): void;
  /** Asks for the server's token; resolves to whether one was given that it takes. */
  askToken(): Promise<boolean>;
}
