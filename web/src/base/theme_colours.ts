// SPDX-License-Identifier: Apache-2.0
// The colours of the style sheet, for what is drawn on a canvas.
export const variable = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
