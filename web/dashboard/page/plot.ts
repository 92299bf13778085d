// A canvas in a panel: its pixels, its margins, the time axis under it, and the line at the chosen moment.
import { make } from "../../src/page/dom.ts";
import { greys, hex, word, type Theme } from "../../src/core/palette.ts";
import { hatch, type Pixels } from "../../src/core/raster.ts";
import { clock, ticksOf } from "../core/clock.ts";
import { windowsText } from "../core/damage.ts";
import { columnOf, gapsOf, timeOf, type Gap, type View } from "../core/fill.ts";
import type { Lanes, Rel } from "../core/lanes.ts";
import type { App } from "./app.ts";

/** What lies under the pointer or the keyboard's choice. */
export interface Hit {
  readonly title: string;
  /** Name and value, or one remark. */
  readonly lines: readonly (readonly [string, string] | string)[];
  readonly at?: Rel | undefined;
  /** Whom a click or Enter opens. */
  readonly open?: string | undefined;
}

/** Room around the drawing, in CSS pixels. */
export interface Margins {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export const FONT = 'system-ui, "DejaVu Sans", sans-serif';

export abstract class Plot {
  readonly canvas = make("canvas");
  protected readonly context: CanvasRenderingContext2D;
  protected readonly line = make("i", { class: "cursor" });
  protected readonly pick = make("i", { class: "pick" });
  private image = new ImageData(1, 1);
  protected pixels: Pixels = { data: new Uint32Array(this.image.data.buffer), width: 1, height: 1 };
  protected ratio = 1;
  /** CSS pixels of the canvas. */
  width = 0;
  height = 0;
  /** The cell that the keyboard is on. */
  protected cell: { row: number; column: number } | undefined;

  constructor(
    protected readonly app: App,
    readonly panel: HTMLElement,
    label: string,
  ) {
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("the browser does not provide a 2D canvas");
    this.context = context;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.canvas.tabIndex = 0;
    this.line.hidden = this.pick.hidden = true;
  }

  /** What lies over the canvas. */
  get marks(): readonly HTMLElement[] {
    return [this.line, this.pick];
  }

  get body(): HTMLElement {
    return this.panel.querySelector<HTMLElement>(".body")!;
  }

  /** Is it on the page? As of the last measuring: to ask the browser costs a layout. */
  shown = false;

  /** What has the focus while keys go to this plot. */
  get focusable(): HTMLElement {
    return this.canvas;
  }

  setTitle(...parts: (string | Node)[]): void {
    this.panel.querySelector("h2")!.replaceChildren(...parts);
  }

  /** Takes the size that the layout gives it. */
  measure(): void {
    this.shown = this.canvas.offsetParent !== null;
    if (!this.shown) return;
    const box = (this.canvas.parentElement ?? this.body).getBoundingClientRect();
    this.resize(box.width, box.height);
  }

  protected resize(width: number, height: number): void {
    this.ratio = window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    const w = Math.max(1, Math.floor(width * this.ratio));
    const h = Math.max(1, Math.floor(height * this.ratio));
    if (w === this.canvas.width && h === this.canvas.height && w === this.pixels.width) return;
    this.canvas.width = w;
    this.canvas.height = h;
    this.image = new ImageData(w, h);
    this.pixels = { data: new Uint32Array(this.image.data.buffer), width: w, height: h };
  }

  protected get theme(): Theme {
    return this.app.theme;
  }

  protected clear(): void {
    this.pixels.data.fill(word(greys(this.theme).row));
  }

  /** Pixels to the screen; text goes on top of them. */
  protected put(): void {
    this.context.putImageData(this.image, 0, 0);
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.font = `${this.app.rem * 0.82}px ${FONT}`;
    this.context.textBaseline = "middle";
    this.context.fillStyle = hex(greys(this.theme).text);
  }

  abstract paint(): void;
  abstract hit(x: number, y: number): Hit | undefined;
  /** Moves the keyboard's choice; false: there is nothing to move to. */
  step(_rows: number, _columns: number): boolean {
    return false;
  }
  /** What the keyboard is on. */
  chosen(): Hit | undefined {
    return undefined;
  }
  moveLine(): void {
    this.line.hidden = true;
  }
}

/** A plot whose x is time. */
export abstract class TimePlot extends Plot {
  abstract margins(): Margins;

  /** The lanes whose bins tell where nothing is known. */
  abstract get lanes(): Lanes | undefined;

  get plotWidth(): number {
    const { left, right } = this.margins();
    return Math.max(1, this.width - left - right);
  }

  /** What is seen, in device pixels. */
  view(): View {
    const { from, to } = this.app.view;
    return { from, to, width: Math.max(1, Math.floor(this.plotWidth * this.ratio)) };
  }

  protected get left(): number {
    return Math.floor(this.margins().left * this.ratio);
  }

