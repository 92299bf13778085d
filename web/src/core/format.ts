// Numbers as people read them: durations, trace time, shares, counts.

const UNITS: readonly (readonly [number, string])[] = [
  [3600e9, "h"],
  [60e9, "min"],
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** What a recording's times are in: nanoseconds, or ticks of an unknown length. */
export type TimeUnit = "ns" | "ticks";

/** Three significant digits and a unit: `1.25 ms`, `310 ns`, `2.5 h`. */
export function duration(ns: number, unit: TimeUnit = "ns"): string {
  if (!Number.isFinite(ns)) return "–";
  if (unit === "ticks") return `${thousands(Math.round(ns))} ticks`;
  if (ns === 0) return "0 ns";
  const size = Math.abs(ns);
  for (const [factor, name] of UNITS) {
    if (size >= factor) return `${significant(ns / factor)} ${name}`;
  }
  return `${significant(ns)} ns`;
}

/** All of a duration: `1.250 417 ms`. For facts, where the last nanosecond may matter. */
export function exactDuration(ns: number, unit: TimeUnit = "ns"): string {
  if (!Number.isFinite(ns)) return "–";
  if (unit === "ticks") return `${thousands(Math.round(ns))} ticks`;
  const whole = Math.round(ns);
  const size = Math.abs(whole);
  if (size < 1000) return `${whole} ns`;
  const [factor, name, digits] = size >= 1e9 ? [1e9, "s", 9] : size >= 1e6 ? [1e6, "ms", 6] : ([1e3, "µs", 3] as const);
  const sign = whole < 0 ? "−" : "";
  const fraction = String(size % factor).padStart(digits, "0");
  return `${sign}${thousands(Math.floor(size / factor))}.${groups(fraction)} ${name}`;
}

/** A moment as seconds since the origin with all nine digits in groups: `12.500 000 310 s`. */
export function moment(rel: number, unit: TimeUnit = "ns"): string {
  const whole = Math.floor(rel);
  if (unit === "ticks") return `${thousands(whole)} ticks`;
  const size = Math.abs(whole);
  const fraction = String(size % 1e9).padStart(9, "0");
  return `${whole < 0 ? "−" : ""}${thousands(Math.floor(size / 1e9))}.${groups(fraction)} s`;
}

/** `37 %`, `0.4 %`, `< 0.1 %`. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "< 0.1 %";
  return value < 10 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`;
}

/** Digits in groups of three with a narrow space. */
export function thousands(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, " ");
}

/** A number of things, short: `950`, `12.4 k`, `3.1 M`. */
export function count(n: number): string {
  if (n < 10_000) return Number.isInteger(n) ? thousands(n) : String(n);
  return n < 1e6 ? `${significant(n / 1e3)} k` : n < 1e9 ? `${significant(n / 1e6)} M` : `${significant(n / 1e9)} G`;
}

function groups(digits: string): string {
  return digits.replace(/(\d{3})(?=\d)/g, "$1 ");
}

function significant(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = value.toFixed(digits);
  return digits === 0 ? text : text.replace(/\.?0+$/, "");
}
