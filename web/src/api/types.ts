// SPDX-License-Identifier: Apache-2.0
// The server's answers, as far as the page reads them (docs/json.md, /api/v1/openapi.json). What is unknown is null.
export type Known<T> = T | null | undefined;

export interface ProcessJson {
  pid: Known<number>;
  type: string;
  user: string;
  command: string;
  memory_bytes: Known<number>;
  utilization?: { sm_percent?: Known<number> };
  container?: Known<string>;
  pod?: Known<string>;
  slurm_job?: Known<string>;
}

export interface LeaseHolderJson {
  pid: Known<number>;
  user: string;
  run_id: string;
  command: string;
  since_unix_ms: Known<number>;
  orphaned?: boolean;
}

export interface LeaseJson {
  uuid: string;
  shared: boolean;
  idle?: boolean; // reserved, and nothing done with it
  holders: LeaseHolderJson[];
}

export interface EccCountsJson {
  corrected?: Known<number>;
  uncorrected?: Known<number>;
}

export interface GpuJson {
  index: number;
  uuid: string;
  name: string;
  pci_bus_id?: string;
  state: string;
  use?: string; // how it stands for somebody who wants one, leases aside
  cause?: string;
  next_step?: string;
  memory?: { total_bytes?: Known<number>; used_bytes?: Known<number> };
  utilization?: { gpu_percent?: Known<number>; memory_percent?: Known<number> };
  temperature_celsius?: Known<number>;
  temperatures?: { memory_celsius?: Known<number>; slowdown_celsius?: Known<number>; max_celsius?: Known<number> };
  power_watts?: Known<number>;
  power_limit_watts?: Known<number>;
  clocks?: { sm_megahertz?: Known<number>; memory_megahertz?: Known<number>; max?: { sm_megahertz?: Known<number> } };
  profiling?: {
    sm_active_percent?: Known<number>;
    tensor_active_percent?: Known<number>;
    dram_active_percent?: Known<number>;
  };
  throttle_reasons?: Known<string[]>;
  fan_speed_percent?: Known<number>;
  energy_joules?: Known<number>;
  pcie?: {
    generation?: Known<number>;
    width?: Known<number>;
    replays?: Known<number>;
    max?: { generation?: Known<number>; width?: Known<number> };
  };
  ecc?: { enabled?: Known<boolean>; volatile?: EccCountsJson; aggregate?: EccCountsJson };
  remapped_rows?: {
    corrected?: Known<number>;
    uncorrected?: Known<number>;
    pending?: Known<number>;
    failed?: Known<number>;
  };
  mig?: { enabled?: Known<boolean>; devices?: { profile: string; uuid: string }[] };
  nvlinks?: { active: Known<boolean> }[];
  numa_node?: Known<number>;
  cpu_affinity?: Known<string>;
  vbios_version?: Known<string>;
  serial?: Known<string>;
  processes?: Known<ProcessJson[]>;
}

export interface ProblemJson {
  code?: string;
  message: string;
  hint?: string;
}

export interface SnapshotJson {
  simulated: boolean;
  fleet?: string;
  host?: string;
  time_unix_ms: number;
  driver?: Known<string>;
  cuda_driver?: Known<string>;
  problem?: Known<ProblemJson>;
  gpus: GpuJson[];
}

export interface HealthJson {
  uuid: string;
  index: number;
  state: string;
  reason: string;
  next_step?: string;
  since_unix_ms?: Known<number>;
}

export interface AlertJson {
  id: number;
  rule: string;
  level: string;
  gpu: number;
  uuid: string;
  host: string;
  message: string;
  next_step?: string;
  condition?: string;
  value?: Known<number>;
  unit?: string;
  since_unix_ms?: Known<number>;
  ended_unix_ms?: Known<number>;
  acknowledged_by?: string;
  simulated?: boolean;
}

export interface NodeJson {
  name: string;
  url: string;
  problem: Known<ProblemJson>;
  seen_unix_ms?: Known<number>;
  expected?: Known<number>;
  snapshot: Known<SnapshotJson>;
  health?: Known<HealthJson[]>;
  health_problem?: Known<ProblemJson>;
  alerts?: AlertJson[];
  leases?: Known<LeaseJson[]>;
  leases_problem?: Known<ProblemJson>;
  xids?: XidJson[];
}

/** The last Xid of a GPU. */
export interface XidJson {
  uuid: string;
  index?: Known<number>;
  code: number;
  count: number;
  time_unix_ms: number;
}

/** A metric over time: [Unix ms, min, mean, max] for each step that has a reading. */
export interface HistoryJson {
  uuid: string;
  metric: string;
  unit: string;
  step_seconds: number;
  points: [number, number, number, number][];
}

export interface UseJson {
  user: string;
  gpu_seconds: number;
  busy_seconds: number;
  mean_utilization?: Known<number>;
  peak_memory_bytes?: Known<number>;
}

/** What this caller may do: `actions_possible` with the token, `actions_allowed` already. */
export interface SessionJson {
  actions_allowed: boolean;
  actions_possible: boolean;
  token_needed: boolean;
}
