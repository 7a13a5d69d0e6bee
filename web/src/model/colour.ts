// SPDX-License-Identifier: Apache-2.0
// Cividis, a palette of one meaning for every eye: Nuñez, Anderton, Renslow 2018, PLOS ONE, doi 10.1371/journal.pone.0199239.
const stops: readonly [number, number, number][] = [
  [0x00, 0x22, 0x4e],
  [0x43, 0x4e, 0x6c],
  [0x7d, 0x7c, 0x78],
  [0xbc, 0xaf, 0x6f],
  [0xfe, 0xe8, 0x38],
];
/** More steps than an eye tells apart in a cell; few enough that cells seldom change. */
export const kSteps = 20;

const at = (share: number): [number, number, number] => {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const low = stops[below] ?? stops[0]!;
  const high = stops[below + 1] ?? low;
  return [0, 1, 2].map((i) => Math.round((low[i] ?? 0) + ((high[i] ?? 0) - (low[i] ?? 0)) * (place - below))) as [
    number,
    number,
    number,
  ];
};

/** 0 to kSteps for a share of 0 to 1. */
export const stepOf = (share: number): number => Math.round(Math.min(Math.max(share, 0), 1) * kSteps);
export const heat = (share: number): string => `rgb(${at(share).join(" ")})`;
/** Whether dark text stands out on it more than light text (relative luminance, WCAG 2). */
export function isLight(share: number): boolean {
  const [r, g, b] = at(share).map((part) => {
    const value = part / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
}
