// Requests in words, as `transect explain --request` and `--packet` have them, and the SQL that asks for them.
import { thousands } from "./format.ts";
import type { Request, RequestId, RequestKind } from "./request.ts";

const TABLES: Readonly<Record<RequestKind, string>> = { block: "io_requests", packet: "packets" };
/** The order of `transect explain`: the longest first; of the same length, the first. */
const ORDERS: Readonly<Record<RequestKind, string>> = { block: "dur DESC, ts, machine_id, device, sector", packet: "dur DESC, ts, machine_id, flow, seq" };

/** A range in absolute trace time, and the machine whose requests are asked for; undefined: all. */
export interface Asked {
  readonly from: bigint;
  readonly to: bigint;
  readonly machine_id: number | undefined;
}

/** The requests that begin and end in the range. */
function within(kind: RequestKind, { from, to, machine_id: machine }: Asked): string {
  const whose = kind === "block" ? `machine_id = ${machine}` : `(machine_id = ${machine} OR to_machine_id = ${machine})`;
  return `FROM ${TABLES[kind]} WHERE dur > 0 AND ts >= ${from} AND ts + dur <= ${to}${machine === undefined ? "" : ` AND ${whose}`}`;
}

/** The slowest requests of a range, the longest first. */
export function slowestSql(kind: RequestKind, asked: Asked, limit: number): string {
  return `SELECT * ${within(kind, asked)} ORDER BY ${ORDERS[kind]} LIMIT ${limit}`;
}

/** The number of requests of a range. */
export function countSql(kind: RequestKind, asked: Asked): string {
  return `SELECT count(*) AS n ${within(kind, asked)}`;
}

/** One request, with the machine of Xen's back ends and, of a block request, the CPU of its completion. */
export function requestSql({ kind, machine_id, numbers }: RequestId, ts: bigint): string {
  const names = kind === "block" ? ["sector"] : ["flow", "seq"];
  const where = [`r.machine_id = ${machine_id}`, `r.ts = ${ts}`, ...numbers.slice(0, names.length).map((number, i) => `r.${names[i]} = ${BigInt(number)}`)].join(" AND ");
  const dom0 = "(SELECT min(machine_id) FROM machines WHERE domid = 0) AS dom0";
  if (kind === "packet") return `SELECT r.*, ${dom0} FROM packets r WHERE ${where} LIMIT 1`;
  const join = "LEFT JOIN block_io b ON b.machine_id = r.machine_id AND b.ts = r.ts AND b.device = r.device AND b.sector = r.sector";
  return `SELECT r.*, b.complete_cpu, ${dom0} FROM io_requests r ${join} WHERE ${where} LIMIT 1`;
}

/** Does an error state that the recording has no such table? Then it has no such requests. */
export function isTableMissing(kind: RequestKind, error: string): boolean {
  return error.includes(TABLES[kind]) && /no (such )?table/i.test(error);
}

/** `read of 4 096 bytes, device 254:0 of web`; `packet of 66 bytes, web to db`. */
export function requestTitle(request: Request, machineName: (id: number) => string): string {
  const { kind, bytes, op, device, machine_id, to_machine_id: to } = request;
  const length = bytes === null ? "" : ` of ${thousands(bytes)} bytes`;
  if (kind === "block") return `${op ?? "request"}${length}, device ${device ?? "unknown"} of ${machineName(machine_id)}`;
  return `packet${length}, ${senderName(request, machineName)} to ${to === null ? "outside" : machineName(to)}`;
}

function senderName({ stages, machine_id }: Request, machineName: (id: number) => string): string {
  return stages[0]?.begin === "send" ? machineName(machine_id) : "outside";
}

/** The machines of a request: `web`, `web to db`. */
export function machineWords(request: Request, machineName: (id: number) => string): string {
  if (request.kind === "block") return machineName(request.machine_id);
  return `${senderName(request, machineName)} to ${request.to_machine_id === null ? "outside" : machineName(request.to_machine_id)}`;
}

/** `254:0 read 4 096`; `eth0 66`: device, operation and bytes. */
export function aboutWords({ device, op, bytes }: Request): string {
  return [device, op, bytes === null ? null : `${thousands(bytes)} B`].filter((word) => word !== null).join(" ");
}

/** Request N of `transect explain`, in which packets count if they woke a thread of the machine: by the place in a list, the longest first. */
export function explainNumbers(requests: readonly Request[], machine: number | undefined): (number | undefined)[] {
  let number = 0;
  return requests.map(({ kind, wake_tid, to_machine_id }) => {
    const counts = kind === "block" || (wake_tid !== null && (machine === undefined || to_machine_id === machine));
    return counts ? ++number : undefined;
  });
}
