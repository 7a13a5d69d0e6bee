// SPDX-License-Identifier: Apache-2.0
// Puts the page together: widgets over their elements, one feed for all of them.
import { Alerts } from "./alerts/alerts";
import { Announcer } from "./announce/announce";
import { Client } from "./api/client";
import { Live } from "./api/live";
import type { SessionJson, UseJson } from "./api/types";
import { mount } from "./base/dom";
import { View } from "./base/view_state";
import { GpuDetail } from "./gpu_detail/gpu_detail";
import { GpuGrid } from "./gpu_grid/gpu_grid";
import { HealthStrip } from "./health_strip/health_strip";
import { Leases } from "./leases/leases";
import { changesOf } from "./model/changes";
import { fleetFrom, type Places } from "./model/fleet";
import { Feed, type Page } from "./page";
import { TokenForm } from "./top/token_form";
import { Top } from "./top/top";
import { Users } from "./users/users";

const kUsagePause = 15_000;

function start(): void {
  const client = new Client();
  const announcer = new Announcer(mount("announce"));
  let session: SessionJson = { actions_allowed: false, actions_possible: false, token_needed: false };
  let uses: UseJson[] = [];
  const page: Page = {
    client,
    view: new View(),
    feed: new Feed(),
    session: () => session,
    uses: () => uses,
    announce: (words) => announcer.say(words),
    askToken: () => token.ask(),
  };
  // What a server does not offer is left out of the page.
  const readUsage = async (): Promise<void> => {
    uses = await client.usage().catch(() => []);
  };
  const readSession = async (): Promise<void> => {
    session = await client.session().catch(() => session);
  };
  const token = new TokenForm(async (given) => {
    await client.logIn(given);
    await readSession();
    live.unlock();
  });
  const top = new Top(mount("top"), page, token);
  new HealthStrip(mount("strip"), page);
  const grid = new GpuGrid(mount("gpus"), page);
  new Users(mount("users"), page);
  const detail = new GpuDetail(mount("detail"), page);
  new Alerts(mount("alerts"), page);
  new Leases(mount("leases"), page);
  detail.onClose = (key) => grid.focus(key);
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    mount("gpus").focus();
  });

  const places: Places = new Map();
  let selected = page.view.now.gpu;
  const live = new Live(
    client,
    {
      nodes: (nodes) => {
        const before = page.feed.now;
        const fleet = fleetFrom(nodes, places);
        page.feed.tell(fleet);
        page.announce(changesOf(before, fleet));
      },
      liveness: (now) => top.liveness(now),
    },
    () => page.view.now.gpu,
  );
  page.view.on(() => {
    if (page.view.now.gpu === selected) return;
    selected = page.view.now.gpu;
    live.refresh();
  });
  setInterval(() => {
    if (!document.hidden) void readUsage();
  }, kUsagePause);
  void Promise.all([readSession(), readUsage()]).then(() => live.start());
}

start();
