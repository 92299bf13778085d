// Lengths of waits, as the server counts them: buckets a quarter of a power of two wide. The heat map draws powers of
// two: a row each, exact sums of four buckets.

/** Rows of the heat map: under 512 ns, then a power of two each, up to 8.6 s and over. */
export const GROUPS = 26;
const FIRST_NS = 512;

/** The row of a bucket that begins at `from_ns`. */
export function groupOf(from_ns: number): number {
  if (from_ns < FIRST_NS) return 0;
  return Math.min(GROUPS - 1, 1 + Math.floor(Math.log2(from_ns / FIRST_NS) + 1e-9));
}

/** Where a row begins and ends, ns; the last has no end. */
export function boundsOf(group: number): readonly [number, number] {
  if (group === 0) return [0, FIRST_NS];
  return [FIRST_NS * 2 ** (group - 1), group === GROUPS - 1 ? Infinity : FIRST_NS * 2 ** group];
}

/** An upper bound of a length such that `share` of all are not longer; undefined without any. */
export function quantile(counts: ArrayLike<number>, share: number): number | undefined {
  let all = 0;
  for (let i = 0; i < counts.length; i++) all += counts[i]!;
  if (all === 0) return undefined;
  const wanted = Math.max(1, Math.ceil(all * share - 1e-9));
  let passed = 0;
  for (let i = 0; i < counts.length; i++) {
    passed += counts[i]!;
    if (passed >= wanted) return boundsOf(i)[1];
  }
  return Infinity;
}

/** A quantile of the server's own buckets (`lengths` of rows), as it computes it: the bucket's last ns. */
export function quantileOf(lengths: readonly (readonly [number, number])[], share: number): number | undefined {
  const sorted = [...lengths].sort((a, b) => a[0] - b[0]);
  const all = sorted.reduce((sum, [, count]) => sum + count, 0);
  if (all === 0) return undefined;
  const wanted = Math.max(1, Math.ceil(all * share - 1e-9));
  let passed = 0;
  for (const [from, count] of sorted) {
    passed += count;
    if (passed >= wanted) return endOf(from);
  }
  return undefined;
}

/** The last ns of the bucket that begins at `from_ns`; where it has no end, its begin is what is known. */
function endOf(from_ns: number): number {
  if (from_ns < FIRST_NS) return FIRST_NS - 1;
  if (from_ns >= FIRST_NS * 2 ** 24) return from_ns;
  const octave = 2 ** Math.floor(Math.log2(from_ns));
  return from_ns + octave / 4 - 1;
}
