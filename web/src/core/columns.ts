// From tiles to pixel columns: for every column of a track's row, which key had which share of the
// column's time. This is the step at which a picture could start to lie, so it only ever adds up
// time: a column is an exact sum over the intervals (or the buckets) it covers.
import { bucketNs, tileNs, tilesOf } from "./levels.ts";
import { firstEndingAfter, firstOfBucket, type ExactTile, type SumsTile } from "./tile.ts";
import type { Source, TileCache } from "./cache.ts";
import type { Rel } from "./time.ts";
import type { Range } from "./view.ts";

/** Keys a column can tell apart. As many as a bucket has; what is beyond goes to `OTHERS`. */
export const SLOTS = 16;
/** The format's key for "others". */
export const OTHERS = 1;

/** Shares per column of one row. Made once, filled anew for every row of every frame. */
export class Columns {
  /** How many keys each column has. */
  readonly count: Uint8Array;
  /** Keys: `SLOTS` per column. */
  readonly key: Uint32Array;
  /** Their shares of the column, 0 to 1. */
  readonly share: Float32Array;
  /** How much of each column is known: less than 1 where tiles are still missing. */
  readonly known: Float32Array;
  /** Counter rows: extremes, and the time-weighted sum of the value. */
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly sum: Float64Array;
  readonly weight: Float32Array;

  constructor(readonly width: number) {
    this.count = new Uint8Array(width);
    this.key = new Uint32Array(width * SLOTS);
    this.share = new Float32Array(width * SLOTS);
    this.known = new Float32Array(width);
    this.min = new Float64Array(width);
    this.max = new Float64Array(width);
    this.sum = new Float64Array(width);
    this.weight = new Float32Array(width);
  }

  /** Forgets all columns. */
  clear(): void {
    this.count.fill(0);
    this.known.fill(0);
    this.weight.fill(0);
  }

  /** Adds a share of one column to a key. */
  add(column: number, key: number, share: number): void {
    const base = column * SLOTS;
    const count = this.count[column]!;
    for (let at = base; at < base + count; at++) {
      if (this.key[at] === key) {
        this.share[at]! += share;
        return;
      }
    }
    if (count < SLOTS) {
      this.key[base + count] = key;
      this.share[base + count] = share;
      this.count[column] = count + 1;
      return;
    }
    this.overflow(base, share);
  }

  /** Adds `[x0, x1)` (in columns, with fractions) to a key, `density` of it in each column. */
  spread(x0: number, x1: number, key: number, density: number): void {
    const from = Math.max(x0, 0);
    const to = Math.min(x1, this.width);
    if (to <= from) return;
    const first = Math.floor(from);
    const last = Math.ceil(to) - 1;
    if (first === last) {
      this.add(first, key, (to - from) * density);
      return;
    }
    this.add(first, key, (first + 1 - from) * density);
    for (let column = first + 1; column < last; column++) this.add(column, key, density);
    this.add(last, key, (to - last) * density);
  }

  /** Notes that `[x0, x1)` is known, whether or not anything is there. */
  know(x0: number, x1: number): void {
    const from = Math.max(x0, 0);
    const to = Math.min(x1, this.width);
    for (let column = Math.floor(from); column < to; column++) {
      this.known[column]! += Math.min(column + 1, to) - Math.max(column, from);
    }
  }

  /**
   * Adds entries `[from, to)` of a sums tile, all of one bucket, to a column; `part` turns a share of the
   * bucket into one of the column. A bucket's keys are distinct, and neighbouring buckets have mostly the same
   * ones in the same order: the first is copied, and each key of the next is looked for where the last was.
   */
  addBucket(column: number, keys: Uint32Array, shares: Uint16Array, from: number, to: number, part: number): void {
    const { key, share } = this;
    const base = column * SLOTS;
    const count = this.count[column]!;
    if (count === 0 && to - from <= SLOTS) {
      for (let i = from, at = base; i < to; i++, at++) {
        key[at] = keys[i]!;
        share[at] = shares[i]! * part;
      }
      this.count[column] = to - from;
      return;
    }
    const end = base + count;
    let next = base;
    for (let i = from; i < to; i++) {
      const wanted = keys[i]!;
      let at = next;
      while (at < end && key[at] !== wanted) at++;
      if (at < end) {
        share[at]! += shares[i]! * part;
        next = at + 1;
      } else this.add(column, wanted, shares[i]! * part);
    }
  }

  /** Notes a counter's value (or extremes and mean) over `[x0, x1)`. */
  measure(x0: number, x1: number, min: number, max: number, mean: number): void {
    const from = Math.max(x0, 0);
    const to = Math.min(x1, this.width);
    for (let column = Math.floor(from); column < to; column++) {
      const weight = Math.min(column + 1, to) - Math.max(column, from);
      const fresh = this.weight[column] === 0;
      this.min[column] = fresh ? min : Math.min(this.min[column]!, min);
      this.max[column] = fresh ? max : Math.max(this.max[column]!, max);
      this.sum[column] = (fresh ? 0 : this.sum[column]!) + mean * weight;
      this.weight[column]! += weight;
    }
  }

  /** The key with the most time in a column, and its share; key 0 if the column is empty. */
  dominant(column: number): { key: number; share: number } {
    const base = column * SLOTS;
    let best = { key: 0, share: 0 };
    for (let slot = 0; slot < this.count[column]!; slot++) {
      const share = this.share[base + slot]!;
      if (share > best.share) best = { key: this.key[base + slot]!, share };
    }
    return best;
  }

