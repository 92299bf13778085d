// Small multiples: a row for each VM and container (of a VM: each vCPU), its name and numbers beside its time as bars. Only the
// rows on the screen are drawn.
import { Columns } from "../../src/core/columns.ts";
import { percent } from "../../src/core/format.ts";
import { greys, word, type PaintTable } from "../../src/core/palette.ts";
import { drawRow, fillRect } from "../../src/core/raster.ts";
import { make } from "../../src/page/dom.ts";
import { actorOf, type ActorId } from "../core/actors.ts";
import { ACTOR_FIELDS, STATES } from "../core/collect.ts";
import { columnOf, fillStates, wholeCpus } from "../core/fill.ts";
import type { Lanes } from "../core/lanes.ts";
import { statePaints, type StateName } from "../core/paints.ts";
import { rowsOf, sharesOfBins, type ActorRow } from "../core/rows.ts";
import type { App } from "./app.ts";
import { legendLine } from "./chips.ts";
import { drawAxis, spanText, TimePlot, type Hit, type Margins } from "./plot.ts";

/** How a row's numbers are written. */
const SHARES = ["gotten", "waited", "blocked"] as const;
const FIELD_STATES: readonly StateName[] = ["guest", "gotten", "preempted", "waking", "halted", "blocked", "offline", "unknown"];

/** Rows are put in order so often while the view moves. */
const REORDER_MS = 250;

interface NameRow {
  readonly root: HTMLElement;
  readonly name: HTMLElement;
  readonly detail: HTMLElement;
  readonly cells: readonly HTMLElement[];
}

export class Fleet extends TimePlot {
  rows: readonly ActorRow[] = [];
  current: ActorId | undefined;
  private made: { lanes: Lanes | undefined; of: string; at: number } = { lanes: undefined, of: "", at: -Infinity };
  private columns = new Columns(1);
  private paints: PaintTable;
  private readonly pool: NameRow[] = [];
  private readonly head = make("div", { class: "head" });
  private readonly axisCanvas = make("canvas", { "aria-hidden": "true" });
  private readonly scroller = make("div", { class: "scroller", tabindex: "0", role: "listbox", "aria-label": "VMs and containers" });
  private readonly names = make("div", { class: "names" });
  private readonly stage = make("div", { class: "stage" });
  private readonly spacer = make("div");
  private readonly empty = make("p", { class: "empty" });
  private readonly keys = make("div", { class: "keys", "aria-hidden": "true" });

  constructor(app: App, panel: HTMLElement) {
    super(app, panel, "Bars: shares of time, from bottom to top: gotten, waited, blocked");
    this.paints = statePaints(app.theme);
    const orders = SHARES.map((order) => {
      const button = make("button", { class: "order", title: `Sort by ${order} (O)` }, order);
      button.dataset["order"] = order;
      button.addEventListener("click", () => app.setOrder(order));
      return button;
    });
    this.head.append(make("span", { class: "who" }, "name"), ...orders, this.axisCanvas);
    this.stage.append(this.canvas, this.line);
    this.canvas.tabIndex = -1;
    const sheet = make("div", { class: "sheet" }, this.names, this.stage);
    this.scroller.append(sheet, this.spacer);
    this.keys.append(...legendLine(app.theme));
    this.body.append(this.head, this.scroller, this.keys, this.empty);
    this.scroller.addEventListener("scroll", () => app.repaint());
  }

  override get focusable(): HTMLElement {
    return this.scroller;
  }

  override margins(): Margins {
    return { left: 0, right: 0, top: 0, bottom: 0 };
  }

  get lanes(): Lanes | undefined {
    return this.app.range?.actors;
  }

  override measure(): void {
    this.shown = this.panel.offsetParent !== null;
    if (!this.shown) return;
    const box = this.stage.getBoundingClientRect();
    this.resize(Math.max(box.width, 1), this.scroller.clientHeight);
    const head = this.axisCanvas.getBoundingClientRect();
    this.axisCanvas.width = Math.max(1, Math.floor(head.width * this.ratio));
    this.axisCanvas.height = Math.max(1, Math.floor(head.height * this.ratio));
    if (this.columns.width !== this.pixels.width) this.columns = new Columns(this.pixels.width);
  }

  /** Rows share the room if there is more than they need. */
  private get rowHeight(): number {
    const { rem } = this.app;
    const most = this.app.seen.focus === undefined ? 4.4 : 9;
    return Math.floor(Math.min(rem * most, Math.max(rem * 2.25, this.height / Math.max(this.rows.length, 1))));
  }

