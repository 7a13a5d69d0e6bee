// SPDX-License-Identifier: Apache-2.0
// A fleet that never was, in the shapes of the server's API: for the page's tests, and to look at it with 1,000 GPUs.
const kGiB = 2 ** 30;

/** The same numbers for the same seed: 0 to 1. */
function noise(...seed) {
  let value = 2166136261;
  for (const part of seed) value = Math.imul(value ^ (part + 0x9e37), 16777619) >>> 0;
  value = Math.imul(value ^ (value >>> 15), 2246822519) >>> 0;
  return ((value ^ (value >>> 13)) >>> 0) / 2 ** 32;
}

const kUsers = ["ada", "grace", "linus", "barbara", "edsger", "katherine", "alan", "radia"];
const kCommands = [
  "python train.py --model llama-70b --zero 3",
  "python -m vllm.entrypoints.openai.api_server",
  "torchrun finetune.py --lora",
  "jupyter-lab --no-browser",
];

/** What each GPU of a job does; a job has a user, and 1 to 8 GPUs of a node. */
function jobOf(node, index, perNode) {
  const group = Math.floor(index / (1 + Math.floor(noise(node, 1) * Math.min(8, perNode))));
  const kind = noise(node, group, 3);
  const user = kUsers[Math.floor(noise(node, group, 4) * kUsers.length)];
  if (kind < 0.6) return { kind: "training", user, command: kCommands[0], memory: 0.86 };
  if (kind < 0.78) return { kind: "serving", user, command: kCommands[1], memory: 0.93 };
  if (kind < 0.86) return { kind: "held", user, command: kCommands[3], memory: 0.12 };
  return { kind: "free", user: "", command: "", memory: 0 };
}

function busyAt(job, node, index, time) {
  const second = Math.floor(time / 1000);
  if (job.kind === "training")
    return (second + node * 7) % 90 < 4 ? 12 : Math.round(91 + 8 * noise(node, index, second));
  if (job.kind === "serving")
    return Math.round(
      Math.max(0, 48 + 34 * Math.sin(second / 40 + index + node) + 18 * (noise(node, index, second) - 0.5)),
    );
  return 0;
}

const metrics = {
  utilization: ["%", (gpu) => gpu.utilization.gpu_percent],
  sm_active: ["%", (gpu) => gpu.profiling.sm_active_percent],
  memory_used: ["B", (gpu) => gpu.memory.used_bytes],
  memory_used_percent: ["%", (gpu) => (100 * gpu.memory.used_bytes) / gpu.memory.total_bytes],
  power: ["W", (gpu) => gpu.power_watts],
  temperature: ["°C", (gpu) => gpu.temperature_celsius],
  memory_temperature: ["°C", (gpu) => gpu.temperatures.memory_celsius],
  clock_sm: ["MHz", (gpu) => gpu.clocks.sm_megahertz],
  pcie_received: ["B/s", (gpu) => gpu.pcie.received_bytes_per_second],
  pcie_sent: ["B/s", (gpu) => gpu.pcie.sent_bytes_per_second],
};

export class FakeFleet {
  constructor({ nodes = 1, gpus = 8, quiet = false } = {}) {
    this.several = nodes > 1;
    this.quiet = quiet;
    this.perNode = gpus;
    this.names = Array.from({ length: nodes }, (_, i) => (this.several ? `n${i + 1}` : "hgx-01"));
    this.faults = new Map(); // "node#gpu" -> state
    this.gone = new Set(); // nodes that do not answer
    this.acknowledged = new Map();
    this.begun = Date.now();
    if (this.several && !quiet) this.someTrouble(nodes);
  }

  someTrouble(nodes) {
    for (let node = 0; node < nodes; ++node) {
      if (noise(node, 77) < 0.016) this.gone.add(this.names[node]);
      for (let gpu = 0; gpu < this.perNode; ++gpu) {
        const luck = noise(node, gpu, 99);
        if (luck < 0.004) this.faults.set(`${this.names[node]}#${gpu}`, "lost");
        else if (luck < 0.012) this.faults.set(`${this.names[node]}#${gpu}`, "hot");
      }
    }
  }

  uuid(node, index) {
    const part = (length, seed) =>
      Array.from({ length }, (_, i) => Math.floor(noise(node, index, seed, i) * 16).toString(16)).join("");
    return `GPU-${part(8, 1)}-${part(4, 2)}-${part(4, 3)}-${part(4, 4)}-${part(12, 5)}`;
  }

