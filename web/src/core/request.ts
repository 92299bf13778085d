// A block request or packet with the time of each event on its way (docs/reference/states.md#stages-of-a-request), and
// its stages: from each known event to the next known one. They tile the request's time; none is guessed.
import { namedRows } from "./pathwords.ts";
import type { PieceRows } from "./path.ts";
import { numberOf, type Rel } from "./time.ts";
import type { Range } from "./view.ts";

export type RequestKind = "block" | "packet";

/** Events in order, as the columns without `_ts`; `submit` is `ts`. */
const EVENTS = {
  block: ["submit", "issue", "kick", "pickup", "host_submit", "host_issue", "host_complete", "signal", "inject", "guest_irq", "complete", "wake", "run"],
  packet: ["send", "kick", "pickup", "host_receive", "host_send", "fetch", "signal", "inject", "guest_irq", "receive", "wake", "run"],
} as const;

/** Identifies a row of `io_requests` or `packets`. */
export interface RequestId {
  readonly kind: RequestKind;
  readonly machine_id: number;
  readonly ts: Rel;
  /** Of a block request its sector, of a packet flow and sequence number, in decimal; empty: unknown. */
  readonly numbers: readonly string[];
}

export function isSameRequest(a: RequestId, b: RequestId): boolean {
  return a.kind === b.kind && a.machine_id === b.machine_id && a.ts === b.ts && a.numbers.join() === b.numbers.join();
}

/** The part of a request between two known events, of which all between are unknown. */
export interface Stage extends Range {
  /** The event with which it begins, and the one with which it ends. */
  readonly begin: string;
  readonly end: string;
  /** `issue..kick` */
  readonly name: string;
}

/** A row of `io_requests` or `packets`. */
export interface Request extends RequestId {
  /** Null if the end is unknown. */
  readonly dur: number | null;
  readonly tid: number | null;
  readonly device: string | null;
  readonly bytes: number | null;
  /** Of a block request. */
  readonly op: string | null;
  readonly host_device: string | null;
  /** Of a packet: the machine that took it in last, and its device. */
  readonly to_machine_id: number | null;
  readonly to_device: string | null;
  readonly backend_tid: number | null;
  readonly to_backend_tid: number | null;
  readonly wake_tid: number | null;
  /** The CPU of the machine that handled the completion, if it was asked for. */
  readonly complete_cpu: number | null;
  /** Dom0, which has the back ends of Xen's domains, if it was asked for. */
  readonly dom0: number | null;
  readonly stages: readonly Stage[];
  readonly missing: readonly string[];
  readonly evidence: string | null;
  readonly error_ns: number | null;
}

/** Reads requests of an answer, in its order. Columns that the recording does not have are null. `rel` converts absolute trace time. */
export function requestsOf(rows: PieceRows, kind: RequestKind, rel: (absolute: bigint) => Rel): Request[] {
  for (const name of ["ts", "dur", "machine_id"]) if (!rows.columns.includes(name)) throw new Error(`the answer has no column ${name}`);
  return namedRows(rows).map((cell) => {
    const number = (name: string): number | null => (cell(name) === null ? null : numberOf(cell(name)));
    const text = (name: string): string | null => (cell(name) === null ? null : String(cell(name)));
    const time = (name: string): Rel | null => (cell(name) === null ? null : rel(BigInt(String(cell(name)))));
    const thread = (name: string): number | null => ((number(name) ?? -1) < 0 ? null : number(name));
    return {
      kind,
      machine_id: number("machine_id") ?? 0,
      ts: time("ts") ?? 0,
      numbers: (kind === "block" ? ["sector"] : ["flow", "seq"]).flatMap((name) => text(name) ?? []),
      dur: number("dur"),
      tid: thread("tid"),
      device: text("device"),
      bytes: number("bytes"),
      op: text("op"),
      host_device: text("host_device"),
      to_machine_id: number("to_machine_id"),
      to_device: text("to_device"),
      backend_tid: thread("backend_tid"),
      to_backend_tid: thread("to_backend_tid"),
      wake_tid: thread("wake_tid"),
      complete_cpu: number("complete_cpu"),
      dom0: number("dom0"),
      stages: stagesOf(EVENTS[kind].map((name) => [name, time(name === "submit" ? "ts" : `${name}_ts`)])),
      missing: (text("missing") ?? "").split(",").filter(Boolean),
      evidence: text("evidence"),
      error_ns: number("error_ns"),
    };
  });
}

/** The stages between events, in order, of which unknown ones are null. */
export function stagesOf(events: readonly (readonly [name: string, at: Rel | null])[]): Stage[] {
  const known = events.flatMap(([name, at]) => (at === null ? [] : [{ name, at }]));
  return known.slice(1).map((end, i) => {
    const begin = known[i]!;
    return { begin: begin.name, end: end.name, name: `${begin.name}..${end.name}`, from: begin.at, to: end.at };
  });
}

/** The longest stage; undefined if there is none. */
export function longestStage({ stages }: Pick<Request, "stages">): Stage | undefined {
  return stages.reduce<Stage | undefined>((longest, stage) => (longest && longest.to - longest.from >= stage.to - stage.from ? longest : stage), undefined);
}
