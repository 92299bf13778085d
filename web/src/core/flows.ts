// Arrows: who woke whom, which request went where. Geometry only.
import type { Rel } from "./time.ts";

export interface Flow {
  readonly from_track: number;
  readonly from_ts: Rel;
  readonly to_track: number;
  readonly to_ts: Rel;
  readonly kind: string;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** An arrow on the screen: a curve that leaves and arrives horizontally, and its head. */
export interface Arrow {
  readonly flow: Flow;
  readonly from: Point;
  readonly to: Point;
  readonly bend: number;
}

/** Above this many arrows per thousand pixels of width they would hide what they explain. */
const DENSEST = 120;

/**
 * Arrows for the flows whose both ends have a row, those of `chosen` always, the others only while
 * they are few. `place` gives a track's middle on the screen, or undefined if it has no row.
 */
export function arrowsOf(
  flows: readonly Flow[],
  place: (track: number) => number | undefined,
  x: (rel: Rel) => number,
  width: number,
  chosen?: { track: number; from: Rel; to: Rel },
): { arrows: Arrow[]; left_out: number } {
  const touches = (flow: Flow): boolean =>
    chosen !== undefined &&
    ((flow.from_track === chosen.track && flow.from_ts >= chosen.from && flow.from_ts <= chosen.to) ||
      (flow.to_track === chosen.track && flow.to_ts >= chosen.from && flow.to_ts <= chosen.to));
  const all = flows.flatMap((flow) => {
    const y0 = place(flow.from_track);
    const y1 = place(flow.to_track);
    if (y0 === undefined || y1 === undefined) return [];
    const from = { x: x(flow.from_ts), y: y0 };
    const to = { x: x(flow.to_ts), y: y1 };
    if (Math.max(from.x, to.x) < 0 || Math.min(from.x, to.x) > width) return [];
    return [{ flow, from, to, bend: Math.min(40, Math.max(8, Math.abs(to.x - from.x) / 2)) }];
  });
  const most = (DENSEST * width) / 1000;
  if (all.length <= most) return { arrows: all, left_out: 0 };
  const kept = all.filter((arrow) => touches(arrow.flow));
  return { arrows: kept, left_out: all.length - kept.length };
}

/** The arrow as an SVG path, which canvas (Path2D) and export share. */
export function pathOf({ from, to, bend }: Arrow): string {
  const n = (value: number): string => value.toFixed(1);
  return `M${n(from.x)} ${n(from.y)}C${n(from.x + bend)} ${n(from.y)} ${n(to.x - bend)} ${n(to.y)} ${n(to.x)} ${n(to.y)}`;
}

/** The head: a small triangle that points right, into the target. */
export function headOf({ to }: Arrow): string {
  const n = (value: number): string => value.toFixed(1);
  return `M${n(to.x)} ${n(to.y)}l-6 -3.5v7z`;
}
