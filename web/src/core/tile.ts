// What a tile holds once decoded. Three kinds; a tile that was asked for and is in no answer is empty.
import type { Rel } from "./time.ts";

/** Intervals themselves: all of the track that reach into the tile, sorted, not cut at its edges. */
export interface ExactTile {
  readonly kind: "exact";
  readonly ts: Float64Array;
  readonly dur: Float64Array;
  readonly key: Uint32Array;
  /** Counter tracks only: the value in each interval. */
  readonly value?: Float64Array;
}

/** Shares per bucket and key, in 1/65535 of the bucket; sorted by bucket. */
export interface SumsTile {
  readonly kind: "sums";
  readonly bucket: Uint16Array;
  readonly key: Uint32Array;
  readonly share: Uint16Array;
  /** Counter tracks only. */
  readonly min?: Float64Array;
  readonly max?: Float64Array;
  readonly mean?: Float64Array;
}

/** Nothing is in this tile's time. */
export interface EmptyTile {
  readonly kind: "empty";
}

export type Tile = ExactTile | SumsTile | EmptyTile;

export const EMPTY: EmptyTile = { kind: "empty" };

/** Bytes a tile keeps alive, with what the engine adds per object and array. */
export function bytesOf(tile: Tile): number {
  const overhead = 200;
  if (tile.kind === "empty") return 64;
  if (tile.kind === "exact") {
    return overhead * 2 + tile.ts.byteLength + tile.dur.byteLength + tile.key.byteLength + (tile.value?.byteLength ?? 0);
  }
  const counters = (tile.min?.byteLength ?? 0) * 3;
  return overhead * 2 + tile.bucket.byteLength + tile.key.byteLength + tile.share.byteLength + counters;
}

/** Index of the first interval that ends after `at`. Intervals of a track do not overlap. */
export function firstEndingAfter(tile: ExactTile, at: Rel): number {
  let low = 0;
  let high = tile.ts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (tile.ts[middle]! + Math.max(tile.dur[middle]!, 1) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Index of the first entry of a sums tile that belongs to `bucket` or a later one. */
export function firstOfBucket(tile: SumsTile, bucket: number): number {
  let low = 0;
  let high = tile.bucket.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (tile.bucket[middle]! >= bucket) high = middle;
    else low = middle + 1;
  }
  return low;
}
