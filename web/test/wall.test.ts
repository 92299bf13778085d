// Trace time and the wall clock: conversion both ways, zones, moments as users write them, and the ruler's labels.
import assert from "node:assert/strict";
import { test } from "node:test";
import { copyText, findMoment, findRange, MomentError, parseMoment, resolveMoment, traceText, type Timebase } from "../src/core/moments.ts";
import { tsInRun, WallMap, type WallPiece } from "../src/core/wall.ts";
import { stepText, wallAxis, wallStep } from "../src/core/wallaxis.ts";
import { fixedZone, LOCAL, offsetText, rfc3339, timeText, unixOfLocal, UTC, wallRangeText, wallText, type Zone } from "../src/core/zone.ts";

const S = 1_000_000_000n;
/** 2026-11-25 02:41:38 UTC. */
const UNIX = 1_795_574_498n * S;

const piece = (ts: bigint, dur: bigint, unix_ns: bigint, unix_dur = dur, step_ns: bigint | null = null): WallPiece => ({ ts, dur, unix_ns, unix_dur, error_ns: 50n, step_ns });

/** 10 s from trace time 100 s on; then the clock was set, and 10 s more. */
const stepped = (step: bigint): WallMap => new WallMap([piece(110n * S + S / 10n, 10n * S, UNIX + 10n * S + S / 10n + step, 10n * S, step), piece(100n * S, 10n * S, UNIX)]);

const BERLIN: Zone = { name: "Europe/Berlin", offset: (unix_ms) => (unix_ms >= Date.UTC(2026, 2, 29, 1) && unix_ms < Date.UTC(2026, 9, 25, 1) ? 120 : 60) };

const base = (wall: WallMap, zone: Zone = UTC): Timebase => ({ unit: "ns", start: 100n * S, wall, zone });
const at = (text: string, own: Timebase): bigint => resolveMoment(parseMoment(text), own);

test("slewed pieces convert both ways, and nothing is known outside of them", () => {
  const map = new WallMap([piece(1_000n, 2_000_000n, 9_000n, 2_000_999n)]);
  for (const ts of [1_000n, 1_001n, 777_777n, 2_001_000n]) {
    const wall = map.wallOf(ts)!;
    assert.equal(wall.errorNs, 50);
    assert.deepEqual(map.tracesOf(wall.unixNs), [ts]);
  }
  assert.equal(map.wallOf(2_001_000n)!.unixNs, 2_009_999n);
  assert.deepEqual([map.wallOf(999n), map.wallOf(2_001_001n), map.tracesOf(8_999n)], [null, null, []]);
});

test("a time that exists twice has two trace times; in the step there is none", () => {
  const map = new WallMap([piece(1_100n, 900n, 600n), piece(0n, 1_000n, 0n)]);
  assert.deepEqual(map.tracesOf(700n), [700n, 1_200n]);
  assert.deepEqual(map.tracesOf(1_200n), [1_700n]);
  assert.equal(map.wallOf(1_050n), null);
});

test("pieces that meet are one run, and their meeting point is one trace time", () => {
  const map = new WallMap([piece(0n, 1_000n, 0n), piece(1_000n, 1_000n, 1_000n, 1_001n, 0n)]);
  assert.deepEqual(map.tracesOf(1_000n), [1_000n]);
  assert.deepEqual(map.runs.map(({ from, to }) => [from, to]), [[0n, 2_000n]]);
  assert.deepEqual(map.steps, []);
  assert.equal(tsInRun(map.runs[0]!, 1_500n), 1_500n);
  assert.equal(tsInRun(map.runs[0]!, 3_000n), undefined);
});

test("the server's decimal strings are read exactly; without a list the clock is unknown", () => {
  const map = WallMap.from([{ ts: "9223372036854775000", dur: "500", unix_ns: "1795574498123456789", unix_dur: "500", error_ns: "310", step_ns: null }]);
  assert.deepEqual(map.wallOf(9_223_372_036_854_775_001n), { unixNs: 1_795_574_498_123_456_790n, errorNs: 310 });
  assert.ok(WallMap.from(undefined).isEmpty && WallMap.from(null).isEmpty && WallMap.from([]).isEmpty);
  assert.ok(WallMap.from([{ ts: "0", dur: null, unix_ns: "0", unix_dur: "0", error_ns: "0", step_ns: null }]).isEmpty);
});

