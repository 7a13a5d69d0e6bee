// SPDX-License-Identifier: Apache-2.0
// The charts of a GPU: a row each. Two metrics in one chart have the same unit.
import type { Gpu } from "../model/gpu";

export interface ChartRow {
  title: string;
  unit: string;
  series: { metric: string; title: string }[];
  top?(gpu: Gpu): number | null | undefined; // the scale's end; without: what the data need
  limit?(gpu: Gpu): number | null | undefined; // a line that matters
  limitTitle?: string;
}

export const kChartRows: readonly ChartRow[] = [
  {
    title: "Use",
    unit: "%",
    series: [
      { metric: "utilization", title: "GPU busy" },
      { metric: "sm_active", title: "SM active" },
    ],
    top: () => 104,
  },
  {
    title: "Memory",
    unit: "B",
    series: [{ metric: "memory_used", title: "used" }],
    top: (gpu) => (gpu.memoryTotal ? gpu.memoryTotal * 1.04 : null),
  },
  {
    title: "Power",
    unit: "W",
    series: [{ metric: "power", title: "draw" }],
    limit: (gpu) => gpu.powerLimit,
    limitTitle: "limit",
  },
  {
    title: "Temperature",
    unit: "°C",
    series: [
      { metric: "temperature", title: "GPU" },
      { metric: "memory_temperature", title: "memory" },
    ],
    limit: (gpu) => gpu.slowdown,
    limitTitle: "slowdown",
  },
  { title: "Clock", unit: "MHz", series: [{ metric: "clock_sm", title: "SM" }] },
  {
    title: "PCIe",
    unit: "B/s",
    series: [
      { metric: "pcie_received", title: "to the GPU" },
      { metric: "pcie_sent", title: "from it" },
    ],
  },
];
