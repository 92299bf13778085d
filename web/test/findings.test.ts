// The findings of the dashboard: which lines there are, in which order, in which words, and the time in which each held.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fleet, FLEET } from "../dev/fleet.ts";
import { merged } from "../dev/merge.ts";
import { Machines } from "../dashboard/core/actors.ts";
import { Range } from "../dashboard/core/collect.ts";
import { gapsOf } from "../dashboard/core/fill.ts";
import { around, concerns, heldText, noneText, openedBy, type FoundRow } from "../dashboard/core/findings.ts";
import type { FindingRow, MachineRow, WindowJson } from "../dashboard/core/wire.ts";

const S = 1e9;
const ORIGIN = { unix_ns: 1_700_000_000 * S };
const MACHINES: readonly MachineRow[] = [
  { machine_id: 0, name: "host", kind: "host" },
  { machine_id: 1, name: "web", kind: "guest", cgroup: "/machine.slice/web.scope" },
  { machine_id: 2, name: "db", kind: "guest", cgroup: "/" },
];
const vcpu = (vcpu: number, held_ns: number, more: Partial<FindingRow> = {}): FindingRow => ({ machine_id: 1, vcpu, cgroup: null, tid: null, dur: S, detector: "starved", subject: `web vcpu${vcpu}`, held_ns, of_ns: S, count: 1, confidence: "certain", sentence: `web vcpu${vcpu} waited ${held_ns} ns.`, hint: "pin it", ...more });
const group = (cgroup: string, held_ns: number): FindingRow => vcpu(0, held_ns, { machine_id: 0, vcpu: null, cgroup, detector: "throttled", subject: cgroup, sentence: `${cgroup} waited.`, confidence: "likely" });
const windowAt = (number: number, findings?: readonly FindingRow[] | null, dur = S): WindowJson => ({ ts: number * S, dur, ended_unix_ns: ORIGIN.unix_ns + number * S + dur, machines: MACHINES, ...(findings === undefined ? {} : { findings }) });
const rangeOf = (windows: readonly WindowJson[], step_ns = S, focus?: string): Range => {
  const range = new Range(ORIGIN, step_ns, step_ns, focus);
  for (const window of windows) range.addFine(window);
  return range;
};
const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const said = (rows: readonly FoundRow[]): (readonly [string, string, boolean])[] => rows.map(({ kind, holds }) => [kind.subject, kind.detector, holds]);
const allOf = (range: Range, about: "now" | "moment" | "range", picked?: Range): FoundRow[] => range.findings.rows(0, 1000 * S, about, picked?.findings);

test("a line for each subject and detector; those that hold come first, then by their time", () => {
  // vCPU 0 long ago and strongly, vCPU 1 weakly and now.
  const windows = upTo(20).map((i) => windowAt(i, [...(i < 10 ? [vcpu(0, 0.8 * S)] : []), ...(i === 19 ? [vcpu(1, 0.2 * S)] : []), ...(i < 5 ? [group("/a", 0.9 * S)] : [])]));
  const range = rangeOf(windows);
  const newest = rangeOf(windows.slice(-1), Infinity);
  assert.deepEqual(said(allOf(range, "now", newest)), [["web vcpu1", "starved", true], ["web vcpu0", "starved", false], ["/a", "throttled", false]]);
  const rows = allOf(range, "now", newest);
  assert.deepEqual(rows.map(({ present_ns }) => present_ns / S), [1, 10, 5]);
  assert.deepEqual(rows.map(({ words }) => words.isLikely), [false, false, true]);
  // At a selected time the window of that time decides, without those of a moment ago.
  const third = rangeOf([windows[3]!], Infinity);
  assert.deepEqual(said(allOf(range, "moment", third)), [["web vcpu0", "starved", true], ["/a", "throttled", true], ["web vcpu1", "starved", false]]);
  assert.deepEqual(said(allOf(range, "range", newest)), [["web vcpu0", "starved", false], ["/a", "throttled", false], ["web vcpu1", "starved", false]]);
});

test("lines keep their places while a finding comes and goes with each window", () => {
  const windows = upTo(60).map((i) => windowAt(i, [vcpu(0, (0.5 + (i % 3) / 10000) * S), ...(i % 2 === 0 ? [vcpu(1, 0.6 * S)] : [])]));
  const orders = new Set<string>();
  const range = rangeOf([]);
  for (const window of windows) {
    range.addFine(window);
    if (range.findings.lanes.length > 10) orders.add(JSON.stringify(said(allOf(range, "now", rangeOf([window], Infinity)))));
  }
  assert.equal(orders.size, 1, [...orders].join("\n"));
});

