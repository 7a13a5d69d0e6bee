// SPDX-License-Identifier: Apache-2.0
// A server like `gpuwarden serve` over a FakeFleet. By hand:
//   node tests/web/fake_server.mjs --page build/release/generated/web/page [--nodes 125] [--gpus 8] [--port 10999]
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { pathToFileURL } from "node:url";
import { FakeFleet } from "./fake_fleet.mjs";

const kTypes = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".html": "text/html; charset=utf-8",
};
const kPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export class FakeServer {
  constructor({ page, fleet = new FakeFleet(), interval = 1000, token = "", openToRead = true, actions = true }) {
    Object.assign(this, {
      page,
      fleet,
      interval,
      token,
      openToRead,
      actions,
      listeners: new Set(),
      streams: true,
      asked: [],
    });
    this.http = createServer((request, response) => void this.answer(request, response));
  }

  async listen(port = 0) {
    await new Promise((resolve) => this.http.listen(port, "127.0.0.1", resolve));
    this.timer = setInterval(() => this.tell("reading", { time_unix_ms: Date.now() }), this.interval);
    return `http://127.0.0.1:${this.http.address().port}`;
  }

  close() {
    clearInterval(this.timer);
    this.breakStreams();
    this.http.closeAllConnections();
    return new Promise((resolve) => this.http.close(resolve));
  }

  tell(event, data) {
    for (const response of this.listeners) response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }
  breakStreams() {
    for (const response of this.listeners) response.destroy();
  }

  fault(place, kind) {
    if (kind === "") this.fleet.faults.delete(place);
    else this.fleet.faults.set(place, kind);
    this.tell("health", {});
  }

  knows(request) {
    return this.token === "" || (request.headers.cookie ?? "").includes("gpuwarden_session=yes");
  }

  async answer(request, response) {
    const url = new URL(request.url, "http://fake");
    this.asked.push(url.pathname);
    const json = (body, status = 200, headers = {}) =>
      response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
    const refuse = (status, message) => json({ schema: 1, error: { code: "failed", message, hint: "" } }, status);
    const parts = url.pathname.split("/");
    if (url.pathname === "/api/v1/session")
      return json({
        schema: 1,
        host: this.fleet.names[0],
        version: "0",
        logged_in: this.token !== "" && this.knows(request),
        sees_commands: true,
        actions_allowed: this.actions && this.knows(request),
        actions_possible: this.actions,
        token_needed: !this.openToRead && !this.knows(request),
      });
    if (url.pathname === "/api/v1/login") {
      const { token } = JSON.parse(await bodyOf(request));
      return token === this.token
        ? json({ schema: 1, done: true }, 200, {
            "Set-Cookie": "gpuwarden_session=yes; Path=/; HttpOnly; SameSite=Strict",
          })
        : refuse(401, "that is not the server's token");
    }
    if (url.pathname.startsWith("/api/") && !this.openToRead && !this.knows(request))
      return refuse(401, "this needs the server's token");
    if (url.pathname === "/api/v1/events") return this.stream(response);
    if (url.pathname === "/api/v1/nodes") return json(this.fleet.nodes());
    if (url.pathname === "/api/v1/usage") return json(this.fleet.uses());
    if (url.pathname === "/api/v1/history") {
      const number = (name) => Number(url.searchParams.get(name));
      const found = this.fleet.history(
        url.searchParams.get("gpu"),
        url.searchParams.get("metric"),
        number("from"),
        number("to"),
        number("step"),
      );
      return found ? json(found) : refuse(404, "no such GPU or metric");
    }
    if (parts[3] === "alerts" && parts[5] === "acknowledge") {
      if (!this.knows(request)) return refuse(401, "this needs the server's token");
      this.fleet.acknowledged.set(Number(parts[4]), "page");
      return json({ schema: 1, done: true });
    }
    return this.file(url.pathname, response);
  }

  stream(response) {
    if (!this.streams) return response.writeHead(503).end();
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("retry: 2000\n\n");
    this.listeners.add(response);
    response.on("close", () => this.listeners.delete(response));
  }

  file(path, response) {
    const name = path === "/" ? "/index.html" : normalize(path);
    try {
      const bytes = readFileSync(join(this.page, name));
      response
        .writeHead(200, {
          "Content-Type": kTypes[/\.[a-z]+$/.exec(name)?.[0]] ?? "application/octet-stream",
          "Content-Security-Policy": kPolicy,
          "X-Content-Type-Options": "nosniff",
        })
        .end(bytes);
    } catch {
      response.writeHead(404).end("nothing here\n");
    }
  }
}

function bodyOf(request) {
  return new Promise((resolve) => {
    let text = "";
    request.on("data", (part) => {
      text += part;
    });
    request.on("end", () => resolve(text));
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const given = (name, other) => {
    const at = process.argv.indexOf(`--${name}`);
    return at > 0 ? process.argv[at + 1] : other;
  };
  const fleet = new FakeFleet({ nodes: Number(given("nodes", 1)), gpus: Number(given("gpus", 8)) });
  const server = new FakeServer({
    page: given("page", "build/release/generated/web/page"),
    fleet,
    interval: Number(given("interval", 1000)),
  });
  console.log(await server.listen(Number(given("port", 0))));
}
