// Snapshots on the dashboard: which one a time belongs to, their extent in words, and the range at which the timeline opens them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { offsetsText } from "../dashboard/core/clock.ts";
import { extentText, fragmentOf, nearestTo, takenOf } from "../dashboard/core/snapshots.ts";
import { fixedZone, UTC } from "../src/core/zone.ts";

const NOON_MS = Date.UTC(2026, 2, 4, 12);
const taken = (id: string, until_ms: number, seconds: number) =>
  takenOf({ id, taken_unix_ns: until_ms * 1e6, from_unix_ns: (until_ms - seconds * 1000) * 1e6, until_unix_ns: until_ms * 1e6 })[0]!;

test("an entry has an extent only where the wall clock of both ends is known", () => {
  assert.deepEqual(takenOf({ id: "a" }), []);
  const known = { id: "a", taken_unix_ns: NOON_MS * 1e6, from_unix_ns: (NOON_MS - 1000) * 1e6 };
  assert.equal(takenOf({ ...known, until_unix_ns: null })[0]!.extent, undefined);
  assert.equal(takenOf(known)[0]!.extent, undefined);
  assert.deepEqual(takenOf({ ...known, until_unix_ns: NOON_MS * 1e6, trigger: "wait" }), [{ id: "a", unix_ms: NOON_MS, reason: "trigger wait", extent: { from_ms: NOON_MS - 1000, until_ms: NOON_MS } }]);
});

test("a time belongs to the snapshot that contains it, else to the nearest one", () => {
  const all = [taken("long", NOON_MS, 60), taken("short", NOON_MS - 40_000, 5), taken("late", NOON_MS + 3_600_000, 10)];
  assert.equal(nearestTo(all, NOON_MS - 42_000)!.id, "short");
  assert.equal(nearestTo(all, NOON_MS - 50_000)!.id, "long");
  assert.equal(nearestTo(all, NOON_MS + 3_000_000)!.id, "late");
  assert.equal(nearestTo([], NOON_MS), undefined);
});

test("the timeline opens at the part of the range that the snapshot has", () => {
  const own = taken("a", NOON_MS, 10);
  const range = (from_s: number, until_s: number) => ({ from_ms: NOON_MS + from_s * 1000, until_ms: NOON_MS + until_s * 1000 });
  assert.equal(fragmentOf(own, range(-5.5, -4.5)), "#from=2026-03-04T11:59:54.5Z&until=2026-03-04T11:59:55.5Z");
  assert.equal(fragmentOf(own, range(-15, -4)), "#until=2026-03-04T11:59:56Z");
  assert.equal(fragmentOf(own, range(-5, 60)), "#from=2026-03-04T11:59:55Z");
  assert.equal(fragmentOf(own, range(-60, 60)), "");
  assert.equal(fragmentOf(own, range(-10, 0)), "");
  assert.equal(fragmentOf(own, range(1, 2)), "");
  assert.equal(fragmentOf(own, undefined), "");
  assert.equal(fragmentOf({ id: "a", unix_ms: NOON_MS, reason: "" }, range(-5, -4)), "");
});

test("extents and offsets are stated in words", () => {
  const own = taken("a", new Date(2026, 2, 4, 12).getTime(), 10);
  assert.equal(extentText(own, own.unix_ms), "11:59:50 – 12:00:00");
  assert.equal(extentText(own, own.unix_ms + 7 * 86_400_000), "2026-03-04 11:59:50 – 12:00:00");
  assert.equal(extentText({ id: "a", unix_ms: own.unix_ms, reason: "" }, own.unix_ms), "12:00:00");
  assert.equal(offsetsText(0, 1, fixedZone(330)), "+0530");
  assert.equal(offsetsText(0, 1, UTC), "+0000");
  assert.equal(offsetsText(0, 10, { name: "x", offset: (ms) => (ms < 5 ? 120 : 60) }), "+0200 to +0100");
});
