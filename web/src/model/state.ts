// SPDX-License-Identifier: Apache-2.0
// What a GPU's state means to somebody who looks at it: a row for each state, worst first.
/** "error": it answers, and is judged unfit. */
export type Standing = "lost" | "error" | "warn" | "off" | "ok";

export interface StateRow {
  standing: Standing;
  glyph: string; // never colour alone
  words: string;
}

const rows: Record<string, StateRow> = {
  lost: { standing: "lost", glyph: "×", words: "lost" },
  not_answering: { standing: "lost", glyph: "×", words: "not answering" },
  needs_reset: { standing: "lost", glyph: "×", words: "needs a reset" },
  faulty: { standing: "lost", glyph: "×", words: "faulty" },
  unreachable: { standing: "lost", glyph: "×", words: "node does not answer" },
  error: { standing: "error", glyph: "×", words: "in error" },
  throttled: { standing: "warn", glyph: "!", words: "throttled" },
  alert: { standing: "warn", glyph: "!", words: "has an alert" },
  no_permission: { standing: "warn", glyph: "?", words: "no permission to read it" },
  disabled: { standing: "off", glyph: "/", words: "disabled" },
  suspended: { standing: "off", glyph: "/", words: "suspended" },
  available: { standing: "ok", glyph: "", words: "healthy" },
  busy: { standing: "ok", glyph: "", words: "healthy" },
};

export function stateRow(state: string): StateRow {
  return rows[state] ?? { standing: "warn", glyph: "?", words: state.replace(/_/g, " ") };
}

/** Reasons for which clocks are lower than they could be, and that somebody should do something about. */
const throttling: Record<string, string> = {
  hw_slowdown: "hardware slowdown",
  hw_thermal_slowdown: "too hot (hardware)",
  sw_thermal_slowdown: "too hot (driver)",
  hw_power_brake: "power brake of the supply",
};
const harmless: Record<string, string> = {
  sw_power_cap: "at its power limit",
  applications_clocks_setting: "application clocks are set",
  sync_boost: "sync boost",
  display_clock_setting: "display clocks are set",
};

export const isThrottling = (reason: string): boolean => reason in throttling;
/** In words; empty for reasons that say nothing (an idle GPU's low clocks). */
export const throttleWords = (reason: string): string =>
  throttling[reason] ?? harmless[reason] ?? (reason === "gpu_idle" ? "" : reason.replace(/_/g, " "));
