// Rows of an SQL answer: which of them can jump into the timeline, and to which track.
import type { Track } from "./tracks.ts";
import { numberOf } from "./time.ts";

/** Where a row points. */
export interface Target {
  readonly ts: bigint;
  readonly dur: number;
  readonly track: number | undefined;
}

/** One value of an SQL answer. */
export type Cell = string | number | bigint | boolean | null;

/**
 * Where a row with these columns leads: `ts` (and `dur`) say when, `machine_id` with `tid`, `vcpu` or
 * `cpu` says which track. A row without `ts` leads nowhere.
 */
export function targetOf(columns: readonly string[], row: readonly Cell[], tracks: readonly Track[]): Target | undefined {
  const cell = (name: string): Cell => row[columns.indexOf(name)] ?? null;
  const ts = bigOf(cell("ts"));
  if (ts === undefined) return undefined;
  const dur = numberOf(cell("dur"));
  return { ts, dur: Number.isFinite(dur) ? dur : 0, track: trackOf(cell, tracks) };
}

function trackOf(cell: (name: string) => Cell, tracks: readonly Track[]): number | undefined {
  const machine = numberOf(cell("machine_id"));
  if (!Number.isFinite(machine)) return undefined;
  const by: readonly (readonly ["tid" | "vcpu" | "cpu", string])[] = [["tid", "thread"], ["vcpu", "vcpu"], ["cpu", "cpu"]];
  for (const [column, kind] of by) {
    const value = numberOf(cell(column));
    if (!Number.isFinite(value)) continue;
    const found = tracks.find((track) => track.kind === kind && track.machine_id === machine && track[column] === value);
    if (found) return found.track;
  }
  return undefined;
}

function bigOf(cell: Cell): bigint | undefined {
  if (typeof cell === "bigint") return cell;
  if (typeof cell === "number") return Number.isSafeInteger(cell) ? BigInt(cell) : undefined;
  return typeof cell === "string" && /^-?\d+$/.test(cell) ? BigInt(cell) : undefined;
}

/** A cell as the table shows it. */
export function cellText(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number" && !Number.isInteger(cell)) return String(Number(cell.toPrecision(10)));
  return String(cell);
}

/** The question for every event of a range (of these machines, or of all), in order. */
export function eventsOf(from: bigint | string, to: bigint | string, machines: readonly number[]): string {
  const only = machines.length ? `\n  AND e.machine_id IN (${machines.join(", ")})` : "";
  return `SELECT e.ts, m.name AS machine, e.machine_id, e.cpu, e.tid, e.name, e.args
FROM events e JOIN machines m ON m.machine_id = e.machine_id
WHERE e.ts >= ${from} AND e.ts < ${to}${only}
ORDER BY e.ts`;
}
