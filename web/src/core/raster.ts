// The software raster: columns of shares → pixels. No canvas here; a Uint32Array of RGBA words, so
// that what is drawn can be tested without a browser and costs the same everywhere.
//
// A column of h pixels is divided by share: boundaries are rounded sums, so each state's height is
// right to half a pixel and the whole is exactly h. Kinds of states that people look for (waits,
// losses) take at least one pixel, and what lanes are made of (calls, interrupts, requests) at least three. The work per row is its columns times its height, whatever the recording's size.
import { OTHERS, SLOTS, type Columns } from "./columns.ts";
import { greys, mix, word, type PaintTable, type Rgb, type Theme } from "./palette.ts";

/** Pixels of a canvas: `width` × `height` RGBA words, little endian, as ImageData keeps them. */
export interface Pixels {
  readonly data: Uint32Array;
  readonly width: number;
  readonly height: number;
}

/** Where a row is drawn. `anchor` shifts patterns so that they move with time and do not crawl. */
export interface RowPlace {
  readonly y: number;
  readonly height: number;
  readonly anchor: number;
}

/** Fills a rectangle, cut at the edges. */
export function fillRect(out: Pixels, x: number, y: number, width: number, height: number, colour: number): void {
  const x0 = Math.max(0, Math.round(x));
  const x1 = Math.min(out.width, Math.round(x + width));
  const y1 = Math.min(out.height, Math.round(y + height));
  if (x1 <= x0) return;
  for (let row = Math.max(0, Math.round(y)); row < y1; row++) out.data.fill(colour, row * out.width + x0, row * out.width + x1);
}

/** Scratch of one column: keys in stacking order (as places in `paints.keyAt`), and where each ends. */
const place = new Uint32Array(SLOTS);
const amount = new Float64Array(SLOTS);
const order = new Uint32Array(SLOTS);
const top = new Int32Array(SLOTS);

/**
 * Divides `height` pixels among a column's keys, bottom first. Returns how many entries of `order`
 * and `top` are set; `top[i]` is how many pixels lie below the upper edge of entry i.
 */
export function stack(columns: Columns, column: number, height: number, paints: PaintTable): number {
  const { key, share } = columns;
  const { places, keyAt, least, rank } = paints;
  const base = column * SLOTS;
  const count = columns.count[column]!;
  for (let slot = 0; slot < count; slot++) {
    const id = key[base + slot]!;
    const here = places[id < places.length ? id : OTHERS]!;
    let at = slot;
    for (; at > 0 && place[at - 1]! > here; at--) {
      place[at] = place[at - 1]!;
      amount[at] = amount[at - 1]!;
    }
    place[at] = here;
    amount[at] = share[base + slot]! * height;
  }
  let sum = 0.5;
  let below = 0;
  // A kind of state (a rank) that would vanish gets its least, once: for its largest key, not for each.
  let largest = 0;
  let floor = 0;
  for (let i = 0; i < count; i++) {
    const id = keyAt[place[i]!]!;
    if (i === 0 || rank[id] !== rank[order[i - 1]!]) {
      largest = i;
      floor = below;
    } else if (amount[i]! > amount[largest]!) largest = i;
    sum += amount[i]!;
    const edge = sum | 0;
    if (edge > below) below = edge < height ? edge : height;
    order[i] = id;
    top[i] = below;
    if (below !== floor || least[id] === 0) continue;
    const last = i + 1 === count || rank[keyAt[place[i + 1]!]!] !== rank[id];
    if (!last) continue;
    // Where the column is full already, what lies below makes room.
    const start = Math.min(floor, Math.max(height - least[id]!, 0));
    for (let at = 0; at < largest; at++) if (top[at]! > start) top[at] = start;
    below = Math.min(start + least[id]!, height);
    for (let at = largest; at <= i; at++) top[at] = below;
  }
  return count;
}

/** What `stack` found, copied for whoever is not the raster (SVG, tests, tooltips). */
export function stacked(columns: Columns, column: number, height: number, paints: PaintTable): { key: number; from: number; to: number }[] {
  const count = stack(columns, column, height, paints);
  const out = [];
  let below = 0;
  for (let i = 0; i < count; i++) {
    if (top[i]! > below) out.push({ key: order[i]!, from: below, to: top[i]! });
    below = top[i]!;
  }
  return out;
}

/** Draws one row of states. The row's background must be there already. */
export function drawRow(out: Pixels, columns: Columns, place: RowPlace, paints: PaintTable, loading: number): void {
  const width = Math.min(columns.width, out.width);
  let column = 0;
  while (column < width) {
    if (columns.known[column]! < 0.5) {
      paintSpan(out, column, 1, place.y, place.height, loading);
      column++;
      continue;
    }
    if (columns.count[column] === 0) {
      column++;
      continue;
    }
    const key = fullKey(columns, column);
    if (key >= 0) {
      let end = column + 1;
      while (end < width && fullKey(columns, end) === key && columns.known[end]! >= 0.5) end++;
      drawFull(out, column, end, place, key, paints);
      column = end;
    } else {
      drawStack(out, columns, column, place, paints);
      column++;
    }
  }
}

