// The ruler's second row: round times of the wall clock, the times at which it was set, and where it is unknown.
import { duration } from "./format.ts";
import { absOf } from "./time.ts";
import { spanOf, type Range } from "./view.ts";
import { tsInRun, type WallMap } from "./wall.ts";
import { dateText, mod, msOf, offsetAt, timeText, type Zone } from "./zone.ts";

export interface WallTick {
  readonly x: number;
  readonly label: string;
}

export interface WallAxis {
  readonly ticks: readonly WallTick[];
  /** Date and offset to UTC of the first labelled time, printed once: `2026-11-25 +0100`; undefined where the clock is unknown. */
  readonly base: string | undefined;
  /** Where the clock was set: `clock set by −1 h`. */
  readonly steps: readonly { readonly x: number; readonly text: string }[];
  /** Parts of the recording without a known wall-clock time. */
  readonly unknown: readonly { readonly x0: number; readonly x1: number }[];
  /** Decimals of a second that tell two pixels apart: 3, 6 or 9. */
  readonly digits: number;
}

const S = 1e9;
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000];
/** More labels than a screen has room for. */
const MOST = 500;

/** A round part of a second, or a part of a minute, an hour or a day; days beyond that. */
export function wallStep(least: number): number {
  if (least > S / 2) return (SECONDS.find((seconds) => seconds * S >= least) ?? SECONDS[SECONDS.length - 1]!) * S;
  const power = Math.pow(10, Math.floor(Math.log10(Math.max(least, 1))));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}

/** Labels of the wall clock for a view of `width` pixels. `whole` is the recording: beyond it nothing is unknown. */
export function wallAxis(view: Range, whole: Range, origin: bigint, width: number, wall: WallMap, zone: Zone): WallAxis {
  const perPixel = spanOf(view) / Math.max(width, 1);
  const x = (ts: bigint): number => (Number(ts - origin) - view.from) / perPixel;
  const step = stepOf(perPixel);
  const [from, to] = [absOf(Math.max(view.from, whole.from), origin), absOf(Math.ceil(Math.min(view.to, whole.to)), origin)];
  const ticks: WallTick[] = [];
  const unknown: { x0: number; x1: number }[] = [];
  let base: string | undefined;
  // What labels have in common with the one before them is not repeated.
  let [date, offset] = ["", ""];
  let known = from;
  for (const run of wall.runs) {
    if (run.to < from || run.from > to) continue;
    if (run.from > known) unknown.push({ x0: x(known), x1: x(run.from) });
    const [low, high] = [run.from > from ? run.from : from, run.to < to ? run.to : to];
    if (run.to > known) known = run.to;
    const [first, last] = [wall.wallOf(low)!.unixNs, wall.wallOf(high)!.unixNs];
    if (base === undefined) {
      [date, offset] = [dateText(first, zone), offsetAt(first, zone)];
      base = `${date} ${offset}`;
    }
    for (let unix = roundUp(first, step, zone); unix <= last && ticks.length < MOST; unix += step) {
      const ts = tsInRun(run, unix);
      if (ts === undefined) continue;
      const [day, shift] = [dateText(unix, zone), offsetAt(unix, zone)];
      const time = step >= 86_400n * 1_000_000_000n ? day : `${day === date ? "" : `${day} `}${timeText(unix, zone, digitsOf(Number(step)))}`;
      ticks.push({ x: x(ts), label: shift === offset ? time : `${time} ${shift}` });
      [date, offset] = [day, shift];
    }
  }
  if (known < to) unknown.push({ x0: x(known), x1: x(to) });
  const steps = wall.steps.filter((own) => own.after >= from && own.before <= to).map((own) => ({ x: x(own.after), text: stepText(own.step_ns) }));
  return { ticks, base, steps, unknown, digits: Math.max(3, digitsOf(perPixel)) };
}

/** `clock set by −1 h`. */
export function stepText(step_ns: bigint): string {
  return `clock set by ${step_ns < 0n ? "−" : "+"}${duration(Math.abs(Number(step_ns)))}`;
}

/** The time between two labels. Labels with more decimals need more room. */
function stepOf(perPixel: number): bigint {
  const step = wallStep(perPixel * 110);
  const digits = digitsOf(step);
  return BigInt(digits < 6 ? step : wallStep(perPixel * (digits < 9 ? 130 : 160)));
}

/** Decimals of a second in groups of three that a time of this length needs. */
function digitsOf(ns: number): number {
  return ns >= S ? 0 : ns >= 1e6 ? 3 : ns >= 1e3 ? 6 : 9;
}

/** The first time at or after `unix_ns` that is round on the zone's clocks. */
function roundUp(unix_ns: bigint, step: bigint, zone: Zone): bigint {
  const shift = BigInt(zone.offset(msOf(unix_ns))) * 60_000_000_000n;
  const past = mod(unix_ns + shift, step);
  return past === 0n ? unix_ns : unix_ns + step - past;
}