  gpu(node, index, time) {
    const fault = this.faults.get(`${this.names[node]}#${index}`);
    const base = {
      index,
      uuid: this.uuid(node, index),
      name: "NVIDIA H100 80GB HBM3",
      vendor: "NVIDIA",
      pci_bus_id: `00000000:${(0x18 + index * 0x11).toString(16).toUpperCase()}:00.0`,
      cause: "",
      next_step: "",
    };
    if (fault === "lost") {
      return {
        ...base,
        uuid: "",
        state: "lost",
        use: "unusable",
        cause: "the GPU is lost: it fell off the PCIe bus (NVML: GPU_IS_LOST)",
        next_step: "look for its Xid in the kernel log (dmesg | grep -i xid), then reboot the machine",
        memory: {},
        utilization: {},
        processes: null,
        throttle_reasons: null,
      };
    }
    const job = jobOf(node, index, this.perNode);
    const busy = busyAt(job, node, index, time);
    const total = 85520809984;
    const used = job.kind === "free" ? 0 : Math.round(total * job.memory);
    const hot = fault === "hot";
    const temperature = hot ? 88 : Math.round(31 + busy * 0.36 + 6 * noise(node, index, 8));
    const power = Math.round(70 + busy * 5.9 + 20 * noise(node, index, Math.floor(time / 1000), 9));
    const clock = busy > 0 ? (hot ? 1230 : 1980 - Math.round(120 * noise(node, index, Math.floor(time / 4000)))) : 345;
    const process = {
      pid: 100000 + node * 100 + index,
      type: "C",
      user: job.user,
      command: job.command,
      memory_bytes: used,
      gpu_instance: null,
      compute_instance: null,
      container: null,
      pod: null,
      slurm_job: job.kind === "training" ? "4711" : null,
      utilization: { sm_percent: busy },
    };
    return {
      ...base,
      state: job.kind === "free" ? "available" : "busy",
      use: job.kind === "free" ? "free" : "busy",
      memory: { total_bytes: total, used_bytes: used, free_bytes: total - used, reserved_bytes: 577765376 },
      utilization: { gpu_percent: busy, memory_percent: Math.round(busy * 0.55) },
      temperature_celsius: temperature,
      temperatures: { memory_celsius: temperature + 8, slowdown_celsius: 87, max_celsius: 85 },
      power_watts: power,
      power_limit_watts: 700,
      clocks: { sm_megahertz: clock, memory_megahertz: 2619, max: { sm_megahertz: 1980 } },
      profiling: {
        sm_active_percent: busy * 0.9,
        tensor_active_percent: job.kind === "training" ? busy * 0.46 : busy * 0.08,
        dram_active_percent: busy * 0.37,
      },
      throttle_reasons: hot ? ["sw_thermal_slowdown"] : busy > 96 ? ["sw_power_cap"] : busy === 0 ? ["gpu_idle"] : [],
      fan_speed_percent: null,
      energy_joules: 1e6,
      pcie: {
        generation: 5,
        width: 16,
        replays: 0,
        max: { generation: 5, width: 16 },
        received_bytes_per_second: busy * 3.1e7,
        sent_bytes_per_second: busy * 1.2e7,
      },
      ecc: { enabled: true, volatile: { corrected: 0, uncorrected: 0 }, aggregate: { corrected: 3, uncorrected: 0 } },
      remapped_rows: { corrected: 0, uncorrected: 0, pending: 0, failed: 0 },
      mig: { enabled: false, devices: [] },
      nvlinks: Array.from({ length: 18 }, (_, link) => ({ link, active: true })),
      numa_node: index < 4 ? 0 : 1,
      cpu_affinity: index < 4 ? "0-31" : "32-63",
      processes: job.kind === "free" ? [] : [process],
    };
  }

  alerts(node, gpus) {
    return gpus.flatMap((gpu) => {
      const fault = this.faults.get(`${this.names[node]}#${gpu.index}`);
      if (!fault) return [];
      const id = node * 100 + gpu.index + 1;
      const lost = fault === "lost";
      return [
        {
          id,
          rule: lost ? "gpu_lost" : "temperature_near_slowdown",
          level: lost ? "CRITICAL" : "WARNING",
          gpu: gpu.index,
          uuid: this.uuid(node, gpu.index),
          host: this.names[node],
          message: lost
            ? `GPU ${gpu.index} is lost`
            : `GPU ${gpu.index} is at ${gpu.temperature_celsius} °C, 1 °C above its slowdown`,
          next_step: lost
            ? "reboot the machine; if it comes back, check power and seating"
            : "look at fans and airflow",
          condition: lost ? "state == lost" : "temperature > slowdown - 5",
          value: lost ? null : gpu.temperature_celsius,
          unit: lost ? "" : "°C",
          since_unix_ms: this.begun - 240000 - node * 60000,
          ended_unix_ms: null,
          acknowledged_by: this.acknowledged.get(id) ?? "",
          simulated: true,
        },
      ];
    });
  }

