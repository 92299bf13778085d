// Tiles: levels, the cache and its fallbacks, planning of requests, decoding of what comes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeTiles, frames } from "../src/api/arrow.ts";
import { TileCache } from "../src/core/cache.ts";
import { Columns, fillRow, OTHERS, SLOTS } from "../src/core/columns.ts";
import { hitAt } from "../src/core/hit.ts";
import { bucketNs, levelFor, overviewLevel, tileNs, tilesOf } from "../src/core/levels.ts";
import { ahead, halve, MOST_TILES, Pending, planFor, split } from "../src/core/plan.ts";
import { bytesOf, EMPTY, firstEndingAfter, type ExactTile, type SumsTile } from "../src/core/tile.ts";
import { ORIGIN } from "../dev/simulate.ts";
import { made } from "./kit.ts";

const exact = (...rows: [number, number, number][]): ExactTile => ({ kind: "exact", ts: Float64Array.from(rows, (r) => r[0]), dur: Float64Array.from(rows, (r) => r[1]), key: Uint32Array.from(rows, (r) => r[2]) });
const sums = (...rows: [number, number, number][]): SumsTile => ({ kind: "sums", bucket: Uint16Array.from(rows, (r) => r[0]), key: Uint32Array.from(rows, (r) => r[1]), share: Uint16Array.from(rows, (r) => r[2]) });

test("a level's buckets are at most a pixel, and more than half of one", () => {
  for (const nsPerPixel of [0.01, 1, 1.9, 2, 1000, 1e6, 3.6e9]) {
    const bucket = bucketNs(levelFor(nsPerPixel));
    assert.ok(bucket <= Math.max(nsPerPixel, 1) && bucket > nsPerPixel / 2, `${nsPerPixel}: ${bucket}`);
  }
  assert.equal(levelFor(1e30), 54);
});

test("tiles of a range stay within the recording", () => {
  const whole = { from: 0, to: 10_000 };
  assert.deepEqual(tilesOf({ from: -500, to: 600 }, whole, 0), { first: 0, last: 1 });
  assert.deepEqual(tilesOf({ from: 512, to: 1024 }, whole, 0), { first: 1, last: 1 });
  assert.deepEqual(tilesOf({ from: 9_999, to: 1e9 }, whole, 0), { first: 19, last: 19 });
  assert.equal(tilesOf({ from: 20_000, to: 30_000 }, whole, 0), undefined);
  assert.ok(Math.ceil(4 * 3600e9 / tileNs(overviewLevel({ from: 0, to: 4 * 3600e9 }))) <= 4);
});

test("an exact coarser tile answers for all finer ones; coarser sums do not", () => {
  const cache = new TileCache(1e6);
  cache.put(1, 10, 0, exact([5, 10, 2]));
  assert.ok(cache.knows(1, 3, 7));
  assert.deepEqual(cache.sources(1, 3, 7).map((s) => s.level), [10]);
  assert.ok(!cache.knows(1, 3, 7 + 1024));
  cache.put(2, 10, 0, sums([0, 2, 100]));
  assert.ok(!cache.knows(2, 9, 0));
  assert.deepEqual(cache.sources(2, 9, 0).map((s) => s.level), [10]);
  assert.deepEqual(cache.sources(3, 9, 0), []);
});

test("a missing tile is put together from its children, but only if all are there", () => {
  const cache = new TileCache(1e6);
  cache.put(1, 4, 6, sums([0, 2, 65535]));
  assert.deepEqual(cache.sources(1, 5, 3), []);
  cache.put(1, 4, 7, EMPTY);
  assert.deepEqual(cache.sources(1, 5, 3).map((s) => s.index), [6, 7]);
});

test("what was fetched while tiles were being built is drawn and asked for again", () => {
  const cache = new TileCache(1e6);
  cache.put(1, 4, 0, exact([1, 2, 3]), true);
  assert.equal(cache.sources(1, 4, 0).length, 1);
  assert.ok(!cache.knows(1, 4, 0));
});

test("the cache keeps its budget, drops what was drawn longest ago, never what is on the screen", () => {
  const tile = exact(...Array.from({ length: 100 }, (_, i): [number, number, number] => [i, 1, 2]));
  const cache = new TileCache(bytesOf(tile) * 10);
  for (let i = 0; i < 30; i++) {
    cache.nextFrame();
    cache.put(1, 0, i, tile);
    cache.sources(1, 0, 0); // tile 0 is on the screen all the time
    cache.trim();
    assert.ok(cache.bytes <= cache.budget_bytes);
  }
  assert.ok(cache.get(1, 0, 0) && cache.get(1, 0, 29) && !cache.get(1, 0, 1));
  cache.nextFrame();
  for (let i = 0; i < 30; i++) cache.put(2, 0, i, tile);
  cache.trim();
  assert.equal(Array.from({ length: 30 }, (_, i) => cache.get(2, 0, i)).filter(Boolean).length, 30);
  cache.clear();
  assert.equal(cache.bytes, 0);
});

