// SQL over the recording's tables. Results scroll virtually; a row with `ts` jumps into the timeline.
import type { SqlTable } from "../api/arrow.ts";
import { cellText, targetOf } from "../core/rows.ts";
import { thousands } from "../core/format.ts";
import type { App } from "./app.ts";
import { make, memory } from "./dom.ts";

const LIMIT = 100_000;
const LINE = 20;
const FIRST = `SELECT ts, dur, machine_id, vcpu, state, by_machine_id
FROM vcpu_states
WHERE state = 'preempted'
ORDER BY dur DESC
LIMIT 100`;

interface Saved {
  readonly name: string;
  readonly sql: string;
}

export class SqlPanel {
  readonly root: HTMLElement;
  private readonly text = make("textarea", { spellcheck: "false", "aria-label": "SQL" });
  private readonly saved = make("select", { "aria-label": "Saved queries" });
  private readonly status = make("span", { class: "dim" });
  private readonly grid = make("div", { class: "grid", tabindex: "0", role: "grid", "aria-label": "Results" });
  private table: SqlTable | undefined;
  private widths: number[] = [];
  private picked = -1;
  private abort: AbortController | undefined;

  constructor(private readonly app: App) {
    this.text.value = memory.get("sql") ?? FIRST;
    const run = make("button", { title: "Ctrl+Enter" }, "Run");
    const keep = make("button", {}, "Save");
    const forget = make("button", {}, "Delete");
    run.addEventListener("click", () => void this.run());
    keep.addEventListener("click", () => this.keep());
    forget.addEventListener("click", () => this.forget());
    this.saved.addEventListener("change", () => {
      const query = this.queries().find((q) => q.name === this.saved.value);
      if (query) this.text.value = query.sql;
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void this.run();
      }
    });
    this.grid.addEventListener("scroll", () => this.lines());
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.root = make(
      "div",
      { class: "sql" },
      make("div", { class: "left" }, this.text, make("div", { class: "row" }, run, this.saved, keep, forget)),
      make("div", { class: "right" }, this.status, this.grid),
    );
    this.status.textContent = "Press Ctrl+Enter to run the query. Click a row with a ts column to jump to its interval.";
    this.list();
  }

  focus(): void {
    this.text.focus();
  }

  /** Asks this, in place of what was written. */
  ask(sql: string): void {
    this.text.value = sql;
    void this.run();
  }

  private async run(): Promise<void> {
    this.abort?.abort();
    this.abort = new AbortController();
    memory.set("sql", this.text.value);
    this.status.className = "dim";
    this.status.textContent = "running …";
    const started = performance.now();
    try {
      const { table, truncated } = await this.app.api.sql(this.text.value, LIMIT, this.abort.signal);
      this.table = table;
      this.picked = -1;
      const more = truncated ? ` (truncated at ${thousands(LIMIT)})` : "";
      this.status.textContent = `${thousands(table.length)} rows${more} in ${((performance.now() - started) / 1000).toFixed(2)} s`;
      this.measure(table);
      this.grid.scrollTop = 0;
      this.rebuild();
    } catch (error) {
      if (error instanceof DOMException) return;
      this.status.className = "bad";
      this.status.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** Column widths from the names and the first rows, in characters. */
  private measure(table: SqlTable): void {
    this.widths = table.columns.map((name) => name.length);
    for (let i = 0; i < Math.min(table.length, 60); i++) {
      table.row(i).forEach((cell, c) => (this.widths[c] = Math.min(48, Math.max(this.widths[c]!, cellText(cell).length))));
    }
  }

  private rebuild(): void {
    const table = this.table;
    if (!table) return;
    const head = make("div", { class: "head", role: "row" }, ...table.columns.map((name, i) => this.cell(name, i, false)));
    const space = make("div");
    space.style.height = `${table.length * LINE}px`;
    this.grid.replaceChildren(head, space);
    this.lines();
  }

  private cell(text: string, column: number, right: boolean): HTMLElement {
    const cell = make("span", { class: right ? "cell n" : "cell", title: text }, text);
    cell.style.width = `calc(${this.widths[column]!}ch + 20px)`;
    return cell;
  }

  /** Makes the lines that are on the screen. */
  private lines(): void {
    const table = this.table;
    if (!table) return;
    for (const line of this.grid.querySelectorAll(".line")) line.remove();
    const first = Math.max(0, Math.floor(this.grid.scrollTop / LINE) - 3);
    const last = Math.min(table.length, first + Math.ceil(this.grid.clientHeight / LINE) + 6);
    const made: HTMLElement[] = [];
    for (let i = first; i < last; i++) {
      const row = table.row(i);
      const jumps = targetOf(table.columns, row, this.app.model.tracks) !== undefined;
      const line = make("div", { class: `line${jumps ? " jumps" : ""}${i === this.picked ? " picked" : ""}`, role: "row", "data-row": String(i) }, ...row.map((cell, c) => this.cell(cellText(cell), c, typeof cell === "number" || typeof cell === "bigint")));
      line.style.top = `${(i + 1) * LINE}px`;
      line.addEventListener("click", () => this.pick(i));
      made.push(line);
    }
    this.grid.append(...made);
  }

  private pick(i: number): void {
    const table = this.table;
    if (!table || i < 0 || i >= table.length) return;
    this.picked = i;
    const top = i * LINE;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + 3 * LINE > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = top + 3 * LINE - this.grid.clientHeight;
    this.lines();
    const target = targetOf(table.columns, table.row(i), this.app.model.tracks);
    if (target) this.app.jumpTo(target);
  }

  private key(event: KeyboardEvent): void {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by === undefined || !this.table) return;
    event.preventDefault();
    event.stopPropagation();
    this.pick(Math.min(Math.max(this.picked + by, 0), this.table.length - 1));
  }

  private queries(): Saved[] {
    try {
      const parsed: unknown = JSON.parse(memory.get("queries") ?? "[]");
      return Array.isArray(parsed) ? parsed.filter((q): q is Saved => typeof q?.name === "string" && typeof q?.sql === "string") : [];
    } catch {
      return [];
    }
  }

  private list(): void {
    this.saved.replaceChildren(make("option", { value: "" }, "saved queries …"), ...this.queries().map(({ name }) => make("option", { value: name }, name)));
  }

  private keep(): void {
    const sql = this.text.value.trim();
    const proposed = /from\s+(\w+)/i.exec(sql)?.[1] ?? "query";
    const name = window.prompt("Name of the query", this.saved.value || proposed)?.trim();
    if (!name) return;
    memory.set("queries", JSON.stringify([...this.queries().filter((q) => q.name !== name), { name, sql }]));
    this.list();
    this.saved.value = name;
  }

  private forget(): void {
    memory.set("queries", JSON.stringify(this.queries().filter((q) => q.name !== this.saved.value)));
    this.list();
  }
}
