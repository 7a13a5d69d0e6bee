// SPDX-License-Identifier: Apache-2.0
// Tables whose rows are changed in place: what is selected or focused in them stays so.
import { el, setAttribute, setText } from "./dom";

export interface Column<T> {
  title: string;
  number?: boolean;
  wide?: boolean; // takes the room that is left, and is cut off first
  minor?: boolean; // left out where there is little room
  text?(row: T): string;
  /** Fills the cell itself. Called for each change; has to leave alone what has not changed. */
  fill?(cell: HTMLElement, row: T): void;
}

export class Table<T> {
  readonly root: HTMLElement;
  private readonly body = el("tbody");
  private readonly rows = new Map<string, HTMLTableRowElement>();

  constructor(
    private readonly columns: readonly Column<T>[],
    private readonly key: (row: T) => string,
    caption: string,
  ) {
    const heads = columns.map((column) => el("th", { scope: "col", class: classOf(column) }, column.title));
    this.root = el(
      "div.table",
      {},
      el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...heads)), this.body),
    );
  }

  show(rows: readonly T[]): void {
    const wanted = new Set(rows.map(this.key));
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    rows.forEach((row, place) => {
      const line = this.line(this.key(row));
      this.columns.forEach((column, i) => this.fill(line.cells[i]!, column, row));
      if (this.body.rows[place] !== line) this.body.insertBefore(line, this.body.rows[place] ?? null);
    });
  }

  private line(key: string): HTMLTableRowElement {
    const old = this.rows.get(key);
    if (old) return old;
    const line = el("tr", {}, ...this.columns.map((column) => el("td", { class: classOf(column) })));
    this.rows.set(key, line);
    return line;
  }

  private fill(cell: HTMLElement, column: Column<T>, row: T): void {
    if (column.fill) return column.fill(cell, row);
    const text = column.text?.(row) ?? "";
    setText(cell, text);
    if (column.wide) setAttribute(cell, "title", text);
  }
}

function classOf<T>(column: Column<T>): string | undefined {
  const names = [column.number ? "number" : "", column.wide ? "wide" : "", column.minor ? "minor" : ""].filter(
    (name) => name !== "",
  );
  return names.length > 0 ? names.join(" ") : undefined;
}
