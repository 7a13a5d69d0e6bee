// SPDX-License-Identifier: Apache-2.0
// Asks the server. Every request goes to where the page came from.
import type { HistoryJson, NodeJson, SessionJson, UseJson } from "./types";

/** An answer that is no answer: the server's own sentence, where it sent one. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export class Client {
  request(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(path, { ...init, cache: "no-store", credentials: "same-origin" });
  }

  private async json<T>(path: string, init?: RequestInit): Promise<T> {
    const response = await this.request(path, init);
    if (!response.ok) throw new Refusal(response.status, await sentence(response));
    return (await response.json()) as T;
  }

  /** What an overview shows of all GPUs, and all of the one with this UUID. */
  async nodes(gpu = ""): Promise<NodeJson[]> {
    const query = new URLSearchParams({ brief: "true", ...(gpu === "" ? {} : { gpu }) });
    return (await this.json<{ nodes: NodeJson[] }>(`/api/v1/nodes?${query.toString()}`)).nodes;
  }

  async usage(): Promise<UseJson[]> {
    return (await this.json<{ uses: UseJson[] }>("/api/v1/usage?by=user")).uses;
  }

  session(): Promise<SessionJson> {
    return this.json<SessionJson>("/api/v1/session");
  }

  history(
    gpu: string,
    metric: string,
    fromMs: number,
    toMs: number,
    stepSeconds: number,
    signal: AbortSignal,
  ): Promise<HistoryJson> {
    const query = new URLSearchParams({
      gpu,
      metric,
      from: String(Math.floor(fromMs / 1000)),
      to: String(Math.ceil(toMs / 1000)),
      step: String(stepSeconds),
    });
    return this.json<HistoryJson>(`/api/v1/history?${query.toString()}`, { signal });
  }

  /** Trades the token for a cookie that scripts cannot read. */
  async logIn(token: string): Promise<void> {
    await this.post("/api/v1/login", { token });
  }

  async acknowledge(id: number): Promise<void> {
    await this.post(`/api/v1/alerts/${id}/acknowledge`, {});
  }

  private async post(path: string, body: object): Promise<void> {
    await this.json<unknown>(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  }
}

async function sentence(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: { message?: string } };
    if (body.error?.message) return body.error.message;
  } catch {
    // No JSON: the status has to do.
  }
  return `the server answered ${response.status} ${response.statusText}`.trim();
}
