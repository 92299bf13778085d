// What a selected range holds, as tables for the panel. The sums are the server's (it asks SQL); this
// only orders, names and formats them.
import { count, duration, percent, type TimeUnit } from "./format.ts";
import { numberOf } from "./time.ts";

/** `/api/stats`, as the server sends it; anything may be missing. */
export interface StatsAnswer {
  readonly tracks?: readonly { readonly track: number; readonly states: readonly StateSum[] }[];
  readonly vms?: readonly Readonly<Record<string, unknown>>[];
  readonly exits?: readonly Readonly<Record<string, unknown>>[];
}

interface StateSum {
  readonly key?: number | null;
  readonly state: string;
  readonly label?: string | null;
  readonly ns: unknown;
  readonly count?: unknown;
}

/** A table for the panel: every cell is text; `share` draws a bar behind a cell. */
export interface StatTable {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly StatRow[];
}

export interface StatRow {
  readonly cells: readonly string[];
  readonly share?: number;
  readonly key?: number;
  readonly track?: number;
}

/** Tables in the order in which one reads them: who got the CPU, in which states, why exits. */
export function statTables(answer: StatsAnswer, span_ns: number, trackName: (track: number) => string, machineName: (id: number) => string, unit: TimeUnit = "ns"): StatTable[] {
  const time = (value: unknown): string => duration(numberOf(value), unit);
  const tables: StatTable[] = [];
  const vms = answer.vms ?? [];
  if (vms.length > 0) tables.push(vmTable(vms, time, machineName));
  for (const { track, states } of answer.tracks ?? []) {
    if (states.length === 0) continue;
    const ordered = [...states].sort((a, b) => numberOf(b.ns) - numberOf(a.ns));
    tables.push({
      title: trackName(track),
      columns: ["state", "time", "share", "times", "average"],
      rows: ordered.map((sum) => stateRow(sum, track, span_ns, unit)),
    });
  }
  const exits = answer.exits ?? [];
  if (exits.length > 0) tables.push(exitTable(exits, time, machineName));
  return tables;
}

function stateRow(sum: StateSum, track: number, span_ns: number, unit: TimeUnit): StatRow {
  const ns = numberOf(sum.ns);
  const times = numberOf(sum.count);
  const share = ns / span_ns;
  const average = times > 0 ? duration(ns / times, unit) : "–";
  const cells = [sum.label ?? sum.state, duration(ns, unit), percent(share), Number.isFinite(times) ? count(times) : "–", average];
  const row: StatRow = { cells, share, track };
  return typeof sum.key === "number" ? { ...row, key: sum.key } : row;
}

function vmTable(vms: readonly Readonly<Record<string, unknown>>[], time: (value: unknown) => string, machineName: (id: number) => string): StatTable {
  const parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
  return {
    title: "Machines: gotten, waited, blocked",
    columns: ["machine", "gotten", "", "waited", "", "blocked", "", "executions"],
    rows: vms.map((vm) => {
      const total = parts.reduce((sum, part) => sum + (numberOf(vm[part]) || 0), 0);
      const pair = (part: string): string[] => [time(vm[part]), percent(numberOf(vm[part]) / total)];
      const name = typeof vm["name"] === "string" ? vm["name"] : machineName(numberOf(vm["machine_id"]));
      return {
        cells: [name, ...pair("gotten_ns"), ...pair("waited_ns"), ...pair("blocked_ns"), count(numberOf(vm["executions"]))],
        share: numberOf(vm["waited_ns"]) / total,
      };
    }),
  };
}

function exitTable(exits: readonly Readonly<Record<string, unknown>>[], time: (value: unknown) => string, machineName: (id: number) => string): StatTable {
  const total = exits.reduce((sum, exit) => sum + (numberOf(exit["total_ns"]) || 0), 0);
  const ordered = [...exits].sort((a, b) => (numberOf(b["total_ns"]) || 0) - (numberOf(a["total_ns"]) || 0));
  return {
    title: "Exits by reason",
    columns: ["machine", "reason", "count", "total", "p50", "p90", "p99", "max"],
    rows: ordered.map((exit) => ({
      cells: [
        machineName(numberOf(exit["machine_id"])),
        String(exit["reason"] ?? "–"),
        count(numberOf(exit["count"])),
        time(exit["total_ns"]),
        time(exit["p50_ns"]),
        time(exit["p90_ns"]),
        time(exit["p99_ns"]),
        time(exit["max_ns"]),
      ],
      share: total > 0 ? (numberOf(exit["total_ns"]) || 0) / total : 0,
    })),
  };
}

/** The tables as tab-separated text, for the clipboard. */
export function asText(tables: readonly StatTable[]): string {
  return tables.map((table) => [table.title, table.columns.join("\t"), ...table.rows.map((row) => row.cells.join("\t"))].join("\n")).join("\n\n");
}
