// Who × whom as a matrix of cells: exits of VMs by reason, and who waited behind whom. Every cell that has room says its number.
import { count, percent } from "../../src/core/format.ts";
import { greys, hex, inkOn } from "../../src/core/palette.ts";
import { PAIR } from "../core/collect.ts";
import type { Lanes } from "../core/lanes.ts";
import { rivalsOfGroup } from "../core/merge.ts";
import { matrixOf, OTHERS, pairsOf, type Matrix } from "../core/matrix.ts";
import { heatRgb, shareOf, type Scale } from "../core/paints.ts";
import { fit, Plot, remark, type Hit } from "./plot.ts";

export abstract class Grid extends Plot {
  private matrix: Matrix = { rows: [], columns: [], values: new Float64Array(0), most: 0 };
  private measured_ns = 0;

  abstract get source(): Lanes | undefined;
  abstract readonly field: number;
  abstract readonly scale: Scale;
  /** A cell's words: short inside, long in the tip. */
  abstract short(rate: number): string;
  abstract long(rate: number): string;
  abstract nothing(): string;
  abstract readonly axes: readonly [string, string];
  abstract openOf(row: string, column: string): string | undefined;

  private get left(): number {
    return Math.min(this.app.rem * 8.5, this.width * 0.34);
  }

  /** The last column's name leans out of its column. */
  private get right(): number {
    return this.app.rem * 2.6;
  }

  private get top(): number {
    return this.app.rem * 4.4;
  }

  /** Values per second of the chosen time. */
  private collect(): void {
    const { app, source } = this;
    const own = this.pairs();
    const { from, to } = app.moment === undefined ? app.view : { from: -Infinity, to: Infinity };
    const pairs = own?.pairs ?? (source ? pairsOf(source, this.field, from, to) : new Map<string, number>());
    this.measured_ns = own?.measured_ns ?? (source ? source.measured(from, to) : 0);
    const rows = Math.max(2, Math.floor((this.height - this.top) / (app.rem * 1.45)));
    const columns = Math.max(2, Math.floor((this.width - this.left - this.right) / (app.rem * 2.5)));
    this.matrix = matrixOf(pairs, rows, columns);
  }

  /** Pairs that are in no lane, and the time that they are of. */
  protected pairs(): { readonly pairs: ReadonlyMap<string, number>; readonly measured_ns: number } | undefined {
    return undefined;
  }

  private rate(row: number, column: number): number {
    const { matrix } = this;
    return this.measured_ns > 0 ? (matrix.values[row * matrix.columns.length + column]! / this.measured_ns) * 1e9 : 0;
  }

  paint(): void {
    this.collect();
    this.clear();
    this.put();
    const { context, matrix, app, theme } = this;
    if (matrix.rows.length === 0) {
      remark(context, app, this.nothing(), this);
      return;
    }
    const { width, height } = this.cellSize();
    context.fillStyle = app.css("--faint");
    context.fillText(fit(context, `${this.axes[1]} →`, this.left - 6), 4, this.top - app.rem * 1.9);
    context.fillText(fit(context, `${this.axes[0]} ↓`, this.left - 6), 4, this.top - app.rem * 0.7);
    matrix.columns.forEach((name, at) => this.columnName(name, this.left + (at + 0.5) * width));
    matrix.rows.forEach((name, at) => {
      context.fillStyle = app.css("--ink");
      context.fillText(fit(context, name, this.left - 8), 4, this.top + (at + 0.5) * height);
    });
    const whole = this.measured_ns > 0 ? (matrix.most / this.measured_ns) * 1e9 : 0;
    for (let row = 0; row < matrix.rows.length; row++) for (let column = 0; column < matrix.columns.length; column++) {
      const rate = this.rate(row, column);
      const colour = heatRgb(shareOf(rate, whole, this.scale), theme);
      const [x, y] = [this.left + column * width, this.top + row * height];
      context.fillStyle = rate > 0 ? hex(colour) : hex(greys(theme).alternate);
      context.fillRect(x, y, width - 1, height - 1);
      const text = rate > 0 ? this.short(rate) : "";
      if (text === "" || context.measureText(text).width > width - 5) continue;
      context.fillStyle = inkOn(colour);
      context.fillText(text, x + (width - 1 - context.measureText(text).width) / 2, y + height / 2);
    }
    this.outline();
  }

  private cellSize(): { width: number; height: number } {
    const { rows, columns } = this.matrix;
    const { rem } = this.app;
    return { width: Math.min((this.width - this.left - this.right) / columns.length, rem * 7), height: Math.min((this.height - this.top - 2) / rows.length, rem * 2.4) };
  }

