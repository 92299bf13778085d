// Heat maps over time: one row per CPU, per length of waits, per exit reason. A cell is what happened in its time, per
// second; lightness says how much.
import { count, duration, percent } from "../../src/core/format.ts";
import { maskOf, word } from "../../src/core/palette.ts";
import { CPU, PAIR } from "../core/collect.ts";
import { columnOf, cpuBusy, rates, UNKNOWN, type View } from "../core/fill.ts";
import type { Lanes, Rel } from "../core/lanes.ts";
import { boundsOf, GROUPS, quantile } from "../core/lengths.ts";
import { heatWords, paintOfState, shareOf, SHADES, type Scale } from "../core/paints.ts";
import { fit, remark, spanText, TimePlot, type Hit, type Margins } from "./plot.ts";

export interface HeatRow {
  readonly label: string;
  readonly lane: string;
  readonly field: number;
}

export abstract class Heat extends TimePlot {
  protected rows: readonly HeatRow[] = [];
  protected most = 0;
  /** Rates of the last drawing, row by row: what the screen shows is what the tip says. */
  private values = new Float64Array(0);

  abstract rowsNow(): readonly HeatRow[];
  abstract readonly scale: Scale;
  /** What the whole scale is; undefined: the largest value seen. */
  abstract readonly whole: number | undefined;
  abstract say(rate: number): string;
  /** What is written when there is nothing. */
  abstract nothing(): string;

  margins(): Margins {
    const { rem } = this.app;
    return { left: rem * this.gutter, right: rem * 0.4, top: 1, bottom: rem * 1.35 };
  }

  /** Room for the rows' names, rem. */
  protected get gutter(): number {
    return 5.6;
  }

  private get rowHeight(): number {
    const { top, bottom } = this.margins();
    return Math.max(0, this.height - top - bottom) / Math.max(this.rows.length, 1);
  }

  paint(): void {
    this.rows = this.lanes ? this.rowsNow() : [];
    const { lanes, rows } = this;
    this.clear();
    const view = this.view();
    const top = Math.floor(this.margins().top * this.ratio);
    const height = Math.floor((this.height - this.margins().bottom) * this.ratio) - top;
    this.values = new Float64Array(rows.length * view.width);
    this.most = 0;
    rows.forEach((row, at) => {
      const out = this.values.subarray(at * view.width, (at + 1) * view.width);
      this.fill(out, lanes!, row, view);
      for (const value of out) if (value > this.most) this.most = value;
    });
    const shades = heatWords(this.theme);
    const edge = (at: number): number => top + Math.round((at * height) / Math.max(rows.length, 1));
    const space = this.rowHeight * this.ratio > 7 ? 1 : 0;
    rows.forEach((_, at) => this.paintRow(at, edge(at), edge(at + 1) - edge(at) - space, shades));
    if (rows.length > 0) this.hatchGaps(this.gaps(), top, height);
    this.put();
    this.labels();
    this.axis();
    this.over();
    if (rows.length === 0) remark(this.context, this.app, this.nothing(), this);
    this.moveLine();
  }

  /** A row's values; `UNKNOWN` where it was watched and yet nothing is known. */
  protected fill(out: Float64Array, lanes: Lanes, row: HeatRow, view: View): void {
    rates(out, lanes, row.lane, row.field, view);
  }

  /** One line of pixels, then the same line down to the row's end. */
  private paintRow(row: number, y: number, height: number, shades: Uint32Array): void {
    const { data, width, height: rows } = this.pixels;
    const columns = Math.min(this.view().width, width - this.left);
    const whole = this.whole ?? this.most;
    const base = row * this.view().width;
    if (height <= 0 || y >= rows) return;
    const start = y * width + this.left;
    let [before, colour] = [NaN, 0];
    for (let x = 0; x < columns; x++) {
      const value = this.values[base + x]!;
      if (Number.isNaN(value) || value === UNKNOWN) continue;
      if (value !== before) [before, colour] = [value, shades[Math.round(shareOf(value, whole, this.scale) * (SHADES - 1))]!];
      data[start + x] = colour;
    }
    for (let below = 1; below < height && y + below < rows; below++) data.copyWithin(start + below * width, start, start + columns);
    for (let x = 0; x < columns; x++) if (this.values[base + x] === UNKNOWN) this.cross(start + x, x, Math.min(height, rows - y));
  }

