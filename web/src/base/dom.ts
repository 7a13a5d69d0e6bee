// SPDX-License-Identifier: Apache-2.0
// Elements out of words: text is always text, never markup.
export type Child = Node | string | null | undefined | false;
export type Attributes = Record<string, string | number | boolean | undefined>;

type First<T extends string> = T extends `${infer Name}.${string}` ? Name : T;
type Named<T extends string> =
  First<T> extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[First<T>] : HTMLElement;

/** A new element: `tag` may carry classes ("span.badge.warn"); attributes that are false or undefined are left out. */
export function el<T extends string>(tag: T, attributes: Attributes = {}, ...children: Child[]): Named<T> {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name ?? "div");
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child) element.append(child);
  }
  return element as Named<T>;
}

/** Sets text only where it changed, so that a selection and the layout are left alone. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element: Element, name: string, value: string | null): void {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** The element of the page that a widget lives in. */
export function mount(name: string): HTMLElement {
  const found = document.querySelector<HTMLElement>(`.js-${name}`);
  if (!found) throw new Error(`the page has no element .js-${name}`);
  return found;
}

export const prefersStillness = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;
