// Time in the page: whole nanoseconds since the recording's origin, as plain numbers.
//
// Trace time is an int64 and may be near 2^63; a recording is not: relative to its own first moment
// a double holds every nanosecond of 104 days exactly. So absolute times are BigInt and appear only
// at the edges (the API, the URL, what is shown as trace time), and everything in between is a number.

/** Nanoseconds since the recording's origin. Whole for events; a view's edges may lie between. */
export type Rel = number;

/** The longest recording whose every nanosecond a double tells apart (2^53 ns, 104 days). */
export const LONGEST_NS = Number.MAX_SAFE_INTEGER;

/** Relative time of an absolute one. Throws if a double could not hold it exactly. */
export function relOf(absolute: bigint, origin: bigint): Rel {
  const rel = absolute - origin;
  if (rel > BigInt(LONGEST_NS) || rel < -BigInt(LONGEST_NS)) {
    throw new RangeError(`time ${absolute} is more than 104 days from the recording's origin ${origin}`);
  }
  return Number(rel);
}

/** Absolute trace time of a relative one, rounded down to a whole nanosecond. */
export function absOf(rel: Rel, origin: bigint): bigint {
  return origin + BigInt(Math.floor(rel));
}

/** A duration or count from JSON, where it may be a number or a decimal string; NaN if absent. */
export function numberOf(value: unknown): number {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value)) return Number(value);
  return NaN;
}

/**
 * Relative times of a column of int64, read as two 32-bit halves: a BigInt per row would cost more
 * than all the rest of decoding. Little endian, as Arrow and every machine we run on.
 */
export function relColumn(values: BigInt64Array, origin: bigint): Float64Array {
  const halves = new Uint32Array(values.buffer, values.byteOffset, values.length * 2);
  const signed = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
  const originLow = Number(BigInt.asUintN(32, origin));
  const originHigh = Number(origin >> 32n);
  const out = new Float64Array(values.length);
  for (let i = 0; i < out.length; i++) {
    out[i] = (signed[2 * i + 1]! - originHigh) * 4294967296 + (halves[2 * i]! - originLow);
  }
  return out;
}
