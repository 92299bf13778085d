// A test double of the tables `io_requests`, `packets` and `block_io`: the requests that the made-up recording's arrows
// lead to dom0's device, with made-up times between, and packets between the web guests. Some stages are missing.
import { ORIGIN, random, type Recording } from "./simulate.ts";

type Value = string | number | null;

/** Names with SQLite's types, and rows. */
export interface MadeTable {
  readonly name: string;
  readonly columns: string;
  readonly rows: readonly (readonly Value[])[];
}

const US = 1e3;
const MS = 1e6;
const DOM0 = 1;
/** Threads of dom0's back ends: blkback and netback of its first vCPU. */
const [BLKBACK, NETBACK] = [100, 101];
const BLOCK_EVENTS = ["issue", "kick", "pickup", "host_submit", "host_issue", "host_complete", "signal", "inject", "guest_irq", "complete", "wake", "run"];
const PACKET_EVENTS = ["send", "kick", "pickup", "host_receive", "host_send", "fetch", "signal", "inject", "guest_irq", "receive", "wake", "run"];
const REQUESTS = `ts INTEGER, dur INTEGER, machine_id INTEGER, tid INTEGER, device TEXT, op TEXT, sector INTEGER, bytes INTEGER, ${BLOCK_EVENTS.map((name) => `${name}_ts INTEGER`).join(", ")}, wake_tid INTEGER, backend_tid INTEGER, host_device TEXT, evidence TEXT, missing TEXT, error_ns INTEGER`;
const PACKETS = `ts INTEGER, dur INTEGER, machine_id INTEGER, tid INTEGER, device TEXT, to_machine_id INTEGER, to_device TEXT, flow INTEGER, seq INTEGER, bytes INTEGER, ${PACKET_EVENTS.map((name) => `${name}_ts INTEGER`).join(", ")}, wake_tid INTEGER, backend_tid INTEGER, to_backend_tid INTEGER, evidence TEXT, missing TEXT, error_ns INTEGER`;
const BLOCK_IO = "ts INTEGER, dur INTEGER, machine_id INTEGER, tid INTEGER, device TEXT, sector INTEGER, bytes INTEGER, op TEXT, complete_cpu INTEGER";

// Stamps exceed what sql.js takes as a number, and it takes no BigInt: as text into an INTEGER column.
const stamp = (rel: number | null): Value => (rel === null ? null : String(ORIGIN + BigInt(Math.round(rel))));

/** Times of events after the first one, and the stages of them that are not known. */
function columnsOf(events: readonly string[], times: Readonly<Record<string, number>>, missing: readonly string[]): { stamps: Value[]; last: number } {
  const known = events.map((name) => (missing.some((stage) => name === stage || (stage === "host" && name.startsWith("host_"))) ? null : (times[name] ?? null)));
  return { stamps: known.map(stamp), last: Math.max(...known.map((at) => at ?? 0)) };
}

export function madeRequests(recording: Recording): MadeTable[] {
  const requests: Value[][] = [];
  const block: Value[][] = [];
  const threads = new Map(recording.tracks.filter(({ kind }) => kind === "thread").map((track) => [track.track, track]));
  const senders = new Map(recording.flows.filter(({ kind }) => kind === "block").map((flow) => [`${flow.to_track}/${flow.to_ts}`, threads.get(flow.from_track)]));
  for (const lane of recording.tracks.filter(({ kind }) => kind === "block")) {
    const own = recording.intervals.get(lane.track);
    for (let i = 0; own && i < own.ts.length; i++) {
      const [at, end] = [own.ts[i]!, own.ts[i]! + own.dur[i]!];
      const sender = senders.get(`${lane.track}/${at}`);
      if (!sender || sender.tid === null) continue;
      const op = recording.keys[own.key[i]!]!.state;
      const sector = 8 * (1000 + requests.length);
      const vcpu = Math.floor((sender.tid - 100 * sender.machine_id) / 10);
      const add = (machine: number, tid: number, first: number, times: Readonly<Record<string, number>>, missing: readonly string[], more: { backend: number | null; device: string | null; evidence: string | null; cpu: number }): void => {
        const { stamps, last } = columnsOf(BLOCK_EVENTS, times, missing);
        requests.push([stamp(first), Math.round(last) - Math.round(first), machine, tid, "202:0", op, sector, 4096, ...stamps, tid, more.backend, more.device, more.evidence, missing.join(","), more.evidence ? 300 : null]);
        block.push([stamp(first), Math.round((times["complete"] ?? last) - first), machine, tid, "202:0", sector, 4096, op, more.cpu]);
      };
      const [submit, done] = [at - 190 * US, end + 30 * US];
      const times = { issue: submit + 12 * US, kick: submit + 30 * US, pickup: submit + 170 * US, host_submit: at, host_issue: at + 6 * US, host_complete: end, signal: done, inject: done + 8 * US, guest_irq: done + 90 * US, complete: done + 110 * US, wake: done + 112 * US, run: done + 160 * US };
      const missing = [[], ["kick", "pickup"], [], ["inject"], ["host"]][(requests.length / 2) % 5]!;
      const isDark = missing.includes("host");
      add(sender.machine_id, sender.tid, submit, times, missing, { backend: missing.includes("pickup") ? null : BLKBACK, device: isDark ? null : "202:0", evidence: ["id", "context", "order"][(block.length / 2) % 3]!, cpu: vcpu });
      add(DOM0, BLKBACK, at, { issue: at + 6 * US, complete: end, wake: end + 2 * US, run: end + 30 * US }, [], { backend: null, device: null, evidence: null, cpu: 0 });
    }
  }
  return [
    { name: "io_requests", columns: REQUESTS, rows: requests },
    { name: "block_io", columns: BLOCK_IO, rows: block },
    { name: "packets", columns: PACKETS, rows: madePackets(recording) },
  ];
}

/** Packets from one web guest to the next one, and a few from outside. */
function madePackets(recording: Recording): Value[][] {
  const next = random(7);
  const guests = recording.machines.filter(({ name }) => name.startsWith("web"));
  const rows: Value[][] = [];
  if (guests.length < 2) return rows;
  for (let at = 8 * MS; at < recording.length - 20 * MS; at += Math.round((1 + next() * 12) * MS)) {
    const i = Math.floor(next() * guests.length);
    const [from, to] = [guests[i]!, guests[(i + 1) % guests.length]!];
    const isOutside = rows.length % 6 === 5;
    const missing = isOutside || rows.length % 4 === 3 ? ["kick", "pickup"] : [];
    const slow = next() * 2 * MS;
    const times = { send: at, kick: at + 15 * US, pickup: at + 60 * US, host_receive: at + 75 * US, host_send: at + 82 * US, fetch: at + 130 * US + slow, signal: at + 150 * US + slow, inject: at + 155 * US + slow, guest_irq: at + 230 * US + slow, receive: at + 245 * US + slow, wake: at + 250 * US + slow, run: at + 400 * US + slow };
    const first = isOutside ? times.host_receive : at;
    const { stamps, last } = columnsOf(PACKET_EVENTS, times, isOutside ? ["send", ...missing] : missing);
    rows.push([stamp(first), Math.round(last) - Math.round(first), isOutside ? DOM0 : from.machine_id, isOutside ? null : 100 * from.machine_id, "eth0", to.machine_id, "eth0", 4711 + i, 1000 + rows.length, 66 + Math.floor(next() * 1400), ...stamps, 100 * to.machine_id, missing.length > 0 ? null : NETBACK, NETBACK, "id", isOutside ? "" : missing.join(","), 300]);
  }
  return rows;
}
