// SPDX-License-Identifier: Apache-2.0
// Asks for the server's token, where it wants one. The server answers it with a cookie; the page does not keep it.
import { el, setText } from "../base/dom";

export class TokenForm {
  readonly root: HTMLFormElement;
  private readonly input = el("input", {
    type: "password",
    name: "token",
    autocomplete: "current-password",
    required: true,
    id: "token",
  });
  private readonly problem = el("span.token-problem", { role: "alert" });
  private waiting: ((given: boolean) => void)[] = [];

  constructor(private readonly logIn: (token: string) => Promise<void>) {
    const cancel = el("button", { type: "button" }, "Cancel");
    this.root = el(
      "form.token",
      { hidden: true, "aria-label": "Token" },
      el("label", { for: "token" }, "This server wants the token of its token file."),
      this.input,
      el("button.primary", { type: "submit" }, "Log in"),
      cancel,
      this.problem,
    );
    cancel.addEventListener("click", () => this.close(false));
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
  }

  /** Resolves to whether a token was given that the server takes. */
  ask(): Promise<boolean> {
    if (this.root.hidden) {
      this.root.hidden = false;
      this.input.focus();
    }
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private async submit(): Promise<void> {
    try {
      await this.logIn(this.input.value.trim());
      this.close(true);
    } catch (error) {
      setText(this.problem, error instanceof Error ? error.message : String(error));
      this.input.select();
    }
  }

  private close(given: boolean): void {
    this.root.hidden = true;
    this.input.value = "";
    setText(this.problem, "");
    for (const resolve of this.waiting.splice(0)) resolve(given);
  }
}
