// SPDX-License-Identifier: Apache-2.0
// The page in a headless Chromium: over a fake server (shapes, trouble, 1,000 GPUs), and over `gpuwarden serve` where
// GPUWARDEN_PROGRAM names the program.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Chromium } from "./chromium.mjs";
import { FakeFleet } from "./fake_fleet.mjs";
import { FakeServer } from "./fake_server.mjs";
import { RealServer } from "./real_server.mjs";
import { mismatches } from "./schema.mjs";

const kFolder = process.env.GPUWARDEN_PAGE_FOLDER;
const kProgram = process.env.GPUWARDEN_PROGRAM ?? "";
const kFault = 3000; // within which a fault is to be seen

let browser;
before(async () => {
  browser = await Chromium.start();
});
after(() => browser?.close());

const text = (selector) => `(document.querySelector(${JSON.stringify(selector)})?.textContent ?? "")`;
const cells = "document.querySelectorAll('.grid [role=gridcell]')";
const cell = (place) => `document.querySelector('[data-key="${place}"]')`;

/** Opens a page on a server; at the end there must be no complaint of the browser. */
async function visit(server, check, { hash = "", width = 1440, height = 900, mobile = false, allowed = [] } = {}) {
  const url = await server.listen();
  const page = await browser.page(width, height);
  try {
    await page.size(width, height, mobile);
    await page.open(`${url}/${hash}`);
    await page.until(`${cells}.length > 0`);
    await check(page, url);
    assert.deepEqual(
      page.problems.filter((problem) => !allowed.some((pattern) => pattern.test(problem))),
      [],
    );
  } finally {
    await page.send("Page.close").catch(() => undefined);
    await server.close();
  }
}

const fake = (fleet = {}, server = {}) =>
  new FakeServer({ page: kFolder, fleet: new FakeFleet({ quiet: true, ...fleet }), interval: 500, ...server });

test("it loads, says what there is, and that it is simulated", async () => {
  await visit(fake(), async (page) => {
    await page.until(`${cells}.length === 8`);
    await page.until(`${text(".live")}.startsWith("live")`);
    assert.equal(await page.get("document.querySelector('.simulated').hidden"), false);
    assert.match(await page.get(text(".top-models")), /8 × H100/);
    assert.match(await page.get(text(".strip")), /Present8all 8 expected/);
    assert.match(await page.get(text(".strip")), /Driver550\.54\.15/);
    assert.equal(await page.get("document.title"), "hgx-01 · gpuwarden");
  });
});

test("it updates while it is looked at, without being loaded again", async () => {
  await visit(fake(), async (page) => {
    await page.get("window.still = true");
    const values = `[...document.querySelectorAll('.card-value')].map((value) => value.textContent).join()`;
    const first = await page.get(values);
    await page.until(`${values} !== ${JSON.stringify(first)}`);
    assert.equal(await page.get("window.still"), true);
  });
});

test("a fault is seen, counted, said aloud and listed within 3 s", async () => {
  const server = fake();
  await visit(server, async (page) => {
    await page.until(`${text(".live")}.startsWith("live")`);
    server.fault("hgx-01#5", "lost");
    const took = await page.until(`${cell("hgx-01#5")}.dataset.standing === "lost"`, kFault);
    assert.ok(took <= kFault);
    assert.match(await page.get(text(".strip")), /Lost1not usable/);
    assert.match(await page.get(text(".alert")), /GPU 5 is lost/);
    await page.get("document.querySelector('.alert .link').click()");
    await page.until(`${text("#detail-title")} === "GPU 5" && !document.querySelector('.detail').hidden`);
    await page.until(`${text(".announce")}.includes("GPU 5: lost")`);
    assert.match(await page.get("document.title"), /^\(1 lost\)/);
    server.fault("hgx-01#5", "");
    await page.until(`${cell("hgx-01#5")}.dataset.standing === "ok"`);
  });
});

