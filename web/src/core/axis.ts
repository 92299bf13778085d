// The ruler: where to put ticks and what to write at them.
import { duration, moment, type TimeUnit } from "./format.ts";
import { spanOf, type Range } from "./view.ts";

export interface Tick {
  readonly at: number;
  readonly x: number;
  readonly label: string;
  readonly major: boolean;
}

export interface Axis {
  readonly ticks: readonly Tick[];
  /** What the labels count from, if they do not count from the recording's start: `12.500 000 s`. */
  readonly base: string | undefined;
  readonly step_ns: number;
}

/** 1, 2 or 5 times a power of ten (never under 1), or a round number of minutes and hours; of ticks only the former. */
export function niceStep(least: number, unit: TimeUnit = "ns"): number {
  const sexagesimal = [60e9, 120e9, 300e9, 600e9, 1800e9, 3600e9, 7200e9, 18000e9, 36000e9, 86400e9];
  if (unit === "ns" && least > 50e9) {
    for (const step of sexagesimal) if (step >= least) return step;
  }
  const power = Math.pow(10, Math.floor(Math.log10(Math.max(least, 1))));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return Math.max(factor * power, 1);
  return power * 10;
}

/**
 * Ticks for a view of `width` pixels. Labels count from the start while that is short to write, and
 * from a base printed once when one has zoomed in so far that only the last digits change.
 */
export function axisOf(range: Range, width: number, unit: TimeUnit = "ns", spacing = 110): Axis {
  const step = niceStep((spanOf(range) / Math.max(width, 1)) * spacing, unit);
  const minor = step >= 5 ? step / 5 : step;
  const first = Math.ceil(range.from / minor) * minor;
  const far = Math.max(Math.abs(range.from), Math.abs(range.to)) / step > 10_000;
  const base = far ? Math.floor(range.from / (step * 10)) * step * 10 : 0;
  const ticks: Tick[] = [];
  for (let i = 0; ; i++) {
    const at = first + i * minor;
    if (at > range.to || i > 2000) break;
    const major = Math.abs(at / step - Math.round(at / step)) < 1e-6;
    const x = ((at - range.from) / spanOf(range)) * width;
    ticks.push({ at, x, major, label: major ? labelOf(at - base, step, unit, far) : "" });
  }
  return { ticks, base: far ? moment(base, unit) : undefined, step_ns: step };
}

function labelOf(at: number, step: number, unit: TimeUnit, relative: boolean): string {
  const sign = relative ? (at < 0 ? "−" : "+") : at < 0 ? "−" : "";
  const size = Math.abs(Math.round(at));
  if (size === 0) return relative ? "+0" : unit === "ticks" ? "0 ticks" : "0 s";
  if (unit === "ticks") return `${sign}${tickLabel(size, step)}`;
  if (step >= 60e9) return `${sign}${clock(size)}`;
  const [factor, name] = relative || size < 1e9 ? unitFor(size) : ([1e9, "s"] as const);
  const digits = Math.max(0, Math.ceil(Math.log10(factor / step) - 1e-9));
  return `${sign}${(size / factor).toFixed(digits)} ${name}`;
}

function unitFor(size: number): readonly [number, string] {
  return size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
}

/** `2.5 Mticks`: a number of ticks, in the prefix of the largest that fits, as exact as the step. */
function tickLabel(size: number, step: number): string {
  const prefixes = [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const;
  const [factor, prefix] = prefixes.find(([factor]) => size >= factor) ?? ([1, ""] as const);
  const digits = Math.max(0, Math.ceil(Math.log10(factor / step) - 1e-9));
  return `${(size / factor).toFixed(digits)} ${prefix}ticks`;
}

function clock(ns: number): string {
  const seconds = Math.round(ns / 1e9);
  const two = (n: number): string => String(n).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const rest = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return hours > 0 ? `${hours}:${rest}` : rest;
}

/** The measure between two points, with what the clocks allow to be said: `1.25 ms ± 310 ns`. */
export function measured(a: number, b: number, error_ns: number, unit: TimeUnit = "ns"): string {
  const between = duration(Math.abs(b - a), unit);
  return error_ns > 0 ? `${between} ± ${duration(error_ns, unit)}` : between;
}

/**
 * How far a difference between stamps of two machines may be off: each stamp's own bound counts. On
 * one machine a shift is common to both stamps and cancels; a bound is still stated across machines.
 */
export function errorBetween(a: { machine_id: number; error_ns: number }, b: { machine_id: number; error_ns: number }): number {
  return a.machine_id === b.machine_id ? 0 : a.error_ns + b.error_ns;
}