  node(node, time) {
    const name = this.names[node];
    const url = this.several ? `http://${name}:10478` : "";
    const gpus = Array.from({ length: this.perNode }, (_, index) => this.gpu(node, index, time));
    const gone = this.gone.has(name);
    const health = gpus.map((gpu) => ({
      uuid: this.uuid(node, gpu.index),
      index: gpu.index,
      state: gpu.state === "lost" ? "error" : gpu.state,
      reason: gpu.cause,
      next_step: gpu.next_step,
      since_unix_ms: this.begun,
    }));
    const leases = gpus
      .filter((gpu) => jobOf(node, gpu.index, this.perNode).kind === "training" && gpu.uuid !== "")
      .map((gpu) => ({
        uuid: gpu.uuid,
        shared: false,
        holders: [
          {
            pid: 99000 + node,
            user: jobOf(node, gpu.index, this.perNode).user,
            run_id: `run-${node}`,
            command: kCommands[0],
            since_unix_ms: this.begun - 7200000,
          },
        ],
      }));
    const lost = gpus.filter((gpu) => gpu.state === "lost");
    return {
      name,
      url,
      problem: gone ? { code: "timed_out", message: "timed out after 5 s", hint: "is the machine up?" } : null,
      seen_unix_ms: gone ? this.begun - 90000 : time,
      expected: this.perNode,
      snapshot: {
        schema: 1,
        simulated: true,
        fleet: "fake",
        host: name,
        time_unix_ms: gone ? this.begun - 90000 : time,
        driver: noise(node, 55) < 0.06 && this.several ? "535.183.01" : "550.54.15",
        cuda_driver: "12.4",
        problem: null,
        gpus,
      },
      health,
      alerts: this.alerts(node, gpus),
      leases,
      events: [],
      xids: lost.map((gpu) => ({
        uuid: this.uuid(node, gpu.index),
        index: gpu.index,
        code: 79,
        count: 1,
        time_unix_ms: this.begun - 240000 - node * 60000,
      })),
    };
  }

  nodes(time = Date.now()) {
    return { schema: 1, nodes: this.names.map((_, node) => this.node(node, time)) };
  }

  history(uuid, metric, from, to, step) {
    const row = metrics[metric];
    let place = null;
    this.names.forEach((_, node) => {
      for (let index = 0; index < this.perNode; ++index) if (this.uuid(node, index) === uuid) place = [node, index];
    });
    if (!row || !place) return null;
    const points = [];
    const kept = this.begun - 26 * 3600_000;
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      if (time * 1000 < kept && step < 900) continue;
      const values = Array.from({ length: Math.min(5, step) }, (_, i) =>
        this.gpu(place[0], place[1], (time + i * 0.2 * step) * 1000),
      ).map((gpu) => (gpu.state === "lost" ? null : row[1](gpu)));
      if (values.some((value) => typeof value !== "number")) continue;
      points.push([
        time * 1000,
        Math.min(...values),
        values.reduce((a, b) => a + b, 0) / values.length,
        Math.max(...values),
      ]);
    }
    return { schema: 1, uuid, metric, unit: row[0], step_seconds: step, points };
  }

  uses() {
    const seconds = new Map();
    this.names.forEach((_, node) => {
      for (let index = 0; index < this.perNode; ++index) {
        const job = jobOf(node, index, this.perNode);
        if (job.user === "") continue;
        const sum = seconds.get(job.user) ?? { gpu_seconds: 0, busy_seconds: 0 };
        sum.gpu_seconds += 3600;
        sum.busy_seconds += 3600 * (job.kind === "training" ? 0.94 : job.kind === "serving" ? 0.8 : 0.02);
        seconds.set(job.user, sum);
      }
    });
    return {
      schema: 1,
      from_unix_ms: Date.now() - 3600_000,
      to_unix_ms: Date.now(),
      uses: [...seconds].map(([user, sum]) => ({
        user,
        job: "",
        pid: null,
        command: "",
        uuid: "",
        gpu: null,
        ...sum,
        mean_utilization: 80,
        peak_memory_bytes: 70 * kGiB,
      })),
    };
  }
}