  /** A column that is unknown: crosses, as everywhere. */
  private cross(at: number, x: number, height: number): void {
    const paint = paintOfState("unknown", this.theme);
    const [front, back, mask] = [word(paint.front), word(paint.back), maskOf(paint.pattern)!];
    for (let y = 0; y < height; y++) this.pixels.data[at + y * this.pixels.width] = (mask[y & 7]! >> (7 - (x & 7))) & 1 ? front : back;
  }

  /** Names of rows, as many as fit. */
  protected labels(): void {
    const { context, app } = this;
    const height = this.rowHeight;
    const every = Math.max(1, Math.ceil((app.rem * 1.05) / Math.max(height, 0.1)));
    context.fillStyle = app.css("--dim");
    this.rows.forEach((row, at) => {
      if (at % every === 0) context.fillText(fit(context, row.label, this.margins().left - 8), 4, this.margins().top + (at + 0.5) * height);
    });
  }

  /** What is drawn over the cells. */
  protected over(): void {}

  private rowAt(y: number): number | undefined {
    const row = Math.floor((y - this.margins().top) / this.rowHeight);
    return row >= 0 && row < this.rows.length ? row : undefined;
  }

  hit(x: number, y: number): Hit | undefined {
    const at = this.timeAt(x);
    const row = this.rowAt(y);
    if (at === undefined || row === undefined) return at === undefined ? undefined : { title: "", lines: [], at };
    return this.cellHit(row, at);
  }

  private cellHit(row: number, at: Rel): Hit {
    const view = this.view();
    const column = Math.min(view.width - 1, Math.max(0, Math.floor(columnOf(view, at))));
    const value = this.values[row * view.width + column] ?? NaN;
    const bin = this.lanes?.at(at);
    const span = bin === undefined ? undefined : this.lanes!.bin(bin);
    const gap = this.gapAt(at);
    const title = this.rows[row]!.label;
    if (gap !== undefined || !span) return { title, lines: [gap ?? "no data"], at };
    return { title, lines: [[spanText(this.app, span.from, span.to), this.say(value)], ...this.more(bin!)], at };
  }

  /** More about a bin. */
  protected more(_bin: number): readonly (readonly [string, string])[] {
    return [];
  }

  override step(rows: number): boolean {
    if (this.rows.length === 0 || rows === 0) return false;
    const row = Math.min(this.rows.length - 1, Math.max(0, (this.cell?.row ?? -1) + rows));
    this.cell = { row, column: 0 };
    return true;
  }

  override chosen(): Hit | undefined {
    const row = this.cell?.row;
    return row === undefined || row >= this.rows.length ? undefined : this.cellHit(row, this.app.moment ?? this.app.view.to - 1);
  }
}

/** Busy CPUs. */
export class CpuHeat extends Heat {
  readonly scale = "linear";
  readonly whole = 1e9;
  get lanes(): Lanes | undefined {
    return this.app.range?.cpus;
  }
  override get gutter(): number {
    return 4.6;
  }
  rowsNow(): HeatRow[] {
    const cpus = [...this.lanes!.names].map(Number).sort((a, b) => a - b);
    return cpus.map((cpu) => ({ label: `CPU ${cpu}`, lane: String(cpu), field: CPU.busy }));
  }
  override paint(): void {
    super.paint();
    this.setTitle("CPUs", this.app.titleNote(this.busyNow()));
  }
  private busyNow(): string {
    const lanes = this.app.picked?.cpus;
    if (!lanes || lanes.length === 0) return "";
    let [busy, all, unknown] = [0, 0, 0];
    for (const lane of lanes.names) {
      const sums = lanes.lane(lane)!;
      busy += sums[CPU.busy]!;
      all += sums[CPU.busy]! + sums[CPU.idle]!;
      unknown += sums[CPU.unknown]!;
    }
    // What is unknown is neither busy nor idle.
    const rest = unknown > 0 ? `${percent(unknown / (all + unknown))} unknown` : "";
    return [all > 0 ? `${percent(busy / all)} busy` : "", rest].filter(Boolean).join(" · ");
  }
  protected override fill(out: Float64Array, lanes: Lanes, row: HeatRow, view: View): void {
    cpuBusy(out, lanes, row.lane, view);
  }
  say(rate: number): string {
    return rate === UNKNOWN ? "unknown: no context switch recorded on this CPU" : `${percent(rate / 1e9)} busy`;
  }
  nothing(): string {
    return this.app.waitingText;
  }
}

