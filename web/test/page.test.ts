// What is left of the page without a browser: tracks, filter, keys, ruler, arrows, words, SVG, colours.
import assert from "node:assert/strict";
import { test } from "node:test";
import { axisOf, errorBetween, measured, niceStep } from "../src/core/axis.ts";
import { Columns } from "../src/core/columns.ts";
import { parseFilter } from "../src/core/filter.ts";
import { arrowsOf, evidenceWords, FLOW_KINDS, flowColour, flowWords, pathOf, touches, type Flow } from "../src/core/flows.ts";
import { count, duration, exactDuration, moment, percent } from "../src/core/format.ts";
import { BINDINGS, commandOf } from "../src/core/keymap.ts";
import { viewBox } from "../src/core/minimap.ts";
import { inkOn, machineHues, maskOf, paintOf, Paints, word, type Key } from "../src/core/palette.ts";
import { drawCounter, drawInstants, hatch, type Pixels } from "../src/core/raster.ts";
import { targetOf } from "../src/core/rows.ts";
import { asText, statTables } from "../src/core/stats.ts";
import { summaryOf, summaryText } from "../src/core/summary.ts";
import { toSvg } from "../src/core/svg.ts";
import { rowAt, totalHeight, TrackTree, visibleRows, type Track, type TreeState } from "../src/core/tracks.ts";
import { made } from "./kit.ts";

const { answers, paints, all } = made({ seconds: 1 });
const { tracks, machines, keys } = answers.recording;
const names = (id: number): string => machines[id]?.name ?? "";
const state = (more: Partial<TreeState> = {}): TreeState => ({ folded: new Set(), opened: new Set(), pinned: [], filter: parseFilter("", names).tracks, ...more });

test("the tree: machines in order, causal order inside, no track lost", () => {
  const tree = new TrackTree(tracks);
  assert.equal(tree.nodes.size, tracks.length);
  assert.deepEqual(tree.roots.map((root) => root.track.name), machines.map((m) => m.name));
  const xen = tree.roots[0]!;
  assert.deepEqual(xen.children.map((child) => child.track.kind), ["cpus", "counters", "events"]);
  const rows = tree.rows(state());
  rows.forEach((row, i) => assert.equal(row.y, i === 0 ? 0 : rows[i - 1]!.y + rows[i - 1]!.height));
  assert.ok(rows.some((row) => row.type === "more" && row.hidden > 5), "idle threads wait behind a row of their own");
});

test("a parent that is missing, or a circle, hides nothing", () => {
  const track = (id: number, parent: number | null): Track => ({ track: id, parent, machine_id: 0, layer: "", kind: "thread", name: `t${id}`, detail: "", sort: id, cpu: null, vcpu: null, tid: null, intervals: 1, busy_ns: 1, shape: "intervals" });
  const tree = new TrackTree([track(1, 99), track(2, 2), track(3, null)]);
  assert.equal(tree.roots.length, 3);
});

test("threads: those that are busy in the seen range, as many as ever, and what the user is at", () => {
  const plain = (id: number, kind: string, parent: number | null, busy_ns: number): Track => ({ track: id, parent, machine_id: 0, layer: "", kind, name: `t${id}`, detail: "", sort: id, cpu: null, vcpu: null, tid: null, intervals: 1, busy_ns, shape: "intervals" });
  const threads = Array.from({ length: 20 }, (_, i) => plain(10 + i, "thread", 2, i < 12 ? 1000 - i : 0));
  const tree = new TrackTree([plain(1, "machine", null, 0), plain(2, "threads", 1, 0), ...threads]);
  const shown = (more: Partial<TreeState>): number[] => tree.rows(state(more)).filter((r) => r.type === "track").map((r) => r.node.track.track);
  assert.deepEqual(shown({}), [10, 11, 12, 13, 14, 15]);
  assert.deepEqual(shown({ busy: new Map([[28, 500], [21, 3]]) }), [10, 11, 12, 13, 21, 28], "then the busiest of all");
  assert.deepEqual(shown({ busy: new Map([[28, 500]]), kept: new Set([25]) }), [10, 11, 12, 13, 25, 28]);
  assert.equal(tree.rows(state()).find((r) => r.type === "more")!.hidden, 14);
  const quiet = new TrackTree([plain(1, "machine", null, 0), plain(2, "threads", 1, 0), plain(3, "thread", 2, 900), ...threads.map((t) => ({ ...t, busy_ns: 0 }))]);
  assert.equal(quiet.rows(state()).filter((r) => r.type === "track").length, 2, "threads that only sleep wait behind a row of their own");
});

