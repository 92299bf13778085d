// Block requests and packets without a browser: reading rows, stages that tile the time, the row of each stage, words, the address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { madeRequests } from "../dev/requests.ts";
import { ORIGIN } from "../dev/simulate.ts";
import { CriticalPath, Places, type PieceRows } from "../src/core/path.ts";
import { laneWishes, RequestPlaces, stagePieces, type StagePiece } from "../src/core/requestplaces.ts";
import { isSameRequest, longestStage, requestsOf, stagesOf, type Request, type RequestKind } from "../src/core/request.ts";
import { aboutWords, countSql, explainNumbers, isTableMissing, machineWords, requestSql, requestTitle, slowestSql } from "../src/core/requestwords.ts";
import type { Cell } from "../src/core/rows.ts";
import type { Track } from "../src/core/tracks.ts";
import { decode, encode } from "../src/core/url.ts";
import { made } from "./kit.ts";

const track = (id: number, kind: string, machine_id: number, more: Partial<Track> = {}): Track => ({ track: id, parent: null, machine_id, layer: "", kind, name: `${kind} ${id}`, detail: "", sort: id, cpu: null, vcpu: null, tid: null, intervals: 1, busy_ns: 1, shape: "intervals", ...more });
const MACHINES = [{ machine_id: 0, name: "host", parent_id: null, kind: "host" }, { machine_id: 1, name: "web", parent_id: 0, kind: "guest" }, { machine_id: 2, name: "db", parent_id: 0, kind: "guest" }];
const TRACKS = [
  track(1, "thread", 0, { tid: 7, name: "iothread (7)" }),
  track(2, "block", 0, { name: "8:0" }),
  track(3, "block", 0, { name: "8:0 · 2" }),
  track(4, "thread", 1, { tid: 42, name: "nginx (42)" }),
  track(5, "vcpu", 1, { vcpu: 0 }),
  track(6, "vcpu", 1, { vcpu: 1 }),
  track(7, "irq", 1, { cpu: 1 }),
  track(8, "block", 1, { name: "254:0" }),
  track(9, "vcpu", 2, { vcpu: 0 }),
  track(10, "net", 2, { name: "eth0" }),
  track(11, "thread", 2, { tid: 9, name: "mysqld (9)" }),
  track(12, "thread", 0, { tid: 8, name: "vhost-db (8)" }),
];
const places = new RequestPlaces(TRACKS, new Places(TRACKS, MACHINES));
const BLOCK = { ts: 1000n, dur: 1200n, machine_id: 1, tid: 42, device: "254:0", sector: 2048n, bytes: 4096n, op: "read", issue_ts: 1010n, kick_ts: 1020n, pickup_ts: 1100n, host_submit_ts: 1150n, host_issue_ts: 1160n, host_complete_ts: 2000n, signal_ts: 2010n, inject_ts: 2020n, guest_irq_ts: 2100n, complete_ts: 2110n, wake_ts: 2112n, run_ts: 2200n, wake_tid: 42, backend_tid: 7, host_device: "8:0", evidence: "id", missing: "", error_ns: 300n, complete_cpu: 1 };
const PACKET = { ts: 1000n, dur: 600n, machine_id: 1, tid: 42, device: "eth0", to_machine_id: 2, to_device: "eth0", flow: 5, seq: 6, bytes: 66n, send_ts: 1000n, kick_ts: 1010n, pickup_ts: 1100n, host_receive_ts: 1110n, host_send_ts: 1120n, fetch_ts: 1200n, signal_ts: 1210n, inject_ts: 1220n, guest_irq_ts: 1300n, receive_ts: 1310n, wake_ts: 1320n, run_ts: 1600n, wake_tid: 9, backend_tid: 7, to_backend_tid: 8, evidence: "context", missing: "" };

const table = (rows: readonly Readonly<Record<string, Cell>>[]): PieceRows => {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return { columns, length: rows.length, row: (i) => columns.map((name) => rows[i]![name] ?? null) };
};
const read = (kind: RequestKind, row: Readonly<Record<string, Cell>>): Request => requestsOf(table([row]), kind, (at) => Number(at))[0]!;
const piecesOf = (request: Request): StagePiece[] => stagePieces(request, MACHINES);
const placed = (pieces: readonly StagePiece[], of = places): string[] => pieces.map((piece) => `${piece.stage.name} ${of.tracksOf(piece).join()}`);
const assertTiled = (request: Request): void => {
  const pieces = piecesOf(request);
  assert.equal(pieces[0]!.from, request.ts);
  assert.equal(pieces.at(-1)!.to, request.ts + request.dur!);
  pieces.slice(1).forEach((own, i) => assert.equal(own.from, pieces[i]!.to));
};

