// SPDX-License-Identifier: Apache-2.0
// A headless Chromium, driven over a pipe with the DevTools protocol: no library, no port.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const kPatience = 60_000;

export class Chromium {
  #next = 1;
  #waiting = new Map();
  #rest = "";
  #listeners = [];

  static async start(program = process.env.GPUWARDEN_CHROMIUM ?? "chromium") {
    const browser = new Chromium();
    browser.folder = mkdtempSync(join(tmpdir(), "gpuwarden-page-"));
    browser.process = spawn(
      program,
      [
        "--headless=new",
        "--remote-debugging-pipe",
        `--user-data-dir=${browser.folder}`,
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--force-color-profile=srgb",
        "--hide-scrollbars",
        "about:blank",
      ],
      { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
    );
    browser.ended = new Promise((resolve) => browser.process.on("close", resolve));
    browser.process.stdio[4].setEncoding("utf8");
    browser.process.stdio[4].on("data", (text) => browser.#take(text));
    browser.process.stdio[3].on("error", () => undefined);
    browser.process.on("error", (error) => browser.#fail(error));
    browser.process.on("exit", () => browser.#fail(new Error("Chromium ended")));
    await browser.send("Browser.getVersion");
    return browser;
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #take(text) {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop();
    for (const message of messages) this.#heard(JSON.parse(message));
  }

  #heard(message) {
    if (message.id === undefined) {
      for (const listener of this.#listeners) listener(message);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) waiting?.reject(new Error(message.error.message));
    else waiting?.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  on(listener) {
    this.#listeners.push(listener);
  }

  async page(width = 1440, height = 900) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    await page.size(width, height);
    return page;
  }

  /** Asked to end it ends its own children too; killed it leaves them behind for a moment. */
  async close() {
    void this.send("Browser.close").catch(() => undefined);
    const late = setTimeout(() => this.process.kill("SIGKILL"), 10_000);
    await this.ended;
    clearTimeout(late);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

export class Page {
  /** What the browser complained of: exceptions, console.error, broken policies, failed requests. */
  problems = [];

  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    browser.on((message) => {
      if (message.sessionId === session) this.#heard(message);
    });
  }

  #heard({ method, params }) {
    if (method === "Runtime.exceptionThrown")
      this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type))
      this.problems.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
    if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level))
      this.problems.push(`${params.entry.text} ${params.entry.url ?? ""}`);
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  size(width, height, mobile = false, scale = 1) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: scale, mobile });
  }
  media(features) {
    return this.send("Emulation.setEmulatedMedia", {
      features: Object.entries(features).map(([name, value]) => ({ name, value })),
    });
  }
  open(url) {
    return this.send("Page.navigate", { url });
  }

  /** The value of an expression in the page. */
  async get(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails)
      throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true; says how many milliseconds it took. */
  async until(expression, patience = kPatience) {
    const begun = Date.now();
    while (!(await this.get(expression))) {
      if (Date.now() - begun > patience) throw new Error(`not within ${patience} ms: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    return Date.now() - begun;
  }

  async key(name, code = name) {
    const text = name === "Enter" ? "\r" : undefined;
    await this.send("Input.dispatchKeyEvent", {
      type: "keyDown",
      key: name,
      code,
      windowsVirtualKeyCode: kVirtualKeys[name] ?? 0,
      text,
    });
    await this.send("Input.dispatchKeyEvent", {
      type: "keyUp",
      key: name,
      code,
      windowsVirtualKeyCode: kVirtualKeys[name] ?? 0,
    });
  }

  async screenshot(whole = false) {
    const { data } = await this.send("Page.captureScreenshot", {
      format: "png",
      captureBeyondViewport: whole,
      ...(whole ? { clip: await this.#whole() } : {}),
    });
    return Buffer.from(data, "base64");
  }

  async #whole() {
    const { cssContentSize } = await this.send("Page.getLayoutMetrics");
    return { x: 0, y: 0, width: cssContentSize.width, height: cssContentSize.height, scale: 1 };
  }

  /** Names and roles as a screen reader gets them. */
  async accessible(role) {
    await this.send("Accessibility.enable");
    const { nodes } = await this.send("Accessibility.getFullAXTree");
    return nodes.filter((node) => node.role?.value === role && !node.ignored).map((node) => node.name?.value ?? "");
  }
}

const kVirtualKeys = {
  Tab: 9,
  Enter: 13,
  Escape: 27,
  End: 35,
  Home: 36,
  ArrowLeft: 37,
  ArrowUp: 38,
  ArrowRight: 39,
  ArrowDown: 40,
};