test("no heading above a single row, no domain that repeats its only vCPU", () => {
  const plain = (id: number, kind: string, parent: number | null): Track => ({ track: id, parent, machine_id: 0, layer: "", kind, name: kind, detail: "", sort: id, cpu: null, vcpu: null, tid: null, intervals: 1, busy_ns: 1, shape: "intervals" });
  const one = [plain(1, "machine", null), plain(2, "domain", 1), plain(3, "vcpus", 1), plain(4, "vcpu", 3), plain(5, "exits", 4)];
  const kinds = (tracks: Track[], more: Partial<TreeState> = {}): string[] => new TrackTree(tracks).rows(state(more)).map((r) => `${r.depth} ${r.node.track.kind}`);
  assert.deepEqual(kinds(one), ["0 machine", "1 vcpu"]);
  assert.deepEqual(kinds(one, { opened: new Set([2, 4]) }), ["0 machine", "1 domain", "1 vcpu", "2 exits"]);
  assert.deepEqual(kinds(one, { filter: parseFilter("kind:domain", names).tracks }), ["0 machine", "1 domain"]);
  assert.deepEqual(kinds([...one, plain(6, "vcpu", 3)]), ["0 machine", "1 domain", "1 vcpus", "2 vcpu", "2 vcpu"]);
});

test("folding hides, opening shows, pinning repeats on top, a folded group shows strips", () => {
  const tree = new TrackTree(tracks);
  const dom0 = tree.roots[1]!;
  const folded = tree.rows(state({ folded: new Set([dom0.track.track]) }));
  const row = folded.find((r) => r.node === dom0)!;
  assert.ok(row.folded && row.strips.length > 1 && row.hidden > 20);
  assert.ok(!folded.some((r) => r.node.parent === dom0));
  const vcpu = tracks.find((t) => t.kind === "vcpu")!;
  assert.ok(!tree.rows(state()).some((r) => r.node.parent?.track === vcpu), "lanes of a vCPU start folded");
  assert.ok(tree.rows(state({ opened: new Set([vcpu.track]) })).some((r) => r.node.parent?.track === vcpu));
  assert.deepEqual(tree.pinnedRows(state({ pinned: [vcpu.track, 9999] })).map((r) => r.node.track), [vcpu]);
  assert.equal(tree.path(vcpu.track), "dom0 › vCPU 0");
});

test("the filter keeps what matches and what it is in", () => {
  const tree = new TrackTree(tracks);
  const rows = (text: string): string[] => tree.rows(state({ filter: parseFilter(text, names).tracks })).filter((r) => r.type === "track").map((r) => `${names(r.node.track.machine_id)} ${r.node.track.kind}`);
  assert.deepEqual([...new Set(rows("vm:hog kind:vcpu"))], ["hog vcpu"]);
  assert.deepEqual(rows("burn"), ["hog thread"]);
  assert.deepEqual(rows("kind:counter"), ["xen counter"]);
  assert.deepEqual(rows("counters"), ["xen counter"]);
  assert.deepEqual(rows("zzz"), []);
  assert.equal(rows("kworker vm:dom0").length, 24);
  assert.equal(rows("tid:300").length, 1);
  assert.ok(rows("").length > 30);
  const { keys: bright } = parseFilter("state:preempted by:hog", names);
  const matching = keys.filter((key) => bright!(key));
  assert.ok(matching.length > 0 && matching.every((key) => names(key.machine_id!) === "hog" && key.state.includes("preempted")));
  assert.equal(parseFilter("reason:npf", names).tracks.active, false);
});

