// The range that the page opens on: where every CPU is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import { coverageText, coveredRange, filterText, type Hole } from "../src/core/coverage.ts";
import { made } from "./kit.ts";

const window = { from: 0, to: 10_050 };
const roots = new Set([0]);
const hole = (cpu: number | null, from: number, to: number, machine_id: number | null = 0): Hole => ({ machine_id, cpu, from, to });
const covered = (...holes: Hole[]): { from: number; to: number } | undefined => coveredRange(holes, window, roots)?.range;
const name = ({ cpu }: { cpu: number | null }): string => `CPU ${cpu}`;

test("leading stretches of different length open on the range after the longest", () => {
  assert.deepEqual(covered(hole(0, 0, 8850), hole(1, 0, 40), hole(2, 0, 3000)), { from: 8850, to: 10_050 });
});

test("trailing stretches end the range at the earliest start", () => {
  assert.deepEqual(covered(hole(0, 9000, 10_050), hole(1, 7000, 12_000), hole(1, 0, 10)), { from: 10, to: 7000 });
});

test("a stretch from before the window to after its start is a leading one", () => {
  assert.deepEqual(coveredRange([hole(0, -50, 300)], window, roots)?.range, { from: 300, to: 10_050 });
});

test("stretches that touch one another are one", () => {
  assert.deepEqual(covered(hole(0, 100, 900), hole(0, 0, 100), hole(0, 850, 1200)), { from: 1200, to: 10_050 });
  assert.deepEqual(covered(hole(0, 0, 100), hole(0, 101, 900)), { from: 100, to: 10_050 });
});

test("no loss, a loss inside, or losses of guests open on the whole window", () => {
  assert.equal(covered(), undefined);
  assert.equal(covered(hole(0, 500, 900)), undefined);
  assert.equal(covered(hole(0, 0, 900, 3)), undefined);
});

test("a leading stretch of less than a pixel opens on the whole window", () => {
  assert.equal(covered(hole(0, 0, 9)), undefined);
  assert.deepEqual(covered(hole(0, 0, 11)), { from: 11, to: 10_050 });
});

test("losses of a whole machine, or of an unnamed one, count as those of a CPU", () => {
  assert.deepEqual(covered(hole(null, 0, 900)), { from: 900, to: 10_050 });
  assert.deepEqual(covered(hole(null, 0, 900, null)), { from: 900, to: 10_050 });
});

test("ranges of the CPUs without a common part open on the whole window", () => {
  assert.equal(covered(hole(0, 0, 6000), hole(1, 5000, 10_050)), undefined);
  assert.equal(covered(hole(0, 0, 6000), hole(1, 6000, 10_050)), undefined);
});

test("a CPU that is unknown throughout does not limit the range and is named", () => {
  const coverage = coveredRange([hole(0, 0, 8850), hole(3, 0, 10_050)], window, roots)!;
  assert.deepEqual(coverage.range, { from: 8850, to: 10_050 });
  assert.deepEqual(coverage.dark, [{ machine_id: 0, cpu: 3 }]);
  assert.match(coverageText(coverage, window, true, name), /that all CPUs except CPU 3 cover;/);
  assert.equal(covered(hole(0, 0, 10_050), hole(1, -5, 20_000)), undefined, "nothing is known");
});

test("losses inside the range are counted", () => {
  const coverage = coveredRange([hole(0, 0, 8850), hole(1, 9000, 9001), hole(1, 9100, 9200), hole(1, 300, 400)], window, roots)!;
  assert.equal(coverage.holes, 2);
  assert.match(coverageText(coverage, window, true, name), /cover, apart from 2 stretches of lost events;/);
});

test("the line states both lengths, and whether the view is that range", () => {
  const seconds = { from: 0, to: 10.05e9 };
  const coverage = coveredRange([hole(0, 0, 8.85e9)], seconds, roots)!;
  assert.equal(coverageText(coverage, seconds, true, name), "Opened on the 1.2 s that all CPUs cover; the rest of the 10.1 s is partly unknown");
  assert.equal(coverageText(coverage, seconds, false, name), "In 1.2 s of this recording all CPUs are known; the rest of the 10.1 s is partly unknown");
  const many = { ...coverage, dark: [0, 1, 2, 3, 4].map((cpu) => ({ machine_id: 0, cpu })) };
  assert.match(coverageText(many, seconds, true, name), /all CPUs except CPU 0, CPU 1, CPU 2 and 2 others cover;/);
});

test("a filter is named with what it leaves out", () => {
  assert.equal(filterText("pid=4711"), "filtered: pid=4711; other threads are unknown");
  assert.equal(filterText("vm=web1, dur>=10us"), "filtered: vm=web1, dur>=10us; other threads and shorter intervals are unknown");
  assert.equal(filterText("dur>=10us"), "filtered: dur>=10us; shorter intervals are unknown");
  assert.equal(filterText("next_prio < 100"), "filtered: next_prio < 100; other events are unknown");
});

test("the simulated snapshot is unknown before each CPU's first record, on every track, and busy nowhere there", () => {
  const { recording } = made({ seconds: 2, known_ms: 300 }).answers;
  const leading = recording.lost.filter(({ ts }) => ts === 0);
  assert.equal(leading.length, 4);
  assert.equal(new Set(leading.map(({ dur }) => dur)).size, 4, "each CPU has its own first record");
  const holes = recording.lost.map(({ ts, dur, machine_id, cpu }) => hole(cpu, ts, ts + dur, machine_id));
  assert.deepEqual(coveredRange(holes, { from: 0, to: recording.length }, roots)?.range, { from: 1.7e9, to: 2e9 });
  for (const track of recording.tracks.filter(({ kind }) => kind === "vcpu" || kind === "thread")) {
    const own = recording.intervals.get(track.track)!;
    assert.equal(recording.keys[own.key[0]!]!.class, "unknown", track.name);
    assert.equal(own.ts[0], 0);
    const total = own.dur.reduce((sum, dur) => sum + dur, 0);
    if (track.kind === "vcpu") assert.ok(Math.abs(total - recording.length) < 2, `${track.name}: states tile the window`);
    assert.ok(track.busy_ns <= recording.length - own.dur[0]!, `${track.name}: unknown time is not busy`);
  }
});
