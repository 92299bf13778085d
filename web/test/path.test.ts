// The critical path without a browser: reading pieces, the track of each, what a view shows of them, words, the address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CALL, Explainer } from "../dev/explain.ts";
import { ORIGIN } from "../dev/simulate.ts";
import { CriticalPath, joinsOf, piecesOf, Places, stripOf, type Piece, type PieceRows } from "../src/core/path.ts";
import { becauseWords, blameOf, evidenceOf, explainSql, findingsOf, sentencesOf, stateWords, subjectOf } from "../src/core/pathwords.ts";
import type { Cell } from "../src/core/rows.ts";
import type { Track } from "../src/core/tracks.ts";
import { decode, encode } from "../src/core/url.ts";
import { made } from "./kit.ts";

const track = (id: number, kind: string, machine_id: number, more: Partial<Track> = {}): Track => ({ track: id, parent: null, machine_id, layer: "", kind, name: `${kind} ${id}`, detail: "", sort: id, cpu: null, vcpu: null, tid: null, intervals: 1, busy_ns: 1, shape: "intervals", ...more });
const machines = [{ machine_id: 0, name: "host", parent_id: null }, { machine_id: 1, name: "web", parent_id: 0 }];
const TRACKS = [
  track(1, "thread", 0, { tid: 7, name: "qemu (7)" }),
  track(2, "thread", 0, { tid: 8, name: "web vCPU 0: CPU 0/KVM (8)" }),
  track(3, "thread", 1, { tid: 42, name: "nginx (42)" }),
  track(4, "vcpu", 1, { vcpu: 0 }),
  track(5, "cpu", 1, { cpu: 0 }),
  track(6, "irq", 1, { cpu: 0 }),
  track(7, "cpu", 0, { cpu: 1 }),
  track(8, "block", 1),
];
const places = new Places(TRACKS, machines);
const piece = (from: number, to: number, more: Partial<Piece> = {}): Piece => ({ from, to, depth: 0, layer: "guest", machine_id: 1, tid: 42, vcpu: null, cpu: null, state: "running", reason: null, by_machine_id: null, by_tid: null, by_vcpu: null, why: null, cause: null, evidence: "id", error_ns: null, ...more });
const table = (columns: readonly string[], rows: readonly (readonly Cell[])[]): PieceRows => ({ columns, length: rows.length, row: (i) => [...rows[i]!] });
/** Pieces of the given lengths, one behind the other, by turns on the threads 42 and 7. */
const alternating = (lengths: readonly number[]): Piece[] => {
  let at = 0;
  return lengths.map((length, i) => piece(at, (at += length), i % 2 === 0 ? {} : { machine_id: 0, tid: 7, depth: 1 }));
};

test("pieces of an answer: relative times in order, absent columns and negative threads are null", () => {
  const rows = table(["ts", "dur", "state", "tid", "machine_id", "evidence"], [[1100n, 50, "running", 5, 0, "context"], [1000n, 100n, "handler", -1, 1, null]]);
  const pieces = piecesOf(rows, (absolute) => Number(absolute - 1000n));
  assert.deepEqual(pieces.map(({ from, to, tid, state }) => [from, to, tid, state]), [[0, 100, null, "handler"], [100, 150, 5, "running"]]);
  assert.equal(pieces[1]!.why, null);
  assert.throws(() => piecesOf(table(["ts", "dur"], []), Number), /no column state/);
});

test("a piece lies on its thread, its vCPU, its CPU or its device, the best that has a row", () => {
  assert.deepEqual(places.tracksOf(piece(0, 1)), [3]);
  assert.deepEqual(places.tracksOf(piece(0, 1, { vcpu: 0, cpu: 0, state: "exit" })), [3, 4]);
  assert.deepEqual(places.tracksOf(piece(0, 1, { machine_id: 0, tid: 8 })), [4, 2], "the vCPU stands for its thread");
  assert.deepEqual(places.tracksOf(piece(0, 1, { tid: null, cpu: 0, state: "handler" })), [6, 5, 4]);
  assert.deepEqual(places.tracksOf(piece(0, 1, { tid: null, cpu: 0, state: "delivery" })), [4, 5]);
  assert.deepEqual(places.tracksOf(piece(0, 1, { machine_id: 0, tid: null, cpu: 1, state: "handler" })), [7]);
  assert.deepEqual(places.tracksOf(piece(0, 1, { tid: null, state: "device" })), [8]);
  assert.deepEqual(places.tracksOf(piece(0, 1, { machine_id: 0, tid: 99 })), []);

  const path = new CriticalPath([piece(0, 10), piece(10, 40, { machine_id: 0, tid: 7 }), piece(40, 45, { machine_id: 0, tid: 99 })], places);
  assert.equal(path.place((id) => id === 3), true);
  assert.equal(path.place((id) => id === 3), false);
  assert.deepEqual([0, 1, 2].map((i) => path.trackOf(i)), [3, undefined, undefined]);
  assert.equal(path.bestTrackOf(1), 1);
  assert.deepEqual(path.hidden, { ns: 35, tracks: [1], trackless_ns: 5 });
  assert.deepEqual(path.tracks, [{ track: 1, ns: 30 }, { track: 3, ns: 10 }]);
  assert.equal(path.longest, 1);
  assert.deepEqual(path.range, { from: 0, to: 45 });
  assert.deepEqual([path.at(9), path.at(10), path.at(45)], [0, 1, undefined]);
});

