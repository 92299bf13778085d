// Arrows: who let whom go on, which request went where. What they say, and their geometry.
import type { Rel } from "./time.ts";

export interface Flow {
  readonly from_track: number;
  readonly from_ts: Rel;
  readonly to_track: number;
  readonly to_ts: Rel;
  readonly kind: string;
  /** What joins the ends: id, context or order; null where the kind says it. */
  readonly evidence: string | null;
  /** What it is about: an interrupt line, a doorbell. */
  readonly what: string | null;
}

/** A kind of arrow, as it is drawn and named. */
interface FlowKind {
  readonly colour: string;
  readonly words: string;
}

/** Every kind of `/api/flows`, in the order of the legend. Drawn with a dark rim, so that they show on bars of every colour. */
export const FLOW_KINDS: Readonly<Record<string, FlowKind>> = {
  wakeup: { colour: "#fff3a0", words: "wakeup" },
  fork: { colour: "#d8b93c", words: "start of a thread" },
  timer: { colour: "#c3cad6", words: "timer" },
  ipi: { colour: "#f7a8c8", words: "interrupt from another CPU" },
  completion: { colour: "#57d68d", words: "request done" },
  packet: { colour: "#63d8cc", words: "packet" },
  kick: { colour: "#ff9a3d", words: "kick of a device's back end" },
  injection: { colour: "#c98cf5", words: "interrupt into a vCPU" },
  line: { colour: "#8f9bff", words: "handler of an injected interrupt" },
  work: { colour: "#c69c6d", words: "work item" },
  lock: { colour: "#ff6f61", words: "lock released" },
  preempt: { colour: "#ffffff", words: "preemption" },
  block: { colour: "#56b4e9", words: "request to a device" },
};

const EVIDENCE: Readonly<Record<string, string>> = {
  id: "by the same number",
  context: "by the same place",
  order: "by order in time only",
};

/** The colour of a kind; `otherwise` for one that this page does not know. */
export function flowColour(kind: string, otherwise: string): string {
  return FLOW_KINDS[kind]?.colour ?? otherwise;
}

/** `handler of an injected interrupt: irq 35 (virtio1-req.0), vector 35`. */
export function flowWords({ kind, what }: Pick<Flow, "kind" | "what">): string {
  const words = FLOW_KINDS[kind]?.words ?? kind;
  return what ? `${words}: ${what}` : words;
}

/** `joined by the same number`; empty where there is nothing to say. */
export function evidenceWords({ evidence }: Pick<Flow, "evidence">): string {
  return evidence ? `joined ${EVIDENCE[evidence] ?? `by ${evidence}`}` : "";
}

/** Part of a track, both ends with it. */
export interface Part {
  readonly track: number;
  readonly from: Rel;
  readonly to: Rel;
}

/** Does an arrow begin or end there? */
export function touches(flow: Flow, { track, from, to }: Part): boolean {
  return (flow.from_track === track && flow.from_ts >= from && flow.from_ts <= to) || (flow.to_track === track && flow.to_ts >= from && flow.to_ts <= to);
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
  chosen?: Part,
): { arrows: Arrow[]; left_out: number } {
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
  const kept = all.filter((arrow) => chosen !== undefined && touches(arrow.flow, chosen));
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
