// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them. What is not known is a dash.
export const kUnknown = "–";
export type Maybe = number | null | undefined;

const known = (value: Maybe): value is number => value !== null && value !== undefined && Number.isFinite(value);

export function percent(value: Maybe): string {
  return known(value) ? `${Math.round(value)}\u202f%` : kUnknown;
}

export function celsius(value: Maybe): string {
  return known(value) ? `${Math.round(value)}\u202f°C` : kUnknown;
}

export function watts(value: Maybe): string {
  if (!known(value)) return kUnknown;
  return value >= 10000 ? `${(value / 1000).toFixed(1)}\u202fkW` : `${Math.round(value)}\u202fW`;
}

/** Bytes in binary units, as nvidia-smi counts them: "61.0 GiB". */
export function bytes(value: Maybe): string {
  if (!known(value)) return kUnknown;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    ++unit;
  }
  return `${rest.toFixed(unit > 0 && Math.abs(rest) < 100 ? 1 : 0)}\u202f${units[unit] ?? ""}`;
}

/** "61 / 80 GiB": both in the unit of the whole. */
export function bytesOf(part: Maybe, whole: Maybe): string {
  if (!known(part) || !known(whole)) return kUnknown;
  const gib = 2 ** 30;
  const digits = whole >= 100 * gib ? 0 : 1;
  const figure = (value: number): string => (value / gib).toFixed(value === 0 ? 0 : digits);
  return `${figure(part)}\u202f/\u202f${Math.round(whole / gib)}\u202fGiB`;
}

/** A rate of bytes in decimal units, as links are sold. */
export function byteRate(value: Maybe): string {
  if (!known(value)) return kUnknown;
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)}\u202fGB/s`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(0)}\u202fMB/s`;
  return `${(value / 1e3).toFixed(0)}\u202fkB/s`;
}

/** A length of time in its two largest units: "2 d 4 h", "12 s". */
export function duration(seconds: Maybe): string {
  if (!known(seconds)) return kUnknown;
  const whole = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0\u202fs";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}\u202f${unit}`)
    .join(" ");
}

/** How long ago, in one unit: "4 min ago". */
export function ago(thenMs: Maybe, nowMs: number): string {
  if (!known(thenMs)) return kUnknown;
  const seconds = Math.max(0, (nowMs - thenMs) / 1000);
  if (seconds < 5) return "just now";
  const steps: [number, string][] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const [size, unit] = steps.find(([least]) => seconds >= least) ?? [1, "s"];
  return `${Math.floor(seconds / size)}\u202f${unit} ago`;
}

/** A length of use: "12 min", "1.2 h", "37 h". */
export function hours(seconds: Maybe): string {
  if (!known(seconds)) return kUnknown;
  if (seconds < 3600) return `${Math.round(seconds / 60)}\u202fmin`;
  const value = seconds / 3600;
  return `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")}\u202fh`;
}

export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString("en")}\u202f${value === 1 ? one : many}`;
}

export function clockTime(ms: number, withSeconds = true): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const time = new Date(ms);
  return `${two(time.getHours())}:${two(time.getMinutes())}${withSeconds ? `:${two(time.getSeconds())}` : ""}`;
}

/** A value of the metric table in its unit. */
export function inUnit(value: Maybe, unit: string): string {
  if (!known(value)) return kUnknown;
  switch (unit) {
    case "%":
      return percent(value);
    case "°C":
      return celsius(value);
    case "W":
      return watts(value);
    case "B":
      return bytes(value);
    case "B/s":
      return byteRate(value);
    case "":
      return String(Math.round(value * 100) / 100);
    default:
      return `${value >= 100 ? Math.round(value) : Math.round(value * 10) / 10}\u202f${unit}`;
  }
}

/** Names in the order in which people count: n2 before n10. */
const collator = new Intl.Collator("en", { numeric: true });
export const byName = (a: string, b: string): number => collator.compare(a, b);
