// What lies over the rows: grid, selection, chosen interval, arrows, marks, pointer line, measure. A
// canvas of its own, so that moving the pointer draws no row again.
import { axisOf, errorBetween, measured, type Axis } from "../core/axis.ts";
import { arrowsOf, flowColour, headOf, pathOf, type Arrow } from "../core/flows.ts";
import { duration } from "../core/format.ts";
import { viewBox } from "../core/minimap.ts";
import { spanOf } from "../core/view.ts";
import { drawPath, type PathFrame } from "./pathlayer.ts";
import type { Model } from "./model.ts";
import type { Placed, Rows } from "./rows.ts";
import { Ruler, type Inks } from "./ruler.ts";
import type { Spot, State } from "./state.ts";

export class Overlay {
  private readonly context: CanvasRenderingContext2D;
  readonly ruler: Ruler;
  private paths = { row: "", path: "", mark: "" };
  private inks: Inks = { ink: "", dim: "", accent: "", warn: "", line: "" };
  private width = 0;
  private height = 0;
  /** Arrows of the last frame, for the export. */
  arrows: readonly Arrow[] = [];
  /** The critical path or request of the last frame. */
  path: PathFrame | undefined;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    rulerCanvas: HTMLCanvasElement,
    private readonly box: HTMLElement,
    base: HTMLElement,
  ) {
    this.context = canvas.getContext("2d")!;
    this.ruler = new Ruler(rulerCanvas, base);
  }

  resize(width: number, height: number, ratio: number): void {
    this.width = width;
    this.height = height;
    this.canvas.width = Math.floor(width * ratio);
    this.canvas.height = Math.floor(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.ruler.resize(width, ratio);
  }

  /** Reads the theme's colours from the style sheet. */
  retheme(): void {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
    this.inks = { ink: of("ink"), dim: of("dim"), accent: of("accent"), warn: of("warn"), line: of("line") };
    this.paths = { row: of("row"), path: of("path"), mark: of("warn") };
  }

  draw(model: Model, state: State, rows: Rows, visible: readonly Placed[], top: number): void {
    const context = this.context;
    context.clearRect(0, 0, this.width, this.height);
    const axis = axisOf(state.view, this.width, model.unit);
    const x = (rel: number): number => ((rel - state.view.from) / spanOf(state.view)) * this.width;
    const { drawn } = state;
    const surface = { context, width: this.width, height: this.height, inks: this.paths, x };
    this.path = drawn?.path && drawPath(surface, state, drawn, drawn.path, rows, visible, top);
    this.grid(axis);
    this.edges(model, x);
    this.selection(model, state, x);
    this.chosen(state, rows, model, x, top);
    this.flows(model, state, rows, visible, x, top);
    this.marks(state, x);
    this.measure(model, state, x);
    if (state.pointer) this.line(state.pointer.x, this.inks.dim, 1, [3, 3]);
    this.ruler.draw(axis, model, state, x, this.inks);
    const { x: left, width } = viewBox(state.view, model.home, this.width);
    this.box.style.left = `${left}px`;
    this.box.style.width = `${width}px`;
  }

  private grid(axis: Axis): void {
    this.context.fillStyle = this.inks.ink;
    this.context.globalAlpha = 0.06;
    for (const tick of axis.ticks) if (tick.major) this.context.fillRect(Math.round(tick.x), 0, 1, this.height);
    this.context.globalAlpha = 1;
  }

  /** Beyond the recording's ends there is nothing: shaded. */
  private edges(model: Model, x: (rel: number) => number): void {
    this.context.fillStyle = this.inks.line;
    this.context.globalAlpha = 0.5;
    const [a, b] = [x(model.whole.from), x(model.whole.to)];
    if (a > 0) this.context.fillRect(0, 0, a, this.height);
    if (b < this.width) this.context.fillRect(b, 0, this.width - b, this.height);
    this.context.globalAlpha = 1;
  }

  private selection(model: Model, state: State, x: (rel: number) => number): void {
    const selection = state.selection;
    if (!selection) return;
    const [a, b] = [x(selection.from), x(selection.to)];
    this.context.fillStyle = this.inks.accent;
    this.context.globalAlpha = 0.13;
    this.context.fillRect(a, 0, Math.max(b - a, 1), this.height);
    this.context.globalAlpha = 1;
    this.context.fillRect(Math.round(a), 0, 1, this.height);
    this.context.fillRect(Math.round(b), 0, 1, this.height);
    this.plate((a + b) / 2, this.height - 14, duration(selection.to - selection.from, model.unit), this.inks.accent);
  }

  private chosen(state: State, rows: Rows, model: Model, x: (rel: number) => number, top: number): void {
    const chosen = state.chosen;
    if (!chosen) return;
    const middle = rows.middleOf(chosen.track, model.tree, top);
    if (middle === undefined) return;
    const index = rows.indexOf(chosen.track);
    const height = index === undefined ? 18 : rows.rows[index]!.height;
    const a = Math.max(x(chosen.ts), -4);
    const b = Math.min(Math.max(x(chosen.ts + chosen.dur), a + 2), this.width + 4);
    this.context.strokeStyle = this.inks.ink;
    this.context.lineWidth = 2;
    this.context.strokeRect(a, middle - height / 2, b - a, height);
  }

  private flows(model: Model, state: State, rows: Rows, visible: readonly Placed[], x: (rel: number) => number, top: number): void {
    const place = (track: number): number | undefined => rows.middleOf(track, model.tree, top);
    const chosen = state.chosen ? { track: state.chosen.track, from: state.chosen.ts, to: state.chosen.ts + state.chosen.dur } : undefined;
    const own = (state.facts?.arrows ?? []).flatMap((arrow) => model.flowOf(arrow) ?? []);
    const shown = new Set(visible.map((placed) => placed.row.node.track.track));
    const near = state.flowsOn ? state.flows.filter((flow) => shown.has(flow.from_track) || shown.has(flow.to_track)) : [];
    const all = arrowsOf(near, place, x, this.width, chosen);
    const chosenArrows = arrowsOf(own, place, x, this.width, chosen);
    state.flowsLeftOut = all.left_out;
    this.arrows = [...all.arrows, ...chosenArrows.arrows];
    for (const arrow of all.arrows) this.arrow(arrow, 0.75, 1);
    for (const arrow of chosenArrows.arrows) this.arrow(arrow, 1, 2);
  }

  private arrow(arrow: Arrow, alpha: number, width: number): void {
    const colour = flowColour(arrow.flow.kind, this.inks.ink);
    this.context.globalAlpha = alpha;
    // A dark rim keeps an arrow visible on bars of its own colour.
    this.context.strokeStyle = "rgb(0 0 0 / .75)";
    this.context.lineWidth = width + 3;
    const path = new Path2D(pathOf(arrow));
    this.context.stroke(path);
    this.context.strokeStyle = this.context.fillStyle = colour;
    this.context.lineWidth = width;
    this.context.stroke(path);
    this.context.fill(new Path2D(headOf(arrow)));
    this.context.globalAlpha = 1;
  }

  private marks(state: State, x: (rel: number) => number): void {
    for (const mark of state.marks) this.line(x(mark.at), this.inks.warn, 1, []);
  }

  private measure(model: Model, state: State, x: (rel: number) => number): void {
    const from = state.measureFrom;
    if (!from) return;
    this.line(x(from.at), this.inks.warn, 1, [5, 3]);
    const to = state.measureTo ?? this.pointed(state);
    if (!to) return;
    const [a, b] = [x(from.at), x(to.at)];
    this.line(b, this.inks.warn, 1, [5, 3]);
    const y = 26;
    this.context.fillStyle = this.inks.warn;
    this.context.fillRect(Math.min(a, b), y, Math.abs(b - a), 1.5);
    this.plate((a + b) / 2, y, measureText(model, from, to), this.inks.warn);
  }

  private pointed(state: State): Spot | undefined {
    if (!state.pointer) return undefined;
    return { at: state.view.from + (state.pointer.x / this.width) * spanOf(state.view), track: undefined };
  }

  private line(x: number, colour: string, width: number, dash: number[]): void {
    if (x < -2 || x > this.width + 2) return;
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.setLineDash(dash);
    this.context.beginPath();
    this.context.moveTo(Math.round(x) + 0.5, 0);
    this.context.lineTo(Math.round(x) + 0.5, this.height);
    this.context.stroke();
    this.context.setLineDash([]);
  }

  /** A small text in a plate, kept inside the stage. */
  private plate(x: number, y: number, text: string, colour: string): void {
    const context = this.context;
    context.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
    const width = context.measureText(text).width + 12;
    const left = Math.min(Math.max(x - width / 2, 2), Math.max(this.width - width - 2, 2));
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(left, y - 10, width, 20, 5);
    context.fill();
    context.fillStyle = document.documentElement.dataset["theme"] === "light" ? "#fff" : "#10131a";
    context.textBaseline = "middle";
    context.fillText(text, left + 6, y + 0.5);
  }
}

/** `1.25 ms ± 310 ns`: between two spots, with what the clocks of their machines allow to be said. */
export function measureText(model: Model, from: Spot, to: Spot): string {
  const machine = (spot: Spot): number | undefined => (spot.track === undefined ? undefined : model.tree.nodes.get(spot.track)?.track.machine_id);
  const [a, b] = [machine(from), machine(to)];
  const error = a === undefined || b === undefined ? 0 : errorBetween(model.errorOf(a), model.errorOf(b));
  return measured(from.at, to.at, error, model.unit);
}
