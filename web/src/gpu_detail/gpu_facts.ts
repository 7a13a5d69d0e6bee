// SPDX-License-Identifier: Apache-2.0
// What is worth knowing of one GPU in words: a row each; what is not known is left out.
import { bytesOf, celsius, kUnknown, percent, watts } from "../base/format";
import type { Gpu } from "../model/gpu";
import { throttleWords } from "../model/state";

interface FactRow {
  title: string;
  text(gpu: Gpu): string;
}

const link = (gpu: Gpu): string => {
  const pcie = gpu.json.pcie;
  if (!pcie?.generation || !pcie.width) return "";
  const most = pcie.max?.width && pcie.max.width > pcie.width ? `, could be x${pcie.max.width}` : "";
  return `gen ${pcie.generation} x${pcie.width}${most}`;
};

const ecc = (gpu: Gpu): string => {
  const counts = gpu.json.ecc;
  if (counts?.enabled === false) return "off";
  if (typeof counts?.aggregate?.uncorrected !== "number") return "";
  const now = counts.volatile?.uncorrected ?? 0;
  return `${counts.aggregate.corrected ?? 0} corrected, ${counts.aggregate.uncorrected} not${now > 0 ? `, ${now} of them since the last reset` : ""}`;
};

const remapped = (gpu: Gpu): string => {
  const rows = gpu.json.remapped_rows;
  if (typeof rows?.corrected !== "number") return "";
  const total = rows.corrected + (rows.uncorrected ?? 0);
  return `${total}${rows.pending ? ", more after a reset" : ""}${rows.failed ? ", remapping failed" : ""}`;
};

const links = (gpu: Gpu): string => {
  const all = gpu.json.nvlinks ?? [];
  return all.length > 0 ? `${all.filter((one) => one.active).length} of ${all.length} active` : "";
};

const mig = (gpu: Gpu): string =>
  gpu.json.mig?.enabled
    ? (gpu.json.mig.devices ?? []).map((device) => device.profile).join(", ") || "on, no instance"
    : "";

const rows: readonly FactRow[] = [
  { title: "Busy", text: (gpu) => percent(gpu.busy) },
  { title: "Memory", text: (gpu) => bytesOf(gpu.memoryUsed, gpu.memoryTotal) },
  {
    title: "Power",
    text: (gpu) =>
      gpu.power === null || gpu.power === undefined ? "" : `${watts(gpu.power)} of ${watts(gpu.powerLimit)}`,
  },
  {
    title: "Temperature",
    text: (gpu) =>
      gpu.slowdown ? `${celsius(gpu.temperature)}, slows at ${celsius(gpu.slowdown)}` : celsius(gpu.temperature),
  },
  {
    title: "Clocks",
    text: (gpu) =>
      gpu.json.clocks?.sm_megahertz
        ? `${gpu.json.clocks.sm_megahertz} MHz, memory ${gpu.json.clocks.memory_megahertz ?? kUnknown}`
        : "",
  },
  {
    title: "Held back",
    text: (gpu) =>
      (gpu.json.throttle_reasons ?? [])
        .map(throttleWords)
        .filter((words) => words !== "")
        .join(", "),
  },
  { title: "Fan", text: (gpu) => percent(gpu.json.fan_speed_percent) },
  { title: "PCIe", text: link },
  { title: "NVLink", text: links },
  { title: "ECC errors", text: ecc },
  { title: "Remapped rows", text: remapped },
  { title: "MIG", text: mig },
  {
    title: "NUMA node",
    text: (gpu) =>
      typeof gpu.json.numa_node === "number" && gpu.json.cpu_affinity
        ? `${gpu.json.numa_node}, CPUs ${gpu.json.cpu_affinity}`
        : "",
  },
  {
    title: "Reserved by",
    text: (gpu) =>
      gpu.lease ? gpu.lease.holders.map((holder) => holder.user || "not visible").join(", ") || "not visible" : "",
  },
  { title: "PCI address", text: (gpu) => gpu.json.pci_bus_id ?? "" },
  { title: "UUID", text: (gpu) => gpu.uuid },
  { title: "Serial", text: (gpu) => gpu.json.serial ?? "" },
  { title: "VBIOS", text: (gpu) => gpu.json.vbios_version ?? "" },
];

export const factsOf = (gpu: Gpu): [string, string][] =>
  rows
    .map((row): [string, string] => [row.title, row.text(gpu)])
    .filter(([, text]) => text !== "" && text !== kUnknown);
