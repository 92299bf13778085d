// From bins to pixel columns: exact sums over the time that a column covers, as the timeline draws it.
import type { Columns } from "../../src/core/columns.ts";
import { ACTOR_FIELDS, CPU, FIELD, STATES } from "./collect.ts";
import { KEY } from "./paints.ts";
import type { Lanes, Rel } from "./lanes.ts";

/** What is seen: `[from, to)` over `width` columns. */
export interface View {
  readonly from: Rel;
  readonly to: Rel;
  readonly width: number;
}

const KEYS: readonly number[] = [KEY.guest, KEY.gotten, KEY.preempted, KEY.waking, KEY.halted, KEY.blocked, KEY.offline, KEY.unknown];

export const columnOf = (view: View, at: Rel): number => ((at - view.from) / (view.to - view.from)) * view.width;
export const timeOf = (view: View, x: number): Rel => view.from + (x / view.width) * (view.to - view.from);

/** Shares of columns, state by state, before they go into `Columns`: adding to a place is what an hour of windows of a hundred rows costs. */
let sums = new Float64Array(0);
const share = new Float64Array(STATES);

/**
 * Fills columns with an actor's states. `whole_cpus`: the row's height is so many CPUs' time and the rest of it asleep
 * (groups, whose threads are many and mostly asleep); undefined: it is all the actor's time.
 */
export function fillStates(columns: Columns, lanes: Lanes, actor: string, view: View, whole_cpus: number | undefined): void {
  columns.clear();
  const lane = lanes.lane(actor);
  const { from, to, dur } = lanes.edges;
  const { width } = view;
  const [first, end] = lanes.between(view.from - lanes.step_ns, view.to + lanes.step_ns);
  const inGuest = lane !== undefined && whole_cpus === undefined && hasGuest(lane, first, end);
  if (sums.length < width * STATES) sums = new Float64Array(width * STATES);
  sums.fill(0, 0, width * STATES);
  const perNs = width / (view.to - view.from);
  for (let bin = first; bin < end; bin++) {
    const x0 = Math.max((from[bin]! - view.from) * perNs, 0);
    const x1 = Math.min((to[bin]! - view.from) * perNs, width);
    if (x1 <= x0) continue;
    const known = lane !== undefined && sharesOfBin(lane, bin * ACTOR_FIELDS, whole_cpus === undefined ? 0 : whole_cpus * dur[bin]!);
    for (let x = Math.floor(x0); x < x1; x++) {
      const part = Math.min(x + 1, x1) - Math.max(x, x0);
      columns.known[x]! += part;
      if (!known) continue;
      for (let state = 0, at = x * STATES; state < STATES; state++, at++) sums[at]! += share[state]! * part;
    }
  }
  for (let x = 0; x < width; x++) for (let state = 0, at = x * STATES; state < STATES; state++, at++) {
    if (sums[at]! > 0) columns.add(x, keyOf(state, inGuest, whole_cpus !== undefined), sums[at]!);
  }
}

function keyOf(state: number, inGuest: boolean, isGroup: boolean): number {
  if (state === FIELD.gotten && inGuest) return KEY.host;
  return isGroup && state === FIELD.guest ? KEY.gotten : KEYS[state]!;
}

/** Shares of a bin in `share`; false if it has none. `whole_ns`: a group's scale, or 0. */
function sharesOfBin(lane: Float64Array, at: number, whole_ns: number): boolean {
  let total = 0;
  for (let state = 0; state < STATES; state++) total += lane[at + state]!;
  if (total <= 0) return false;
  if (whole_ns === 0) {
    for (let state = 0; state < STATES; state++) share[state] = lane[at + state]! / total;
    return true;
  }
  // Of a group: what it had and wanted; its sleep is what is left of the scale.
  let left = 1;
  share.fill(0);
  for (const field of [FIELD.guest, FIELD.gotten, FIELD.preempted, FIELD.waking]) {
    share[field] = Math.min(left, lane[at + field]! / whole_ns);
    left -= share[field]!;
  }
  share[FIELD.blocked] = left;
  return true;
}

/** Is time in guest mode known of it? Then the rest of what it got was in the host. */
function hasGuest(lane: Float64Array, first: number, end: number): boolean {
  for (let bin = first; bin < end; bin++) if (lane[bin * ACTOR_FIELDS + FIELD.guest]! > 0) return true;
  return false;
}

