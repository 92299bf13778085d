// How long the windows are that one range is made of: as many as are worth drawing, no more than the server gives.

/** What the server gives at most in one answer. */
export const MOST_STEPS = 2000;
/** Rows of one kind that a range may have: what a browser reads in about a second. */
const MOST_ROWS = 120_000;
const FINE_BINS = 360;
export const COARSE_BINS = 60;

const S = 1e9;
/** Lengths people think in. */
const LENGTHS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((seconds) => seconds * S);

/** The least length of windows, a multiple of the server's, with at most `bins` of them in a range. */
export function stepFor(range_ns: number, window_ns: number, bins: number): number {
  const least = range_ns / Math.max(bins, 1);
  if (least <= window_ns) return window_ns;
  for (const length of LENGTHS) if (length >= least && length % window_ns === 0) return length;
  return Math.ceil(least / window_ns) * window_ns;
}

/** How many windows of a table a range may have if each has so many rows. */
export function binsFor(rows: number, wanted: number): number {
  return Math.max(12, Math.min(wanted, MOST_STEPS, Math.floor(MOST_ROWS / Math.max(rows, 1))));
}

/** Steps for both kinds of tables, by the rows that the newest window has. */
export function stepsFor(range_ns: number, window_ns: number, rows: { readonly fine: number; readonly coarse: number }, wanted = FINE_BINS): { fine_ns: number; coarse_ns: number } {
  const fine_ns = stepFor(range_ns, window_ns, binsFor(rows.fine, wanted));
  const coarse_ns = Math.max(fine_ns, stepFor(range_ns, window_ns, binsFor(rows.coarse, COARSE_BINS)));
  return { fine_ns, coarse_ns };
}

/** The ranges that have a key of their own. */
export const RANGES: readonly (readonly [string, number])[] = [
  ["15 min", 900 * S],
  ["1 h", 3600 * S],
  ["6 h", 21600 * S],
  ["24 h", 86400 * S],
];

const UNITS: Readonly<Record<string, number>> = { s: 1, min: 60, m: 60, h: 3600, d: 86400 };
/** Shorter ranges have no use, longer ones no history. */
const SHORTEST_NS = 10 * S;
const LONGEST_NS = 31 * 86400 * S;

/** `90s`, `40m`, `1.5 h`, `3d`; undefined if it is none of these. */
export function parseLength(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d)\s*$/i.exec(text);
  if (!match) return undefined;
  const ns = Number(match[1]) * UNITS[match[2]!.toLowerCase()]! * S;
  return ns >= SHORTEST_NS && ns <= LONGEST_NS ? Math.round(ns) : undefined;
}

/** A length as `parseLength` reads it and people say it: `15 min`. */
export function lengthText(ns: number): string {
  const seconds = Math.round(ns / S);
  if (seconds % 86400 === 0 && seconds > 86400) return `${seconds / 86400} d`;
  if (seconds % 3600 === 0) return `${seconds / 3600} h`;
  if (seconds % 60 === 0) return `${seconds / 60} min`;
  return seconds >= 1 ? `${seconds} s` : `${Math.round(ns / 1e6)} ms`;
}