  private overflow(base: number, share: number): void {
    // The smallest slot becomes "others"; if there is one already, it takes the share.
    let smallest = base;
    for (let at = base; at < base + SLOTS; at++) {
      if (this.key[at] === OTHERS) {
        this.share[at]! += share;
        return;
      }
      if (this.share[at]! < this.share[smallest]!) smallest = at;
    }
    this.key[smallest] = OTHERS;
    this.share[smallest]! += share;
  }
}

/** How the screen's columns lie in time. */
export interface Scale {
  readonly from: Rel;
  readonly nsPerPixel: number;
}

/** Fills `columns` with one track's row. Returns the tiles that were not there. */
export function fillRow(
  columns: Columns,
  cache: TileCache,
  track: number,
  level: number,
  scale: Scale,
  whole: Range,
): void {
  columns.clear();
  const seen = { from: scale.from, to: scale.from + columns.width * scale.nsPerPixel };
  const tiles = tilesOf(seen, whole, level);
  // Before and after the recording there is nothing, and that is known.
  const toColumn = (rel: Rel): number => (rel - scale.from) / scale.nsPerPixel;
  columns.know(0, toColumn(whole.from));
  columns.know(toColumn(whole.to), columns.width);
  if (!tiles) return;
  const ns = tileNs(level);
  for (let index = tiles.first; index <= tiles.last; index++) {
    const from = index * ns;
    const to = Math.min(from + ns, whole.to);
    for (const source of cache.sources(track, level, index)) {
      const a = Math.max(from, source.index * tileNs(source.level));
      const b = Math.min(to, (source.index + 1) * tileNs(source.level));
      fillFrom(columns, source, a, b, scale);
    }
  }
}

function fillFrom(columns: Columns, source: Source, from: Rel, to: Rel, scale: Scale): void {
  const x0 = (from - scale.from) / scale.nsPerPixel;
  const x1 = (to - scale.from) / scale.nsPerPixel;
  columns.know(x0, x1);
  if (source.tile.kind === "exact") fillExact(columns, source.tile, from, to, scale);
  else if (source.tile.kind === "sums") fillSums(columns, source.tile, source, from, to, scale);
}

/** Adds the intervals of `[from, to)`, cut at its edges: neighbours bring their own part. */
function fillExact(columns: Columns, tile: ExactTile, from: Rel, to: Rel, scale: Scale): void {
  const { ts, dur, key, value } = tile;
  const seenFrom = Math.max(from, scale.from);
  const seenTo = Math.min(to, scale.from + columns.width * scale.nsPerPixel);
  const perNs = 1 / scale.nsPerPixel;
  for (let i = firstEndingAfter(tile, seenFrom); i < ts.length && ts[i]! < seenTo; i++) {
    const a = (Math.max(ts[i]!, from) - scale.from) * perNs;
    // An instant has no time of its own: it is given one nanosecond, so that it is somewhere.
    const b = (Math.min(ts[i]! + Math.max(dur[i]!, 1), to) - scale.from) * perNs;
    if (value) columns.measure(a, b, value[i]!, value[i]!, value[i]!);
    else columns.spread(a, b, key[i]!, 1);
  }
}

function fillSums(columns: Columns, tile: SumsTile, at: Source, from: Rel, to: Rel, scale: Scale): void {
  const width = bucketNs(at.level);
  const start = at.index * tileNs(at.level);
  const perNs = 1 / scale.nsPerPixel;
  const seenFrom = Math.max(from, scale.from);
  const seenTo = Math.min(to, scale.from + columns.width * scale.nsPerPixel);
  const { bucket, key, share, min, max, mean } = tile;
  const count = bucket.length;
  let i = firstOfBucket(tile, Math.floor((seenFrom - start) / width));
  while (i < count) {
    const begin = start + bucket[i]! * width;
    if (begin >= seenTo) return;
    let end = i + 1;
    while (end < count && bucket[end] === bucket[i]) end++;
    const a = Math.max((Math.max(begin, from) - scale.from) * perNs, 0);
    const b = Math.min((Math.min(begin + width, to) - scale.from) * perNs, columns.width);
    if (min && max && mean) columns.measure(a, b, min[i]!, max[i]!, mean[i]!);
    else {
      const last = Math.ceil(b) - 1;
      for (let x = Math.floor(a); x <= last; x++) columns.addBucket(x, key, share, i, end, (Math.min(x + 1, b) - Math.max(x, a)) / 65535);
    }
    i = end;
  }
}

/** A stretch of columns in which one key has most of the time: where its name can be written. */
export interface Run {
  readonly key: number;
  readonly x0: number;
  readonly x1: number;
}

/** The runs of at least `minimum` columns in which one key has more than `share` of each column. */
export function runs(columns: Columns, minimum: number, share = 0.6): Run[] {
  const out: Run[] = [];
  let key = 0;
  let start = 0;
  const close = (end: number): void => {
    if (key > OTHERS && end - start >= minimum) out.push({ key, x0: start, x1: end });
  };
  for (let column = 0; column < columns.width; column++) {
    const base = column * SLOTS;
    let here = 0;
    for (let slot = 0; slot < columns.count[column]!; slot++) {
      if (columns.share[base + slot]! > share) here = columns.key[base + slot]!;
    }
    if (here !== key) {
      close(column);
      key = here;
      start = column;
    }
  }
  close(columns.width);
  return out;
}
