// Tiles of the made-up recording, by brute force: binary search and plain sums, no pyramid. Slow and
// obviously right, which is what a test double should be.
import { BUCKETS, bucketNs, tileNs } from "../src/core/levels.ts";
import type { Intervals } from "./simulate.ts";

/** More intervals than this in a tile's span and it becomes sums. */
export const EXACT_LIMIT = 2048;
const MOST_KEYS = 16;
const OTHERS = 1;

export interface ExactRows {
  readonly kind: "exact";
  readonly from: number;
  readonly to: number;
}

export interface SumRow {
  readonly bucket: number;
  readonly key: number;
  readonly share: number;
  readonly min?: number;
  readonly max?: number;
  readonly mean?: number;
}

export type Made = ExactRows | { readonly kind: "sums"; readonly rows: readonly SumRow[] };

/** Index of the first interval that ends after `at`. */
export function firstAfter(own: Intervals, at: number): number {
  let low = 0;
  let high = own.ts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (own.ts[middle]! + own.dur[middle]! > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Index of the first interval that starts at `at` or later. */
export function firstFrom(own: Intervals, at: number): number {
  let low = 0;
  let high = own.ts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (own.ts[middle]! >= at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Sum of time per key in `[from, to)`. */
export function sums(own: Intervals, from: number, to: number): Map<number, number> {
  const out = new Map<number, number>();
  for (let i = firstAfter(own, from); i < own.ts.length && own.ts[i]! < to; i++) {
    const part = Math.min(own.ts[i]! + own.dur[i]!, to) - Math.max(own.ts[i]!, from);
    out.set(own.key[i]!, (out.get(own.key[i]!) ?? 0) + part);
  }
  return out;
}

/** One tile; undefined if nothing is in it. */
export function makeTile(own: Intervals, level: number, index: number): Made | undefined {
  const start = index * tileNs(level);
  const end = start + tileNs(level);
  const from = firstAfter(own, start);
  const to = firstFrom(own, end);
  if (to <= from) return undefined;
  if (to - from <= EXACT_LIMIT) return { kind: "exact", from, to };
  const rows: SumRow[] = [];
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const a = start + bucket * bucketNs(level);
    rows.push(...(own.value ? counterRows(own, bucket, a, a + bucketNs(level)) : shareRows(own, bucket, a, a + bucketNs(level))));
  }
  return { kind: "sums", rows };
}

function shareRows(own: Intervals, bucket: number, from: number, to: number): SumRow[] {
  const ordered = [...sums(own, from, to)].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const kept = ordered.length > MOST_KEYS ? ordered.slice(0, MOST_KEYS - 1) : ordered;
  const rest = ordered.slice(kept.length).reduce((sum, [, ns]) => sum + ns, 0);
  if (rest > 0) kept.push([OTHERS, rest]);
  return kept.map(([key, ns]) => ({ bucket, key, share: Math.max(1, Math.floor((ns / (to - from)) * 65535)) }));
}

function counterRows(own: Intervals, bucket: number, from: number, to: number): SumRow[] {
  let [min, max, sum, time] = [Infinity, -Infinity, 0, 0];
  for (let i = firstAfter(own, from); i < own.ts.length && own.ts[i]! < to; i++) {
    const part = Math.min(own.ts[i]! + own.dur[i]!, to) - Math.max(own.ts[i]!, from);
    const value = own.value![i]!;
    [min, max, sum, time] = [Math.min(min, value), Math.max(max, value), sum + value * part, time + part];
  }
  return time > 0 ? [{ bucket, key: 0, share: 0, min, max, mean: sum / time }] : [];
}