test("rows by height", () => {
  const rows = new TrackTree(tracks).rows(state());
  assert.equal(rowAt(rows, -1), -1);
  assert.equal(rowAt(rows, totalHeight(rows)), -1);
  rows.forEach((row, i) => assert.equal(rowAt(rows, row.y + row.height - 0.5), i));
  const { first, last } = visibleRows(rows, rows[10]!.y + 3, 200);
  assert.ok(first === 10 && rows[last - 1]!.y < rows[10]!.y + 203 && last - first < 20);
  assert.deepEqual(visibleRows([], 0, 100), { first: 0, last: 0 });
});

/** A set that counts what it is asked. */
class Asked extends Set<number> {
  many = 0;
  override has(id: number): boolean {
    this.many++;
    return super.has(id);
  }
}

test("thousands of tracks: each is looked at a few times to make the rows, and frames look at the visible only", () => {
  const many: Track[] = [{ track: 1, parent: null, machine_id: 0, layer: "", kind: "machine", name: "m", detail: "", sort: 0, cpu: null, vcpu: null, tid: null, intervals: 0, busy_ns: 0, shape: "" }];
  for (let i = 2; i < 20_002; i++) many.push({ ...many[0]!, track: i, parent: 1, kind: "thread", name: `t${i}`, sort: i });
  let kinds = 0;
  for (const track of many) {
    const { kind } = track;
    Object.defineProperty(track, "kind", { get: () => (kinds++, kind) });
  }
  const tree = new TrackTree(many);
  const folded = new Asked();
  const opened = new Asked();
  const rows = tree.rows(state({ folded, opened }));
  assert.equal(rows.length, 20_001);
  assert.ok(folded.many >= rows.length && folded.many <= rows.length + 10, `${folded.many} questions about what is folded`);
  assert.ok(opened.many <= 2 * rows.length + 10, `${opened.many} questions about what is opened`);
  assert.ok(kinds >= rows.length && kinds <= 16 * rows.length, `${kinds} looks at tracks`);
  let looks = 0;
  const counted = new Proxy(rows, {
    get: (target, name, receiver) => {
      if (typeof name === "string" && /^\d+$/.test(name)) looks++;
      return Reflect.get(target, name, receiver) as unknown;
    },
  });
  const { first, last } = visibleRows(counted, 200_000, 800);
  assert.ok(last - first < 40);
  assert.ok(looks <= 60, `${looks} looks at rows`);
});

test("every command has keys, no key has two commands, shifted signs work", () => {
  const all = BINDINGS.flatMap((binding) => binding.keys);
  assert.equal(new Set(all).size, all.length);
  const press = (key: string, more: object = {}): string | undefined => commandOf({ key, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...more });
  assert.equal(press("w"), "zoomIn");
  assert.equal(press("W", { shiftKey: true }), "why");
  assert.equal(press("R", { shiftKey: true }), "requests");
  assert.equal(press("S", { shiftKey: true }), undefined);
  assert.equal(press("?", { shiftKey: true }), "help");
  assert.equal(press("+", { shiftKey: true }), "zoomIn");
  assert.equal(press("z", { ctrlKey: true }), "undo");
  assert.equal(press("Z", { ctrlKey: true, shiftKey: true }), "redo");
  assert.equal(press("z", { metaKey: true }), "undo");
  assert.equal(press("w", { ctrlKey: true }), undefined, "the browser's own");
  assert.equal(press("w", { altKey: true }), undefined);
});

