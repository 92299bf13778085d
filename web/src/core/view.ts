// What part of time is seen, and how one moves in it. A view is a value; moving makes a new one.
import type { Rel } from "./time.ts";

/** The seen range, `[from, to)`, relative to the recording's origin. */
export interface Range {
  readonly from: Rel;
  readonly to: Rel;
}

/** The narrowest view: a few nanoseconds across the screen, each many pixels wide. */
export const NARROWEST_NS = 16;

/** How far beyond the recording a view may reach, as a share of its own width: edges stay reachable. */
const OVERHANG = 0.1;

/** The width of a range in ns. */
export function spanOf(range: Range): number {
  return range.to - range.from;
}

/** Are two ranges the same on any screen? */
export function isSame(a: Range, b: Range): boolean {
  const slack = spanOf(b) / 1000;
  return Math.abs(a.from - b.from) <= slack && Math.abs(a.to - b.to) <= slack;
}

/** Keeps a view within the recording (and a little beyond) and no narrower than can be drawn. */
export function clamp(range: Range, whole: Range): Range {
  const widest = spanOf(whole) * (1 + 2 * OVERHANG);
  const span = Math.min(Math.max(spanOf(range), NARROWEST_NS), Math.max(widest, NARROWEST_NS));
  const middle = (range.from + range.to) / 2;
  const lowest = whole.from - span * OVERHANG;
  const highest = whole.to + span * OVERHANG - span;
  const from = Math.min(Math.max(middle - span / 2, lowest), Math.max(highest, lowest));
  return { from, to: from + span };
}

/** Zooms by `factor` (under 1 is in) and leaves the moment `at` where it is on the screen. */
export function zoomAt(range: Range, at: Rel, factor: number, whole: Range): Range {
  const span = Math.max(spanOf(range) * factor, NARROWEST_NS);
  const applied = span / spanOf(range);
  const from = at - (at - range.from) * applied;
  return clamp({ from, to: from + span }, whole);
}

/** Moves by a share of the view's own width. */
export function pan(range: Range, share: number, whole: Range): Range {
  const by = spanOf(range) * share;
  return clamp({ from: range.from + by, to: range.to + by }, whole);
}

/** The view in which `inner` fills four fifths of the width. */
export function fit(inner: Range, whole: Range): Range {
  const margin = Math.max(spanOf(inner) * 0.125, NARROWEST_NS / 4);
  return clamp({ from: inner.from - margin, to: inner.to + margin }, whole);
}

/** Moves as little as possible so that `target` is inside; zooms out only if it does not fit. */
export function reveal(range: Range, target: Range, whole: Range): Range {
  if (target.from >= range.from && target.to <= range.to) return range;
  if (spanOf(target) > spanOf(range) * 0.9) return fit(target, whole);
  const middle = (target.from + target.to) / 2;
  return clamp({ from: middle - spanOf(range) / 2, to: middle + spanOf(range) / 2 }, whole);
}

/** A view between two others, for a short glide: zoom goes by ratio, so that its speed looks even. */
export function between(a: Range, b: Range, share: number): Range {
  if (share >= 1) return b;
  const span = spanOf(a) * Math.pow(spanOf(b) / spanOf(a), share);
  const change = spanOf(a) - spanOf(b);
  // The fixed point of the zoom moves linearly in how much of the span has changed.
  const done = Math.abs(change) < 1e-9 * spanOf(a) ? share : (spanOf(a) - span) / change;
  const from = a.from + (b.from - a.from) * done;
  return { from, to: from + span };
}

/** Undo and redo of navigation. Small moves that follow one another closely are one step. */
export class History {
  private readonly past: Range[] = [];
  private future: Range[] = [];
  private lastAt = -Infinity;

  constructor(
    private readonly limit = 200,
    private readonly together_ms = 600,
  ) {}

  /** Notes that the view is about to leave `before`, at `now_ms` of any steady clock. A jump is a step of its own. */
  leave(before: Range, now_ms: number, jump = false): void {
    const goesOn = !jump && now_ms - this.lastAt < this.together_ms;
    this.lastAt = jump ? -Infinity : now_ms;
    this.future = [];
    if (goesOn && this.past.length > 0) return;
    this.past.push(before);
    if (this.past.length > this.limit) this.past.shift();
  }

  /** The view before `current`, or undefined if there is none. */
  undo(current: Range): Range | undefined {
    return this.step(this.past, this.future, current);
  }

  /** What was undone last. */
  redo(current: Range): Range | undefined {
    return this.step(this.future, this.past, current);
  }

  private step(from: Range[], to: Range[], current: Range): Range | undefined {
    const target = from.pop();
    if (target !== undefined) to.push(current);
    this.lastAt = -Infinity;
    return target;
  }
}
