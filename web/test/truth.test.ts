// What is drawn is true: the columns, and the pixels made of them, against brute-force sums over the
// same stretch of time, from the whole recording down to a few nanoseconds.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sums } from "../dev/tiles.ts";
import { random } from "../dev/simulate.ts";
import { TileCache } from "../src/core/cache.ts";
import { Columns, fillRow, SLOTS } from "../src/core/columns.ts";
import { stacked, drawRow, type Pixels } from "../src/core/raster.ts";
import { load, made } from "./kit.ts";

const WIDTH = 300;
const { answers, whole, paints } = made({ seconds: 20, exit_us: 60, guests: 2, sleepers: 2 });
const tracks = answers.recording.tracks.filter((t) => ["cpu", "vcpu", "thread", "exits"].includes(t.kind) && t.intervals > 10);
const next = random(7);

for (let zoom = 0; zoom < 12; zoom++) {
  const span = whole.to / Math.pow(8, zoom) + 20;
  test(`columns equal brute force over ${Math.round(span)} ns`, () => {
    for (const { track } of tracks.slice(0, 12)) {
      const from = Math.floor(next() * (whole.to - span));
      const own = answers.recording.intervals.get(track)!;
      const cache = new TileCache(1e9);
      const level = load(answers, cache, track, { from, to: from + span }, WIDTH);
      const columns = new Columns(WIDTH);
      const scale = { from, nsPerPixel: span / WIDTH };
      fillRow(columns, cache, track, level, scale, whole);
      // A bucket is at most a pixel wide and divided evenly over two columns: neighbours may differ by
      // what lies within one bucket. Over four columns the error is one bucket's at each edge.
      const bucket = Math.pow(2, level);
      for (let x = 0; x + 4 <= WIDTH; x += 4) {
        const a = from + x * scale.nsPerPixel;
        const b = a + 4 * scale.nsPerPixel;
        const truth = sums(own, a, b);
        for (const key of new Set([...truth.keys(), ...keysOf(columns, x, x + 4)])) {
          const drawn = shareOf(columns, x, x + 4, key) * scale.nsPerPixel;
          const slack = 2 * bucket + (b - a) * 1e-3;
          assert.ok(Math.abs(drawn - (truth.get(key) ?? 0)) <= slack, `track ${track} key ${key} at ${a}: drawn ${drawn}, true ${truth.get(key)}`);
        }
      }
      // The whole row has no edges inside: it is true to a thousandth.
      const all = sums(own, from, from + span);
      for (const [key, ns] of all) {
        const drawn = shareOf(columns, 0, WIDTH, key) * scale.nsPerPixel;
        assert.ok(Math.abs(drawn - ns) <= span * 1e-3 + 2 * bucket, `track ${track} key ${key}: drawn ${drawn}, true ${ns} of ${span}`);
      }
      assert.ok(columns.known.every((known) => known > 0.99));
    }
  });
}

test("pixels' heights are the shares, to a pixel", () => {
  const { track } = tracks.find((t) => t.kind === "vcpu")!;
  const cache = new TileCache(1e9);
  const level = load(answers, cache, track, whole, WIDTH);
  const columns = new Columns(WIDTH);
  fillRow(columns, cache, track, level, { from: 0, nsPerPixel: whole.to / WIDTH }, whole);
  const height = 24;
  for (let x = 0; x < WIDTH; x++) {
    const shape = stacked(columns, x, height, paints);
    for (let slot = 0; slot < columns.count[x]!; slot++) {
      const key = columns.key[x * SLOTS + slot]!;
      const pixels = shape.filter((s) => s.key === key).reduce((sum, s) => sum + s.to - s.from, 0);
      // Half a pixel for rounding each edge, and one for each kind of state that was given its pixel.
      const kinds = new Set(shape.map((s) => paints.of(s.key)).filter((paint) => paint.least > 0).map((paint) => paint.rank)).size;
      assert.ok(Math.abs(pixels - columns.share[x * SLOTS + slot]! * height) <= 1.01 + kinds, `column ${x} key ${key}`);
    }
  }
});

test("a kind of state that is too short to see gets its pixel once, not once for each of its keys", () => {
  const waits = answers.recording.keys.filter((key) => key.class === "preempted").slice(0, 5).map((key) => key.key);
  const guest = answers.recording.keys.find((key) => key.class === "guest")!.key;
  const columns = new Columns(1);
  columns.add(0, guest, 0.99);
  waits.forEach((key, i) => columns.add(0, key, 0.001 + i * 0.0001));
  assert.deepEqual(stacked(columns, 0, 22, paints), [{ key: guest, from: 0, to: 21 }, { key: waits[4], from: 21, to: 22 }]);
});

test("the raster paints exactly what stacked() says, inside its rectangle", () => {
  const { track } = tracks.find((t) => t.kind === "cpu")!;
  const cache = new TileCache(1e9);
  const level = load(answers, cache, track, whole, WIDTH);
  const columns = new Columns(WIDTH);
  fillRow(columns, cache, track, level, { from: 0, nsPerPixel: whole.to / WIDTH }, whole);
  const out: Pixels = { data: new Uint32Array(WIDTH * 40).fill(0x01020304), width: WIDTH, height: 40 };
  const place = { y: 5, height: 24, anchor: 0 };
  drawRow(out, columns, place, paints, 0xff000000);
  for (let x = 0; x < WIDTH; x++) {
    const shape = stacked(columns, x, place.height, paints);
    for (let y = 0; y < 40; y++) {
      const level = place.y + place.height - 1 - y;
      const part = shape.find((s) => level >= s.from && level < s.to);
      const pixel = out.data[y * WIDTH + x]!;
      if (!part || level < 0) assert.equal(pixel, 0x01020304, `column ${x} line ${y} is not background`);
      else assert.ok(pixel === paints.front[part.key] || pixel === paints.back[part.key], `column ${x} line ${y}`);
    }
  }
});

function keysOf(columns: Columns, from: number, to: number): number[] {
  const out: number[] = [];
  for (let x = from; x < to; x++) for (let slot = 0; slot < columns.count[x]!; slot++) out.push(columns.key[x * SLOTS + slot]!);
  return out;
}

function shareOf(columns: Columns, from: number, to: number, key: number): number {
  let sum = 0;
  for (let x = from; x < to; x++) {
    for (let slot = 0; slot < columns.count[x]!; slot++) if (columns.key[x * SLOTS + slot] === key) sum += columns.share[x * SLOTS + slot]!;
  }
  return sum;
}