  paint(): void {
    const { app } = this;
    if (this.paints.theme !== app.theme) {
      this.paints = statePaints(app.theme);
      this.keys.replaceChildren(...legendLine(app.theme));
    }
    this.rows = this.ordered();
    const height = this.rowHeight;
    this.spacer.style.height = `${Math.max(0, this.rows.length * height - this.scroller.clientHeight)}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height));
    const last = Math.min(this.rows.length, Math.ceil((this.scroller.scrollTop + this.height) / height));
    this.clear();
    const gaps = this.gaps();
    for (let at = first; at < last; at++) this.paintRow(this.rows[at]!, at * height - this.scroller.scrollTop, height);
    if (last > first) this.hatchGaps(gaps, 0, Math.min(this.pixels.height, Math.round((last * height - this.scroller.scrollTop) * this.ratio)));
    this.put();
    this.write(first, last, height);
    this.paintAxis();
    this.moveLine();
    this.sayEmpty();
    for (const button of this.head.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset["order"] === app.seen.order));
    this.title();
  }

  /**
   * The rows in order. While one moves it is that of a moment ago: ordering looks at every bin of every actor, and rows that
   * change places while time moves under them cannot be followed.
   */
  private ordered(): readonly ActorRow[] {
    const { app, lanes } = this;
    const { order, shown, filter, focus } = app.seen;
    const of = [order, shown, filter, focus, app.changes].join("\n");
    const now = performance.now();
    if (this.made.lanes === lanes && this.made.of === of && now - this.made.at < REORDER_MS) {
      app.repaintLater(REORDER_MS);
      return this.rows;
    }
    this.made = { lanes, of, at: now };
    return this.order();
  }

  private order(): ActorRow[] {
    const { app, lanes } = this;
    if (!lanes) return [];
    const { from, to } = app.view;
    const { order, shown, filter, focus } = app.seen;
    if (focus === undefined) return rowsOf(lanes, from, to, order, shown, filter, app.range?.labels, (id) => app.picked?.actors.lane(id) !== undefined);
    // The VM itself first, then its vCPUs in their own order.
    const rows = rowsOf(lanes, from, to, "name", "all", "", app.range?.labels);
    return [...rows.filter(({ actor }) => actor.id === focus), ...rows.filter(({ actor }) => actor.id !== focus)];
  }

  private title(): void {
    const { app, rows } = this;
    const { shown, focus, order } = app.seen;
    const vms = rows.filter(({ actor }) => actor.kind === "vm").length;
    if (focus !== undefined) this.setTitle(actorOf(focus).kind === "vm" ? "vCPUs" : "Container", app.titleNote(app.pickedText));
    else {
      const what = shown === "vm" ? "VMs" : shown === "group" ? "Containers and groups" : "VMs and containers";
      this.setTitle(what, app.titleNote(`${counted(vms, "VM")}, ${counted(rows.length - vms, "group")}, by ${order} · values: ${app.pickedText}`));
    }
  }

  private sayEmpty(): void {
    const { app, rows } = this;
    this.empty.hidden = rows.length > 0;
    if (rows.length > 0) return;
    const why = app.seen.filter ? `No VM or container matches “${app.seen.filter}”. Press Esc to clear the filter.` : app.whyNo("scheduling", app.waitingText);
    if (this.empty.textContent !== why) this.empty.textContent = why;
  }

  private paintRow(row: ActorRow, y: number, height: number): void {
    const { lanes, columns, ratio } = this;
    const view = this.view();
    const whole = row.actor.kind === "group" ? wholeCpus(lanes!, row.actor.id, this.app.view.from, this.app.view.to) : undefined;
    fillStates(columns, lanes!, row.actor.id, view, whole);
    const top = Math.round(y * ratio) + 1;
    const grey = greys(this.theme);
    const rowHeight = Math.round(height * ratio) - 3;
    drawRow(this.pixels, columns, { y: top, height: rowHeight, anchor: 0 }, this.paints, word(grey.loading));
    // What comes after the newest window is nothing yet, not something that is still being read.
    const end = columnOf(view, this.app.knownTo);
    if (end < view.width) fillRect(this.pixels, end, top, view.width - end, rowHeight, word(grey.row));
  }

  private paintAxis(): void {
    const context = this.axisCanvas.getContext("2d");
    if (!context) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.axisCanvas.width, this.axisCanvas.height);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    drawAxis(context, this.app, { left: 0, y: 0, width: this.width, height: this.axisCanvas.height / this.ratio });
  }

  /** Names and numbers of the rows on the screen. */
  private write(first: number, last: number, height: number): void {
    const { app } = this;
    while (this.pool.length < last - first) this.pool.push(this.makeRow());
    this.pool.forEach((own, at) => {
      const row = this.rows[first + at];
      const shown = row !== undefined && first + at < last;
      own.root.hidden = !shown;
      if (!shown) return;
      const { actor } = row;
      own.root.dataset["actor"] = actor.id;
      own.root.style.transform = `translateY(${(first + at) * height - this.scroller.scrollTop}px)`;
      own.root.style.height = `${height - 1}px`;
      own.root.classList.toggle("current", actor.id === this.current);
      own.root.setAttribute("aria-selected", String(actor.id === this.current));
      const scale = actor.kind === "group" ? wholeCpus(this.lanes!, actor.id, app.view.from, app.view.to) : 0;
      const whole = app.seen.focus === actor.id && actor.kind === "vm";
      set(own.name, whole ? "all vCPUs" : actor.name);
      set(own.detail, [app.pressureText(actor.id), scale > 0 ? `of ${scale} CPU${scale === 1 ? "" : "s"}` : "", actor.detail].filter(Boolean).join(" · "));
      own.root.title = actor.kind === "group" ? actor.id.slice(3) : actor.name;
      const now = app.picked ? sharesOfBins(app.picked.actors, actor, 0, app.picked.actors.length) : undefined;
      SHARES.forEach((name, i) => {
        const cell = own.cells[i]!;
        // Of a group's many sleeping threads the sum says nothing.
        const known = now !== undefined && !now.empty && !(actor.kind === "group" && name === "blocked");
        set(cell, known ? percent(now[name]) : "–");
        if (name === "waited") cell.classList.toggle("much", known && now.waited >= 0.05);
      });
    });
  }

  private makeRow(): NameRow {
    const [name, detail] = [make("b"), make("small")];
    const cells = SHARES.map((share) => make("span", { class: `n ${share}` }));
    const root = make("div", { class: "row", role: "option" }, make("span", { class: "who" }, name, detail), ...cells);
    root.addEventListener("click", () => root.dataset["actor"] !== undefined && this.app.open(root.dataset["actor"]));
    this.names.append(root);
    return { root, name, detail, cells };
  }

  hit(x: number, y: number): Hit | undefined {
    const row = this.rows[Math.floor((y + this.scroller.scrollTop) / this.rowHeight)];
    const at = this.timeAt(x);
    if (at === undefined) return undefined;
    if (!row) return { title: "", lines: [], at };
    const gap = this.gapAt(at);
    const bin = this.lanes?.at(at);
    if (gap !== undefined || bin === undefined) return { title: row.actor.name, lines: [gap ?? "no data"], at };
    const span = this.lanes!.bin(bin);
    return { title: row.actor.name, lines: [spanText(this.app, span.from, span.to), ...this.statesOf(row, bin)], at };
  }

  /** An actor's states in a bin, as shares of its time (of a group: of one CPU's). */
  private statesOf(row: ActorRow, bin: number): (readonly [string, string])[] {
    const lanes = this.lanes!;
    const lane = lanes.lane(row.actor.id);
    if (!lane) return [];
    const values = lane.subarray(bin * ACTOR_FIELDS, bin * ACTOR_FIELDS + STATES);
    const isGroup = row.actor.kind === "group";
    const whole = isGroup ? lanes.bin(bin).dur : values.reduce((sum, value) => sum + value, 0);
    const lines: (readonly [string, string])[] = [];
    FIELD_STATES.forEach((state, at) => {
      const asleep = state === "blocked" || state === "halted";
      if (values[at]! > 0 && !(isGroup && asleep)) lines.push([state === "gotten" && values[0]! > 0 ? "in the host" : state, percent(values[at]! / whole)]);
    });
    return lines;
  }

  override step(rows: number): boolean {
    if (this.rows.length === 0 || rows === 0) return false;
    const at = this.rows.findIndex(({ actor }) => actor.id === this.current);
    const next = Math.min(this.rows.length - 1, Math.max(0, at < 0 ? (rows > 0 ? 0 : this.rows.length - 1) : at + rows));
    this.current = this.rows[next]!.actor.id;
    const [top, height] = [next * this.rowHeight, this.rowHeight];
    const { scrollTop } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + height > scrollTop + this.height) this.scroller.scrollTop = top + height - this.height;
    return true;
  }

  override chosen(): Hit | undefined {
    const row = this.rows.find(({ actor }) => actor.id === this.current);
    if (!row) return undefined;
    const { app } = this;
    const now = app.picked ? sharesOfBins(app.picked.actors, row.actor, 0, app.picked.actors.length) : undefined;
    const lines = now && !now.empty ? SHARES.map((name) => [name, percent(now[name])] as const) : [];
    return { title: row.actor.name, lines, open: row.actor.id };
  }
}

function set(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

const counted = (number: number, what: string): string => `${number} ${what}${number === 1 ? "" : "s"}`;
