// The pyramid's arithmetic: which level a zoom wants, which tiles a range touches.
import type { Range } from "./view.ts";

/** Buckets in a tile. Fixed by the tile format. */
export const BUCKETS = 512;
/** The coarsest level of the format. */
export const TOP_LEVEL = 54;

/** Nanoseconds one bucket of a level spans. A double: 2^54 is more than an int32 shift can make. */
export function bucketNs(level: number): number {
  return Math.pow(2, level);
}

/** Nanoseconds a tile of a level spans. */
export function tileNs(level: number): number {
  return BUCKETS * bucketNs(level);
}

/**
 * The level whose buckets are the widest not wider than a pixel: a column then gathers one to three
 * buckets, and a screen needs its width / 256 tiles of a track at most.
 */
export function levelFor(nsPerPixel: number): number {
  const level = Math.floor(Math.log2(Math.max(nsPerPixel, 1)));
  return Math.min(Math.max(level, 0), TOP_LEVEL);
}

/** First and last tile (inclusive) of a level that a range touches, within the recording. */
export function tilesOf(range: Range, whole: Range, level: number): { first: number; last: number } | undefined {
  const from = Math.max(range.from, whole.from);
  const to = Math.min(range.to, whole.to);
  if (to <= from) return undefined;
  const ns = tileNs(level);
  return { first: Math.floor(from / ns), last: Math.ceil(to / ns) - 1 };
}

/** The level at which the whole recording is `tiles` tiles at most: what is fetched first. */
export function overviewLevel(whole: Range, tiles = 4): number {
  let level = 0;
  while (level < TOP_LEVEL && Math.ceil(whole.to / tileNs(level)) > tiles) level++;
  return level;
}
