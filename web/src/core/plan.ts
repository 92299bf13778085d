// Which tiles to ask for. One request names one level, a run of tiles and some tracks; the plan turns
// what the last frame missed into few requests, what is seen before what may be seen next.
import { tilesOf } from "./levels.ts";
import { spanOf, type Range } from "./view.ts";
import type { TileCache } from "./cache.ts";

/** One request to `/api/tiles`. */
export interface TileRequest {
  readonly level: number;
  readonly first: number;
  readonly count: number;
  readonly tracks: readonly number[];
}

/**
 * Tiles in one request: bounds both the answer's size and how long a newer wish must wait. So many exact tiles, of 2,048
 * intervals, are fewer rows than `transect serve` gives at once.
 */
export const MOST_TILES = 96;

/** What is on its way, so that it is not asked for twice. */
export class Pending {
  private readonly keys = new Set<string>();

  has(track: number, level: number, index: number): boolean {
    return this.keys.has(`${track}/${level}/${index}`);
  }

  start(request: TileRequest): void {
    this.each(request, (key) => this.keys.add(key));
  }

  end(request: TileRequest): void {
    this.each(request, (key) => this.keys.delete(key));
  }

  private each(request: TileRequest, visit: (key: string) => void): void {
    for (const track of request.tracks) {
      for (let i = 0; i < request.count; i++) visit(`${track}/${request.level}/${request.first + i}`);
    }
  }
}

/** What the screen shows and at which level. */
export interface Wish {
  readonly tracks: readonly number[];
  readonly range: Range;
  readonly level: number;
}

/**
 * Requests for what `wish` lacks: tracks that lack the same run of tiles share a request. Runs are
 * asked for whole (from the first to the last missing tile), because holes in them are rare.
 */
export function planFor(wish: Wish, whole: Range, cache: TileCache, pending: Pending): TileRequest[] {
  const span = tilesOf(wish.range, whole, wish.level);
  if (!span) return [];
  const groups = new Map<string, { first: number; count: number; tracks: number[] }>();
  // A pinned track may have two rows.
  for (const track of new Set(wish.tracks)) {
    let first = -1;
    let last = -1;
    for (let index = span.first; index <= span.last; index++) {
      if (cache.knows(track, wish.level, index) || pending.has(track, wish.level, index)) continue;
      if (first < 0) first = index;
      last = index;
    }
    if (first < 0) continue;
    const name = `${first}+${last}`;
    const group = groups.get(name);
    if (group) group.tracks.push(track);
    else groups.set(name, { first, count: last - first + 1, tracks: [track] });
  }
  return [...groups.values()].flatMap((group) => split({ level: wish.level, ...group }));
}

/** Cuts a request into several of at most `MOST_TILES` tiles. */
export function split(request: TileRequest): TileRequest[] {
  const out: TileRequest[] = [];
  for (let first = 0; first < request.count; first += MOST_TILES) {
    const count = Math.min(request.count - first, MOST_TILES);
    const perRequest = Math.max(1, Math.floor(MOST_TILES / count));
    for (let at = 0; at < request.tracks.length; at += perRequest) {
      out.push({ level: request.level, first: request.first + first, count, tracks: request.tracks.slice(at, at + perRequest) });
    }
  }
  return out;
}

/** Halves a request whose answer is too large; one tile has no halves. */
export function halve(request: TileRequest): TileRequest[] {
  const { level, first, count, tracks } = request;
  if (tracks.length > 1) {
    const half = tracks.length >> 1;
    return [{ level, first, count, tracks: tracks.slice(0, half) }, { level, first, count, tracks: tracks.slice(half) }];
  }
  if (count < 2) return [];
  const half = count >> 1;
  return [{ level, first, count: half, tracks }, { level, first: first + half, count: count - half, tracks }];
}

/** The view and half a view on each side: what a pan will show next. */
export function ahead(range: Range): Range {
  const half = spanOf(range) / 2;
  return { from: range.from - half, to: range.to + half };
}