test("an explained vCPU's own pieces lie on its row", () => {
  const own = piece(0, 10, { machine_id: 0, tid: 8, vcpu: 0 });
  const path = new CriticalPath([own, { ...own, from: 10, to: 20, depth: 1, tid: 7 }], places, 4);
  path.place((id) => id !== 2);
  assert.deepEqual([path.trackOf(0), path.trackOf(1)], [4, 1]);
});

test("a view shows wide pieces as boxes and sums up the others by pixel, to the nanosecond", () => {
  // A pseudo-random path whose lengths are from a hundredth of a pixel to many pixels.
  let state = 7;
  const random = (): number => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  const lengths = Array.from({ length: 3000 }, () => Math.ceil(Math.pow(10, random() * 3.6)));
  const path = new CriticalPath(alternating(lengths), places);
  path.place(() => true);
  const total = path.range.to;
  for (const view of [{ from: 0, to: total }, { from: total * 0.31, to: total * 0.34 }, { from: -total, to: total * 2 }]) {
    const width = 700;
    const perPixel = (view.to - view.from) / width;
    for (const id of [3, 1]) {
      const { boxes, columns } = stripOf(path.lane(id)!, view, width);
      assert.ok(boxes.length + columns.length <= width + width / 3 + 2, "bounded by the width");
      const shown = new Set(boxes.map((box) => box.piece));
      assert.equal(shown.size, boxes.length);
      assert.equal(new Set(columns.map(({ x }) => x)).size, columns.length, "each pixel once");
      for (const { piece: i } of boxes) assert.ok(path.pieces[i]!.to - path.pieces[i]!.from >= 3 * perPixel);
      const narrow = path.pieces.filter((own, i) => path.trackOf(i) === id && own.to - own.from < 3 * perPixel);
      for (const { x, share } of columns) {
        const [start, end] = [view.from + x * perPixel, view.from + (x + 1) * perPixel];
        const wanted = narrow.reduce((sum, own) => sum + Math.max(Math.min(own.to, end) - Math.max(own.from, start), 0), 0);
        assert.ok(Math.abs(share - Math.min(wanted / perPixel, 1)) < 1e-6, `pixel ${x}: ${share} for ${wanted / perPixel}`);
      }
    }
  }
});

test("joins: all while they are few, then those of wide pieces; pieces without a row are crossed", () => {
  const few = new CriticalPath([piece(0, 10), piece(10, 20, { machine_id: 0, tid: 99 }), piece(20, 30, { machine_id: 0, tid: 7 }), piece(30, 40, { machine_id: 0, tid: 7 })], places);
  few.place(() => true);
  assert.deepEqual(joinsOf(few, { from: 0, to: 40 }, 400, []), [{ from: 0, to: 2 }]);

  const lengths = [...Array.from({ length: 500 }, () => 1), 500, ...Array.from({ length: 500 }, () => 1)];
  const many = new CriticalPath(alternating(lengths), places);
  many.place(() => true);
  const view = { from: 0, to: 1500 };
  const strip = stripOf(many.lane(3)!, view, 300);
  assert.deepEqual(strip.boxes.map((box) => box.piece), [500]);
  assert.deepEqual(joinsOf(many, view, 300, strip.boxes), [{ from: 499, to: 500 }, { from: 500, to: 501 }]);
});

