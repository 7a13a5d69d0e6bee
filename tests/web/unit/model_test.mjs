// SPDX-License-Identifier: Apache-2.0
// From the server's answers to what is shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeFleet } from "../fake_fleet.mjs";

const {
  changesOf,
  countsOf,
  factsOf,
  findGpu,
  fleetFrom,
  gridMetric,
  isHeldIdle,
  isUsed,
  useWords,
  leaseRows,
  memoryPercent,
  metricsOf,
  modelsOf,
  shadeOf,
  shortNames,
  spokenName,
  stateRow,
  throttleWords,
  userRows,
} = await import(process.env.GPUWARDEN_WEB_MODULES);

const gpuJson = (index, changes = {}) => ({
  index,
  uuid: `GPU-${index}`,
  name: "NVIDIA H100 80GB HBM3",
  state: "available",
  cause: "",
  next_step: "",
  memory: { total_bytes: 80, used_bytes: 20 },
  utilization: { gpu_percent: 50 },
  temperature_celsius: 60,
  power_watts: 350,
  power_limit_watts: 700,
  throttle_reasons: [],
  processes: [],
  ...changes,
});
const nodeJson = (name, gpus, changes = {}) => ({
  name,
  url: "",
  problem: null,
  seen_unix_ms: 1000,
  expected: gpus.length,
  health: [],
  alerts: [],
  leases: [],
  xids: [],
  snapshot: { simulated: false, host: name, time_unix_ms: 1000, driver: "550.54.15", gpus },
  ...changes,
});
const fleet = (...nodes) => fleetFrom(nodes, new Map());
const processOf = (user, changes = {}) => ({
  pid: 7,
  type: "C",
  user,
  command: "python",
  memory_bytes: 10,
  ...changes,
});

test("nodes stand in the order in which people count", () => {
  const names = fleet(nodeJson("n10", []), nodeJson("n2", []), nodeJson("n1", [])).nodes.map((node) => node.name);
  assert.deepEqual(names, ["n1", "n2", "n10"]);
});

test("nodes are shown without their domain where that is enough to tell them apart", () => {
  assert.deepEqual([...shortNames(["n1.example.org", "n2.example.org"]).values()], ["n1", "n2"]);
  assert.deepEqual([...shortNames(["n1.a", "n1.b"]).values()], ["n1.a", "n1.b"]);
  assert.deepEqual([...shortNames(["10.0.0.1", "10.0.0.2"]).values()], ["10.0.0.1", "10.0.0.2"]);
});

test("counts tell present from expected, busy from idle, and idle that is held", () => {
  const counts = countsOf(
    fleet(
      nodeJson(
        "a",
        [
          gpuJson(0),
          gpuJson(1, { utilization: { gpu_percent: 0 } }),
          gpuJson(2, { utilization: { gpu_percent: 0 }, processes: [processOf("ada")] }),
          gpuJson(3, { state: "lost", uuid: "" }),
          gpuJson(4, { throttle_reasons: ["sw_thermal_slowdown"] }),
        ],
        { expected: 8 },
      ),
    ),
  );
  assert.equal(counts.expected, 8);
  assert.equal(counts.present, 4);
  assert.equal(counts.busy, 2);
  assert.equal(counts.idle, 2);
  assert.equal(counts.heldIdle, 1);
  assert.equal(counts.lost, 1);
  assert.equal(counts.throttled, 1);
  assert.equal(counts.power, 4 * 350);
});

test("a power cap is no throttling that anybody has to look at", () => {
  assert.equal(countsOf(fleet(nodeJson("a", [gpuJson(0, { throttle_reasons: ["sw_power_cap"] })]))).throttled, 0);
});

test("what is not known is neither busy nor idle, and its sum is not 0", () => {
  const counts = countsOf(
    fleet(nodeJson("a", [gpuJson(0, { utilization: { gpu_percent: null }, power_watts: null })])),
  );
  assert.equal(counts.busy + counts.idle, 0);
  assert.equal(counts.power, null);
});

test("GPUs of a node that does not answer are lost, whatever they last said", () => {
  const now = fleet(
    nodeJson("a", [gpuJson(0)]),
    nodeJson("b", [gpuJson(0)], { problem: { message: "timed out after 5 s", hint: "is it up?" } }),
  );
  assert.equal(now.byKey.get("b#0").standing, "lost");
  assert.equal(now.byKey.get("b#0").reason, "timed out after 5 s");
  assert.equal(countsOf(now).nodesLost, 1);
  assert.equal(shadeOf(now.byKey.get("b#0"), gridMetric("busy")).kind, "unknown");
});

test("health in error or disabled counts more than a driver that answers", () => {
  const health = (state) => [{ uuid: "GPU-0", index: 0, state, reason: "because", next_step: "do this" }];
  const gpu = (state) => fleet(nodeJson("a", [gpuJson(0)], { health: health(state) })).gpus[0];
  assert.equal(gpu("error").standing, "error");
  assert.equal(gpu("disabled").standing, "off");
  assert.equal(gpu("disabled").reason, "because");
  assert.equal(gpu("busy").standing, "ok");
});

