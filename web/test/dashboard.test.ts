// The dashboard's arithmetic: what is drawn is what the windows add up to, and nothing is put where nothing is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fleet, FLEET } from "../dev/fleet.ts";
import { merged } from "../dev/merge.ts";
import { actorOf, groupName, Machines, partyOf } from "../dashboard/core/actors.ts";
import { bytes } from "../dashboard/core/bytes.ts";
import { ticksOf } from "../dashboard/core/clock.ts";
import { ACTOR_FIELDS, CPU, FIELD, PAIR, Range, STATES } from "../dashboard/core/collect.ts";
import { windowsText } from "../dashboard/core/damage.ts";
import { cpuBusy, fillStates, gapsOf, rates, UNKNOWN, wholeCpus } from "../dashboard/core/fill.ts";
import { BINDINGS, commandOf } from "../dashboard/core/keys.ts";
import { Lanes } from "../dashboard/core/lanes.ts";
import { boundsOf, groupOf, GROUPS, quantile, quantileOf } from "../dashboard/core/lengths.ts";
import { largest, matrixOf, OTHERS, pairsOf } from "../dashboard/core/matrix.ts";
import { reasonsOf, threadsOf } from "../dashboard/core/merge.ts";
import { heatRgb, KEY, shareOf, statePaints } from "../dashboard/core/paints.ts";
import { rowsOf, sharesOfBins } from "../dashboard/core/rows.ts";
import { lengthText, parseLength, stepFor, stepsFor } from "../dashboard/core/steps.ts";
import { Feed } from "../dashboard/page/feed.ts";
import { decode, encode, nextOf, START } from "../dashboard/core/url.ts";
import type { WindowJson } from "../dashboard/core/wire.ts";
import { Columns, SLOTS } from "../src/core/columns.ts";