  /** A column's name, slanted up so that narrow columns have one, too. */
  private columnName(name: string, x: number): void {
    const { context, app } = this;
    context.save();
    context.translate(x, this.top - 5);
    context.rotate(-0.75);
    context.fillStyle = app.css("--ink");
    context.fillText(fit(context, name, app.rem * 5.3), 0, 0);
    context.restore();
  }

  private outline(): void {
    const { cell } = this;
    const shown = cell !== undefined && cell.row < this.matrix.rows.length && cell.column < this.matrix.columns.length;
    this.pick.hidden = !shown;
    if (!shown) return;
    const { width, height } = this.cellSize();
    Object.assign(this.pick.style, { transform: `translate(${this.left + cell.column * width}px, ${this.top + cell.row * height}px)`, width: `${width}px`, height: `${height}px` });
  }

  hit(x: number, y: number): Hit | undefined {
    const { width, height } = this.cellSize();
    const row = Math.floor((y - this.top) / height);
    const column = Math.floor((x - this.left) / width);
    if (row < 0 || row >= this.matrix.rows.length || column >= this.matrix.columns.length) return undefined;
    return column < 0 ? { title: this.matrix.rows[row]!, lines: [], open: this.openOf(this.matrix.rows[row]!, "") } : this.cellHit(row, column);
  }

  private cellHit(row: number, column: number): Hit {
    const [who, by] = [this.matrix.rows[row]!, this.matrix.columns[column]!];
    const open = who === OTHERS ? undefined : this.openOf(who, by);
    return { title: `${who} · ${by}`, lines: [[this.app.sumText, this.long(this.rate(row, column))]], open };
  }

  override step(rows: number, columns: number): boolean {
    const { matrix, cell } = this;
    if (matrix.rows.length === 0) return false;
    const within = (at: number, many: number): number => Math.min(many - 1, Math.max(0, at));
    this.cell = cell ? { row: within(cell.row + rows, matrix.rows.length), column: within(cell.column + columns, matrix.columns.length) } : { row: 0, column: 0 };
    this.outline();
    return true;
  }

  override chosen(): Hit | undefined {
    const { cell } = this;
    return cell && cell.row < this.matrix.rows.length && cell.column < this.matrix.columns.length ? this.cellHit(cell.row, cell.column) : undefined;
  }
}

/** Who waited behind whom: CPU time per second waited. */
export class RivalGrid extends Grid {
  readonly field = PAIR.ns;
  readonly scale = "root";
  readonly axes = ["waiter", "antagonist"] as const;
  get source(): Lanes | undefined {
    return this.app.moment === undefined ? this.app.range?.rivals : this.app.picked?.rivals;
  }
  override paint(): void {
    super.paint();
    this.setTitle("CPU contention", this.app.titleNote(this.app.sumText));
  }
  /** Of a container only its threads tell. */
  protected override pairs(): ReturnType<Grid["pairs"]> {
    const { app } = this;
    if (!app.seen.focus?.startsWith("cg:")) return undefined;
    const pairs = new Map(rivalsOfGroup(app.tableWindows, app.seen.focus.slice(3)).map((sum) => [`${sum.who}\n${sum.by}`, sum.ns]));
    return { pairs, measured_ns: app.tableMeasured };
  }
  short(rate: number): string {
    return percent(rate / 1e9);
  }
  long(rate: number): string {
    return `${percent(rate / 1e9)} of the time`;
  }
  nothing(): string {
    return this.app.whyNo("waking", "No CPU contention in this period.");
  }
  openOf(row: string): string | undefined {
    return this.app.knows(`vm:${row}`) ? `vm:${row}` : undefined;
  }
}

/** Exits of each VM (or vCPU) by reason. */
export class ExitGrid extends Grid {
  readonly field = PAIR.count;
  readonly scale = "root";
  get axes(): readonly [string, string] {
    return [this.app.seen.focus === undefined ? "VM" : "vCPU", "reason"];
  }
  get source(): Lanes | undefined {
    return this.app.moment === undefined ? this.app.range?.exitsOf : this.app.picked?.exitsOf;
  }
  short(rate: number): string {
    return rate < 1000 ? count(Number(rate.toPrecision(2))) : rate < 1e6 ? `${Number((rate / 1e3).toPrecision(2))}k` : `${Number((rate / 1e6).toPrecision(2))}M`;
  }
  long(rate: number): string {
    return `${count(Number(rate.toPrecision(3)))} exits/s`;
  }
  nothing(): string {
    return this.app.noExits();
  }
  openOf(row: string): string | undefined {
    return this.app.knows(`vm:${row}`) ? `vm:${row}` : undefined;
  }
}
