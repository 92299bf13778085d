// The drawing of the rows: raster → putImageData → names on intervals. One call per frame; its work is
// the visible rows times the visible columns.
import { Columns, fillRow, runs, type Scale } from "../core/columns.ts";
import type { TileCache } from "../core/cache.ts";
import { count } from "../core/format.ts";
import { levelFor } from "../core/levels.ts";
import { greys, hex, inkOn, maskOf, word, type Paints, type PaintTable, type Rgb, type Theme } from "../core/palette.ts";
import { drawCounter, drawInstants, drawRow, fillRect, hatch, type Pixels } from "../core/raster.ts";
import { summaryOf, type Summary } from "../core/summary.ts";
import type { Track } from "../core/tracks.ts";
import { spanOf, type Range } from "../core/view.ts";
import type { LostZone, Model } from "./model.ts";
import type { Placed } from "./rows.ts";

/** Text on an interval, in device pixels. */
interface Label {
  readonly x0: number;
  readonly x1: number;
  readonly y: number;
  readonly height: number;
  readonly key: number;
  readonly paints: PaintTable;
}

/** Labels per frame at most: text is what costs most under software rendering. */
const MOST_LABELS = 260;

/** What rows are drawn on before they come to the screen. */
interface Surface {
  readonly image: ImageData;
  readonly pixels: Pixels;
  readonly columns: Columns;
}

function surfaceOf(width: number, height: number): Surface {
  const image = new ImageData(Math.max(width, 1), Math.max(height, 1));
  return { image, pixels: { data: new Uint32Array(image.data.buffer), width: image.width, height: image.height }, columns: new Columns(image.width) };
}

/**
 * While one moves and the machine is too slow for every column (frames over `ROUGH_MS` of work), columns are two
 * pixels wide; as soon as the view rests all are drawn. The sums are as true, over twice the time.
 */
export const ROUGH_MS = 13;