test("the stages of a request tile its time, each on the row of what has it", () => {
  const request = read("block", BLOCK);
  assertTiled(request);
  assert.deepEqual(placed(piecesOf(request)), [
    "submit..issue 4,8", "issue..kick 4,8", "kick..pickup 1,8", "pickup..host_submit 1,8", "host_submit..host_issue 2,1,8", "host_issue..host_complete 2,1,8",
    "host_complete..signal 1,8", "signal..inject 6,4,8", "inject..guest_irq 6,4,8", "guest_irq..complete 7,6,4,8", "complete..wake 7,6,4,8", "wake..run 4",
  ]);
  assert.equal(longestStage(request)!.name, "host_issue..host_complete");
  assert.deepEqual(request.numbers, ["2048"]);
  const path = new CriticalPath(piecesOf(request), places);
  path.place((id) => id !== 2);
  assert.equal(path.trackOf(5), 1, "without the device's row: the back end's");
});

test("unknown events join their stages, which are named by the known ones; nothing is guessed", () => {
  const request = read("block", { ...BLOCK, kick_ts: null, host_submit_ts: null, host_issue_ts: null, host_complete_ts: null, backend_tid: null, host_device: null, missing: "kick,host" });
  assertTiled(request);
  assert.deepEqual(placed(piecesOf(request)).slice(0, 3), ["submit..issue 4,8", "issue..pickup 8,4", "pickup..signal 8"]);
  assert.deepEqual(request.missing, ["kick", "host"]);
  const own = read("block", { ts: 5n, dur: 90n, machine_id: 0, tid: 7, device: "8:0", sector: 1n, issue_ts: 10n, complete_ts: 95n, missing: "wake", evidence: null });
  assert.deepEqual(placed(piecesOf(own)), ["submit..issue 1,2", "issue..complete 2,1"]);
  assert.deepEqual(stagesOf([["submit", 5], ["issue", null]]), []);
  assert.throws(() => requestsOf(table([]), "block", Number), /no column ts/);
});

test("the CPU of an interrupt that is joined by order alone is unknown: the thread that waits stands for it", () => {
  const pieces = piecesOf(read("block", { ...BLOCK, evidence: "order" }));
  assert.equal(placed(pieces)[7], "signal..inject 4,8");
  assert.equal(placed(pieces)[9], "guest_irq..complete 7,6,4,8", "the completion's CPU is known");
  assert.equal(places.nameOf(pieces[7]!), "vCPU of web");
});

test("packets: sender, back ends, and the only vCPU of the receiver", () => {
  const request = read("packet", PACKET);
  assertTiled(request);
  assert.deepEqual(placed(piecesOf(request)), ["send..kick 4", "kick..pickup 1", "pickup..host_receive 1", "host_receive..host_send 1", "host_send..fetch 12,10", "fetch..signal 12,10", "signal..inject 9,11,10", "inject..guest_irq 9,11,10", "guest_irq..receive 9,11,10", "receive..wake 9,11,10", "wake..run 11"]);
  const outside = read("packet", { ...PACKET, machine_id: 0, tid: null, send_ts: null, kick_ts: null, pickup_ts: null, backend_tid: null, ts: 1110n, dur: 490n });
  assertTiled(outside);
  assert.equal(requestTitle(outside, (id) => MACHINES[id]!.name), "packet of 66 bytes, outside to db");
  const gone = piecesOf(read("packet", { ...PACKET, to_machine_id: null, to_device: null, to_backend_tid: null, wake_tid: null }));
  assert.deepEqual(placed(gone).slice(4), gone.slice(4).map(({ stage }) => `${stage.name} `), "unknown tracks: no row");
  assert.equal(places.nameOf(gone.at(-1)!), "unknown");
});

test("under Xen the back ends are dom0's", () => {
  const xen = [{ machine_id: 0, name: "xen", parent_id: null, kind: "hypervisor" }, { machine_id: 1, name: "dom0", parent_id: 0, kind: "guest" }, { machine_id: 2, name: "db", parent_id: 0, kind: "guest" }];
  const holders = (dom0: number | null): unknown => stagePieces(read("packet", { ...PACKET, machine_id: 1, dom0 }), xen)[4]!.holders[0];
  assert.deepEqual(holders(1), { kind: "thread", machine_id: 1, tid: 8 });
  assert.deepEqual(holders(null), { kind: "device", machine_id: 2, device: "eth0" });
});

