// SPDX-License-Identifier: Apache-2.0
// Dark, light, or as the system has it. Kept by the browser.
const kKey = "gpuwarden-theme";
const order = ["auto", "dark", "light"] as const;
export type Theme = (typeof order)[number];
const kTitles: Record<Theme, string> = { auto: "as the system", dark: "dark", light: "light" };

/** Tells of changes by the event "themechange" on the document: canvases have to be drawn anew. */
export class ThemeSwitch {
  private theme: Theme = order.find((name) => name === localStorage.getItem(kKey)) ?? "auto";

  constructor(private readonly button: HTMLButtonElement) {
    button.addEventListener("click", () =>
      this.become(order[(order.indexOf(this.theme) + 1) % order.length] ?? "auto"),
    );
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
    this.show();
  }

  private become(theme: Theme): void {
    this.theme = theme;
    localStorage.setItem(kKey, theme);
    this.show();
  }

  private show(): void {
    document.documentElement.dataset["theme"] = this.theme;
    const dark = this.theme === "dark" || (this.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    this.button.dataset["dark"] = String(dark);
    this.button.title = `Colours: ${kTitles[this.theme]}`;
    this.button.setAttribute("aria-label", this.button.title);
    document.dispatchEvent(new Event("themechange"));
  }
}