test("replacing a tile counts its bytes once", () => {
  const cache = new TileCache(1e6);
  for (let i = 0; i < 5; i++) cache.put(1, 0, 0, exact([1, 2, 3]));
  assert.equal(cache.bytes, bytesOf(exact([1, 2, 3])));
});

test("plans ask once, for missing tiles only, many tracks in one request", () => {
  const cache = new TileCache(1e6);
  const pending = new Pending();
  const whole = { from: 0, to: 512 * 100 };
  const wish = { tracks: [1, 2, 3, 2], range: { from: 0, to: 512 * 10 }, level: 0 };
  cache.put(3, 0, 0, EMPTY);
  const plan = planFor(wish, whole, cache, pending);
  assert.deepEqual(plan, [{ level: 0, first: 0, count: 10, tracks: [1, 2] }, { level: 0, first: 1, count: 9, tracks: [3] }]);
  plan.forEach((request) => pending.start(request));
  assert.deepEqual(planFor(wish, whole, cache, pending), []);
  pending.end(plan[0]!);
  assert.equal(planFor(wish, whole, cache, pending).length, 1);
  assert.deepEqual(ahead({ from: 10, to: 20 }), { from: 5, to: 25 });
});

test("no request is larger than the limit, and none loses a tile", () => {
  const tracks = Array.from({ length: 300 }, (_, i) => i);
  const parts = split({ level: 3, first: 5, count: 700, tracks });
  const seen = new Set<string>();
  for (const part of parts) {
    assert.ok(part.count * part.tracks.length <= MOST_TILES);
    for (const track of part.tracks) for (let i = 0; i < part.count; i++) seen.add(`${track}/${part.first + i}`);
  }
  assert.equal(seen.size, 300 * 700);
});

test("halves of a request have all of its tiles, and one tile has no halves", () => {
  assert.deepEqual(halve({ level: 1, first: 4, count: 2, tracks: [7, 8, 9] }), [
    { level: 1, first: 4, count: 2, tracks: [7] },
    { level: 1, first: 4, count: 2, tracks: [8, 9] },
  ]);
  assert.deepEqual(halve({ level: 1, first: 4, count: 3, tracks: [7] }), [
    { level: 1, first: 4, count: 1, tracks: [7] },
    { level: 1, first: 5, count: 2, tracks: [7] },
  ]);
  assert.deepEqual(halve({ level: 1, first: 4, count: 1, tracks: [7] }), []);
});

test("a body that was cut is an error that says where", () => {
  assert.throws(() => frames(new Uint8Array([1, 0]).buffer), /byte 0/);
  assert.throws(() => frames(new Uint8Array([9, 0, 0, 0, 1]).buffer), /declares 9 bytes, 1 follow/);
  assert.throws(() => decodeTiles(new ArrayBuffer(0), 0n), /fewer than two/);
});

test("tiles come through the wire as they were made", () => {
  const { answers } = made({ seconds: 2, exit_us: 50 });
  const vcpu = answers.recording.tracks.find((t) => t.kind === "vcpu" && t.intervals > 5000)!;
  const level = overviewLevel({ from: 0, to: answers.recording.length }, 2);
  const body = answers.tilesBody({ level, first: 0, count: 2, tracks: [vcpu.track] });
  const tiles = decodeTiles(body.buffer as ArrayBuffer, ORIGIN);
  assert.equal(tiles[0]?.tile.kind, "sums");
  const fine = decodeTiles(answers.tilesBody({ level: 10, first: 100, count: 4, tracks: [vcpu.track] }).buffer as ArrayBuffer, ORIGIN);
  const own = answers.recording.intervals.get(vcpu.track)!;
  for (const { tile, index } of fine) {
    assert.equal(tile.kind, "exact");
    if (tile.kind !== "exact") continue;
    const first = own.ts.indexOf(tile.ts[0]!);
    assert.ok(first >= 0 && tile.ts[0]! < (index + 1) * tileNs(10));
    assert.deepEqual([...tile.dur], [...own.dur.subarray(first, first + tile.dur.length)]);
    assert.deepEqual([...tile.key], [...own.key.subarray(first, first + tile.key.length)]);
  }
});