test("pieces in words", () => {
  assert.equal(places.nameOf(piece(0, 1)), "nginx (42) in web");
  assert.equal(places.nameOf(piece(0, 1, { machine_id: 0, tid: 8 })), "web vcpu0");
  assert.equal(places.nameOf(piece(0, 1, { tid: null, cpu: 0 })), "web CPU 0");
  assert.equal(places.nameOf(piece(0, 1, { machine_id: 5, tid: null })), "machine 5");
  assert.equal(stateWords({ state: "exit", reason: "npf" }), "exit npf");
  const wait = { state: "runnable", by_machine_id: 0, by_tid: 7, why: "share" };
  assert.equal(becauseWords(piece(0, 1, wait), places), "qemu (7) (share)");
  assert.equal(becauseWords(piece(0, 1, { ...wait, why: "throttled" }), places), "quota or cap had ended");
  assert.equal(becauseWords(piece(0, 1, { ...wait, by_machine_id: null, by_tid: 0, why: "leaving_idle" }), places), "leaving idle");
  assert.equal(becauseWords(piece(0, 1, { ...wait, by_machine_id: 1, by_tid: null, by_vcpu: 0, why: null }), places), "web vcpu0");
  assert.equal(becauseWords(piece(0, 1, { cause: "kick", depth: 1 }), places), "kick of a device's back end");
  assert.equal(becauseWords(piece(0, 1), places), "");
  assert.deepEqual([evidenceOf(piece(0, 1)), evidenceOf(piece(0, 1, { depth: 1 })), evidenceOf(piece(0, 1, { evidence: "order" }))], ["", "id", "order"]);
});

test("threads and vCPUs are explained; their queries", () => {
  assert.deepEqual(TRACKS.map(subjectOf), [7, 8, 42, "vcpu0", undefined, undefined, undefined, undefined]);
  const sql = explainSql(1, "vcpu0", 5n, 9n);
  assert.equal(sql.path, "SELECT * FROM critical_path(1, 'vcpu0', 5, 9) ORDER BY ts");
  assert.match(explainSql(1, 42, 5n, 9n).blame, /FROM blame\(1, 42, 5, 9\)$/);
  assert.match(sql.findings, /FROM findings\(1, 'vcpu0', 5, 9\)$/);
});

test("the address holds the explained track and range", () => {
  const why = { track: 83, from: 1000, to: 2500 };
  assert.deepEqual(decode(encode({ why }, 5_000n), 5_000n).why, why);
  for (const cut of ["83@6000", "x@6000-7000", "83@7000-6000", ""]) assert.equal(decode(`why=${cut}`, 5_000n).why, undefined, cut);
});

test("the development server's double: a path that tiles its range, sentences, antagonists and findings", () => {
  const { answers } = made({ seconds: 2 });
  const { recording } = answers;
  const explainer = new Explainer(recording);
  const ask = (sql: string): PieceRows => {
    const [, name, text] = CALL.exec(sql)!;
    const { columns, rows } = explainer.answer(name!, text!);
    return table(columns.split(", ").map((column) => column.split(" ")[0]!), rows);
  };
  const victim = recording.machines.find((machine) => machine.name === "periodic")!.machine_id;
  const sql = explainSql(victim, "vcpu0", ORIGIN + 100_000_000n, ORIGIN + 1_300_000_000n);
  const pieces = piecesOf(ask(sql.path), (absolute) => Number(absolute - ORIGIN));
  assert.equal(pieces[0]!.from, 100_000_000);
  assert.equal(pieces.at(-1)!.to, 1_300_000_000);
  pieces.slice(1).forEach((own, i) => assert.equal(own.from, pieces[i]!.to));
  assert.ok(pieces.some((own) => own.state === "vcpu_wait" && recording.machines[own.by_machine_id!]!.name === "hog"));
  const path = new CriticalPath(pieces, new Places(recording.tracks, recording.machines));
  path.place(() => true);
  assert.ok(path.tracks.length >= 2);
  assert.equal(path.layers.reduce((sum, { ns }) => sum + ns, 0), 1_200_000_000);
  assert.match(sentencesOf(ask(sql.sentences))[0]!, /^periodic vcpu0, 1\.2 s: waited/);
  assert.ok(blameOf(ask(sql.blame)).some((line) => line.level === "machine" && line.culprit === "hog" && line.total_ns > 0));
  assert.ok(findingsOf(ask(sql.findings)).some((finding) => finding.sentence.startsWith("periodic vcpu0")));
  assert.equal(ask(explainSql(victim, "vcpu0", ORIGIN, ORIGIN + 10n).findings).length, 0);
  assert.throws(() => ask(explainSql(99, 4, 5n, 6n).path), /has no thread 4/);
});
