// SPDX-License-Identifier: Apache-2.0
// What the tests of the page's modules get: one bundle for Node.js.
export { EventReader } from "../../../web/src/api/events";
export * as format from "../../../web/src/base/format";
export { kDefaults, parseHash, parseRange, rangeText, toHash } from "../../../web/src/base/view_state";
export { joined, stepFor, summaryOf } from "../../../web/src/gpu_detail/series";
export { factsOf } from "../../../web/src/gpu_detail/gpu_facts";
export { nextPlace } from "../../../web/src/gpu_grid/keys";
export { Trail, kTrailMs } from "../../../web/src/gpu_grid/trail";
export { leaseRows, numberRanges } from "../../../web/src/leases/leases";
export { changesOf } from "../../../web/src/model/changes";
export { heat, isLight, stepOf } from "../../../web/src/model/colour";
export { countsOf, findGpu, fleetFrom, shortNames } from "../../../web/src/model/fleet";
export { isHeldIdle, isUsed, memoryPercent, spokenName, useWords } from "../../../web/src/model/gpu";
export { gridMetric, kGridMetrics, metricsOf, shadeOf } from "../../../web/src/model/grid_metrics";
export { isThrottling, stateRow, throttleWords } from "../../../web/src/model/state";
export { userRows } from "../../../web/src/model/users";
export { modelsOf } from "../../../web/src/top/top";