/** The key that has all of a column, or -1. */
function fullKey(columns: Columns, column: number): number {
  const at = column * SLOTS;
  return columns.count[column] === 1 && columns.share[at]! > 0.9995 ? columns.key[at]! : -1;
}

function drawFull(out: Pixels, x0: number, x1: number, place: RowPlace, key: number, paints: PaintTable): void {
  if (paints.plain[key] !== 0) {
    paintSpan(out, x0, x1 - x0, place.y, place.height, paints.front[key] ?? paints.front[1]!);
    return;
  }
  const y1 = Math.min(place.y + place.height, out.height);
  const front = paints.front[key]!;
  const back = paints.back[key]!;
  const { masks } = paints;
  const first = paints.maskAt[key]!;
  for (let y = Math.max(place.y, 0); y < y1; y++) {
    const row = y * out.width;
    const mask = first + ((y - place.y) & 7) * 8;
    for (let x = x0; x < x1; x++) out.data[row + x] = masks[mask + ((x + place.anchor) & 7)] === 1 ? front : back;
  }
}

function drawStack(out: Pixels, columns: Columns, x: number, place: RowPlace, paints: PaintTable): void {
  const { data, width } = out;
  const { masks, maskAt, plain, front: fronts, back: backs } = paints;
  const count = stack(columns, x, place.height, paints);
  const bottom = place.y + place.height;
  const bit = (x + place.anchor) & 7;
  let below = 0;
  for (let i = 0; i < count; i++) {
    const key = order[i]!;
    const first = Math.max(bottom - top[i]!, 0);
    const last = Math.min(bottom - below, out.height);
    below = top[i]!;
    const front = fronts[key]!;
    let at = first * width + x;
    if (plain[key] !== 0) {
      for (let y = first; y < last; y++, at += width) data[at] = front;
      continue;
    }
    const back = backs[key]!;
    const mask = maskAt[key]! + bit;
    for (let y = first; y < last; y++, at += width) data[at] = masks[mask + ((y - place.y) & 7) * 8] === 1 ? front : back;
  }
}

/** Draws a row of instants: a full-height mark wherever a column has any. */
export function drawInstants(out: Pixels, columns: Columns, place: RowPlace, paints: PaintTable, loading: number): void {
  for (let x = 0; x < Math.min(columns.width, out.width); x++) {
    if (columns.known[x]! < 0.5) paintSpan(out, x, 1, place.y, place.height, loading);
    if (columns.count[x] === 0) continue;
    const { key, share } = columns.dominant(x);
    const height = Math.max(Math.round(place.height * (0.55 + 0.45 * Math.min(1, share * 4))), 3);
    paintSpan(out, x, 1, place.y + place.height - height, height, paints.front[key] ?? paints.front[1]!);
  }
}

/**
 * Draws a counter: filled to the mean, lighter to the maximum. `full` is the value of the row's whole height; without
 * it the largest visible value is. Returns that value.
 */
export function drawCounter(out: Pixels, columns: Columns, place: RowPlace, colour: Rgb, theme: Theme, full?: number): number {
  let highest = full ?? 0;
  for (let x = 0; x < columns.width; x++) if (columns.weight[x]! > 0) highest = Math.max(highest, columns.max[x]!);
  if (highest <= 0) return highest;
  const solid = word(mix(greys(theme).row, colour, 0.6));
  const light = word(mix(greys(theme).row, colour, 0.3));
  const bottom = place.y + place.height;
  for (let x = 0; x < Math.min(columns.width, out.width); x++) {
    if (columns.weight[x] === 0) continue;
    const mean = Math.round((columns.sum[x]! / columns.weight[x]! / highest) * place.height);
    const peak = Math.round((columns.max[x]! / highest) * place.height);
    paintSpan(out, x, 1, bottom - peak, peak - mean, light);
    paintSpan(out, x, 1, bottom - mean, mean, solid);
  }
  return highest;
}

/** Lays thin slanted lines over columns `[x0, x1)`: events were lost there. */
export function hatch(out: Pixels, x0: number, x1: number, place: RowPlace, colour: number): void {
  const from = Math.max(0, Math.floor(x0));
  const to = Math.min(out.width, Math.max(Math.ceil(x1), from + 1));
  const y1 = Math.min(place.y + place.height, out.height);
  for (let y = Math.max(place.y, 0); y < y1; y++) {
    for (let x = from; x < to; x++) if (((x + place.anchor + y) & 7) < 2) out.data[y * out.width + x] = colour;
  }
}

/** `paintSpan` is `fillRect` for whole numbers that are known to be inside horizontally. */
function paintSpan(out: Pixels, x: number, width: number, y: number, height: number, colour: number): void {
  const y1 = Math.min(y + height, out.height);
  if (width === 1) {
    for (let row = Math.max(y, 0); row < y1; row++) out.data[row * out.width + x] = colour;
    return;
  }
  for (let row = Math.max(y, 0); row < y1; row++) out.data.fill(colour, row * out.width + x, row * out.width + x + width);
}