const S = 1e9;
const ORIGIN = { unix_ns: 1_700_000_000 * S };
const fleet = new Fleet({ ...FLEET, vms: 5, groups: 3 });
const windowAt = (number: number): WindowJson => fleet.window(number, ORIGIN.unix_ns + (number + 1) * S);
const rangeOf = (numbers: readonly number[], step_ns = S, focus?: string): Range => {
  const range = new Range(ORIGIN, step_ns, step_ns, focus);
  for (const number of numbers) {
    range.addFine(windowAt(number));
    range.addCoarse(windowAt(number));
  }
  return range;
};
const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const near = (a: number, b: number, by = 1e-9): void => assert.ok(Math.abs(a - b) <= by * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test("bins are windows, put together up to their step, with all of their time", () => {
  const range = rangeOf(upTo(25), 10 * S);
  assert.equal(range.actors.length, 3);
  assert.deepEqual([0, 1, 2].map((at) => range.actors.bin(at).dur / S), [10, 10, 5]);
  const wanted = upTo(25).reduce((sum, i) => sum + (windowAt(i).windows!.find((row) => row.machine_id === 1 && row.vcpu === null)!.waited_ns ?? 0), 0);
  const got = range.actors.sum("vm:web1", FIELD.preempted, 0, 25 * S) + range.actors.sum("vm:web1", FIELD.waking, 0, 25 * S);
  assert.equal(got, wanted);
});

test("an actor's states fill its row's time, whatever is missing", () => {
  for (const missing of [[], ["guest_time", "halted_time", "exits"]]) {
    const range = new Range(ORIGIN, S, S, undefined);
    const other = new Fleet({ ...FLEET, missing });
    for (let i = 0; i < 20; i++) range.addFine(other.window(i, ORIGIN.unix_ns + (i + 1) * S));
    for (const name of range.actors.names) {
      const lane = range.actors.lane(name)!;
      if (!name.startsWith("vm:")) continue;
      for (let bin = 0; bin < range.actors.length; bin++) {
        const states = lane.subarray(bin * ACTOR_FIELDS, bin * ACTOR_FIELDS + STATES);
        assert.equal(states.reduce((sum, ns) => sum + ns, 0), lane[bin * ACTOR_FIELDS + FIELD.span]);
      }
    }
  }
});

test("a merged window and the windows it was merged from draw the same", () => {
  const one = rangeOf(upTo(12), 12 * S);
  const range = new Range(ORIGIN, 12 * S, 12 * S, undefined);
  const tables = ["machines", "windows", "window_details", "cpu_windows", "exit_windows", "antagonists", "io_windows", "container_windows", "health"];
  for (const part of [upTo(5), [5, 6, 7, 8, 9, 10, 11]]) {
    const sum = merged(part.map(windowAt), tables);
    range.addFine(sum);
    range.addCoarse(sum);
  }
  for (const lanes of ["actors", "cpus", "io", "waits", "exits", "rivals"] as const) {
    assert.deepEqual([...range[lanes].names].sort(), [...one[lanes].names].sort());
    for (const name of one[lanes].names) assert.deepEqual(range[lanes].lane(name)!.slice(0, one[lanes].fields), one[lanes].lane(name)!.slice(0, one[lanes].fields), `${lanes} ${name}`);
  }
});

test("gaps stay gaps: no bin reaches over one, and they are found with their length", () => {
  const range = rangeOf([0, 1, 2, 6, 7, 8, 9], 5 * S);
  const view = { from: 0, to: 10 * S, width: 100 };
  const gaps = gapsOf(range.actors, view, 0, 10 * S);
  assert.deepEqual(gaps.map(({ from, to }) => [from / S, to / S]), [[3, 6]]);
  const out = new Float64Array(100);
  rates(out, range.cpus, "0", CPU.busy, view);
  assert.ok(upTo(100).every((x) => Number.isNaN(out[x]!) === (x >= 30 && x < 60)), [...out].join());
  assert.ok(!range.actors.covers(4 * S) && range.actors.covers(6.5 * S));
  const columns = new Columns(100);
  fillStates(columns, range.actors, "vm:web1", view, undefined);
  assert.ok(upTo(100).every((x) => columns.known[x]! > 0.5 === !(x >= 30 && x < 60)));
});

test("a CPU that is unknown is not idle", () => {
  const range = new Range(ORIGIN, S, S, undefined);
  const cpus = [[0, 0, S], [0.2 * S, 0.2 * S, 0.6 * S], [0.3 * S, 0.3 * S, 0.4 * S], [0.25 * S, 0.75 * S, 0]];
  cpus.forEach(([busy_ns, idle_ns, unknown_ns], i) => range.addFine({ ts: i * S, dur: S, ended_unix_ns: ORIGIN.unix_ns + (i + 1) * S, cpu_windows: [{ cpu: 0, busy_ns: busy_ns!, idle_ns: idle_ns!, unknown_ns: unknown_ns! }] }));
  const out = new Float64Array(4);
  cpuBusy(out, range.cpus, "0", { from: 0, to: 4 * S, width: 4 });
  assert.deepEqual([...out.slice(0, 2)], [UNKNOWN, UNKNOWN]);
  near(out[2]!, 0.5e9);
  near(out[3]!, 0.25e9);
});

test("a short gap is two columns wide at least, one before the history is there, none after the newest window", () => {
  const range = rangeOf([...upTo(500), ...upTo(500).map((i) => i + 501)]);
  const gaps = gapsOf(range.actors, { from: 0, to: 1001 * S, width: 300 }, 0, 1001 * S);
  assert.equal(gaps.length, 1);
  assert.equal(gaps[0]!.x1 - gaps[0]!.x0, 2);
  assert.equal(gapsOf(range.actors, { from: -100 * S, to: 1001 * S, width: 300 }, -100 * S, 1001 * S).length, 2);
  assert.equal(gapsOf(range.actors, { from: 0, to: 1200 * S, width: 300 }, 0, 1001 * S).length, 1);
});

test("windows that are there already are not taken twice, clocks that jitter make no gaps", () => {
  const lanes = new Lanes(1, S);
  assert.ok(lanes.begin({ from: 0, to: S, ts: 0, dur: S, missed: 0 }));
  assert.ok(!lanes.begin({ from: 0, to: S, ts: 0, dur: S, missed: 0 }));
  assert.ok(lanes.begin({ from: S + 40_000, to: 2 * S + 40_000, ts: S, dur: S, missed: 0 }));
  assert.equal(lanes.bin(1).from, S, "joined to the one before");
});

test("trimming keeps what is left, with its numbers", () => {
  const range = rangeOf(upTo(300));
  const before = range.actors.sum("vm:db1", FIELD.gotten, 200 * S, 300 * S);
  range.trim(150 * S);
  assert.equal(range.actors.length, 150);
  assert.equal(range.actors.bin(0).from, 150 * S);
  assert.equal(range.actors.sum("vm:db1", FIELD.gotten, 200 * S, 300 * S), before);
  range.addFine(windowAt(300));
  const passing = new Range(ORIGIN, S, S, undefined);
  for (let i = 0; i < 2000; i++) {
    const row = { machine_id: 0, dur: S, kind: "docker", name: `job-${i}`, cgroup: `/job-${i}`, gotten_ns: 5, waited_ns: 0, blocked_ns: 0 };
    passing.addFine({ ts: i * S, dur: S, ended_unix_ns: ORIGIN.unix_ns + (i + 1) * S, container_windows: [row] });
    passing.trim((i - 100) * S);
  }
  assert.ok([...passing.actors.names].length < 200 && passing.labels.size < 200, "containers that are gone leave nothing");
  assert.equal(range.actors.bin(150).to, 301 * S);
});

test("columns are the exact sums of the bins they cover", () => {
  const range = rangeOf(upTo(60));
  const columns = new Columns(7);
  fillStates(columns, range.actors, "vm:batch1", { from: 0, to: 60 * S, width: 7 }, undefined);
  const shareOfKey = (column: number, key: number): number => {
    for (let slot = 0; slot < columns.count[column]!; slot++) if (columns.key[column * SLOTS + slot] === key) return columns.share[column * SLOTS + slot]!;
    return 0;
  };
  for (let column = 0; column < 7; column++) {
    let wanted = 0;
    for (let i = 0; i < 60; i++) {
      const row = windowAt(i).windows!.find(({ machine_id, vcpu }) => machine_id === 3 && vcpu === null)!;
      const [a, b] = [Math.max(i, (column * 60) / 7), Math.min(i + 1, ((column + 1) * 60) / 7)];
      if (b > a) wanted += (((b - a) * 7) / 60) * (row.guest_ns! / row.dur);
    }
    near(shareOfKey(column, KEY.guest), wanted, 1e-5);
  }
});

test("a container is drawn in whole CPUs, its sleep is what is left", () => {
  const range = new Range(ORIGIN, S, S, undefined);
  const row = { machine_id: 0, vcpu: null, cgroup: "/a", dur: S, gotten_ns: 1.5 * S, waited_ns: 0.25 * S, blocked_ns: 40 * S };
  range.addFine({ ts: 0, dur: S, ended_unix_ns: ORIGIN.unix_ns + S, windows: [row], window_details: [{ machine_id: 0, cgroup: "/a", waking_ns: 0.25 * S, preempted_ns: 0 }] });
  assert.equal(wholeCpus(range.actors, "cg:/a", 0, S), 2);
  const columns = new Columns(1);
  fillStates(columns, range.actors, "cg:/a", { from: 0, to: S, width: 1 }, 2);
  const shares = Object.fromEntries(upTo(columns.count[0]!).map((slot) => [columns.key[slot]!, columns.share[slot]!]));
  assert.deepEqual(shares, { [KEY.gotten]: 0.75, [KEY.waking]: 0.125, [KEY.blocked]: 0.125 });
});

test("rows are ordered by what they waited, filtered, and of one kind", () => {
  const range = rangeOf(upTo(30));
  const rows = rowsOf(range.actors, 0, 30 * S, "waited", "all", "");
  const waited = rows.map((row) => Math.round(row.shares.waited * 1000));
  assert.deepEqual(waited, [...waited].sort((a, b) => b - a));
  assert.equal(rows.length, 8);
  assert.deepEqual(rowsOf(range.actors, 0, 30 * S, "name", "vm", "WEB").map(({ actor }) => actor.name), ["web1"]);
  assert.ok(rowsOf(range.actors, 0, 30 * S, "gotten", "group", "").every(({ actor }) => actor.kind === "group"));
});

test("containers have their names; where they are told apart, groups are inside them", () => {
  const [told, plain] = [true, false].map((containers) => {
    const range = new Range(ORIGIN, S, S, undefined);
    range.addFine(new Fleet({ ...FLEET, containers }).window(3, ORIGIN.unix_ns + 4 * S));
    return range;
  });
  assert.equal(actorOf("cg:/system.slice/docker-4f1c.scope", told!.labels).name, "shop");
  assert.equal(actorOf("cg:/system.slice/docker-4f1c.scope", plain!.labels).name, "docker-4f1c");
  assert.match(actorOf("cg:/kubepods.slice/pod-web.slice/cri-77.scope", told!.labels).detail, /containerd in pod shop\/web-7f9c/);
  // The same time either way, and the host's waits are counted once.
  for (const name of told!.actors.names) assert.deepEqual(told!.actors.lane(name), plain!.actors.lane(name), name);
  assert.deepEqual(told!.waits.lane("waits"), plain!.waits.lane("waits"));
  assert.equal(rowsOf(told!.actors, 0, 4 * S, "name", "all", "pod shop", told!.labels).length, 1);
});

test("who is gone and did next to nothing has no row, unless it is looked for", () => {
  const idle = new Range(ORIGIN, S, S, undefined);
  idle.addFine({ ts: 0, dur: S, ended_unix_ns: ORIGIN.unix_ns + S, windows: [{ machine_id: 0, cgroup: "/gone", dur: S, gotten_ns: 1000, waited_ns: 0, blocked_ns: S }] });
  const of = (filter: string): number => rowsOf(idle.actors, 0, S, "waited", "all", filter, undefined, () => false).length;
  assert.deepEqual([of(""), of("gone")], [0, 1]);
});

test("of a VM its vCPUs are shown and its exits by vCPU", () => {
  const range = rangeOf(upTo(5), S, "vm:web1");
  assert.deepEqual([...range.actors.names].sort(), ["vcpu:web1:0", "vcpu:web1:1", "vm:web1"]);
  assert.ok([...range.exitsOf.names].every((name) => name.startsWith("vCPU ")));
  const shares = sharesOfBins(range.actors, actorOf("vcpu:web1:0"), 0, 5);
  near(shares.gotten + shares.waited + shares.blocked + shares.unknown, 1);
});

test("a matrix keeps its sum, with what is small as others", () => {
  const range = rangeOf(upTo(20));
  const pairs = pairsOf(range.rivals, PAIR.ns, 0, 20 * S);
  const all = [...pairs.values()].reduce((sum, value) => sum + value, 0);
  for (const [rows, columns] of [[2, 2], [3, 9], [50, 50]] as const) {
    const matrix = matrixOf(pairs, rows, columns);
    near(matrix.values.reduce((sum, value) => sum + value, 0), all);
    assert.ok(matrix.rows.length <= rows && matrix.columns.length <= columns);
  }
  assert.deepEqual(largest(new Map([["a", 1], ["b", 9], ["c", 5]]), 2), ["b", OTHERS]);
});

test("lengths: buckets of the server fall into rows, quantiles are its own upper bounds", () => {
  for (let group = 0; group < GROUPS; group++) assert.equal(groupOf(boundsOf(group)[0]), group);
  assert.deepEqual([0, 511, 512, 1023, 1024, 512 * 2 ** 24, 1e12].map(groupOf), [0, 0, 1, 1, 2, 25, 25]);
  // As crates/live/src/histogram.rs has them.
  const lengths: [number, number][] = [[0, 50], [1024, 49], [512 * 2 ** 24, 1]];
  assert.deepEqual([0.5, 0.51, 0.99, 1].map((share) => quantileOf(lengths, share)), [511, 1279, 1279, 2 ** 33]);
  assert.equal(quantile(new Float64Array(GROUPS), 0.5), undefined);
  const counts = new Float64Array(GROUPS);
  [counts[0], counts[3]] = [1, 99];
  assert.equal(quantile(counts, 0.5), 4096);
});

test("exits and threads of several pieces are merged as the server merges", () => {
  const whole = merged([windowAt(1), windowAt(2)], ["machines", "exit_windows", "thread_windows"]);
  const [merged_, pieces] = [reasonsOf([whole], "web1"), reasonsOf([windowAt(1), windowAt(2)], "web1")];
  assert.deepEqual(pieces, merged_);
  assert.equal(pieces[0]!.p50_ns, 2047);
  const threads = threadsOf([windowAt(1), windowAt(2)], (row) => row.vm_machine_id === 1);
  assert.deepEqual(threads.map((row) => row.dur), [2 * S, 2 * S]);
});

test("numbers of machines may change, names stay", () => {
  const [one, other] = [new Machines([{ machine_id: 3, name: "web", kind: "guest" }]), new Machines([{ machine_id: 7, name: "web", kind: "guest" }])];
  assert.equal(one.actorOf({ machine_id: 3, vcpu: 1 }), other.actorOf({ machine_id: 7, vcpu: 1 }));
  const twins = new Machines([{ machine_id: 1, name: "a", kind: "guest" }, { machine_id: 2, name: "a", kind: "guest" }]);
  assert.notEqual(twins.name(1), twins.name(2));
  assert.equal(partyOf(0, 0, "swapper/1", one), "leaving idle");
  assert.deepEqual(["kworker/1:2-events", "ksoftirqd/0", "nginx", "worker-12", "7"].map((name) => partyOf(0, 9, name, one)), ["kworker", "ksoftirqd", "nginx", "worker", "7"]);
  assert.deepEqual([groupName("/"), groupName("/system.slice/nginx.service").name], [{ name: "(root group)", detail: "/" }, "nginx"]);
});

test("steps: as many as are drawn, never more rows than a browser reads, multiples of the window", () => {
  assert.equal(stepFor(900 * S, S, 360), 5 * S);
  assert.equal(stepFor(60 * S, S, 360), S);
  assert.equal(stepFor(3600 * S, 10 * S, 360), 10 * S);
  const { fine_ns, coarse_ns } = stepsFor(3600 * S, S, { fine: 900, coarse: 4000 });
  assert.ok((3600 * S) / fine_ns <= 133 && (3600 * S) / coarse_ns <= 30 && coarse_ns >= fine_ns);
  for (const days of [1, 3, 31]) assert.ok((days * 86400 * S) / stepFor(days * 86400 * S, S, 900) <= 900);
});

test("ranges as people write them", () => {
  assert.deepEqual(["15m", "15 min", "90s", "1.5h", "3d", "9s", "32d", "x", "5"].map(parseLength), [900 * S, 900 * S, 90 * S, 5400 * S, 259200 * S, undefined, undefined, undefined, undefined]);
  for (const ns of [900 * S, 90 * S, 5400 * S, 3 * 86400 * S, 86400 * S]) assert.equal(parseLength(lengthText(ns)), ns);
});

test("the address holds the view; what does not parse is as at the start", () => {
  const seen = { length_ns: 3600 * S, until_ms: 1_700_000_000_123, at_ms: 1_699_999_999_000, focus: "cg:/system.slice/a b&c=d", order: "gotten", shown: "vm", filter: "web db", exits: "who", large: "fleet" } as const;
  assert.deepEqual(decode(encode(seen)), seen);
  assert.equal(encode(START), "");
  assert.deepEqual(decode("#range=never&until=soon&order=size&of=<script>&show=1&exits=&large=A1"), START);
});

test("ticks are on round times of day and not too near", () => {
  const ticks = ticksOf(Date.UTC(2026, 0, 5, 10, 3, 7), Date.UTC(2026, 0, 5, 10, 18, 7), 500, 60);
  assert.ok(ticks.length >= 3 && ticks.length <= 8, String(ticks.length));
  assert.ok(ticks.every(({ unix_ms }) => unix_ms % 60_000 === 0));
});

test("the heat scale is ordered by lightness alone, in both themes; little is not nothing", () => {
  const lightness = ([r, g, b]: readonly number[]): number => 0.2126 * r! ** 2.2 + 0.7152 * g! ** 2.2 + 0.0722 * b! ** 2.2;
  for (const theme of ["dark", "light"] as const) {
    const steps = upTo(41).map((i) => lightness(heatRgb(i / 40, theme)));
    for (let i = 1; i < steps.length; i++) assert.ok(theme === "dark" ? steps[i]! > steps[i - 1]! : steps[i]! < steps[i - 1]!, `${theme} ${i}`);
  }
  assert.equal(shareOf(0, 10, "log"), 0);
  assert.equal(shareOf(NaN, 10, "log"), 0);
  assert.ok(shareOf(1e-9, 10, "log") > 0 && shareOf(1e-9, 10, "linear") > 0);
  assert.equal(shareOf(10, 10, "root"), 1);
});

test("no two states look alike: each has its own pattern or, of solids, its own lightness", () => {
  const paints = statePaints("dark");
  const looks = Object.values(KEY).map((key) => `${paints.of(key).pattern} ${paints.of(key).front.join()}`);
  // Gotten and guest are one thing to somebody who cannot tell them; halted and offline, too: nothing happens.
  assert.ok(new Set(looks).size >= looks.length - 2, looks.join(" | "));
  assert.notEqual(paints.of(KEY.preempted).pattern, paints.of(KEY.waking).pattern);
  assert.notEqual(paints.of(KEY.host).pattern, paints.of(KEY.guest).pattern);
});

test("every key has one command, every command a key and words", () => {
  const keys = BINDINGS.flatMap(({ keys }) => keys);
  assert.equal(new Set(keys).size, keys.length);
  assert.ok(BINDINGS.every(({ keys, help }) => keys.length > 0 && help !== ""));
  const press = (key: string, shiftKey = false): string | undefined => commandOf({ key, shiftKey, ctrlKey: false, metaKey: false, altKey: false });
  assert.deepEqual([press("?", true), press("ArrowLeft", true), press("2"), press("y")], ["help", "momentLeftFar", "range2", undefined]);
});

test("bytes", () => {
  assert.deepEqual([0, 512, 1536, 10 * 1024 ** 2, 3.25 * 1024 ** 4].map(bytes), ["0 B", "512 B", "1.5 KiB", "10 MiB", "3.25 TiB"]);
});

test("a group that no container stands for is beside them, one in a container is not", () => {
  const range = new Range(ORIGIN, S, S, undefined);
  const of = (cgroup: string, gotten_ns: number): object => ({ ts: 0, dur: S, machine_id: 0, vcpu: null, cpu: null, cgroup, executions: 1, gotten_ns, waited_ns: 0, blocked_ns: 0, offline_ns: 0, unknown_ns: 0 });
  const container = { ...of("/system.slice/shop.scope", 3e8), kind: "docker", name: "shop", threads: 2 };
  const windows = [of("/", 1e8), of("/system.slice/shop.scope", 1e8), of("/system.slice/shop.scope/worker", 2e8), of("/system.slice/shop.scope2", 5e7)];
  range.addFine({ ts: 0, dur: S, ended_unix_ns: ORIGIN.unix_ns + S, windows, container_windows: [container] } as unknown as Parameters<typeof range.addFine>[0]);
  assert.deepEqual([...range.actors.names].sort(), ["cg:/", "cg:/system.slice/shop.scope", "cg:/system.slice/shop.scope2"]);
  const gotten = rowsOf(range.actors, 0, S, "name", "all", "", range.labels).map(({ actor, shares }) => [actor.name, Math.round(shares.gotten * 100)]);
  assert.deepEqual(new Map(gotten as [string, number][]).get("(root group)"), 10);
  assert.deepEqual(new Map(gotten as [string, number][]).get("shop"), 30);
});

test("who wants another attempt while one is under way gets it when that one is over, not after its wait", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: ((answer: Response) => void)[] = [];
  context.mock.method(globalThis, "fetch", () => new Promise<Response>((done) => asked.push(done)));
  const feed = new Feed({ window: () => undefined, troubled: () => undefined, loaded: () => undefined });
  const deny = async (): Promise<void> => {
    asked.at(-1)!(new Response('{"error":"this address needs a token"}', { status: 401 }));
    // What follows of an answer without any time.
    for (let i = 0; i < 50; i++) await new Promise(setImmediate);
  };
  void feed.follow();
  assert.equal(asked.length, 1);
  await deny();
  assert.equal(asked.length, 1, "it waits");
  feed.retry();
  for (let i = 0; i < 50; i++) await new Promise(setImmediate);
  assert.equal(asked.length, 2, "while it waits it is tried at once");
  feed.retry();
  assert.equal(asked.length, 2, "one attempt at a time");
  await deny();
  assert.equal(asked.length, 3, "and while one is under way, after that one");
  await deny();
  assert.equal(asked.length, 3, "once");
});

