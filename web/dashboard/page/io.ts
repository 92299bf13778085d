// I/O: a row for each VM, process or device and direction; bytes per second over time, and how long requests took.
import { greys, mix, word } from "../../src/core/palette.ts";
import { fillRect } from "../../src/core/raster.ts";
import { duration } from "../../src/core/format.ts";
import { IO } from "../core/collect.ts";
import { bytes } from "../core/bytes.ts";
import { rates } from "../core/fill.ts";
import type { Lanes } from "../core/lanes.ts";
import { split } from "../core/matrix.ts";
import { ioOf, type IoSum } from "../core/merge.ts";
import { fit, remark, spanText, TimePlot, type Hit, type Margins } from "./plot.ts";

export class IoPlot extends TimePlot {
  private rows: readonly string[] = [];
  private values = new Float64Array(0);
  private made: { lanes: Lanes | undefined; changes: number; height: number; at: number } = { lanes: undefined, changes: -1, height: 0, at: -Infinity };

  get lanes(): Lanes | undefined {
    return this.app.range?.io;
  }

  margins(): Margins {
    const { rem } = this.app;
    return { left: Math.min(rem * 9.5, this.width * 0.36), right: this.width > rem * 34 ? rem * 11 : rem * 7.2, top: 1, bottom: rem * 1.35 };
  }

  private get rowHeight(): number {
    const room = this.height - this.margins().top - this.margins().bottom;
    return Math.min(this.app.rem * 2.8, room / Math.max(this.rows.length, 1));
  }

  /** Who is shown: as the rows of the fleet not chosen anew in every frame. */
  private pickRows(): readonly string[] {
    const { lanes, app } = this;
    if (!lanes) return [];
    const now = performance.now();
    if (this.made.lanes === lanes && this.made.changes === app.changes && this.made.height === this.height && now - this.made.at < 250) return this.rows;
    this.made = { lanes, changes: app.changes, height: this.height, at: now };
    const most = Math.max(1, Math.floor((this.height - app.rem * 1.4) / (app.rem * 1.35)));
    const sums = [...lanes.names].map((name) => ({ name, sum: lanes.sum(name, IO.bytes, app.view.from, app.view.to), many: lanes.sum(name, IO.count, app.view.from, app.view.to) }));
    const some = sums.filter(({ sum, many }) => sum > 0 || many > 0).sort((a, b) => b.sum - a.sum || b.many - a.many);
    return some.slice(0, most).map(({ name }) => name);
  }

  paint(): void {
    this.rows = this.pickRows();
    const { lanes, app, ratio, theme } = this;
    this.clear();
    const view = this.view();
    const height = this.rowHeight;
    this.values = new Float64Array(this.rows.length * view.width);
    const colour = theme === "dark" ? ([110, 198, 245] as const) : ([0, 114, 178] as const);
    const solid = word(mix(greys(theme).row, colour, 0.85));
    const most: number[] = [];
    const { data, width } = this.pixels;
    this.rows.forEach((name, at) => {
      const out = this.values.subarray(at * view.width, (at + 1) * view.width);
      rates(out, lanes!, name, IO.bytes, view);
      const highest = out.reduce((high, value) => (value > high ? value : high), 0);
      most.push(highest);
      const bottom = Math.round((this.margins().top + (at + 1) * height) * ratio) - 1;
      const full = Math.max(1, Math.round(height * ratio) - 3);
      for (let x = 0; x < view.width; x++) {
        const value = out[x]!;
        if (!(value > 0)) continue;
        const tall = Math.max(1, Math.round((value / highest) * full));
        for (let y = Math.max(0, bottom - tall), at = y * width + this.left + x; y < bottom; y++, at += width) data[at] = solid;
      }
      fillRect(this.pixels, this.left, bottom, view.width, 1, word(greys(theme).quiet));
    });
    if (this.rows.length > 0) this.hatchGaps(this.gaps(), Math.round(this.margins().top * ratio), Math.round(this.rows.length * height * ratio));
    this.put();
    this.write(most);
    this.axis();
    if (this.rows.length === 0) remark(this.context, app, this.nothing(), this);
    this.moveLine();
    this.setTitle("I/O", app.titleNote(app.pickedText));
  }

  private nothing(): string {
    if (this.app.seen.focus?.startsWith("cg:")) return "I/O is counted by VM, process and device, not by container.";
    return this.app.whyNo("block_io", "No block requests or packets in this range.");
  }

  private sumsNow(): Map<string, IoSum> {
    return new Map(ioOf(this.app.pickedWindows).map((sum) => [`${sum.owner}\n${sum.kind}`, sum]));
  }

  private write(most: readonly number[]): void {
    const { context, app } = this;
    const now = this.sumsNow();
    const { left, right, top } = this.margins();
    this.rows.forEach((name, at) => {
      const y = top + (at + 0.5) * this.rowHeight;
      const [owner, kind] = split(name);
      const word = ` ${kind}`;
      context.fillStyle = app.css("--dim");
      const wide = context.measureText(word).width;
      context.fillText(word, left - 8 - wide, y);
      context.fillStyle = app.css("--ink");
      context.fillText(fit(context, owner, left - 14 - wide), 4, y);
      const sum = now.get(name);
      const rate = sum && app.pickedMeasured > 0 ? (sum.bytes / app.pickedMeasured) * 1e9 : 0;
      const tall = this.rowHeight > app.rem * 2.1;
      const p99 = sum?.p99_ns === undefined ? "" : `p99 ≤ ${duration(sum.p99_ns)}`;
      const line = `${bytes(rate)}/s`;
      const beside = `${line}  ${p99}`;
      const fits = !tall && p99 !== "" && context.measureText(beside).width <= right - 8;
      context.fillText(fits ? beside : line, this.width - right + 6, tall ? y - app.rem * 0.5 : y);
      context.fillStyle = app.css("--dim");
      if (tall) context.fillText(fit(context, p99 || `max ${bytes(most[at]!)}/s`, right - 8), this.width - right + 6, y + app.rem * 0.55);
    });
  }

  hit(x: number, y: number): Hit | undefined {
    const at = this.timeAt(x);
    const row = this.rows[Math.floor((y - this.margins().top) / this.rowHeight)];
    if (at === undefined) return undefined;
    if (row === undefined) return { title: "", lines: [], at };
    const title = row.replace("\n", " · ");
    const gap = this.gapAt(at);
    const bin = this.lanes?.at(at);
    if (gap !== undefined || bin === undefined) return { title, lines: [gap ?? "no data"], at };
    const span = this.lanes!.bin(bin);
    const lane = this.lanes!.lane(row)!;
    const [sum, many] = [lane[bin * 2 + IO.bytes]!, lane[bin * 2 + IO.count]!];
    const lines: (readonly [string, string])[] = [[spanText(this.app, span.from, span.to), `${bytes((sum / span.dur) * 1e9)}/s`], ["requests or packets", `${Math.round((many / span.dur) * 1e9)}/s`]];
    const now = this.sumsNow().get(row);
    if (now?.p50_ns !== undefined && now.p99_ns !== undefined) lines.push([`latency, ${this.app.pickedText}`, `p50 ≤ ${duration(now.p50_ns)} · p99 ≤ ${duration(now.p99_ns)}`]);
    return { title, lines, at };
  }
}
