// SPDX-License-Identifier: Apache-2.0
// One GPU as the page shows it, from what the server says of it.
import { celsius, percent } from "../base/format";
import type { GpuJson, HealthJson, Known, LeaseJson, NodeJson, ProcessJson } from "../api/types";
import { isThrottling, stateRow, type Standing } from "./state";

export interface Gpu {
  key: string; // the same for as long as the page is open
  node: string;
  index: number;
  uuid: string;
  name: string;
  state: string; // a row of model/state
  standing: Standing;
  reason: string; // a sentence, empty for fit GPUs
  nextStep: string;
  busy: Known<number>;
  memoryUsed: Known<number>;
  memoryTotal: Known<number>;
  temperature: Known<number>;
  slowdown: Known<number>;
  power: Known<number>;
  powerLimit: Known<number>;
  throttled: boolean;
  atPowerLimit: boolean;
  processes: ProcessJson[] | null; // null: not known
  users: string[]; // of processes and leases; "" where one is not visible
  lease: LeaseJson | null;
  held: boolean; // somebody has it: processes that compute, or a lease
  json: GpuJson;
}

const computes = (process: ProcessJson): boolean => process.type !== "G" && process.type !== "-";

function usersOf(processes: ProcessJson[] | null, lease: LeaseJson | null): string[] {
  const names = new Set<string>();
  for (const process of processes ?? []) {
    if (computes(process)) names.add(process.user);
  }
  if (names.size === 0) {
    for (const holder of lease?.holders ?? []) names.add(holder.user);
  }
  return [...names];
}

/** The worst that is known of it: what the driver says, then what the judge of health says, then throttling. */
function stateOf(json: GpuJson, health: HealthJson | undefined, node: NodeJson): string {
  if (node.problem) return "unreachable";
  if (stateRow(json.state).standing !== "ok") return json.state;
  if (health?.state === "error" || health?.state === "disabled") return health.state;
  if ((json.throttle_reasons ?? []).some(isThrottling)) return "throttled";
  return json.state;
}

export function gpuFrom(json: GpuJson, node: NodeJson, knownUuid: string): Gpu {
  const uuid = json.uuid || knownUuid;
  const same = (other: { uuid: string; index?: number }): boolean =>
    uuid !== "" ? other.uuid === uuid : other.index === json.index;
  const health = node.health?.find(same);
  const lease = node.leases?.find((other) => uuid !== "" && other.uuid === uuid) ?? null;
  const state = stateOf(json, health, node);
  const processes = json.processes ?? null;
  const reasons = json.throttle_reasons ?? [];
  return {
    key: `${node.name}#${json.index}`,
    node: node.name,
    index: json.index,
    uuid,
    name: json.name,
    state,
    standing: stateRow(state).standing,
    reason: node.problem?.message || json.cause || health?.reason || "",
    nextStep: node.problem?.hint || json.next_step || health?.next_step || "",
    busy: json.utilization?.gpu_percent,
    memoryUsed: json.memory?.used_bytes,
    memoryTotal: json.memory?.total_bytes,
    temperature: json.temperature_celsius,
    slowdown: json.temperatures?.slowdown_celsius,
    power: json.power_watts,
    powerLimit: json.power_limit_watts,
    throttled: reasons.some(isThrottling),
    atPowerLimit: reasons.includes("sw_power_cap"),
    processes,
    users: usersOf(processes, lease),
    lease,
    held: (processes ?? []).some(computes) || lease !== null,
    json,
  };
}

export const memoryPercent = (gpu: Gpu): number | null =>
  typeof gpu.memoryUsed === "number" && gpu.memoryTotal ? (100 * gpu.memoryUsed) / gpu.memoryTotal : null;

/** Held by somebody and doing nothing: what is worth asking about. Of a lease the server says so. */
export const isHeldIdle = (gpu: Gpu): boolean =>
  gpu.held && gpu.standing !== "lost" && (gpu.lease?.idle ?? gpu.busy === 0);
/** Somebody uses it, visible or not: it is held, or in use by the server's word. */
export const isUsed = (gpu: Gpu): boolean => gpu.held || gpu.json.use === "busy" || gpu.json.use === "in_use";
/** In a word or two, for a GPU that is well. */
export function useWords(gpu: Gpu): string {
  if (isUsed(gpu)) return "in use";
  if (gpu.json.use === "free") return "free";
  return gpu.json.use === "mig_without_instances" ? "MIG, no instance" : "use not known";
}

/** "n12 GPU 3"; without the node where there is but one. */
export const gpuName = (gpu: { node: string; index: number }, several: boolean): string =>
  several ? `${gpu.node} GPU ${gpu.index}` : `GPU ${gpu.index}`;

/** What a screen reader says of it: "n12 GPU 3, 87 % busy, 71 °C, healthy". */
export function spokenName(gpu: Gpu, several: boolean): string {
  const parts = [gpuName(gpu, several)];
  if (gpu.standing !== "lost") {
    parts.push(
      typeof gpu.busy === "number"
        ? `${percent(gpu.busy)} busy`
        : gpu.json.mig?.enabled
          ? "divided by MIG"
          : "use not known",
    );
    if (typeof gpu.temperature === "number") parts.push(celsius(gpu.temperature));
  }
  parts.push(stateRow(gpu.state).words);
  const users = gpu.users.filter((user) => user !== "");
  if (users.length > 0) parts.push(`used by ${users.join(", ")}`);
  return parts.join(", ").replace(/\u202f/g, " ");
}