test("the keyboard reaches a GPU, opens it and comes back", async () => {
  await visit(fake(), async (page) => {
    for (let i = 0; i < 30 && !(await page.get("document.activeElement?.matches('[role=gridcell]') ?? false")); ++i)
      await page.key("Tab");
    assert.equal(await page.get("document.activeElement.dataset.key"), "hgx-01#0");
    await page.key("ArrowRight");
    await page.key("ArrowRight");
    assert.equal(await page.get("document.activeElement.dataset.key"), "hgx-01#2");
    assert.equal(await page.get("document.querySelectorAll('[role=gridcell][tabindex=\"0\"]').length"), 1);
    await page.key("Enter");
    await page.until("!document.querySelector('.detail').hidden");
    assert.match(await page.get("location.hash"), /^#gpu=GPU-/);
    assert.equal(await page.get("document.activeElement.id"), "detail-title");
    await page.until("document.querySelectorAll('.chart canvas').length > 0");
    await page.key("Escape");
    await page.until("document.querySelector('.detail').hidden");
    assert.equal(await page.get("document.activeElement.dataset.key"), "hgx-01#2");
    assert.equal(await page.get("location.hash"), "");
  });
});

test("what a screen reader gets: names of GPUs, of sections, of every button", async () => {
  await visit(fake(), async (page) => {
    const names = await page.accessible("gridcell");
    assert.equal(names.length, 8);
    for (const name of names) assert.match(name, /^GPU \d, (\d+ % busy|use not known), \d+ °C, healthy/);
    for (const role of ["button", "combobox", "region"]) {
      for (const name of await page.accessible(role)) assert.notEqual(name, "", `a ${role} without a name`);
    }
    const headings = await page.accessible("heading");
    for (const title of ["gpuwarden", "GPUs", "Who uses what", "Alerts", "Leases"])
      assert.ok(headings.includes(title), title);
    assert.equal(await page.get("document.querySelectorAll('[aria-live]').length"), 1);
  });
});

test("a link opens a GPU with its charts over the range that it names", async () => {
  const server = fake();
  await visit(
    server,
    async (page) => {
      await page.until("document.querySelectorAll('.chart canvas').length >= 6");
      assert.equal(await page.get(text("#detail-title")), "GPU 4");
      assert.equal(await page.get("document.querySelector('.ranges [aria-pressed=true]').dataset.range"), "6h");
      assert.match(await page.get(text(".readout")), /mean \d+/);
      assert.ok(await page.get("document.querySelector('.overview canvas') !== null"));
      const ink = `(() => { const c = document.querySelector('.chart canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()`;
      await page.until(`${ink} > 200`);
      await page.get("document.querySelector('[data-range=\"24h\"]').click()");
      await page.until("location.hash.includes('range=24h')");
    },
    { hash: `#gpu=${server.fleet.uuid(0, 4)}&range=6h` },
  );
});

test("at a phone's width nothing has to be scrolled sideways", async () => {
  for (const width of [375, 320]) {
    const server = fake();
    await visit(
      server,
      async (page) => {
        await page.until("document.querySelectorAll('.chart canvas').length > 0");
        assert.ok((await page.get("document.documentElement.scrollWidth")) <= width);
      },
      { width, height: 800, mobile: true, hash: `#gpu=${server.fleet.uuid(0, 1)}` },
    );
  }
  await visit(
    fake({ nodes: 125 }),
    async (page) => {
      assert.ok((await page.get("document.documentElement.scrollWidth")) <= 375);
    },
    { width: 375, height: 800, mobile: true },
  );
});

test("1,000 GPUs are cells at a pitch of 24 pixels, by node, and the arrows go through them", async () => {
  await visit(fake({ nodes: 125 }), async (page) => {
    await page.until(`${cells}.length === 1000`);
    const [one, two] = await page.get(`[...${cells}].slice(0, 2).map((cell) => cell.getBoundingClientRect().left)`);
    assert.equal(two - one, 24);
    assert.equal(await page.get("document.querySelectorAll('[role=rowheader]').length"), 125);
    assert.match(await page.get(`${cells}[11].getAttribute("aria-label")`), /^n2 GPU 3, /);
    await page.get(`${cells}[0].focus()`);
    await page.key("ArrowDown");
    assert.notEqual(await page.get("document.activeElement.dataset.key"), "n1#0");
    await page.key("End");
    assert.equal(await page.get("document.activeElement.dataset.key"), "n125#7");
  });
});

test("a GPU of another machine has a link to its own page, and is asked nothing that this server does not know", async () => {
  const server = fake({ nodes: 12 });
  await visit(
    server,
    async (page) => {
      await page.until("!document.querySelector('.detail').hidden");
      assert.equal(await page.get(text("#detail-title")), "n3 GPU 1");
      const uuid = server.fleet.uuid(2, 1);
      assert.equal(await page.get("document.querySelector('.node-link').href"), `http://n3:10478/#gpu=${uuid}`);
      assert.match(await page.get(text(".detail-charts .empty")), /own page/);
      assert.equal(server.asked.filter((path) => path.includes("history")).length, 0);
    },
    { hash: `#gpu=${server.fleet.uuid(2, 1)}&node=n3` },
  );
});

test("a lost node is said, and its GPUs are not shown as if they were there", async () => {
  const server = fake({ nodes: 12 });
  server.fleet.gone.add("n7");
  await visit(server, async (page) => {
    assert.match(await page.get(text(".strip")), /Nodes111 does not answer/);
    assert.match(await page.get(text(".strip-problem")), /n7: timed out after 5 s/);
    assert.equal(await page.get("document.querySelectorAll('[data-key^=\"n7#\"][data-standing=lost]').length"), 8);
  });
});

test("a figure of the strip shows which GPUs it counts", async () => {
  const server = fake();
  server.fleet.faults.set("hgx-01#5", "lost");
  await visit(server, async (page) => {
    await page.get(
      "[...document.querySelectorAll('button.figure')].find((tile) => tile.textContent.startsWith('Lost')).click()",
    );
    await page.until("document.querySelectorAll('.grid [data-dimmed]').length === 7");
    assert.equal(await page.get("location.hash"), "#show=lost");
  });
});

test("a stream that breaks is said with its age, and mends itself", async () => {
  const server = fake();
  await visit(
    server,
    async (page) => {
      await page.until(`${text(".live")}.startsWith("live")`);
      server.streams = false;
      server.breakStreams();
      await page.until(`${text(".live")}.startsWith("not live since")`);
      server.streams = true;
      await page.until(`${text(".live")}.startsWith("live")`);
    },
    { allowed: [/503/, /ERR_INCOMPLETE_CHUNKED_ENCODING/] },
  );
});

test("alerts are acknowledged after the token was given; a wrong one is said", async () => {
  const server = fake({}, { token: "correct-horse-battery" });
  server.fleet.faults.set("hgx-01#3", "hot");
  await visit(
    server,
    async (page) => {
      const logIn = (token) =>
        page.get(
          `(document.querySelector("#token").value = "${token}", document.querySelector(".token").requestSubmit())`,
        );
      await page.until(`${text(".alert-actions")} === "Acknowledge"`);
      await page.get("document.querySelector('.alert-actions button').click()");
      await page.until("!document.querySelector('.token').hidden");
      await logIn("wrong");
      await page.until(`${text(".token-problem")}.includes("not the server's token")`);
      await logIn("correct-horse-battery");
      await page.until(`${text(".alert-actions")} === "acknowledged by page"`);
      assert.equal(server.fleet.acknowledged.size, 1);
    },
    { allowed: [/401/] },
  );
});

test("where nothing may be changed there is no button for it", async () => {
  const server = fake({}, { actions: false });
  server.fleet.faults.set("hgx-01#3", "hot");
  await visit(server, async (page) => {
    await page.until(`${text(".alert-text")} !== ""`);
    assert.equal(await page.get("document.querySelectorAll('.alert-actions button').length"), 0);
  });
});

test("dark and light: the system's, or the one that was chosen", async () => {
  await visit(fake(), async (page) => {
    const back = "getComputedStyle(document.body).backgroundColor";
    await page.media({ "prefers-color-scheme": "light" });
    const light = await page.get(back);
    await page.media({ "prefers-color-scheme": "dark" });
    const dark = await page.get(back);
    assert.notEqual(light, dark);
    await page.media({ "prefers-color-scheme": "light" });
    await page.get("document.querySelector('.theme').click()");
    assert.equal(await page.get(back), dark);
    await page.get("(document.querySelector('.theme').click(), document.querySelector('.theme').click())");
    assert.equal(await page.get(back), light);
  });
});

test("names that look like markup stay text", async () => {
  const server = fake();
  server.fleet.names[0] = "<img src=x onerror=alert(1)>";
  await visit(server, async (page) => {
    assert.equal(await page.get(text(".top-place")), "<img src=x onerror=alert(1)>");
    assert.equal(await page.get("document.querySelectorAll('img').length"), 0);
  });
});

const real = { skip: kProgram === "" ? "GPUWARDEN_PROGRAM is not set" : false };

test("gpuwarden serve: it loads, is live, and shows a fault of its simulated fleet within 3 s", real, async () => {
  const server = new RealServer(kProgram);
  await visit(server, async (page) => {
    await page.until(`${cells}.length === 8`);
    await page.until(`${text(".live")}.startsWith("live")`);
    assert.equal(await page.get("document.querySelector('.simulated').hidden"), false);
    const lost = "document.querySelectorAll('.grid [data-standing=lost]').length";
    assert.equal(await page.get(lost), 0);
    await server.sim("fault", "--gpu", "3", "xid=79");
    const took = await page.until(`${lost} === 1`, kFault);
    assert.ok(took <= kFault);
    await page.until(`${text(".alert-list")}.includes("GPU 3")`);
  });
});

test("gpuwarden serve: a GPU's charts have what was read since it was started", real, async () => {
  const server = new RealServer(kProgram);
  await visit(server, async (page) => {
    await page.get(`${cells}[1].click()`);
    await page.until("document.querySelectorAll('.chart').length >= 4");
    await page.until(`/mean \\d+/.test(${text(".readout")})`);
    assert.equal(await page.get(text("#detail-title")), "GPU 1");
    assert.match(await page.get(text(".facts")), /UUIDGPU-/);
  });
});

test("gpuwarden serve: its answers, and the fake server's, are what its description says", real, async () => {
  const servers = [new RealServer(kProgram), fake()];
  try {
    const [own, pretended] = [await servers[0].listen(), await servers[1].listen()];
    const get = async (url) => (await fetch(url)).json();
    await servers[0].ready(own);
    const { schemas } = (await get(`${own}/api/v1/openapi.json`)).components;
    const now = Math.floor(Date.now() / 1000);
    for (const url of [own, pretended]) {
      const { uuid } = (await get(`${url}/api/v1/nodes`)).nodes[0].snapshot.gpus[0];
      const history = `/api/v1/history?gpu=${uuid}&metric=utilization&from=${now - 60}&to=${now}&step=1`;
      for (const [schema, path] of Object.entries({
        Nodes: "/api/v1/nodes",
        Uses: "/api/v1/usage?by=user",
        Session: "/api/v1/session",
        History: history,
      }))
        assert.deepEqual(mismatches(await get(url + path), schemas[schema], schemas), [], `${schema} of ${url}`);
    }
  } finally {
    for (const server of servers) await server.close();
  }
});
