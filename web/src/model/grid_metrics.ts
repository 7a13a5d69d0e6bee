// SPDX-License-Identifier: Apache-2.0
// What the grid can be coloured by: a row each.
import { celsius, percent, watts, kUnknown } from "../base/format";
import { memoryPercent, type Gpu } from "./gpu";

export interface GridMetric {
  id: string;
  series: string; // its id in the metric table
  title: string;
  low: string; // what the ends of the scale mean
  high: string;
  value(gpu: Gpu): number | null | undefined;
  share(gpu: Gpu, value: number): number; // 0 to 1: where on the scale
  text(value: number): string;
}

const ofHundred = (_gpu: Gpu, value: number): number => value / 100;

export const kGridMetrics: readonly GridMetric[] = [
  {
    id: "busy",
    series: "utilization",
    title: "GPU busy",
    low: "0 %",
    high: "100 %",
    value: (gpu) => gpu.busy,
    share: ofHundred,
    text: percent,
  },
  {
    id: "memory",
    series: "memory_used_percent",
    title: "Memory used",
    low: "empty",
    high: "full",
    value: memoryPercent,
    share: ofHundred,
    text: percent,
  },
  {
    id: "temperature",
    series: "temperature",
    title: "Temperature",
    low: "30 °C",
    high: "slowdown",
    value: (gpu) => gpu.temperature,
    share: (gpu, value) => (value - 30) / ((gpu.slowdown ?? 95) - 30),
    text: celsius,
  },
  {
    id: "power",
    series: "power",
    title: "Power",
    low: "0 W",
    high: "limit",
    value: (gpu) => gpu.power,
    share: (gpu, value) => value / (gpu.powerLimit ?? 700),
    text: watts,
  },
  {
    id: "sm",
    series: "sm_active",
    title: "SM active",
    low: "0 %",
    high: "100 %",
    value: (gpu) => gpu.json.profiling?.sm_active_percent,
    share: ofHundred,
    text: percent,
  },
  {
    id: "tensor",
    series: "tensor_active",
    title: "Tensor cores active",
    low: "0 %",
    high: "100 %",
    value: (gpu) => gpu.json.profiling?.tensor_active_percent,
    share: ofHundred,
    text: percent,
  },
  {
    id: "bandwidth",
    series: "dram_active",
    title: "Memory bandwidth",
    low: "0 %",
    high: "100 %",
    value: (gpu) => gpu.json.profiling?.dram_active_percent,
    share: ofHundred,
    text: percent,
  },
];

export const gridMetric = (id: string): GridMetric =>
  kGridMetrics.find((metric) => metric.id === id) ?? kGridMetrics[0]!;

/** Those that at least one GPU tells; the first one always. */
export const metricsOf = (gpus: readonly Gpu[]): GridMetric[] =>
  kGridMetrics.filter((metric, place) => place === 0 || gpus.some((gpu) => typeof metric.value(gpu) === "number"));

export interface Shade {
  kind: "heat" | "idle" | "unknown";
  share: number;
  text: string;
}

/** How a GPU is drawn: hollow where it is idle, hatched where nothing is known. */
export function shadeOf(gpu: Gpu, metric: GridMetric): Shade {
  const value = metric.value(gpu);
  if (gpu.state === "unreachable" || typeof value !== "number") {
    // NVML tells no use of a GPU that is divided.
    return { kind: "unknown", share: 0, text: gpu.json.mig?.enabled ? "MIG" : kUnknown };
  }
  const share = Math.min(Math.max(metric.share(gpu, value), 0), 1);
  const text = metric.text(value);
  return { kind: metric.id !== "temperature" && metric.id !== "power" && share < 0.005 ? "idle" : "heat", share, text };
}