test("the words of a line: of the newest window if it holds, else of the one with the most time", () => {
  const windows = [0.2, 0.7, 0.3, 0.25].map((share, i) => windowAt(i, [vcpu(0, share * S)]));
  const range = rangeOf(windows);
  const words = (about: "now" | "range"): string => allOf(range, about, rangeOf(windows.slice(-1), Infinity))[0]!.words.sentence;
  assert.equal(words("now"), "web vcpu0 waited 250000000 ns.");
  assert.equal(words("range"), "web vcpu0 waited 700000000 ns.");
  // A selected time may have several windows.
  const picked = rangeOf(windows.slice(1, 3), Infinity);
  assert.equal(allOf(range, "moment", picked)[0]!.words.sentence, "web vcpu0 waited 700000000 ns.");
  for (const [at, share] of [0.2, 0.7, 0.3, 0.25].entries()) assert.deepEqual([range.findings.wordsAt(allOf(range, "range")[0]!.kind.key, at)!.held_ns, range.findings.shareAt(allOf(range, "range")[0]!.kind.key, at).share], [share * S, share]);
});

test("a bin of several windows has the sums of all and the sentence of one; merged windows have the same sums", () => {
  const windows = [0.2, 0.6, 0.4, 0].map((share, i) => windowAt(i, share > 0 ? [vcpu(0, share * S)] : []));
  const range = rangeOf(windows, 4 * S);
  const { key } = allOf(range, "range")[0]!.kind;
  assert.equal(range.findings.lanes.length, 1);
  assert.deepEqual([range.findings.wordsAt(key, 0)!.rows, range.findings.wordsAt(key, 0)!.held_ns], [3, 0.6 * S]);
  const one = rangeOf([windowAt(0, [vcpu(0, 1.2 * S, { dur: 3 * S, of_ns: 3 * S })], 4 * S)], 4 * S);
  assert.deepEqual(one.findings.lanes.lane(key)!.slice(0, 3), range.findings.lanes.lane(key)!.slice(0, 3));
  const out = new Float64Array(4);
  range.findings.fill(out, key, { from: 0, to: 4 * S, width: 4 });
  // 0.4 of the three windows out of four in which it held.
  for (const value of out) assert.ok(Math.abs(value - 0.3) < 1e-9, String(value));
});

test("the double's merged windows and the windows that they were merged from draw the same", () => {
  const fleet = new Fleet({ ...FLEET, vms: 5, groups: 6 });
  const windows = upTo(24).map((i) => fleet.window(200 + i, ORIGIN.unix_ns + (i + 1) * S));
  const [single, whole] = [rangeOf(windows, 12 * S), rangeOf([merged(windows.slice(0, 12), ["machines", "findings"]), merged(windows.slice(12), ["machines", "findings"])], 12 * S)];
  assert.deepEqual(said(allOf(single, "range")), said(allOf(whole, "range")));
  assert.ok(allOf(single, "range").length > 3);
  for (const name of single.findings.lanes.names) assert.deepEqual(single.findings.lanes.lane(name)!.slice(0, 6), whole.findings.lanes.lane(name)!.slice(0, 6), name);
});

test("rows of one subject and detector in one window add up within one whole", () => {
  const range = rangeOf([windowAt(0, [vcpu(0, 0.5 * S, { detector: "exit_storm", sentence: "much" }), vcpu(0, 0.3 * S, { detector: "exit_storm", sentence: "less" })])]);
  const [row] = allOf(range, "range");
  assert.equal(row!.words.sentence, "much");
  assert.deepEqual(range.findings.shareAt(row!.kind.key, 0), { share: 0.8, present_ns: S });
});

test("windows without the table are unknown time: no bin, a gap, and no “No findings”", () => {
  const range = rangeOf([windowAt(0), windowAt(1, null), windowAt(2, []), windowAt(3, [vcpu(0, S)])]);
  assert.equal(range.actors.length, 4);
  assert.deepEqual(gapsOf(range.findings.lanes, { from: 0, to: 4 * S, width: 40 }, 0, 4 * S).map(({ from, to }) => [from / S, to / S]), [[0, 2]]);
  const out = new Float64Array(4);
  range.findings.fill(out, allOf(range, "range")[0]!.kind.key, { from: 0, to: 4 * S, width: 4 });
  assert.deepEqual([...out].map((value) => (Number.isNaN(value) ? "unknown" : value)), ["unknown", "unknown", 0, 1]);
  assert.equal(noneText(900 * S, 900 * S, S), "No findings in this range.");
  assert.equal(noneText(0, 900 * S, S), "Not known: the windows of this range do not contain findings.");
  assert.equal(noneText(300 * S, 900 * S, S), "No findings in 5 min of this range. The other windows do not contain findings.");
  assert.match(noneText(900 * S, 900 * S, 0.5 * S), /^Not known: windows shorter than 1 s/);
});

