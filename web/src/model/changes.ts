// SPDX-License-Identifier: Apache-2.0
// What is worth saying aloud of the step from one reading to the next.
import { count } from "../base/format";
import type { Fleet } from "./fleet";
import { gpuName } from "./gpu";
import { stateRow } from "./state";

export const changesOf = (before: Fleet | null, now: Fleet): string =>
  before === null ? "" : said(before, now).replace(/\u202f/g, " ");

function said(before: Fleet, now: Fleet): string {
  const turned = now.gpus.filter((gpu) => {
    const was = before.byKey.get(gpu.key);
    return was !== undefined && was.standing !== gpu.standing;
  });
  if (turned.length > 3) {
    const lost = turned.filter((gpu) => gpu.standing === "lost").length;
    return `${count(turned.length, "GPU")} changed state${lost > 0 ? `, ${lost} lost` : ""}.`;
  }
  const words = turned.map((gpu) => `${gpuName(gpu, now.several)}: ${stateRow(gpu.state).words}.`);
  const known = new Set(before.alerts.map((alert) => `${alert.node} ${alert.id}`));
  const begun = now.alerts.filter((alert) => !known.has(`${alert.node} ${alert.id}`));
  if (begun.length === 1) words.push(`Alert: ${begun[0]?.message ?? ""}`);
  if (begun.length > 1) words.push(`${begun.length} new alerts.`);
  return words.join(" ");
}
