// Tiles in memory: least recently used first out, by bytes; and the search for the best tile to
// draw a stretch of time from when the right one is not there (yet).
import { TOP_LEVEL } from "./levels.ts";
import { bytesOf, EMPTY, type Tile } from "./tile.ts";

interface Entry {
  tile: Tile;
  bytes: number;
  /** Frame in which it was last drawn. */
  used: number;
  /** Fetched while tiles were still being built: to be drawn, but asked for again. */
  provisional: boolean;
}

/** Where a stretch of time can be drawn from. */
export interface Source {
  readonly tile: Tile;
  readonly level: number;
  readonly index: number;
}

/** How many levels finer a missing tile is put together from its children. */
const CHILD_LEVELS = 2;

export class TileCache {
  private readonly tracks = new Map<number, Map<number, Map<number, Entry>>>();
  private total = 0;
  private frame = 0;

  /** `budget_bytes` bounds what the tiles keep alive; the newest frame's tiles are never dropped. */
  constructor(readonly budget_bytes: number) {}

  /** Bytes kept now. */
  get bytes(): number {
    return this.total;
  }

  /** Starts a frame: what is looked up from now on counts as just used. */
  nextFrame(): void {
    this.frame++;
  }

  put(track: number, level: number, index: number, tile: Tile, provisional = false): void {
    let levels = this.tracks.get(track);
    if (!levels) this.tracks.set(track, (levels = new Map()));
    let tiles = levels.get(level);
    if (!tiles) levels.set(level, (tiles = new Map()));
    const old = tiles.get(index);
    if (old) this.total -= old.bytes;
    const bytes = bytesOf(tile);
    tiles.set(index, { tile, bytes, used: this.frame, provisional });
    this.total += bytes;
  }

  /** The tile itself, exactly as asked. */
  get(track: number, level: number, index: number): Tile | undefined {
    return this.entry(track, level, index)?.tile;
  }

  /**
   * Does the cache know all that this tile would tell? True also where a coarser tile is exact or
   * empty: there is nothing finer to learn, so zooming in needs no further request.
   */
  knows(track: number, level: number, index: number): boolean {
    const levels = this.tracks.get(track);
    if (!levels) return false;
    for (const [at, tiles] of levels) {
      if (at < level) continue;
      const entry = tiles.get(ancestor(index, at - level));
      if (entry && !entry.provisional && (at === level || entry.tile.kind !== "sums")) return true;
    }
    return false;
  }

  /**
   * The best there is for one tile's time: itself; an exact or empty coarser one; its children, if
   * all are there; the nearest coarser sums. Empty list: nothing is known.
   */
  sources(track: number, level: number, index: number): Source[] {
    const levels = this.tracks.get(track);
    if (!levels) return [];
    const own = this.use(levels.get(level)?.get(index));
    if (own) return [{ tile: own, level, index }];
    let coarse: Source | undefined;
    for (let at = level + 1; at <= TOP_LEVEL; at++) {
      const tiles = levels.get(at);
      if (!tiles) continue;
      const above = ancestor(index, at - level);
      const entry = tiles.get(above);
      if (!entry) continue;
      if (entry.tile.kind !== "sums") return [{ tile: this.use(entry)!, level: at, index: above }];
      coarse ??= { tile: entry.tile, level: at, index: above };
    }
    const children = this.children(levels, level, index);
    if (children.length > 0) return children;
    if (!coarse) return [];
    this.use(levels.get(coarse.level)!.get(coarse.index));
    return [coarse];
  }

  /** Forgets what was fetched while tiles were being built. */
  dropProvisional(): void {
    this.each((tiles, index, entry) => {
      if (entry.provisional) this.drop(tiles, index, entry);
    });
  }

  /** Forgets everything: the recording's tables were made anew. */
  clear(): void {
    this.tracks.clear();
    this.total = 0;
  }

  /** Drops the least recently drawn tiles until the budget holds. Returns how many went. */
  trim(): number {
    if (this.total <= this.budget_bytes) return 0;
    const old: { tiles: Map<number, Entry>; index: number; entry: Entry }[] = [];
    this.each((tiles, index, entry) => {
      if (entry.used < this.frame) old.push({ tiles, index, entry });
    });
    old.sort((a, b) => a.entry.used - b.entry.used);
    // A tenth below the budget, so that the next frames need not sort again.
    const goal = this.budget_bytes * 0.9;
    let dropped = 0;
    for (const { tiles, index, entry } of old) {
      if (this.total <= goal) break;
      this.drop(tiles, index, entry);
      dropped++;
    }
    return dropped;
  }

  private entry(track: number, level: number, index: number): Entry | undefined {
    return this.tracks.get(track)?.get(level)?.get(index);
  }

  private use(entry: Entry | undefined): Tile | undefined {
    if (!entry) return undefined;
    entry.used = this.frame;
    return entry.tile;
  }

  private children(levels: Map<number, Map<number, Entry>>, level: number, index: number): Source[] {
    for (let down = 1; down <= CHILD_LEVELS && down <= level; down++) {
      const tiles = levels.get(level - down);
      if (!tiles) continue;
      const first = index * Math.pow(2, down);
      const found: Source[] = [];
      for (let i = 0; i < Math.pow(2, down); i++) {
        const tile = this.use(tiles.get(first + i));
        if (!tile) break;
        found.push({ tile, level: level - down, index: first + i });
      }
      if (found.length === Math.pow(2, down)) return found;
    }
    return [];
  }

  private drop(tiles: Map<number, Entry>, index: number, entry: Entry): void {
    tiles.delete(index);
    this.total -= entry.bytes;
  }

  private each(visit: (tiles: Map<number, Entry>, index: number, entry: Entry) => void): void {
    for (const levels of this.tracks.values()) {
      for (const tiles of levels.values()) {
        for (const [index, entry] of tiles) visit(tiles, index, entry);
      }
    }
  }
}

/** The tile `up` levels coarser that holds tile `index`. Doubles: indices exceed 2^32. */
export function ancestor(index: number, up: number): number {
  return Math.floor(index / Math.pow(2, up));
}

export { EMPTY };