test("a GPU that is lost while the page is open keeps its UUID, so that links and health still find it", () => {
  const places = new Map();
  fleetFrom([nodeJson("a", [gpuJson(0)])], places);
  const after = fleetFrom([nodeJson("a", [gpuJson(0, { uuid: "", state: "lost" })])], places);
  assert.equal(after.gpus[0].uuid, "GPU-0");
  assert.equal(findGpu(after, "GPU-0", "")?.index, 0);
});

test("two nodes may have GPUs of the same UUID: the node tells them apart", () => {
  const now = fleet(nodeJson("a", [gpuJson(0)]), nodeJson("b", [gpuJson(0)]));
  assert.equal(findGpu(now, "GPU-0", "b").node, "b");
});

test("the spoken name has node, use, temperature, state and users", () => {
  const now = fleet(
    nodeJson("n12", [
      gpuJson(3, { utilization: { gpu_percent: 87 }, temperature_celsius: 71, processes: [processOf("ada")] }),
    ]),
    nodeJson("n13", []),
  );
  assert.equal(spokenName(now.gpus[0], true), "n12 GPU 3, 87 % busy, 71 °C, healthy, used by ada");
  assert.equal(spokenName(fleet(nodeJson("n12", [gpuJson(3, { state: "lost" })])).gpus[0], false), "GPU 3, lost");
});

test("graphics and unlisted processes do not hold a GPU, leases do", () => {
  const idle = { utilization: { gpu_percent: 0 } };
  const held = (changes, node = {}) =>
    isHeldIdle(fleet(nodeJson("a", [gpuJson(0, { ...idle, ...changes })], node)).gpus[0]);
  assert.equal(held({ processes: [processOf("gdm", { type: "G" })] }), false);
  assert.equal(held({ processes: [processOf("ada")] }), true);
  assert.equal(
    held(
      {},
      {
        leases: [
          {
            uuid: "GPU-0",
            shared: false,
            holders: [{ pid: 1, user: "ada", run_id: "", command: "", since_unix_ms: null }],
          },
        ],
      },
    ),
    true,
  );
});

test("what works for somebody who is not visible is not free", () => {
  const gpuOf = (changes) => fleet(nodeJson("a", [gpuJson(0, changes)])).gpus[0];
  assert.equal(isUsed(gpuOf({ use: "in_use" })), true);
  assert.equal(isUsed(gpuOf({ use: "busy" })), true);
  assert.equal(isUsed(gpuOf({ use: "free" })), false);
});

test("whether a GPU is in use is the server's word, not judged from its figures anew", () => {
  const words = (changes) => useWords(fleet(nodeJson("a", [gpuJson(0, changes)])).gpus[0]);
  const little = { utilization: { gpu_percent: 7 }, memory: { total_bytes: 100, used_bytes: 9 } };
  assert.equal(words({ ...little, use: "free" }), "free");
  assert.equal(words({ ...little, use: "in_use" }), "in use");
  assert.equal(words({ ...little, use: "unknown" }), "use not known");
  assert.equal(words({ ...little, use: "mig_without_instances" }), "MIG, no instance");
  assert.equal(words(little), "use not known");
});

test("whether a lease is idle is the server's word, too", () => {
  const lease = (changes) => ({ leases: [{ uuid: "GPU-0", shared: false, holders: [], ...changes }] });
  const held = (changes) =>
    isHeldIdle(fleet(nodeJson("a", [gpuJson(0, { utilization: { gpu_percent: 0 } })], lease(changes))).gpus[0]);
  assert.equal(held({ idle: true }), true);
  assert.equal(held({ idle: false }), false);
});

test("users stand with the GPUs that they hold; those who only used some before come last", () => {
  const now = fleet(
    nodeJson("a", [
      gpuJson(0, { processes: [processOf("ada")] }),
      gpuJson(1, {
        processes: [processOf("ada"), processOf("bob", { memory_bytes: null })],
        utilization: { gpu_percent: 0 },
      }),
    ]),
  );
  const rows = userRows(now.gpus, [
    { user: "carl", gpu_seconds: 3600, busy_seconds: 900 },
    { user: "ada", gpu_seconds: 100, busy_seconds: 120 },
  ]);
  assert.deepEqual(
    rows.map((row) => row.user),
    ["ada", "bob", "carl"],
  );
  assert.equal(rows[0].memory, 20);
  assert.equal(rows[0].idle, 1);
  assert.equal(rows[0].idleSeconds, 0);
  assert.equal(rows[0].meanBusy, 25);
  assert.equal(rows[1].memory, null);
  assert.equal(rows[1].gpuSeconds, null);
  assert.equal(rows[2].idleSeconds, 2700);
});