test("a VM has its own findings, its vCPUs' and its control group's; a container those in it", () => {
  const machines = new Machines(MACHINES);
  const rows = [vcpu(1, S), vcpu(0, S, { vcpu: null }), group("/machine.slice/web.scope", S), group("/machine.slice/web.scope/emulator", S), group("/machine.slice", S), vcpu(0, S, { machine_id: 2 }), vcpu(0, S, { machine_id: 0, vcpu: null, tid: 7 }), group("/", S)];
  const of = (focus: string): number[] => upTo(rows.length).filter((at) => concerns(rows[at]!, focus, machines));
  assert.deepEqual(of("vm:web"), [0, 1, 2, 3]);
  assert.deepEqual(of("vm:db"), [5], "a VM in the root group does not have the findings of all groups");
  assert.deepEqual(of("cg:/machine.slice"), [0, 1, 2, 3, 4]);
  assert.deepEqual(of("cg:/machine.slice/web.scope/emulator"), [3]);
  assert.deepEqual(of("cg:/"), [7]);
  assert.deepEqual(said(allOf(rangeOf([windowAt(0, rows)], S, "vm:db"), "range")).map(([subject]) => subject), ["web vcpu0"]);
  assert.equal(allOf(rangeOf([windowAt(0, rows)]), "range").length, 8);
});

test("a subject opens its VM, or the container that it is in", () => {
  const isThere = (id: string): boolean => ["vm:web", "cg:/system.slice/shop.scope"].includes(id);
  assert.deepEqual(["vcpu:web:1", "vm:web", "cg:/system.slice/shop.scope", "cg:/system.slice/shop.scope/a/b", "cg:/other", "cg:/", undefined].map((actor) => openedBy(actor, isThere)), ["vm:web", "vm:web", "cg:/system.slice/shop.scope", "cg:/system.slice/shop.scope", undefined, undefined, undefined]);
});

test("the words: a sentence around its subject, the time in which it held", () => {
  assert.deepEqual(around("The kernel reclaimed memory for web 7 times.", "web"), ["The kernel reclaimed memory for ", "web", " 7 times."]);
  assert.deepEqual(around("It waited.", "web"), ["", "web", ": It waited."]);
  const min = 60 * S;
  assert.deepEqual(
    [[3 * min, 15 * min], [40 * S, 15 * min], [14.99 * min, 15 * min], [90 * min, 360 * min], [20 * min, 360 * min], [3 * S, 60 * S], [0.3 * S, 5 * S]].map(([held, all]) => heldText(held!, all!)),
    ["held 3 of 15 min", "held 40 s of 15 min", "held all of 15 min", "held 1.5 of 6 h", "held 20 min of 6 h", "held 3 of 60 s", "held 300 ms of 5 s"],
  );
});

test("of very many findings only the sentences of the newer ones are kept, and all of the sums", () => {
  const range = rangeOf(upTo(300).map((i) => windowAt(i, upTo(100).map((at) => vcpu(at, 0.5 * S)))));
  const { findings } = range;
  const { key } = allOf(range, "range")[0]!.kind;
  const kept = upTo(300).filter((bin) => findings.wordsAt(key, bin) !== undefined);
  assert.ok(kept.length >= 100 && kept.length <= 200 && kept[0] === 300 - kept.length, `${kept.length}`);
  assert.deepEqual(findings.shareAt(key, 0), { share: 0.5, present_ns: S });
  assert.equal(allOf(range, "range")[0]!.present_ns, 300 * S);
});

test("findings that are gone leave nothing behind on a page that stays open", () => {
  const range = rangeOf([]);
  for (let i = 0; i < 1000; i++) {
    range.addFine(windowAt(i, [vcpu(i, 0.5 * S)]));
    range.trim((i - 100) * S);
  }
  assert.ok([...range.findings.lanes.names].length < 200);
  const rows = range.findings.rows(0, 1000 * S, "range", undefined);
  assert.equal(rows.length, [...range.findings.lanes.names].length);
});
