// What is under the pointer: an interval where intervals are known, else what its pixel is made of.
import { BUCKETS, bucketNs, tileNs } from "./levels.ts";
import { firstEndingAfter, firstOfBucket } from "./tile.ts";
import type { TileCache } from "./cache.ts";
import type { Rel } from "./time.ts";
import type { Range } from "./view.ts";

/** One interval. */
export interface Interval {
  readonly ts: Rel;
  readonly dur: number;
  readonly key: number;
  readonly value?: number;
}

/** What a moment of a track shows at a zoom. */
export type Hit =
  | { readonly kind: "interval"; readonly interval: Interval }
  | { readonly kind: "shares"; readonly from: Rel; readonly to: Rel; readonly shares: readonly { key: number; share: number }[] }
  | { readonly kind: "nothing" }
  | { readonly kind: "loading" };

/** What is at `at` on a track, as far as the tiles of `level` tell. `slack_ns`: reach for what is thin. */
export function hitAt(cache: TileCache, track: number, level: number, at: Rel, slack_ns: number, whole: Range): Hit {
  if (at < whole.from || at >= whole.to) return { kind: "nothing" };
  const sources = cache.sources(track, level, Math.floor(at / tileNs(level)));
  const source = sources.find(({ level: l, index }) => at >= index * tileNs(l) && at < (index + 1) * tileNs(l));
  if (!source) return { kind: "loading" };
  const tile = source.tile;
  if (tile.kind === "empty") return { kind: "nothing" };
  if (tile.kind === "exact") {
    const i = nearest(tile.ts, tile.dur, firstEndingAfter(tile, at - slack_ns), at, slack_ns);
    if (i < 0) return { kind: "nothing" };
    const interval = { ts: tile.ts[i]!, dur: tile.dur[i]!, key: tile.key[i]! };
    return { kind: "interval", interval: tile.value ? { ...interval, value: tile.value[i]! } : interval };
  }
  const width = bucketNs(source.level);
  const bucket = Math.min(Math.floor((at - source.index * tileNs(source.level)) / width), BUCKETS - 1);
  const from = source.index * tileNs(source.level) + bucket * width;
  const shares: { key: number; share: number }[] = [];
  for (let i = firstOfBucket(tile, bucket); i < tile.bucket.length && tile.bucket[i] === bucket; i++) {
    shares.push({ key: tile.key[i]!, share: tile.share[i]! / 65535 });
  }
  shares.sort((a, b) => b.share - a.share);
  return shares.length > 0 ? { kind: "shares", from, to: from + width, shares } : { kind: "nothing" };
}

/** Of the intervals that touch `at` ± slack, the one that holds `at`, else the nearest. */
function nearest(ts: Float64Array, dur: Float64Array, first: number, at: Rel, slack_ns: number): number {
  let best = -1;
  let bestDistance = Infinity;
  for (let i = first; i < ts.length && ts[i]! <= at + slack_ns; i++) {
    const end = ts[i]! + Math.max(dur[i]!, 1);
    if (at >= ts[i]! && at < end) return i;
    const distance = at < ts[i]! ? ts[i]! - at : at - end;
    if (distance < bestDistance) [best, bestDistance] = [i, distance];
  }
  return best;
}