test("shades: hollow at 0, hatched where nothing is known, temperature against the GPU's own slowdown", () => {
  const gpu = (changes) => fleet(nodeJson("a", [gpuJson(0, changes)])).gpus[0];
  assert.equal(shadeOf(gpu({ utilization: { gpu_percent: 0 } }), gridMetric("busy")).kind, "idle");
  assert.equal(shadeOf(gpu({ utilization: { gpu_percent: null } }), gridMetric("busy")).kind, "unknown");
  assert.equal(shadeOf(gpu({ temperatures: { slowdown_celsius: 90 } }), gridMetric("temperature")).share, 0.5);
  assert.equal(memoryPercent(gpu({})), 25);
  assert.equal(gridMetric("no such").id, "busy");
});

test("a GPU in MIG mode says so instead of a use that nobody knows", () => {
  const gpu = fleet(
    nodeJson("a", [gpuJson(0, { utilization: { gpu_percent: null }, mig: { enabled: true, devices: [] } })]),
  ).gpus[0];
  assert.equal(shadeOf(gpu, gridMetric("busy")).text, "MIG");
  assert.match(spokenName(gpu, false), /^GPU 0, divided by MIG, /);
});

test("only metrics that some GPU tells are offered", () => {
  const ids = metricsOf(fleet(nodeJson("a", [gpuJson(0)])).gpus).map((metric) => metric.id);
  assert.deepEqual(ids, ["busy", "memory", "temperature", "power"]);
});

test("what changed is said; many changes at once are a number", () => {
  const before = fleet(
    nodeJson(
      "a",
      [0, 1, 2, 3, 4].map((index) => gpuJson(index)),
    ),
  );
  assert.equal(changesOf(null, before), "");
  assert.equal(changesOf(before, before), "");
  const one = fleet(
    nodeJson("a", [gpuJson(0, { state: "lost" }), ...[1, 2, 3, 4].map((index) => gpuJson(index))], {
      alerts: [{ id: 1, rule: "lost", level: "CRITICAL", gpu: 0, uuid: "GPU-0", host: "a", message: "GPU 0 is lost" }],
    }),
  );
  assert.equal(changesOf(before, one), "GPU 0: lost. Alert: GPU 0 is lost");
  const all = fleet(
    nodeJson(
      "a",
      [0, 1, 2, 3, 4].map((index) => gpuJson(index, { state: "lost" })),
    ),
  );
  assert.equal(changesOf(before, all), "5 GPUs changed state, 5 lost.");
});

test("alerts stand worst first, then oldest; the newest Xid is the last one", () => {
  const alert = (id, level, since) => ({
    id,
    rule: "r",
    level,
    gpu: 0,
    uuid: "GPU-0",
    host: "a",
    message: "",
    since_unix_ms: since,
  });
  const now = fleet(
    nodeJson("a", [gpuJson(0)], {
      alerts: [alert(1, "INFO", 1), alert(2, "CRITICAL", 9), alert(3, "WARNING", 5), alert(4, "WARNING", 4)],
      xids: [
        { uuid: "GPU-0", code: 31, count: 1, time_unix_ms: 5 },
        { uuid: "GPU-0", code: 79, count: 1, time_unix_ms: 9 },
      ],
    }),
  );
  assert.deepEqual(
    now.alerts.map((one) => one.id),
    [2, 4, 3, 1],
  );
  assert.equal(now.lastXid.code, 79);
});

test("a run's GPUs are one row of leases", () => {
  const holder = { pid: 42, user: "ada", run_id: "r1", command: "train", since_unix_ms: 0 };
  const rows = leaseRows(
    fleet(
      nodeJson("a", [gpuJson(0), gpuJson(1), gpuJson(2)], {
        leases: [
          { uuid: "GPU-0", shared: false, holders: [holder] },
          { uuid: "GPU-2", shared: false, holders: [holder] },
          { uuid: "GPU-1", shared: false, holders: [] },
        ],
      }),
    ),
  );
  assert.deepEqual(
    rows.map((row) => row.gpus.map((gpu) => gpu.index)),
    [[0, 2], [1]],
  );
});

test("facts leave out what is not known", () => {
  const titles = factsOf(fleet(nodeJson("a", [gpuJson(0, { power_watts: null })])).gpus[0]).map(([title]) => title);
  assert.ok(titles.includes("Busy"));
  assert.ok(!titles.includes("Power"));
  assert.ok(!titles.includes("ECC errors"));
});

test("a state that the page does not know is shown in its own words", () => {
  assert.equal(stateRow("brand_new").words, "brand new");
  assert.equal(stateRow("brand_new").standing, "warn");
  assert.equal(throttleWords("gpu_idle"), "");
  assert.equal(throttleWords("new_reason"), "new reason");
});

test("a cluster of 1,000 GPUs is put together with all its nodes", () => {
  const now = fleetFrom(new FakeFleet({ nodes: 125, gpus: 8, quiet: true }).nodes(1e12).nodes, new Map());
  assert.equal(now.gpus.length, 1000);
  assert.equal(now.byKey.size, 1000);
  assert.ok(now.several && now.simulated);
  assert.equal(countsOf(now).present, 1000);
  assert.equal(modelsOf(now), "1,000 × H100 80GB HBM3");
});