test("the ruler: round steps, labels that differ, a base when zoomed in far", () => {
  assert.deepEqual([0.3, 1.5, 3, 7, 45e9, 61e9, 4000e9].map((least) => niceStep(least)), [1, 2, 5, 10, 50e9, 120e9, 7200e9]);
  for (const span of [20, 1e3, 1e6, 7e8, 3e10, 4e12, 4e13]) {
    const range = { from: 3.2e12, to: 3.2e12 + span };
    const axis = axisOf(range, 1200);
    const labels = axis.ticks.filter((tick) => tick.major).map((tick) => tick.label);
    assert.ok(labels.length >= 3 && labels.length <= 14, `${span}: ${labels.length}`);
    assert.equal(new Set(labels).size, labels.length, `${span}: ${labels.join()}`);
    assert.ok(axis.ticks.every((tick) => tick.x >= -1e-6 && tick.x <= 1200.001));
    assert.equal(axis.base !== undefined, 3.2e12 / axis.step_ns > 10_000);
  }
  assert.equal(axisOf({ from: 0, to: 4e9 }, 1200).ticks.find((tick) => tick.at === 1e9)?.label, "1.0 s");
});

test("the ruler of a recording in ticks names no seconds", () => {
  for (const span of [20, 1e3, 1e6, 7e8, 3e10, 4e12]) {
    const axis = axisOf({ from: 0, to: span }, 1200, "ticks");
    const labels = axis.ticks.filter((tick) => tick.major).map((tick) => tick.label);
    assert.equal(new Set(labels).size, labels.length, `${span}: ${labels.join()}`);
    assert.ok(labels.every((label) => /^[\d.]+ [kMG]?ticks$/.test(label)), labels.join());
  }
  assert.equal(axisOf({ from: 0, to: 4e9 }, 1200, "ticks").ticks.find((tick) => tick.at === 1e9)?.label, "1.0 Gticks");
  assert.equal(axisOf({ from: 3.2e12, to: 3.2e12 + 20 }, 1200, "ticks").base, "3 200 000 000 000 ticks");
});

test("a measure across machines states the clocks' error, on one machine none", () => {
  const a = { machine_id: 1, error_ns: 155 };
  const b = { machine_id: 2, error_ns: 190 };
  assert.equal(errorBetween(a, b), 345);
  assert.equal(errorBetween(a, a), 0);
  assert.equal(measured(100, 1_350_100, 345), "1.35 ms ± 345 ns");
  assert.equal(measured(1_350_100, 100, 0), "1.35 ms");
});

test("durations and moments as people read them", () => {
  assert.deepEqual([0, 7, 999, 1000, 1250, 12_345, 1e6, 61e9, 9000e9, NaN].map((ns) => duration(ns)), ["0 ns", "7 ns", "999 ns", "1 µs", "1.25 µs", "12.3 µs", "1 ms", "1.02 min", "2.5 h", "–"]);
  assert.equal(exactDuration(1_250_417), "1.250 417 ms");
  assert.equal(moment(12_500_000_310), "12.500 000 310 s");
  assert.equal(moment(-5), "−0.000 000 005 s");
  assert.equal(duration(1234, "ticks"), "1 234 ticks");
  assert.deepEqual([0, 0.0004, 0.034, 0.5].map(percent), ["0 %", "< 0.1 %", "3.4 %", "50 %"]);
  assert.deepEqual([950, 12_400, 3.1e6].map(count), ["950", "12.4 k", "3.1 M"]);
});

test("arrows: only between rows, and no more than one can read", () => {
  const flow = (i: number): Flow => ({ from_track: 1, from_ts: i, to_track: 2, to_ts: i + 1, kind: "wakeup", evidence: "id", what: null });
  const place = (track: number): number | undefined => (track === 1 ? 10 : track === 2 ? 50 : undefined);
  const few = arrowsOf([flow(5), { ...flow(6), to_track: 3 }, flow(5000)], place, (t) => t, 1000);
  assert.equal(few.arrows.length, 1);
  assert.ok(pathOf(few.arrows[0]!).startsWith("M5.0 10.0C"));
  const many = Array.from({ length: 1000 }, (_, i) => flow(i));
  const dense = arrowsOf(many, place, (t) => t, 1000);
  assert.deepEqual([dense.arrows.length, dense.left_out], [0, 1000]);
  const chosen = arrowsOf(many, place, (t) => t, 1000, { track: 1, from: 10, to: 20 });
  assert.equal(chosen.arrows.length, 11);
});

