// SPDX-License-Identifier: Apache-2.0
// All that the page shows at one moment: nodes, their GPUs, alerts. Made anew from every answer of the server.
import { byName } from "../base/format";
import type { AlertJson, NodeJson, XidJson } from "../api/types";
import { gpuFrom, isHeldIdle, type Gpu } from "./gpu";

export interface FleetNode {
  name: string;
  url: string;
  problem: { message: string; hint: string } | null;
  driver: string;
  seen: number | null; // Unix ms
  gpus: Gpu[];
  expected: number;
  leasesProblem: string; // why nobody knows who has reserved what; empty: it is known
}

export interface FleetAlert extends AlertJson {
  node: string;
  nodeUrl: string;
  stale: boolean; // the last word of a node that does not answer
}
export interface FleetXid extends XidJson {
  node: string;
}

export interface Fleet {
  time: number; // Unix ms of the newest reading, 0 for none
  several: boolean;
  simulated: boolean;
  nodes: FleetNode[];
  gpus: Gpu[];
  byKey: Map<string, Gpu>;
  alerts: FleetAlert[];
  lastXid: FleetXid | null;
  drivers: string[]; // each version once
}

/** Remembers which UUID stood at a place: a GPU that is lost may not tell it any more. */
export type Places = Map<string, string>;

function nodeFrom(node: NodeJson, places: Places): FleetNode {
  const gpus = (node.snapshot?.gpus ?? []).map((json) => {
    const place = `${node.name}#${json.index}`;
    if (json.uuid) places.set(place, json.uuid);
    return gpuFrom(json, node, places.get(place) ?? "");
  });
  const trouble = node.problem ?? node.snapshot?.problem ?? null;
  return {
    name: node.name,
    url: node.url,
    problem: trouble ? { message: trouble.message, hint: trouble.hint ?? "" } : null,
    driver: node.snapshot?.driver ?? "",
    seen: node.seen_unix_ms ?? node.snapshot?.time_unix_ms ?? null,
    gpus,
    expected: Math.max(node.expected ?? 0, gpus.length),
    leasesProblem: node.leases_problem?.message ?? "",
  };
}

/** What is enough to tell them apart: host names without their domains, if that is unique; addresses stay whole. */
export function shortNames(names: readonly string[]): Map<string, string> {
  const short = names.map((name) => (/^[a-z]/i.test(name) ? (name.split(".")[0] ?? name) : name));
  const unique = new Set(short).size === names.length;
  return new Map(names.map((name, i) => [name, unique ? (short[i] ?? name) : name]));
}

const levels = ["critical", "error", "warning", "info"];
/** 0 is the worst. */
export const levelRank = (level: string): number => {
  const rank = levels.indexOf(level.toLowerCase());
  return rank < 0 ? levels.length : rank;
};

function newest(nodes: NodeJson[]): FleetXid | null {
  let last: FleetXid | null = null;
  for (const node of nodes) {
    for (const xid of node.xids ?? []) {
      if (last === null || xid.time_unix_ms > last.time_unix_ms) last = { ...xid, node: node.name };
    }
  }
  return last;
}

export function fleetFrom(nodes: NodeJson[], places: Places): Fleet {
  const sorted = nodes.map((node) => nodeFrom(node, places)).sort((a, b) => byName(a.name, b.name));
  const gpus = sorted.flatMap((node) => node.gpus);
  const alerts = nodes.flatMap((node) =>
    (node.alerts ?? []).map((alert) => ({ ...alert, node: node.name, nodeUrl: node.url, stale: !!node.problem })),
  );
  alerts.sort((a, b) => levelRank(a.level) - levelRank(b.level) || (a.since_unix_ms ?? 0) - (b.since_unix_ms ?? 0));
  return {
    time: Math.max(0, ...nodes.map((node) => node.snapshot?.time_unix_ms ?? 0)),
    several: nodes.length > 1,
    simulated: nodes.some((node) => node.snapshot?.simulated),
    nodes: sorted,
    gpus,
    byKey: new Map(gpus.map((gpu) => [gpu.key, gpu])),
    alerts,
    lastXid: newest(nodes),
    drivers: [...new Set(sorted.map((node) => node.driver).filter((driver) => driver !== ""))].sort(byName),
  };
}

/** The GPU that an address names: by UUID, on the node that it names. */
export function findGpu(fleet: Fleet, uuid: string, node: string): Gpu | undefined {
  if (uuid === "") return undefined;
  return fleet.gpus.find((gpu) => (gpu.uuid === uuid || gpu.key === uuid) && (node === "" || gpu.node === node));
}

export interface Counts {
  expected: number;
  present: number;
  busy: number;
  idle: number;
  heldIdle: number;
  lost: number;
  unfit: number; // they answer, and are judged to be in error
  throttled: number;
  disabled: number;
  nodes: number;
  nodesLost: number;
  power: number | null;
  powerLimit: number | null;
  memoryUsed: number;
  memoryTotal: number;
}

const sum = (values: (number | null | undefined)[]): number | null => {
  const known = values.filter((value): value is number => typeof value === "number");
  return known.length > 0 ? known.reduce((all, value) => all + value, 0) : null;
};

export function countsOf(fleet: Fleet): Counts {
  const present = fleet.gpus.filter((gpu) => gpu.standing !== "lost");
  return {
    expected: fleet.nodes.reduce((all, node) => all + node.expected, 0),
    present: present.length,
    busy: present.filter((gpu) => (gpu.busy ?? 0) > 0).length,
    idle: present.filter((gpu) => gpu.busy === 0).length,
    heldIdle: present.filter(isHeldIdle).length,
    lost: fleet.gpus.length - present.length,
    unfit: present.filter((gpu) => gpu.standing === "error").length,
    throttled: present.filter((gpu) => gpu.throttled).length,
    disabled: present.filter((gpu) => gpu.standing === "off").length,
    nodes: fleet.nodes.length,
    nodesLost: fleet.nodes.filter((node) => node.problem !== null).length,
    power: sum(present.map((gpu) => gpu.power)),
    powerLimit: sum(present.map((gpu) => gpu.powerLimit)),
    memoryUsed: sum(present.map((gpu) => gpu.memoryUsed)) ?? 0,
    memoryTotal: sum(present.map((gpu) => gpu.memoryTotal)) ?? 0,
  };
}
