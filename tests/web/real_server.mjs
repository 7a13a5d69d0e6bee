// SPDX-License-Identifier: Apache-2.0
// `gpuwarden serve` over a simulated fleet of its own, for as long as a test takes.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export class RealServer {
  constructor(program) {
    this.program = program;
    this.fleet = `page-test-${process.pid}`;
    this.folder = mkdtempSync(join(tmpdir(), "gpuwarden-serve-"));
    this.environment = {
      ...process.env,
      XDG_STATE_HOME: this.folder,
      XDG_CACHE_HOME: this.folder,
      GPUWARDEN_SIM_DIR: this.folder,
    };
  }

  /** Starts fleet and server; the address is what the server says it listens on. */
  async listen() {
    await run(this.program, ["sim", "start", this.fleet, "--fleet", "h100x8"], { env: this.environment });
    this.process = spawn(this.program, ["serve", "--simulate", this.fleet, "--listen", "127.0.0.1:0"], {
      env: this.environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.ended = new Promise((resolve) => this.process.on("close", resolve));
    return new Promise((resolve, reject) => {
      let said = "";
      const hear = (part) => {
        said += part;
        const address = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
        if (address) resolve(address[0]);
      };
      this.process.stdout.on("data", hear);
      this.process.stderr.on("data", hear);
      void this.ended.then((status) => reject(new Error(`serve ended with ${status}: ${said}`)));
    });
  }

  /** Waits for the first reading. */
  async ready(url) {
    while ((await fetch(`${url}/-/ready`)).status !== 200) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  sim(what, ...more) {
    return run(this.program, ["sim", what, this.fleet, ...more], { env: this.environment });
  }

  async close() {
    this.process?.kill("SIGTERM");
    await this.ended;
    await this.sim("stop").catch(() => undefined);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}