test("arrows: every kind has a colour and words of its own", () => {
  const kinds = Object.values(FLOW_KINDS);
  for (const get of [({ colour }: (typeof kinds)[0]) => colour, ({ words }: (typeof kinds)[0]) => words]) assert.equal(new Set(kinds.map(get)).size, kinds.length);
  assert.equal(flowColour("kick", "grey"), FLOW_KINDS["kick"]!.colour);
  assert.equal(flowColour("of a later version", "grey"), "grey");
  assert.equal(flowWords({ kind: "line", what: "irq 35 (virtio1-req.0), vector 35" }), "handler of an injected interrupt: irq 35 (virtio1-req.0), vector 35");
  assert.equal(flowWords({ kind: "of a later version", what: null }), "of a later version");
  assert.deepEqual(["id", "context", "order", "guess", null].map((evidence) => evidenceWords({ evidence })), ["joined by the same number", "joined by the same place", "joined by order in time only", "joined by guess", ""]);
});

test("arrows: which touch a part of a track", () => {
  const flow: Flow = { from_track: 1, from_ts: 10, to_track: 2, to_ts: 20, kind: "kick", evidence: "context", what: null };
  const parts: [number, number, number, boolean][] = [[1, 10, 12, true], [1, 11, 30, false], [2, 5, 20, true], [2, 5, 19, false], [3, 0, 99, false]];
  for (const [track, from, to, wanted] of parts) assert.equal(touches(flow, { track, from, to }), wanted, `${track} ${from} ${to}`);
});

