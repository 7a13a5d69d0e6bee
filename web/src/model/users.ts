// SPDX-License-Identifier: Apache-2.0
// Who uses what: users by the GPUs that they hold now, with what they used before.
import type { UseJson } from "../api/types";
import { byName } from "../base/format";
import { isHeldIdle, type Gpu } from "./gpu";

export interface UserRow {
  user: string; // "" where processes are not visible
  gpus: Gpu[];
  idle: number; // GPUs that he holds and that do nothing
  memory: number | null; // bytes held by his processes
  meanBusy: number | null; // percent, over his GPUs
  gpuSeconds: number | null; // over the window of the usage answer
  idleSeconds: number | null;
}

function memoryOf(gpu: Gpu, user: string): number | null {
  const own = (gpu.processes ?? []).filter(
    (process) => process.user === user && typeof process.memory_bytes === "number",
  );
  return own.length > 0 ? own.reduce((all, process) => all + (process.memory_bytes ?? 0), 0) : null;
}

const mean = (values: number[]): number | null =>
  values.length > 0 ? values.reduce((a, b) => a + b, 0) / values.length : null;

/** Most GPUs first; those who only used some before come last. */
export function userRows(gpus: readonly Gpu[], uses: readonly UseJson[]): UserRow[] {
  const held = new Map<string, Gpu[]>();
  for (const use of uses) held.set(use.user, []);
  for (const gpu of gpus) {
    for (const user of gpu.users) held.set(user, [...(held.get(user) ?? []), gpu]);
  }
  const rows = [...held].map(([user, own]): UserRow => {
    const use = uses.find((other) => other.user === user);
    const memory = own.map((gpu) => memoryOf(gpu, user)).filter((bytes): bytes is number => bytes !== null);
    return {
      user,
      gpus: own,
      idle: own.filter(isHeldIdle).length,
      memory: memory.length > 0 ? memory.reduce((a, b) => a + b, 0) : null,
      meanBusy: mean(own.map((gpu) => gpu.busy).filter((busy): busy is number => typeof busy === "number")),
      gpuSeconds: use?.gpu_seconds ?? null,
      idleSeconds: use ? Math.max(0, use.gpu_seconds - use.busy_seconds) : null,
    };
  });
  return rows.sort(
    (a, b) => b.gpus.length - a.gpus.length || (b.gpuSeconds ?? 0) - (a.gpuSeconds ?? 0) || byName(a.user, b.user),
  );
}