/** How many CPUs' time a group wanted at most, in whole CPUs. */
export function wholeCpus(lanes: Lanes, actor: string, from: Rel, to: Rel): number {
  const lane = lanes.lane(actor);
  if (!lane) return 1;
  const { dur } = lanes.edges;
  const [first, end] = lanes.between(from, to);
  let most = 0;
  for (let bin = first; bin < end; bin++) {
    let wanted = 0;
    for (const field of [FIELD.guest, FIELD.gotten, FIELD.preempted, FIELD.waking]) wanted += lane[bin * ACTOR_FIELDS + field]!;
    most = Math.max(most, wanted / dur[bin]!);
  }
  return Math.max(1, Math.ceil(most - 0.02));
}

/** Scratch of `rates`: how much of each column is known. */
let weight = new Float64Array(0);

/**
 * A field of a lane per second, column by column; NaN where nothing is known. A bin's sum is spread evenly over its
 * time, so columns are exact where bins are wider than they, and sums where they are narrower.
 */
export function rates(out: Float64Array, lanes: Lanes, name: string, field: number, view: View): void {
  if (weight.length < view.width) weight = new Float64Array(view.width);
  weight.fill(0, 0, view.width);
  out.fill(0);
  const lane = lanes.lane(name);
  const { from, to, dur } = lanes.edges;
  const [first, end] = lanes.between(view.from - lanes.step_ns, view.to + lanes.step_ns);
  const perNs = view.width / (view.to - view.from);
  for (let bin = first; bin < end; bin++) {
    const x0 = Math.max((from[bin]! - view.from) * perNs, 0);
    const x1 = Math.min((to[bin]! - view.from) * perNs, view.width);
    if (x1 <= x0) continue;
    const rate = lane ? (lane[bin * lanes.fields + field]! / dur[bin]!) * 1e9 : 0;
    for (let x = Math.floor(x0); x < x1; x++) {
      const part = Math.min(x + 1, x1) - Math.max(x, x0);
      weight[x]! += part;
      out[x]! += rate * part;
    }
  }
  for (let x = 0; x < view.width; x++) out[x] = weight[x]! < 0.5 ? NaN : out[x]! / weight[x]!;
}

/** A value for time that was watched and about which nothing is known all the same. */
export const UNKNOWN = -1;

/** How busy a CPU was of the time in which that is known, ns per second; `UNKNOWN` where it is known of less than half. */
export function cpuBusy(out: Float64Array, lanes: Lanes, cpu: string, view: View): void {
  rates(out, lanes, cpu, CPU.busy, view);
  const unknown = new Float64Array(view.width);
  rates(unknown, lanes, cpu, CPU.unknown, view);
  for (let x = 0; x < view.width; x++) {
    if (unknown[x]! > 0.5e9) out[x] = UNKNOWN;
    else if (unknown[x]! > 0) out[x] = (out[x]! / (1e9 - unknown[x]!)) * 1e9;
  }
}

/** A stretch about which nothing is known, in columns; how many windows were missed there, if the server said. */
export interface Gap {
  readonly x0: number;
  readonly x1: number;
  readonly from: Rel;
  readonly to: Rel;
  readonly missed: number;
}

/** Gaps between what was loaded from `loaded_from` on, up to `known_to`; each at least two columns wide, so that it can be seen. */
export function gapsOf(lanes: Lanes, view: View, loaded_from: Rel, known_to: Rel): Gap[] {
  const gaps: Gap[] = [];
  const from = Math.max(view.from, loaded_from);
  const until = Math.min(view.to, known_to);
  const push = (a: Rel, b: Rel, missed: number): void => {
    if (b - a <= 0) return;
    const x0 = columnOf(view, a);
    gaps.push({ x0, x1: Math.max(columnOf(view, b), x0 + 2), from: a, to: b, missed });
  };
  let edge = from;
  for (let at = 0; at < lanes.length; at++) {
    const bin = lanes.bin(at);
    if (bin.to <= from) continue;
    if (bin.from >= until) break;
    if (bin.from - edge > slackOf(bin.dur, lanes.step_ns)) push(edge, bin.from, bin.missed);
    edge = Math.max(edge, bin.to);
  }
  if (until - edge > 2 * lanes.step_ns) push(edge, until, 0);
  return gaps;
}

/** What lies between two bins without anything being missing: clocks are set, windows are read a little late. */
function slackOf(dur: number, step_ns: number): number {
  return 0.25 * Math.min(dur, step_ns);
}