test("texts have their zone; RFC 3339 is exact", () => {
  assert.equal(rfc3339(UNIX + S / 2n), "2026-11-25T02:41:38.5Z");
  assert.equal(rfc3339(UNIX + 1n), "2026-11-25T02:41:38.000000001Z");
  assert.equal(rfc3339(1_795_574_500n * S), "2026-11-25T02:41:40Z");
  assert.equal(rfc3339(0n), "1970-01-01T00:00:00Z");
  assert.equal(wallText(UNIX + 123_456_789n, fixedZone(60)), "2026-11-25 03:41:38.123 +0100");
  assert.equal(wallText(-1n, UTC, 0), "1969-12-31 23:59:59 +0000");
  assert.equal(timeText(UNIX + 123_456_789n, UTC, 9), "02:41:38.123 456 789");
  assert.equal(wallRangeText(UNIX, UNIX + 5n * S, UTC), "2026-11-25 02:41:38.000 to 02:41:43.000 +0000");
  assert.equal(wallRangeText(UNIX, UNIX + 86_400n * S, UTC, 0), "2026-11-25 02:41:38 to 2026-11-26 02:41:38 +0000");
  assert.deepEqual([offsetText(-210), offsetText(345), offsetText(0)], ["-0330", "+0545", "+0000"]);
});

test("the browser's zone is that of its dates", () => {
  const before = process.env["TZ"];
  process.env["TZ"] = "Europe/Berlin";
  try {
    assert.equal(wallText(UNIX, LOCAL, 0), "2026-11-25 03:41:38 +0100");
    assert.equal(LOCAL.name, "Europe/Berlin");
  } finally {
    if (before === undefined) delete process.env["TZ"];
    else process.env["TZ"] = before;
  }
});

test("a local time exists twice in a repeated hour, and not at all in a skipped one", () => {
  const local = (month: number, day: number, hour: number): bigint => BigInt(Date.UTC(2026, month, day, hour, 30)) * 1_000_000n;
  assert.deepEqual(unixOfLocal(local(9, 25, 2), BERLIN).map((unix) => new Date(Number(unix / 1_000_000n)).toISOString().slice(11, 16)), ["00:30", "01:30"]);
  assert.deepEqual(unixOfLocal(local(2, 29, 2), BERLIN), []);
  assert.equal(unixOfLocal(local(10, 25, 2), BERLIN).length, 1);
});

test("trace times and times from the start mean what the command line means", () => {
  const own = base(new WallMap([]));
  for (const [text, ts] of [["1.25s", 1_250_000_000n], ["250ms", 250_000_000n], ["-3us", -3_000n], ["+3us", 100n * S + 3_000n], ["+17", 100n * S + 17n], ["2µs", 2_000n], ["1.5m", 90n * S], [" 0.000000001 s ", 1n], ["123456789012345678", 123_456_789_012_345_678n], ["9223372036.854775807s", (1n << 63n) - 1n]] as const) assert.equal(at(text, own), ts, text);
  for (const text of ["", "s", "1.s", ".5s", "1..2s", "1e9", "--1", "1.2", "0.0000000001s", "5x", "5S", "+-3us", "++3us", "9223372036.854775808s", "99999999999999999999h", "999999999999999999999"]) assert.throws(() => at(text, own), MomentError, text);
  for (const ts of [0n, 1n, -1n, 1_250_000_000n, -3_000n, (1n << 63n) - 1n, 60n * S]) assert.equal(at(traceText(ts, "ns"), own), ts);
});

test("ticks of unknown length have no seconds", () => {
  const own: Timebase = { ...base(new WallMap([])), unit: "ticks", start: 5_000n };
  assert.deepEqual([at("17", own), at("+17", own), traceText(17n, "ticks")], [17n, 5_017n, "17"]);
  for (const text of ["1s", "+1s", "2026-11-25T02:41:38Z"]) assert.throws(() => at(text, own), /ticks of unknown length/);
});

test("wall-clock moments: with a zone, local, and times of day", () => {
  const wall = stepped(3_600n * S);
  const ts = 101n * S + S / 2n;
  for (const text of ["2026-11-25T02:41:39.5Z", "2026-11-25 02:41:39.5Z", "2026-11-25T03:41:39.500000000+01:00", "2026-11-24T21:41:39.5-05:00", "2026-11-25 03:41:39.500 +0100"]) assert.equal(at(text, base(wall)), ts, text);
  const berlin = base(wall, BERLIN);
  for (const text of ["2026-11-25 03:41:39.5", "2026-11-25T03:41:39.5", "03:41:39.5"]) assert.equal(at(text, berlin), ts, text);
  for (const text of ["12:", "2026-11-25", "25:00:00", "2026-13-25T02:41:38Z", "2026-02-30 02:41:38", "a:b", "1:2:3:4", "2026-11-25T02:41:38.0000000001Z", "2026-11-25T02:41:38+"]) assert.throws(() => parseMoment(text), MomentError, text);
});