/** Waits for a CPU by length. */
export class WaitHeat extends Heat {
  readonly scale = "log";
  readonly whole = undefined;
  get lanes(): Lanes | undefined {
    return this.app.range?.waits;
  }
  override get gutter(): number {
    return 5.5;
  }
  rowsNow(): HeatRow[] {
    const lane = this.lanes!.lane("waits");
    if (!lane) return [];
    const used = new Array<boolean>(GROUPS).fill(false);
    for (let at = 0; at < this.lanes!.length * GROUPS; at++) if (lane[at]! > 0) used[at % GROUPS] = true;
    const [first, last] = [used.indexOf(true), used.lastIndexOf(true)];
    if (first < 0) return [];
    const rows: HeatRow[] = [];
    // Long waits on top: a tail is what one looks for.
    for (let group = last; group >= first; group--) rows.push({ label: lengthLabel(group), lane: "waits", field: group });
    return rows;
  }
  override paint(): void {
    super.paint();
    this.setTitle("Waits for a CPU", this.app.titleNote(quantiles(this.app.picked?.waits, 0)));
  }
  say(rate: number): string {
    return `${count(Number(rate.toPrecision(3)))} waits/s`;
  }
  protected override more(bin: number): readonly (readonly [string, string])[] {
    const text = quantiles(this.lanes, bin);
    return text ? [["all waits", text]] : [];
  }
  nothing(): string {
    return this.app.missing("waking")?.why ?? (this.app.range ? "No waits in this range." : this.app.waitingText);
  }
}

function lengthLabel(group: number): string {
  const [from, to] = boundsOf(group);
  return group === 0 ? `< ${duration(to)}` : `≥ ${duration(from)}`;
}

/** `p50 ≤ 16 µs · p99 ≤ 4.2 ms`. */
function quantiles(lanes: Lanes | undefined, bin: number): string {
  const lane = lanes?.lane("waits");
  if (!lane || bin >= lanes!.length) return "";
  const counts = lane.subarray(bin * GROUPS, (bin + 1) * GROUPS);
  const [half, most] = [quantile(counts, 0.5), quantile(counts, 0.99)];
  const bound = (ns: number): string => (Number.isFinite(ns) ? `≤ ${duration(ns)}` : `> ${duration(boundsOf(GROUPS - 1)[0])}`);
  return half === undefined || most === undefined ? "" : `p50 ${bound(half)} · p99 ${bound(most)}`;
}

/** Exits by reason. */
export class ExitHeat extends Heat {
  readonly scale = "root";
  readonly whole = undefined;
  get lanes(): Lanes | undefined {
    return this.app.range?.exits;
  }
  override get gutter(): number {
    return 8.2;
  }
  rowsNow(): HeatRow[] {
    const { from, to } = this.app.view;
    const sums = [...this.lanes!.names].map((reason) => ({ reason, sum: this.lanes!.sum(reason, PAIR.count, from, to) }));
    const most = Math.max(3, Math.floor((this.height - this.app.rem * 1.4) / (this.app.rem * 1.15)));
    const rows = sums.filter(({ sum }) => sum > 0).sort((a, b) => b.sum - a.sum);
    return rows.slice(0, most).map(({ reason }) => ({ label: reason, lane: reason, field: PAIR.count }));
  }
  say(rate: number): string {
    return `${count(Number(rate.toPrecision(3)))} exits/s`;
  }
  nothing(): string {
    return this.app.noExits();
  }
}
