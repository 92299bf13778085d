// Moving in time: zoom keeps the point, edges hold, undo goes back, links survive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { absOf, relColumn, relOf } from "../src/core/time.ts";
import { decode, encode } from "../src/core/url.ts";
import { between, clamp, fit, History, NARROWEST_NS, pan, reveal, spanOf, zoomAt } from "../src/core/view.ts";

const whole = { from: 0, to: 4 * 3600e9 };

test("zooming keeps the moment under the pointer, from hours to nanoseconds", () => {
  let view: { from: number; to: number } = whole;
  const at = 1_234_567_890_123;
  const share = (at - view.from) / spanOf(view);
  for (let i = 0; i < 160; i++) {
    view = zoomAt(view, at, 0.8, whole);
    // Relative to a view of nanoseconds the double's own grain shows: an eighth of a pixel.
    assert.ok(Math.abs((at - view.from) / spanOf(view) - share) < 2e-3, `step ${i}: ${(at - view.from) / spanOf(view)}`);
  }
  assert.equal(spanOf(view), NARROWEST_NS);
});

test("a view never leaves the recording by more than its overhang", () => {
  for (const view of [{ from: -1e15, to: -1e15 + 100 }, { from: 5e15, to: 5e15 + 1e9 }, { from: -1e15, to: 1e15 }]) {
    const kept = clamp(view, whole);
    assert.ok(kept.to > whole.from && kept.from < whole.to);
    assert.ok(spanOf(kept) <= spanOf(whole) * 1.2 + 1);
  }
});

test("a recording of one nanosecond can be viewed", () => {
  const kept = clamp({ from: 0, to: 1 }, { from: 0, to: 1 });
  assert.ok(kept.from <= 0 && kept.to >= 1);
});

test("panning there and back is where one was", () => {
  const view = { from: 1e9, to: 2e9 };
  const back = pan(pan(view, 0.25, whole), -0.25, whole);
  assert.deepEqual(back, view);
});

test("reveal moves only if it must", () => {
  const view = { from: 1e9, to: 2e9 };
  assert.equal(reveal(view, { from: 1.2e9, to: 1.3e9 }, whole), view);
  const moved = reveal(view, { from: 5e9, to: 5.1e9 }, whole);
  assert.equal(spanOf(moved), spanOf(view));
  assert.ok(moved.from < 5e9 && moved.to > 5.1e9);
  assert.ok(spanOf(reveal(view, { from: 5e9, to: 9e9 }, whole)) >= 4e9);
});

test("a glide begins and ends where it should and never leaves the way", () => {
  const a = { from: 0, to: 1e12 };
  const b = fit({ from: 3e11, to: 3e11 + 1000 }, whole);
  const start = between(a, b, 0);
  assert.ok(Math.abs(start.from - a.from) < 1 && Math.abs(start.to - a.to) < 1);
  assert.deepEqual(between(a, b, 1), b);
  for (let share = 0; share <= 1; share += 0.05) {
    const here = between(a, b, share);
    assert.ok(here.from >= a.from - 1 && here.to <= a.to + 1 && spanOf(here) <= spanOf(a) + 1 && spanOf(here) >= spanOf(b) - 1);
  }
});

test("undo takes steps that belong together at once, redo repeats them", () => {
  const history = new History();
  const views = [0, 1, 2, 3].map((i) => ({ from: i, to: i + 10 }));
  history.leave(views[0]!, 0);
  history.leave(views[1]!, 100); // goes on: one step with the first
  history.leave(views[2]!, 5000);
  assert.equal(history.undo(views[3]!), views[2]);
  assert.equal(history.undo(views[2]!), views[0]);
  assert.equal(history.undo(views[0]!), undefined);
  assert.equal(history.redo(views[0]!), views[2]);
  assert.equal(history.redo(views[2]!), views[3]);
  assert.equal(history.redo(views[3]!), undefined);
  history.leave(views[3]!, 5100, true); // a jump is a step of its own
  assert.equal(history.undo(views[0]!), views[3]);
  history.leave(views[3]!, 9000);
  assert.equal(history.redo(views[1]!), undefined);
});

test("times near 2^63 become relative ones without losing a nanosecond", () => {
  const origin = 9_223_372_036_854_000_000n;
  const values = new BigInt64Array([origin, origin + 1n, origin + 775_807n, origin - 5n]);
  assert.deepEqual([...relColumn(values, origin)], [0, 1, 775_807, -5]);
  const negative = new BigInt64Array([-7n, -4294967296n, 5n, 1n << 40n]);
  assert.deepEqual([...relColumn(negative, -7n)], [0, -4294967289, 12, 2 ** 40 + 7]);
  assert.equal(absOf(relOf(origin + 123n, origin), origin), origin + 123n);
  assert.throws(() => relOf(1n << 60n, 0n), /104 days/);
});

test("a link holds the whole view, and what is broken in it is left out", () => {
  const origin = 1_700_000_000_123_456_789n;
  const view = {
    range: { from: 12_345, to: 999_999_999 },
    chosen: { track: 17, ts: 5_000 },
    selection: { from: 1, to: 2_000_000 },
    filter: "vm:web1 reason:npf & more=#",
    pinned: [3, 9],
    folded: [1],
    opened: [2, 4],
    marks: [{ at: 77, note: "here: it begins" }],
    colour: "what" as const,
    flows: true,
    top: 120,
  };
  assert.deepEqual(decode(`#${encode(view, origin)}`, origin), view);
  assert.deepEqual(decode("v=12-1&at=x@3&pin=1.a&m=zz&c=1&y=-4&sel=99999999999999999999999999-1", origin), {});
});

test("the range in a link is two moments: plain trace time at once, every other form as it was written", () => {
  const origin = 1_000n;
  assert.equal(encode({ range: { from: 5, to: 9.5 } }, origin), "from=1005&until=1010");
  assert.deepEqual(decode("from=1005&until=1010", origin), { range: { from: 5, to: 10 } });
  assert.deepEqual(decode("v=1005-1010", origin), { range: { from: 5, to: 10 } });
  assert.deepEqual(decode("from=+1.25s&until=2026-11-25T03:41:38+01:00&q=a", origin), { moments: { from: "+1.25s", until: "2026-11-25T03:41:38+01:00" }, filter: "a" });
  assert.deepEqual(decode("from=%2B1.25s", origin), { moments: { from: "+1.25s" } });
  for (const space of [" ", "%20", "+"]) assert.deepEqual(decode(`until=2026-11-25${space}03:41:38`, origin), { moments: { until: "2026-11-25 03:41:38" } });
  assert.deepEqual(decode("from=9&until=3", origin), { moments: { from: "9", until: "3" } });
  assert.deepEqual(decode("from=&until=", origin), {});
  assert.deepEqual(decode("from=%zz", origin), { moments: { from: "%zz" } });
});