test("an ambiguous or unknown wall-clock time is refused with the reason", () => {
  assert.throws(() => at("2026-11-25T02:41:46.5Z", base(stepped(-3n * S))), /exists 2 times in the recording.*108\.5s \(2026.*111\.5s \(2026/);
  assert.equal(at("2026-11-25T02:41:40Z", base(stepped(-3n * S))), 102n * S);
  assert.throws(() => at("2026-11-25T03:00:00Z", base(stepped(3_600n * S))), /was set from 2026-11-25 02:41:48\.000 \+0000 to 2026-11-25 03:41:48\.100 \+0000 at about 110s/);
  assert.throws(() => at("2026-11-25T02:41:37Z", base(stepped(3_600n * S))), /whose wall clock shows 2026-11-25 02:41:38\.000 \+0000 to/);
  assert.throws(() => at("02:41:37", base(stepped(0n))), /02:41:37 is not in the recording/);
  assert.throws(() => at("02:41:38", base(new WallMap([]))), /has no wall-clock time/);
  assert.throws(() => at("2026-03-29 02:30", base(stepped(0n), BERLIN)), /the time zone skips it/);
});

test("a copied moment is read back: in wall-clock time where it exists once, else in trace time", () => {
  const own = base(stepped(-3n * S));
  for (const ts of [100n * S, 103n * S + 7n, 108n * S, 110n * S + S / 20n, 115n * S, 120n * S + S / 10n]) assert.equal(at(copyText(ts, own), own), ts, copyText(ts, own));
  assert.equal(copyText(101n * S, own), "2026-11-25T02:41:39Z");
  assert.equal(copyText(108n * S, own), "108s");
  assert.equal(copyText(99n * S, own), "99s");
  assert.equal(copyText(99n, { unit: "ticks", wall: own.wall }), "99");
});

test("a range without an end reaches to that of the window, and is cut to the recording", () => {
  const own = { ...base(stepped(0n)), end: 120n * S, first: 99n * S, last: 121n * S };
  assert.deepEqual(findRange("+1s", undefined, own), { from: 101n * S, to: 120n * S });
  assert.deepEqual(findRange(undefined, "2026-11-25T02:41:40Z", own), { from: 100n * S, to: 102n * S });
  assert.deepEqual(findRange("0", "500s", own), { from: 99n * S, to: 121n * S });
  assert.throws(() => findRange("+2s", "+1s", own), /the range is empty: 102s is not before 101s/);
  assert.throws(() => findRange("1s", "2s", own), /from 1s to 2s is outside of the recording, which is from 99s to 121s/);
  assert.throws(() => findRange("1s", "soon", own), /^MomentError: until: not a time|until: not a time/);
  assert.equal(findMoment("99.5s", own), 99n * S + S / 2n);
  assert.throws(() => findMoment("98s", own), /trace time 98s is outside of the recording/);
});

test("steps of the labels are round on a clock", () => {
  for (const [least, step] of [[0.2, 1], [3, 5], [60, 100], [3e5, 5e5], [0.3e9, 0.5e9], [0.7e9, 1e9], [11e9, 15e9], [40e9, 60e9], [3000e9, 3600e9], [50_000e9, 86_400e9]] as const) assert.equal(wallStep(least), step);
});

test("the ruler labels round local times, with the date once and again where it changes", () => {
  const origin = 100n * S;
  const whole = { from: 0, to: 20.1e9 };
  const wide = wallAxis(whole, whole, origin, 1000, stepped(0n), fixedZone(60));
  assert.equal(wide.base, "2026-11-25 +0100");
  assert.deepEqual(wide.ticks.map(({ label }) => label), ["03:41:40", "03:41:45", "03:41:50", "03:41:55"]);
  assert.ok(Math.abs(wide.ticks[0]!.x - (2 / 20.1) * 1000) < 1e-6);
  const near = wallAxis({ from: 1e9, to: 1.001e9 }, whole, origin, 1000, stepped(0n), UTC);
  assert.equal(near.ticks[0]!.label, "02:41:39.000 000");
  assert.equal(near.digits, 6);
  const midnight = new WallMap([piece(100n * S, 20n * S, (UNIX / (86_400n * S) + 1n) * 86_400n * S - 10n * S)]);
  assert.deepEqual(wallAxis(whole, whole, origin, 1000, midnight, UTC).ticks.map(({ label }) => label), ["23:59:50", "23:59:55", "2026-11-26 00:00:00", "00:00:05", "00:00:10"]);
});

test("the ruler marks where the clock was set, and labels nothing where it is unknown", () => {
  const origin = 90n * S;
  const whole = { from: 0, to: 35e9 };
  const axis = wallAxis(whole, whole, origin, 3500, stepped(-3_600n * S), UTC);
  assert.deepEqual(axis.steps.map(({ x, text }) => [Math.round(x), text]), [[2010, "clock set by −1 h"]]);
  assert.deepEqual(axis.unknown.map(({ x0, x1 }) => [Math.round(x0), Math.round(x1)]), [[0, 1000], [2000, 2010], [3010, 3500]]);
  assert.ok(axis.ticks.every(({ x }) => (x >= 1000 && x <= 2000) || (x >= 2010 && x <= 3010)));
  assert.equal(stepText(1_500_000_000n), "clock set by +1.5 s");
  const none = wallAxis(whole, whole, origin, 3500, new WallMap([]), UTC);
  assert.deepEqual([none.ticks, none.base, none.unknown.length], [[], undefined, 1]);
});