  override moveLine(): void {
    const { moment, view } = this.app;
    const shown = moment !== undefined && moment >= view.from && moment <= view.to;
    this.line.hidden = !shown;
    if (!shown) return;
    const { left, top } = this.margins();
    this.line.style.transform = `translate(${left + columnOf({ ...view, width: this.plotWidth }, moment)}px, ${top}px)`;
  }

  timeAt(x: number): Rel | undefined {
    const inside = x - this.margins().left;
    if (inside < 0 || inside > this.plotWidth) return undefined;
    return timeOf({ ...this.app.view, width: this.plotWidth }, inside);
  }

  protected gaps(): Gap[] {
    const { app, lanes } = this;
    return lanes ? gapsOf(lanes, this.view(), app.loadedFrom, app.loadedTo(lanes)) : [];
  }

  /** Hatches what is not known, over rows `[y, y + height)` in device pixels. */
  protected hatchGaps(gaps: readonly Gap[], y: number, height: number): void {
    const colour = word(this.theme === "dark" ? [150, 152, 162] : [110, 112, 120]);
    for (const { x0, x1 } of gaps) hatch(this.pixels, this.left + x0, this.left + x1, { y, height, anchor: 0 }, colour);
  }

  /** The time axis at the canvas's lower edge. */
  protected axis(): void {
    const { left, bottom } = this.margins();
    drawAxis(this.context, this.app, { left, y: this.height - bottom, width: this.plotWidth, height: bottom });
  }

  /** A gap's words, if there is one at this moment. */
  protected gapAt(at: Rel): string | undefined {
    const { app, lanes } = this;
    if (!lanes || lanes.covers(at) || at > app.knownTo) return undefined;
    if (at > app.loadedTo(lanes)) return "loading";
    const damaged = app.range?.damage.windows(at, at + 1) ?? 0;
    if (damaged > 0) return `no data: ${windowsText(damaged)} of the history damaged`;
    const bin = lanes.at(at);
    const next = bin === undefined ? 0 : bin + 1;
    const missed = next < lanes.length ? lanes.bin(next).missed : 0;
    if (bin === undefined) return "no data: before the start of the history";
    return missed > 0 ? `no data: ${windowsText(missed)} missed` : "no data: the server was not running, or the history could not be written";
  }
}

/** Ticks and their times. */
export function drawAxis(context: CanvasRenderingContext2D, app: App, place: { left: number; y: number; width: number; height: number }): void {
  const grey = greys(app.theme);
  const { from, to } = app.view;
  const [from_ms, to_ms] = [app.unixMs(from), app.unixMs(to)];
  context.save();
  context.font = `${app.rem * 0.78}px ${FONT}`;
  context.textBaseline = "middle";
  for (const { unix_ms, label } of ticksOf(from_ms, to_ms, place.width, app.rem * 4.6)) {
    const x = place.left + ((unix_ms - from_ms) / (to_ms - from_ms)) * place.width;
    context.fillStyle = hex(grey.quiet);
    context.fillRect(Math.round(x), place.y, 1, place.height * 0.3);
    context.fillStyle = app.css("--dim");
    const width = context.measureText(label).width;
    if (x - width / 2 >= place.left && x + width / 2 <= place.left + place.width) context.fillText(label, x - width / 2, place.y + place.height * 0.62);
  }
  for (const snapshot of app.snapshots) {
    const at = (unix_ms: number): number => place.left + ((unix_ms - from_ms) / (to_ms - from_ms)) * place.width;
    const x = at(snapshot.unix_ms);
    context.fillStyle = app.css("--accent");
    if (snapshot.extent) {
      const [a, b] = [Math.max(at(snapshot.extent.from_ms), place.left), Math.min(at(snapshot.extent.until_ms), place.left + place.width)];
      if (b > a) context.fillRect(a, place.y, Math.max(b - a, 1), 2);
    }
    if (x < place.left || x > place.left + place.width) continue;
    context.fillText("◆", x - context.measureText("◆").width / 2, place.y + place.height * 0.3);
  }
  context.restore();
}

/** Text cut to a width. */
export function fit(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : "";
}

/** A remark in the middle of a panel, in as many lines as it needs. */
export function remark(context: CanvasRenderingContext2D, app: App, text: string, box: { width: number; height: number }): void {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && context.measureText(longer).width > box.width - app.rem * 2) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  lines.push(line);
  context.fillStyle = app.css("--dim");
  lines.forEach((one, at) => {
    const y = box.height / 2 + (at - (lines.length - 1) / 2) * app.rem * 1.25;
    context.fillText(one, Math.max(6, (box.width - context.measureText(one).width) / 2), y);
  });
}

/** `14:03:05 – 14:03:06`, for tips. */
export function spanText(app: App, from: Rel, to: Rel): string {
  return `${clock(app.unixMs(from))} – ${clock(app.unixMs(to))}`;
}