test("after a token a browser is led to a timeline of this server, and nowhere else", () => {
  assert.equal(nextOf("?next=/view/20261128T034620p0100-1/"), "/view/20261128T034620p0100-1/");
  for (const other of ["", "?token=a", "?next=", "?next=//evil.example/", "?next=https://evil.example/view/a/", "?next=/view/a/../b/", "?next=/view/a/%0d", "?next=javascript:alert(1)", "?next=/"]) assert.equal(nextOf(other), undefined, other);
});

test("damaged windows: those of the view, once for fine and coarse answers, until they are out of the range", () => {
  const range = rangeOf([]);
  const stretch = (from: number, until: number, windows: number): { from_unix_ns: number; until_unix_ns: number; windows: number } => ({ from_unix_ns: ORIGIN.unix_ns + from * S, until_unix_ns: ORIGIN.unix_ns + until * S, windows });
  assert.equal(range.damage.windows(0, 100 * S), 0);
  range.damage.addFine(undefined);
  range.damage.addCoarse([stretch(10, 30, 2)]);
  assert.equal(range.damage.windows(0, 100 * S), 2);
  range.damage.addFine([stretch(10, 22, 12), stretch(50, 51, 1)]);
  assert.equal(range.damage.windows(0, 100 * S), 13);
  assert.equal(range.damage.windows(30 * S, 60 * S), 1);
  assert.equal(range.damage.windows(22 * S, 50 * S), 2);
  range.trim(30 * S);
  assert.equal(range.damage.windows(0, 100 * S), 1);
  assert.deepEqual([windowsText(1), windowsText(12)], ["1 window", "12 windows"]);
});
