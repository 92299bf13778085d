// The path that is drawn over the rows, a critical path or a request: its rows, its marked piece, its pins.
import { fit, reveal, spanOf } from "../core/view.ts";
import type { App } from "./app.ts";

/** Rows that a path keeps in a group that shows its busiest tracks only. */
const MOST_KEPT = 8;
/** Rows that "Show its rows" pins. */
export const MOST_PINNED = 12;

export class PathView {
  private pinned: number[] = [];

  constructor(private readonly app: App) {}

  /** Rows were made anew: pieces lie on other rows. */
  place(): void {
    const { app } = this;
    if (app.state.drawn?.path?.place((track) => app.rows.has(track))) app.dock.pathMoved();
  }

  /** Tracks that stay on the screen while the path is shown. */
  get kept(): number[] {
    const { drawn } = this.app.state;
    if (!drawn) return [];
    return [...(drawn.track === undefined ? [] : [drawn.track]), ...(drawn.path?.tracks.slice(0, MOST_KEPT).map(({ track }) => track) ?? [])];
  }

  /** Marks a piece and moves the view to it. */
  pick(piece: number): void {
    const { app } = this;
    const { drawn } = app.state;
    const own = drawn?.path?.pieces[piece];
    if (!drawn || !own) return;
    drawn.picked = piece;
    const dur = Math.max(own.to - own.from, 1);
    const range = { from: own.from, to: own.from + dur };
    const narrow = spanOf(app.goal) > dur * 60 || dur > spanOf(app.goal);
    app.glideTo(narrow ? fit({ from: range.from - dur * 2, to: range.to + dur * 2 }, app.model.whole) : reveal(app.goal, range, app.model.whole));
    const track = drawn.path!.bestTrackOf(piece);
    if (track !== undefined) {
      app.state.current = track;
      app.relayout();
      if (!this.isPinned(track)) app.showTrack(track);
    }
    app.dock.pieceMarked();
    app.redraw();
  }

  isPinned(track: number): boolean {
    return this.app.state.pinned.includes(track);
  }

  /** Shows the whole path. */
  fit(): void {
    const { app } = this;
    const { drawn } = app.state;
    if (drawn) app.glideTo(fit(drawn.path?.range ?? drawn, app.model.whole));
  }

  /** The rows that "Show its rows" pins: those with the most time, in the order of the tree, as the rows below. */
  private get shownRows(): number[] {
    const most = new Set((this.app.state.drawn?.path?.tracks ?? []).slice(0, MOST_PINNED).map(({ track }) => track));
    return [...this.app.model.tree.nodes.keys()].filter((track) => most.has(track));
  }

  /** Are the rows of the path pinned? */
  get pins(): boolean {
    const rows = this.shownRows;
    return rows.length > 0 && rows.every((track) => this.isPinned(track));
  }

  /** Pins the rows of the path to the top, or unpins them. */
  togglePins(): void {
    const { app } = this;
    const { state } = app;
    const rows = this.shownRows;
    if (this.pins) {
      state.pinned = state.pinned.filter((track) => !rows.includes(track));
      this.pinned = [];
    } else {
      this.pinned = rows.filter((track) => !this.isPinned(track));
      state.pinned = [...state.pinned, ...this.pinned];
    }
    app.relayout();
    app.dock.pathMoved();
  }

  /** Unpins the rows that the path pinned, and keeps the other pins. */
  unpin(): void {
    const { state } = this.app;
    state.pinned = state.pinned.filter((track) => !this.pinned.includes(track));
    this.pinned = [];
  }
}