export class Stage {
  readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private readonly halfCanvas = document.createElement("canvas");
  private fine = surfaceOf(1, 1);
  private half = surfaceOf(1, 1);
  /** The one that is being drawn on. */
  private surface = this.fine;
  private readonly widths = new Map<string, number>();
  private font = "";
  /** The counters' scales of this frame. */
  private readonly scales: { text: string; y: number }[] = [];
  /** Device pixels per CSS pixel. */
  ratio = 1;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    const context = canvas.getContext("2d", { alpha: false, desynchronized: false });
    if (!context) throw new Error("the browser does not provide a 2D canvas");
    this.context = context;
  }

  private get pixels(): Pixels {
    return this.surface.pixels;
  }

  private get columns(): Columns {
    return this.surface.columns;
  }

  /** Takes a new size in CSS pixels. */
  resize(width: number, height: number, ratio: number): void {
    const w = Math.max(1, Math.floor(width * ratio));
    const h = Math.max(1, Math.floor(height * ratio));
    if (w === this.pixels.width && h === this.pixels.height && ratio === this.ratio) return;
    this.ratio = ratio;
    this.canvas.width = w;
    this.canvas.height = h;
    this.surface = this.fine = surfaceOf(w, h);
    this.half = surfaceOf(Math.ceil(w / 2), h);
    this.halfCanvas.width = this.half.image.width;
    this.halfCanvas.height = h;
    this.font = `${Math.round(11 * ratio)}px system-ui, "DejaVu Sans", sans-serif`;
    this.widths.clear();
  }

  /** How a view lies on the canvas, in device pixels. */
  scale(view: Range): Scale {
    return { from: view.from, nsPerPixel: spanOf(view) / this.fine.pixels.width };
  }

  level(view: Range): number {
    return levelFor(this.scale(view).nsPerPixel);
  }

  /** Draws all rows, with columns of two pixels if `rough`. */
  draw(model: Model, cache: TileCache, view: Range, rows: readonly Placed[], paints: Paints, theme: Theme, current: number | undefined, rough: boolean): void {
    const grey = greys(theme);
    this.surface = rough ? this.half : this.fine;
    const across = rough ? this.fine.pixels.width / this.half.pixels.width : 1;
    this.pixels.data.fill(word(grey.row));
    this.scales.length = 0;
    const labels: Label[] = [];
    const fine = this.scale(view);
    const scale = { from: fine.from, nsPerPixel: fine.nsPerPixel * across };
    for (const placed of rows) this.drawPlaced(placed, model, cache, scale, paints, theme, current, labels);
    if (rough) this.spread();
    else this.context.putImageData(this.fine.image, 0, 0);
    this.write(labels, across, model, grey.row);
    this.writeScales(theme);
    this.surface = this.fine;
  }

  /** Puts the narrow surface on the canvas, twice as wide. */
  private spread(): void {
    this.halfCanvas.getContext("2d", { alpha: false })!.putImageData(this.half.image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(this.halfCanvas, 0, 0, this.fine.pixels.width, this.fine.pixels.height);
  }

  /** What each visible track's columns add up to. Not for every frame: it looks at all columns again. */
  summaries(model: Model, cache: TileCache, view: Range, rows: readonly Placed[], paints: Paints): Map<number, Summary> {
    const out = new Map<number, Summary>();
    const scale = this.scale(view);
    for (const { row } of rows) {
      const { track } = row.node;
      if (row.type !== "track" || track.kind === "counter" || isInstants(track)) continue;
      fillRow(this.columns, cache, track.track, levelFor(scale.nsPerPixel), scale, model.whole);
      out.set(track.track, summaryOf(this.columns, paints.on(track.machine_id)));
    }
    return out;
  }

  private drawPlaced(placed: Placed, model: Model, cache: TileCache, scale: Scale, paints: Paints, theme: Theme, current: number | undefined, labels: Label[]): void {
    const { row } = placed;
    const grey = greys(theme);
    const y = Math.round(placed.y * this.ratio);
    const end = Math.round((placed.y + row.height) * this.ratio);
    const track = row.node.track;
    const machine = track.kind === "machine";
    const background = track.track === current && row.type !== "more" ? grey.loading : machine || placed.pinned ? grey.alternate : grey.row;
    fillRect(this.pixels, 0, y, this.pixels.width, end - y, word(background));
    if (machine) fillRect(this.pixels, 0, y, this.pixels.width, 1, word(grey.loading));
    if (row.type === "track") this.drawTrack(track, y, end - y, model, cache, scale, paints, theme, labels);
    else if (row.strips.length > 0) this.drawStrips(placed, y, end - y, model, cache, scale, paints, theme);
  }

  private drawStrips(placed: Placed, y: number, height: number, model: Model, cache: TileCache, scale: Scale, paints: Paints, theme: Theme): void {
    const strips = placed.row.strips;
    const each = Math.floor((height - 4) / strips.length);
    if (each < 1) return;
    const level = levelFor(scale.nsPerPixel);
    strips.forEach((node, i) => {
      fillRow(this.columns, cache, node.track.track, level, scale, model.whole);
      drawRow(this.pixels, this.columns, { y: y + 2 + i * each, height: Math.max(each - 1, 1), anchor: 0 }, paints.on(node.track.machine_id), word(greys(theme).loading));
    });
  }

  private drawTrack(track: Track, y: number, height: number, model: Model, cache: TileCache, scale: Scale, paints: Paints, theme: Theme, labels: Label[]): void {
    const gap = Math.max(1, Math.round(this.ratio));
    const anchor = Math.floor(scale.from / scale.nsPerPixel) & 7;
    const place = { y: y + gap, height: Math.max(height - 2 * gap, 1), anchor };
    const loading = word(greys(theme).loading);
    const table = paints.on(track.machine_id);
    fillRow(this.columns, cache, track.track, levelFor(scale.nsPerPixel), scale, model.whole);
    if (track.kind === "counter") {
      const hue = model.hues(theme).get(track.machine_id) ?? greys(theme).host;
      const full = drawCounter(this.pixels, this.columns, place, hue, theme, track.name.includes("%") ? 100 : undefined);
      if (full > 0) this.scales.push({ text: `${count(Number(full.toPrecision(3)))}${track.name.includes("%") ? " %" : ""}`, y: place.y });
    }
    else if (isInstants(track)) drawInstants(this.pixels, this.columns, place, table, loading);
    else {
      drawRow(this.pixels, this.columns, place, table, loading);
      if (labels.length < MOST_LABELS) {
        for (const run of runs(this.columns, (34 * this.ratio * this.pixels.width) / this.fine.pixels.width)) labels.push({ x0: run.x0, x1: run.x1, y, height, key: run.key, paints: table });
      }
    }
    for (const zone of model.lost) if (concerns(zone, track)) this.hatchZone(zone, place, scale, theme);
  }

  private hatchZone(zone: LostZone, place: { y: number; height: number; anchor: number }, scale: Scale, theme: Theme): void {
    const x0 = (zone.from - scale.from) / scale.nsPerPixel;
    const x1 = (zone.to - scale.from) / scale.nsPerPixel;
    if (x1 < 0 || x0 > this.pixels.width) return;
    hatch(this.pixels, x0, x1, place, theme === "dark" ? 0xffb4b4be : 0xff50505a);
  }

  /** Names on the intervals that are wide enough. */
  private write(labels: readonly Label[], across: number, model: Model, row: Rgb): void {
    const context = this.context;
    context.font = this.font;
    context.textBaseline = "middle";
    const padding = 5 * this.ratio;
    for (const { key, paints, y, height, ...at } of labels.slice(0, MOST_LABELS)) {
      const [x0, x1] = [at.x0 * across, at.x1 * across];
      if (height < 14 * this.ratio) continue;
      const paint = paints.of(key);
      if (paint.counts === "slept") continue;
      const text = this.fitting(model, key, x1 - x0 - 2 * padding);
      if (text === "") continue;
      const plain = maskOf(paint.pattern) === null;
      const middle = y + height / 2;
      if (!plain) {
        context.globalAlpha = 0.82;
        context.fillStyle = hex(row);
        context.fillRect(x0 + padding - 3, middle - 7 * this.ratio, this.measure(text) + 6, 14 * this.ratio);
        context.globalAlpha = 1;
      }
      context.fillStyle = inkOn(plain ? paint.front : row);
      context.fillText(text, x0 + padding, middle + 0.5);
    }
  }

  /** What a counter's full height stands for, at its upper left. */
  private writeScales(theme: Theme): void {
    const grey = greys(theme);
    for (const { text, y } of this.scales) {
      this.context.globalAlpha = 0.7;
      this.context.fillStyle = hex(grey.row);
      this.context.fillRect(2, y, this.measure(text) + 6, 13 * this.ratio);
      this.context.globalAlpha = 1;
      this.context.fillStyle = hex(grey.text);
      this.context.fillText(text, 5, y + 7 * this.ratio);
    }
  }

  /** The label if it fits, else its short form, else as much of the label as says something. */
  private fitting(model: Model, key: number, room: number): string {
    const label = model.label(key);
    if (this.measure(label) <= room) return label;
    const short = model.shortLabel(key);
    if (short !== "" && this.measure(short) <= room) return short;
    const letters = Math.floor((room / this.measure(label)) * label.length) - 1;
    return letters >= 6 ? `${label.slice(0, letters)}…` : "";
  }

  private measure(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 20_000) this.widths.clear();
      this.context.font = this.font;
      this.widths.set(text, (width = this.context.measureText(text).width));
    }
    return width;
  }
}

/** Is a track made of moments, none of which has a length? They are drawn as marks, not as shares. */
const isInstants = (track: Track): boolean => track.shape === "instants";

/** Does a zone of lost events concern this track? Without a CPU it is the whole machine's. */
export function concerns(zone: LostZone, track: Track): boolean {
  if (zone.machine_id !== null && zone.machine_id !== track.machine_id) return false;
  return zone.cpu === null || track.cpu === null ? track.kind === "lost" || zone.cpu === null : zone.cpu === track.cpu;
}
