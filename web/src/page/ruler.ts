// The ruler above the rows: a row of trace time and, where the recording has it, a row of the wall clock. A canvas of its own.
import type { Axis } from "../core/axis.ts";
import { moment } from "../core/format.ts";
import { spanOf, type Range } from "../core/view.ts";
import { wallAxis, type WallAxis } from "../core/wallaxis.ts";
import { wallText, type Zone } from "../core/zone.ts";
import { need, write } from "./dom.ts";
import type { Model } from "./model.ts";
import type { State } from "./state.ts";
import { zoneOf } from "./times.ts";

/** Colours of the lines, from the style sheet. */
export interface Inks {
  readonly ink: string;
  readonly dim: string;
  readonly accent: string;
  readonly warn: string;
  readonly line: string;
}

/** Heights of the rows, CSS pixels. */
const TRACE_ROW = 28;
const WALL_ROW = 18;
/** Gaps that are narrower have no room for words. */
const WORDS_PX = 130;
const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";

export class Ruler {
  height = TRACE_ROW;
  /** The wall clock's row as it was drawn last; undefined: hidden or unknown. For the export. */
  wall: WallAxis | undefined;
  private readonly context: CanvasRenderingContext2D;
  private readonly clock = need<HTMLButtonElement>("#b-clock");
  private width = 0;
  private ratio = 1;
  private inks: Inks = { ink: "", dim: "", accent: "", warn: "", line: "" };
  /** The labels of the last frame: they change with the view and not with the pointer. */
  private made: { readonly view: Range; readonly model: Model; readonly width: number; readonly zone: Zone; readonly axis: WallAxis } | undefined;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly base: HTMLElement,
  ) {
    this.context = canvas.getContext("2d")!;
  }

  resize(width: number, ratio: number): void {
    this.width = width;
    this.ratio = ratio;
    this.canvas.width = Math.floor(width * ratio);
    this.canvas.height = Math.floor(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  draw(axis: Axis, model: Model, state: State, x: (rel: number) => number, inks: Inks): void {
    this.inks = inks;
    const wall = model.wall.isEmpty || state.clock === "off" ? undefined : this.wallOf(model, state);
    this.wall = wall;
    this.setHeight(wall ? TRACE_ROW + WALL_ROW : TRACE_ROW);
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.font = FONT;
    context.textBaseline = "middle";
    for (const tick of axis.ticks) {
      context.fillStyle = tick.major ? inks.ink : inks.dim;
      context.globalAlpha = tick.major ? 0.5 : 0.35;
      context.fillRect(Math.round(tick.x), tick.major ? 14 : 21, 1, tick.major ? 14 : 7);
      context.globalAlpha = 1;
      if (tick.label) context.fillText(tick.label, tick.x + 4, 10);
    }
    if (wall) this.drawWall(wall);
    if (state.selection) this.band(x(state.selection.from), x(state.selection.to));
    state.marks.forEach((mark, i) => this.flag(x(mark.at), mark.note || String(i + 1)));
    if (state.pointer) this.pointerTimes(model, state, wall);
    this.base.textContent = axis.base ? `from ${axis.base}` : "";
    this.writeClock(model, state, wall);
  }

  private wallOf(model: Model, state: State): WallAxis {
    const { view } = state;
    const zone = zoneOf(state);
    const { made, width } = this;
    if (made && made.view === view && made.model === model && made.width === width && made.zone === zone) return made.axis;
    const axis = wallAxis(view, model.whole, model.origin, width, model.wall, zone);
    this.made = { view, model, width, zone, axis };
    return axis;
  }

  /** Takes the room of the rows that are shown; the stage below notices that it has another size. */
  private setHeight(height: number): void {
    if (height === this.height) return;
    this.height = height;
    this.canvas.style.height = `${height}px`;
    this.resize(this.width, this.ratio);
  }

  private drawWall({ ticks, steps, unknown }: WallAxis): void {
    const { context, inks } = this;
    const middle = TRACE_ROW + WALL_ROW / 2 + 1;
    context.fillStyle = inks.line;
    context.fillRect(0, TRACE_ROW, this.width, 1);
    const plates = this.plateOfSteps(steps);
    const isFree = (left: number, width: number): boolean => plates.every((plate) => left + width < plate.left || left > plate.left + plate.width);
    for (const { x, label } of ticks) {
      context.fillStyle = inks.dim;
      context.fillRect(Math.round(x), TRACE_ROW + 1, 1, WALL_ROW);
      context.fillStyle = inks.ink;
      if (isFree(x + 4, context.measureText(label).width)) context.fillText(label, x + 4, middle);
    }
    for (const { x0, x1 } of unknown) {
      this.hatch(x0, x1);
      const text = "wall clock unknown";
      const [left, right] = [Math.max(x0, 0), Math.min(x1, this.width)];
      if (right - left < WORDS_PX) continue;
      const width = context.measureText(text).width + 10;
      const start = (left + right - width) / 2;
      if (!isFree(start, width)) continue;
      context.clearRect(start, TRACE_ROW + 1, width, WALL_ROW);
      context.fillStyle = inks.dim;
      context.fillText(text, start + 5, middle);
    }
    for (const { x } of steps) {
      context.fillStyle = inks.warn;
      context.fillRect(Math.round(x) - 1, 0, 2, this.height);
    }
    for (const { left, width, text } of plates) this.plate(left, TRACE_ROW + 2, width, WALL_ROW - 3, text, inks.warn);
  }

  /** Where the words of steps stand: beside their marks; those that would cover others are left out. */
  private plateOfSteps(steps: WallAxis["steps"]): { left: number; width: number; text: string }[] {
    const plates: { left: number; width: number; text: string }[] = [];
    for (const { x, text } of steps) {
      const width = this.context.measureText(text).width + 10;
      const left = x + width > this.width ? x - width : x;
      const last = plates[plates.length - 1];
      if (left >= 0 && (!last || last.left + last.width < left)) plates.push({ left, width, text });
    }
    return plates;
  }

  /** Thin diagonal lines: the wall clock is unknown here. */
  private hatch(x0: number, x1: number): void {
    const { context } = this;
    const [left, right] = [Math.max(x0, 0), Math.min(x1, this.width)];
    if (right <= left) return;
    context.save();
    context.beginPath();
    context.rect(left, TRACE_ROW + 1, right - left, WALL_ROW);
    context.clip();
    context.strokeStyle = this.inks.dim;
    context.globalAlpha = 0.4;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = left - WALL_ROW - ((left - WALL_ROW) % 6); x < right; x += 6) {
      context.moveTo(x, this.height);
      context.lineTo(x + WALL_ROW, TRACE_ROW);
    }
    context.stroke();
    context.restore();
  }

  private band(a: number, b: number): void {
    this.context.fillStyle = this.inks.accent;
    this.context.globalAlpha = 0.35;
    this.context.fillRect(a, 22, Math.max(b - a, 2), 6);
    this.context.globalAlpha = 1;
  }

  private flag(x: number, text: string): void {
    const width = this.context.measureText(text).width + 8;
    this.plate(x, 13, width, 14, text, this.inks.warn);
    this.context.fillStyle = this.inks.warn;
    this.context.fillRect(x, 13, 1, 15);
  }

  /** Trace time at the pointer and, below it, the wall clock with its zone. */
  private pointerTimes(model: Model, state: State, wall: WallAxis | undefined): void {
    const { x } = state.pointer!;
    const at = state.view.from + (x / this.width) * spanOf(state.view);
    this.centred(x, 1, 17, moment(at, model.unit));
    if (!wall) return;
    const time = model.wall.wallOf(model.abs(at));
    this.centred(x, TRACE_ROW + 1, WALL_ROW - 1, time ? wallText(time.unixNs, zoneOf(state), wall.digits) : "wall clock unknown");
  }

  /** A plate with its middle at `x`, as far as the ruler reaches. */
  private centred(x: number, y: number, height: number, text: string): void {
    const width = this.context.measureText(text).width + 10;
    this.plate(Math.min(Math.max(x - width / 2, 0), this.width - width), y, width, height, text, this.inks.ink);
  }

  private plate(left: number, top: number, width: number, height: number, text: string, colour: string): void {
    const { context } = this;
    context.fillStyle = colour;
    context.fillRect(left, top, width, height);
    context.fillStyle = document.documentElement.dataset["theme"] === "light" ? "#fff" : "#10131a";
    context.fillText(text, left + 5, top + height / 2 + 0.5);
  }

  /** The button in the corner: the date and the offset to UTC, once for all labels. */
  private writeClock(model: Model, state: State, wall: WallAxis | undefined): void {
    const { clock } = this;
    clock.hidden = model.wall.isEmpty;
    if (clock.hidden) return;
    write(clock, wall ? wall.base ?? "wall clock unknown here" : "wall clock hidden");
    const name = state.clock === "off" ? "hidden" : zoneOf(state).name;
    const title = `Wall clock: ${name}. Switch between local time, UTC and hidden (Z)`;
    if (clock.title !== title) clock.title = title;
  }
}