test("counters come as minimum, maximum and mean", () => {
  const { answers, whole } = made({ seconds: 10 });
  const counter = answers.recording.tracks.find((t) => t.kind === "counter")!;
  const own = answers.recording.intervals.get(counter.track)!;
  const cache = new TileCache(1e7);
  const columns = new Columns(100);
  const level = levelFor(whole.to / 100);
  const span = tilesOf(whole, whole, level)!;
  const body = answers.tilesBody({ level, first: span.first, count: span.last + 1, tracks: [counter.track] });
  const tiles = decodeTiles(body.buffer as ArrayBuffer, ORIGIN);
  assert.ok(tiles.some(({ tile }) => tile.kind === "sums"), "the test wants sums");
  for (const { index, tile } of tiles) cache.put(counter.track, level, index, tile);
  fillRow(columns, cache, counter.track, level, { from: 0, nsPerPixel: whole.to / 100 }, whole);
  const highest = Math.max(...own.value!);
  assert.equal(Math.max(...columns.max), highest);
  const mean = columns.sum.reduce((a, b) => a + b, 0) / columns.weight.reduce((a, b) => a + b, 0);
  const truth = own.value!.reduce((sum, value, i) => sum + value * own.dur[i]!, 0) / own.dur.reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(mean - truth) < 0.02 * truth, `${mean} ${truth}`);
});

test("the first interval that ends after a moment", () => {
  const tile = exact([0, 10, 1], [10, 5, 1], [20, 0, 1], [30, 10, 1]);
  assert.deepEqual([-1, 0, 9, 10, 15, 20, 21, 39, 40].map((at) => firstEndingAfter(tile, at)), [0, 0, 0, 1, 2, 2, 3, 3, 4]);
});

test("more keys than slots go to others, and no time is lost", () => {
  const columns = new Columns(1);
  for (let key = 2; key < 42; key++) columns.add(0, key, 1 / 40);
  let sum = 0;
  for (let slot = 0; slot < columns.count[0]!; slot++) sum += columns.share[slot]!;
  assert.equal(columns.count[0], SLOTS);
  assert.ok(Math.abs(sum - 1) < 1e-5);
  assert.ok(Array.from(columns.key).includes(OTHERS));
});

test("an interval over the edge of two tiles counts once", () => {
  const cache = new TileCache(1e6);
  const long = exact([500, 24, 7]);
  cache.put(1, 0, 0, long);
  cache.put(1, 0, 1, long);
  const columns = new Columns(64);
  fillRow(columns, cache, 1, 0, { from: 480, nsPerPixel: 1 }, { from: 0, to: 2000 });
  let sum = 0;
  for (let x = 0; x < 64; x++) sum += columns.share[x * SLOTS]! * (columns.count[x]! > 0 ? 1 : 0);
  assert.equal(Math.round(sum), 24);
});

test("unknown columns are known to be unknown", () => {
  const cache = new TileCache(1e6);
  cache.put(1, 0, 0, EMPTY);
  const columns = new Columns(100);
  fillRow(columns, cache, 1, 0, { from: 462, nsPerPixel: 1 }, { from: 0, to: 2000 });
  assert.ok(columns.known.slice(0, 50).every((k) => k > 0.99) && columns.known.slice(50).every((k) => k === 0));
});

test("hits: the interval, the nearest of thin ones, shares where there are only sums", () => {
  const cache = new TileCache(1e6);
  const whole = { from: 0, to: 5000 };
  cache.put(1, 0, 0, exact([10, 100, 4], [200, 1, 5], [204, 1, 6]));
  assert.deepEqual(hitAt(cache, 1, 0, 50, 0, whole), { kind: "interval", interval: { ts: 10, dur: 100, key: 4 } });
  assert.deepEqual(hitAt(cache, 1, 0, 198, 5, whole), { kind: "interval", interval: { ts: 200, dur: 1, key: 5 } });
  assert.equal(hitAt(cache, 1, 0, 150, 5, whole).kind, "nothing");
  assert.equal(hitAt(cache, 1, 0, 600, 5, whole).kind, "loading");
  assert.equal(hitAt(cache, 1, 0, 9000, 5, whole).kind, "nothing");
  cache.put(2, 2, 0, sums([3, 8, 20000], [3, 9, 40000]));
  const hit = hitAt(cache, 2, 2, 13, 0, whole);
  assert.ok(hit.kind === "shares" && hit.from === 12 && hit.to === 16 && hit.shares[0]?.key === 9);
});
