// The strip above the ruler: the whole recording's CPU time by machine, and where the view is in it.
import { Columns, fillRow, SLOTS, type Scale } from "./columns.ts";
import { drawRow, type Pixels } from "./raster.ts";
import type { TileCache } from "./cache.ts";
import type { PaintTable } from "./palette.ts";
import { levelFor } from "./levels.ts";
import { spanOf, type Range } from "./view.ts";

/** How the whole recording lies in `width` pixels. */
export function minimapScale(whole: Range, width: number): Scale {
  return { from: whole.from, nsPerPixel: Math.max(spanOf(whole), 1) / Math.max(width, 1) };
}

/** The rectangle of the view in the minimap, at least three pixels wide so that one can see it. */
export function viewBox(view: Range, whole: Range, width: number): { x: number; width: number } {
  const scale = minimapScale(whole, width);
  const x = (view.from - scale.from) / scale.nsPerPixel;
  const wide = spanOf(view) / scale.nsPerPixel;
  if (wide >= 3) return { x, width: wide };
  return { x: x + wide / 2 - 1.5, width: 3 };
}

/** The level whose tiles the minimap draws from. */
export function minimapLevel(whole: Range, width: number): number {
  return levelFor(minimapScale(whole, width).nsPerPixel);
}

/** Draws the sum of several tracks (the pCPUs): each counts as an equal part of the height. */
export function drawMinimap(out: Pixels, cache: TileCache, tracks: readonly number[], whole: Range, paints: PaintTable, background: number): void {
  out.data.fill(background);
  if (tracks.length === 0 || out.width === 0) return;
  const scale = minimapScale(whole, out.width);
  const level = minimapLevel(whole, out.width);
  const one = new Columns(out.width);
  const sum = new Columns(out.width);
  const part = 1 / tracks.length;
  const likes = lookalikes(paints);
  for (const track of tracks) {
    fillRow(one, cache, track, level, scale, whole);
    for (let x = 0; x < out.width; x++) {
      sum.known[x]! += one.known[x]! * part;
      for (let slot = 0; slot < one.count[x]!; slot++) {
        const key = one.key[x * SLOTS + slot]!;
        // Idle is the background: what counts is who had the CPUs.
        if (paints.of(key).counts !== "slept") sum.add(x, likes[key] ?? key, one.share[x * SLOTS + slot]! * part);
      }
    }
  }
  sum.known.fill(1);
  drawRow(out, sum, { y: 0, height: out.height, anchor: 0 }, paints, background);
}


/** For each key the first one that looks the same: of hundreds of keys a column then has a few hues. */
function lookalikes(paints: PaintTable): Uint32Array {
  const first = new Map<string, number>();
  return Uint32Array.from(paints.paints, (paint, key) => {
    const name = `${paints.front[key]}/${paints.back[key]}/${paint.pattern}/${paint.rank}`;
    const known = first.get(name);
    if (known === undefined) first.set(name, key);
    return known ?? key;
  });
}