test("of a device's lanes the one with the request is taken", () => {
  const request = read("block", BLOCK);
  const wishes = laneWishes(request, MACHINES);
  assert.deepEqual(wishes, [{ machine_id: 1, device: "254:0", at: 1000 }, { machine_id: 0, device: "8:0", at: 1150 }]);
  const own = new RequestPlaces(TRACKS, new Places(TRACKS, MACHINES));
  assert.deepEqual(own.lanesOf(wishes[1]!), [2, 3]);
  own.choose(wishes[1]!, 3);
  assert.equal(placed(piecesOf(request), own)[5], "host_issue..host_complete 3,1,8");
  assert.deepEqual(piecesOf(request).map((piece) => own.nameOf(piece)).filter((_, i) => [0, 2, 5, 8, 9].includes(i)), ["nginx (42) in web", "iothread (7)", "device 8:0 of host", "web vcpu1", "interrupt handler on web CPU 1"]);
});

test("requests in words, their queries and numbers", () => {
  const name = (id: number): string => MACHINES[id]!.name;
  const [request, packet] = [read("block", BLOCK), read("packet", PACKET)];
  assert.equal(requestTitle(request, name), "read of 4 096 bytes, device 254:0 of web");
  assert.equal(requestTitle(packet, name), "packet of 66 bytes, web to db");
  assert.deepEqual([machineWords(request, name), machineWords(packet, name)], ["web", "web to db"]);
  assert.equal(aboutWords(request), "254:0 read 4 096 B");
  const asked = { from: 5n, to: 9n, machine_id: 1 };
  assert.equal(slowestSql("block", asked, 100), "SELECT * FROM io_requests WHERE dur > 0 AND ts >= 5 AND ts + dur <= 9 AND machine_id = 1 ORDER BY dur DESC, ts, machine_id, device, sector LIMIT 100");
  assert.match(countSql("packet", asked), /^SELECT count\(\*\) AS n FROM packets .* AND \(machine_id = 1 OR to_machine_id = 1\)$/);
  assert.doesNotMatch(slowestSql("packet", { ...asked, machine_id: undefined }, 100), /machine_id =/);
  assert.match(requestSql(request, 7n), /WHERE r\.machine_id = 1 AND r\.ts = 7 AND r\.sector = 2048 LIMIT 1$/);
  assert.match(requestSql({ ...packet, numbers: [] }, 7n), /WHERE r\.machine_id = 1 AND r\.ts = 7 LIMIT 1$/);
  assert.deepEqual(explainNumbers([packet, { ...packet, wake_tid: null }, packet], undefined), [1, undefined, 2]);
  assert.deepEqual(explainNumbers([packet, packet], 1), [undefined, undefined], "explain numbers those to the machine");
  assert.ok(isTableMissing("block", "line 1, column 27: no table io_requests; did you mean …?") && isTableMissing("packet", "no such table: packets"));
  assert.ok(!isTableMissing("block", "no column sector in io_requests"));
});

test("the address holds the drawn request", () => {
  const request = { kind: "block", machine_id: 1, ts: 1000, numbers: ["18446744073709551615"] } as const;
  assert.deepEqual(decode(encode({ request }, 5_000n), 5_000n).request, request);
  const packet = { kind: "packet", machine_id: 0, ts: -3, numbers: ["5", "6"] } as const;
  assert.ok(isSameRequest(decode(encode({ request: packet }, 5_000n), 5_000n).request!, packet));
  assert.deepEqual(decode("request=block-1@6000", 5_000n).request, { ...request, numbers: [] });
  for (const cut of ["block-1", "disk-1@6000", "block-x@6000", "block-1-2;drop@6000", ""]) assert.equal(decode(`request=${cut}`, 5_000n).request, undefined, cut);
});

test("the development server's double: requests tile their time, and devices have their intervals", () => {
  const { answers } = made({ seconds: 2 });
  const { recording } = answers;
  const own = new RequestPlaces(recording.tracks, new Places(recording.tracks, recording.machines));
  for (const [name, kind] of [["io_requests", "block"], ["packets", "packet"]] as const) {
    const { columns, rows } = madeRequests(recording).find((made) => made.name === name)!;
    const requests = requestsOf({ columns: columns.split(", ").map((column) => column.split(" ")[0]!), length: rows.length, row: (i) => [...rows[i]!] }, kind, (at) => Number(at - ORIGIN));
    assert.ok(requests.length > 50);
    for (const request of requests) {
      const pieces = stagePieces({ ...request, dom0: 1 }, recording.machines);
      assert.equal(pieces.reduce((sum, { from, to }) => sum + to - from, 0), request.dur);
      assert.ok(pieces.every(({ from, to }) => to >= from));
      assert.ok(pieces.filter((piece) => own.tracksOf(piece).length > 0).length >= pieces.length - 1);
    }
    assert.ok(requests.some(({ missing }) => missing.includes("kick")));
  }
});