test("colours: a wait wears the hue of who is waited for; states differ without hue", () => {
  const hues = machineHues(machines, "dark");
  const key = (klass: string, machine_id: number): Key => ({ key: 9, class: klass, state: klass, label: "", machine_id, vcpu: 0, tid: null, reason: null });
  assert.deepEqual(paintOf(key("preempted", 2), hues, "who", "dark").front, hues.get(2));
  assert.deepEqual(paintOf(key("guest", 2), hues, "who", "dark").front, hues.get(2));
  assert.equal(new Set([...hues.values()].map(String)).size, hues.size, "every machine has its own hue");
  const patterns = ["guest", "exit", "user", "preempted", "waking", "blocked", "unknown"].map((klass) => paintOf(key(klass, 2), hues, "who", "dark").pattern);
  assert.deepEqual(patterns, ["solid", "dots", "lines", "diagonal", "bars", "sparse", "cross"]);
  for (const theme of ["dark", "light"] as const) {
    for (const machine of machines) assert.match(inkOn(machineHues(machines, theme).get(machine.machine_id)!), /^#/);
  }
  assert.equal(paintOf(key("something new", 2), hues, "who", "dark").counts, "other");
  assert.equal(maskOf("solid"), null);
  assert.equal(word([1, 2, 3]), 0xff030201);
  assert.ok(new Paints(keys, hues, { mode: "what", theme: "light", bright: null }).on(1).of(99_999));
  // A key that names no machine has the hue of the machine whose track it is on; a wait for nobody known has not.
  const shared = [{ ...key("guest", 0), key: 2, machine_id: null }, { ...key("waking", 0), key: 3, machine_id: null }];
  const paintsOf = new Paints(shared, hues, { mode: "who", theme: "dark", bright: null });
  assert.deepEqual([paintsOf.on(2).of(2).front, paintsOf.on(3).of(2).front], [hues.get(2), hues.get(3)]);
  assert.deepEqual(paintsOf.on(2).of(3).front, paintsOf.on(3).of(3).front);
  const faded = new Paints(keys, hues, { mode: "who", theme: "dark", bright: (k) => k.class === "preempted" }).on(0);
  for (const k of keys) assert.equal(String(faded.of(k.key).front) === String(all.on(0).of(k.key).front), k.class === "preempted" || String(all.on(0).of(k.key).front) === String(faded.of(k.key).front));
});

test("twenty guests still have hues of their own", () => {
  const twenty = Array.from({ length: 20 }, (_, i) => ({ machine_id: i, kind: "guest" }));
  assert.equal(new Set([...machineHues(twenty, "dark").values()].map(String)).size, 20);
});

test("instants are seen however short, counters reach their maximum, hatching stays in its place", () => {
  const out = (): Pixels => ({ data: new Uint32Array(10 * 20), width: 10, height: 20 });
  const columns = new Columns(10);
  columns.know(0, 10);
  columns.add(4, keys.length - 1, 1e-9);
  const ticks = out();
  drawInstants(ticks, columns, { y: 2, height: 16, anchor: 0 }, paints, 0);
  assert.ok(Array.from({ length: 20 }, (_, y) => ticks.data[y * 10 + 4]).filter((p) => p !== 0).length >= 8);
  columns.clear();
  columns.measure(0, 5, 0, 10, 5);
  columns.measure(5, 10, 5, 5, 5);
  const counter = out();
  assert.equal(drawCounter(counter, columns, { y: 0, height: 20, anchor: 0 }, [9, 9, 9], "dark"), 10);
  const high = (x: number): number => Array.from({ length: 20 }, (_, y) => counter.data[y * 10 + x]).filter((p) => p !== 0).length;
  assert.deepEqual([high(0), high(9)], [20, 10]);
  const lost = out();
  hatch(lost, 3, 6, { y: 5, height: 8, anchor: 0 }, 7);
  lost.data.forEach((pixel, i) => assert.ok(pixel === 0 || (i % 10 >= 3 && i % 10 < 6 && i >= 50 && i < 130)));
  assert.ok(lost.data.includes(7));
});

test("the view's box in the minimap can always be seen", () => {
  const whole = { from: 0, to: 1e12 };
  assert.deepEqual(viewBox(whole, whole, 500), { x: 0, width: 500 });
  assert.equal(viewBox({ from: 5e11, to: 5e11 + 10 }, whole, 500).width, 3);
});

test("statistics: ordered, named, with shares; copied as text", () => {
  const answer = {
    vms: [{ machine_id: 2, name: "hog", executions: 5, gotten_ns: "750", waited_ns: 250, blocked_ns: 0 }],
    tracks: [{ track: 7, states: [{ key: 3, state: "guest", label: "in guest", ns: 100, count: 4 }, { state: "preempted", ns: "300", count: "1" }] }],
    exits: [{ machine_id: 2, reason: "npf", count: 3, total_ns: 30, p50_ns: 9, p90_ns: 12, p99_ns: 12, max_ns: 12 }],
  };
  const tables = statTables(answer, 400, (track) => `track ${track}`, names);
  assert.deepEqual(tables.map((table) => table.title), ["Machines: gotten, waited, blocked", "track 7", "Exits by reason"]);
  assert.deepEqual(tables[1]!.rows.map((row) => row.cells), [["preempted", "300 ns", "75 %", "1", "300 ns"], ["in guest", "100 ns", "25 %", "4", "25 ns"]]);
  assert.deepEqual(tables[0]!.rows[0]!.cells.slice(0, 5), ["hog", "750 ns", "75 %", "250 ns", "25 %"]);
  assert.ok(asText(tables).includes("hog\tnpf\t3\t30 ns\t9 ns"));
  assert.deepEqual(statTables({}, 1, String, names), []);
  const counted = statTables(
    {
      tracks: [
        { track: 7, states: [{ key: 3, state: "xmit", label: "xmit", ns: 0, count: 12 }] },
        { track: 8, states: [{ key: 4, state: "lost", label: "lost overrun", ns: 500, count: 2, events: 31 }] },
        { track: 9, states: [], numbers: { min: 1, mean: 2.34567, max: 4, ns: 500 } },
      ],
    },
    1000,
    (track) => `track ${track}`,
    names,
  );
  assert.deepEqual(counted.map(({ title }) => title), ["track 8", "Instants", "Counters"]);
  assert.deepEqual(counted[0]!.rows[0]!.cells, ["lost overrun", "500 ns", "50 %", "2", "250 ns", "31"]);
  assert.deepEqual(counted[1]!.rows[0]!.cells, ["track 7", "xmit", "12", "12 M"]);
  assert.deepEqual(counted[2]!.rows[0]!.cells, ["track 9", "1", "2.35", "4", "50 %"]);
});

test("unknown time is listed last, however long, and has columns of its own", () => {
  const states = [{ key: 9, state: "unknown", label: "unknown", ns: 10_000, count: 1 }, { key: 3, state: "preempted", ns: 30, count: 1 }, { key: 4, state: "guest", ns: 60, count: 2 }];
  const vms = [{ machine_id: 2, name: "hog", executions: 2, gotten_ns: 60, waited_ns: 30, blocked_ns: 0, offline_ns: 0, unknown_ns: 10_000 }, { machine_id: 3, name: "none" }];
  const [machines, track] = statTables({ vms, tracks: [{ track: 7, states }] }, 10_090, String, names, "ns", (key) => key === 9);
  assert.deepEqual(track!.rows.map(({ cells }) => cells[0]), ["guest", "preempted", "unknown"]);
  assert.equal(machines!.columns[7], "unknown");
  assert.deepEqual(machines!.rows[0]!.cells.slice(7, 9), ["10 µs", "99 %"]);
  assert.deepEqual(machines!.rows[1]!.cells.slice(1, 3), ["–", "–"], "a machine without data has no shares");
});

test("a long loss does not outrank short work in a collapsed machine", () => {
  const plain = (id: number, kind: string, parent: number | null, busy_ns: number): Track => ({ track: id, parent, machine_id: 0, layer: "", kind, name: `t${id}`, detail: "", sort: id, cpu: null, vcpu: null, tid: null, intervals: 1, busy_ns, shape: "intervals" });
  const threads = [5, 6, 7].map((id) => plain(id, "thread", 3, 1000 + id));
  const tree = new TrackTree([plain(1, "machine", null, 0), plain(2, "events", 1, 0), plain(3, "threads", 1, 0), plain(4, "lost", 2, 1e10), ...threads]);
  const [row] = tree.rows(state({ folded: new Set([1]) }));
  assert.deepEqual(row!.strips.map(({ track }) => track.track), [5, 6, 7]);
});

test("a row's line states the unknown share and counts it neither as work nor as a wait", () => {
  const key = (klass: string): number => keys.find((k) => k.class === klass)!.key;
  const columns = new Columns(10);
  columns.know(0, 10);
  columns.spread(0, 8, key("unknown"), 1);
  columns.spread(8, 9, key("preempted"), 1);
  assert.deepEqual(summaryText(summaryOf(columns, paints)), { ran: "", waited: "10 %", unknown: "80 %" });
});

test("a row of an SQL answer leads to its track", () => {
  const columns = ["ts", "dur", "machine_id", "vcpu"];
  const vcpu = tracks.find((t) => t.kind === "vcpu" && t.machine_id === 2)!;
  assert.deepEqual(targetOf(columns, [5n, 7n, 2, 0], tracks), { ts: 5n, dur: 7, track: vcpu.track });
  assert.deepEqual(targetOf(columns, ["5", null, 99, 0], tracks), { ts: 5n, dur: 0, track: undefined });
  assert.equal(targetOf(["name"], ["x"], tracks), undefined);
  assert.equal(targetOf(columns, [1.5, 0, 2, 0], tracks), undefined);
});

test("SVG: names are escaped, shapes add up to the columns", () => {
  const columns = new Columns(10);
  columns.know(0, 10);
  const key = keys.find((k) => k.class === "vcpu")!.key;
  columns.spread(2, 8, key, 1);
  const svg = toSvg({ title: "a<b", width: 10, height: 20, names: 50, background: [0, 0, 0], ink: [9, 9, 9], ticks: [], arrows: [], rows: [{ name: `<script>"&'\u0001`, indent: 0, y: 0, height: 20, group: false, machine_id: 2, columns }] }, all);
  assert.ok(!svg.includes("<script>") && svg.includes("&#60;script&#62;") && !svg.includes("\u0001"));
  assert.match(svg, /<rect x="2" y="1" width="6" height="18"/);
});
