// What a selected range holds, as tables for the panel. The sums are the server's (it asks SQL); this
// only orders, names and formats them.
import { count, duration, percent, type TimeUnit } from "./format.ts";
import { numberOf } from "./time.ts";

/** `/api/stats`, as the server sends it; anything may be missing. */
export interface StatsAnswer {
  readonly tracks?: readonly TrackSums[];
  readonly vms?: readonly Readonly<Record<string, unknown>>[];
  readonly exits?: readonly Readonly<Record<string, unknown>>[];
  /** Why what SQL says is not here. */
  readonly missing?: string;
}

interface TrackSums {
  readonly track: number;
  readonly states: readonly StateSum[];
  /** Of counters. */
  readonly numbers?: Readonly<Record<"min" | "mean" | "max" | "ns", number>> | null;
}

interface StateSum {
  readonly key?: number | null;
  readonly state: string;
  readonly label?: string | null;
  readonly ns: unknown;
  readonly count?: unknown;
  /** Of losses: how many events. */
  readonly events?: unknown;
}

/** A table for the panel: every cell is text; `share` draws a bar behind a cell. */
export interface StatTable {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly StatRow[];
  /** Of this track alone. */
  readonly track?: number;
}

export interface StatRow {
  readonly cells: readonly string[];
  readonly share?: number;
  readonly key?: number;
  readonly track?: number;
}

/**
 * Tables in reading order: time of the machines, states, exits, counters. `isUnknown` names the keys of unknown time:
 * it is listed after all known states, however long it is.
 */
export function statTables(answer: StatsAnswer, span_ns: number, trackName: (track: number) => string, machineName: (id: number) => string, unit: TimeUnit = "ns", isUnknown: (key: number) => boolean = () => false): StatTable[] {
  const time = (value: unknown): string => duration(numberOf(value), unit);
  const tables: StatTable[] = [];
  const vms = answer.vms ?? [];
  if (vms.length > 0) tables.push(vmTable(vms, time, machineName));
  const told = (answer.tracks ?? []).filter(({ states }) => states.length > 0);
  const moments = told.filter(({ states }) => states.every((sum) => numberOf(sum.ns) === 0));
  for (const { track, states } of told) {
    if (states.every((sum) => numberOf(sum.ns) === 0)) continue;
    const last = ({ key }: StateSum): number => Number(typeof key === "number" && isUnknown(key));
    const ordered = [...states].sort((a, b) => last(a) - last(b) || numberOf(b.ns) - numberOf(a.ns));
    const losses = ordered.some((sum) => sum.events !== undefined);
    tables.push({
      title: trackName(track),
      track,
      columns: ["state", "time", "share", "count", "average", ...(losses ? ["events lost"] : [])],
      rows: ordered.map((sum) => stateRow(sum, track, span_ns, unit, losses)),
    });
  }
  const exits = answer.exits ?? [];
  if (exits.length > 0) tables.push(exitTable(exits, time, machineName));
  if (moments.length > 0) tables.push(momentTable(moments, span_ns, trackName, unit));
  const numbers = (answer.tracks ?? []).filter((of) => of.numbers);
  if (numbers.length > 0) tables.push(numberTable(numbers, span_ns, trackName));
  return tables;
}

/** Things that have no length: how many, and how often. One table for all tracks. */
function momentTable(tracks: readonly TrackSums[], span_ns: number, trackName: (track: number) => string, unit: TimeUnit): StatTable {
  const rows = tracks.flatMap(({ track, states }) => states.map((sum) => ({ track, sum, times: numberOf(sum.count) || 0 })));
  const most = Math.max(...rows.map(({ times }) => times), 1);
  rows.sort((a, b) => b.times - a.times);
  return {
    title: "Instants",
    columns: ["track", "name", "count", ...(unit === "ns" ? ["per second"] : [])],
    rows: rows.map(({ track, sum, times }) => ({
      cells: [trackName(track), sum.label ?? sum.state, count(times), ...(unit === "ns" ? [count(rounded((times / span_ns) * 1e9))] : [])],
      share: times / most,
      track,
      ...(typeof sum.key === "number" ? { key: sum.key } : {}),
    })),
  };
}

function numberTable(tracks: readonly TrackSums[], span_ns: number, trackName: (track: number) => string): StatTable {
  return {
    title: "Counters",
    columns: ["counter", "min", "mean", "max", "known"],
    rows: tracks.map(({ track, numbers }) => {
      const { min, mean, max, ns } = numbers!;
      return { cells: [trackName(track), ...[min, mean, max].map((value) => count(rounded(value))), percent(ns / span_ns)], track };
    }),
  };
}

/** Three significant digits are what a panel has room for; whole numbers stay whole. */
function rounded(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(3));
}

function stateRow(sum: StateSum, track: number, span_ns: number, unit: TimeUnit, losses: boolean): StatRow {
  const ns = numberOf(sum.ns);
  const times = numberOf(sum.count);
  const share = ns / span_ns;
  const average = times > 0 ? duration(ns / times, unit) : "–";
  const cells = [sum.label ?? sum.state, duration(ns, unit), percent(share), times > 0 ? count(times) : "–", average];
  if (losses) cells.push(sum.events === undefined ? "unknown" : count(numberOf(sum.events)));
  const row: StatRow = { cells, share, track };
  return typeof sum.key === "number" ? { ...row, key: sum.key } : row;
}

function vmTable(vms: readonly Readonly<Record<string, unknown>>[], time: (value: unknown) => string, machineName: (id: number) => string): StatTable {
  const parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
  const unknown = vms.some((vm) => numberOf(vm["unknown_ns"]) > 0);
  return {
    title: "Machines: gotten, waited, blocked",
    columns: ["machine", "gotten", "", "waited", "", "blocked", "", ...(unknown ? ["unknown", ""] : []), "executions"],
    rows: vms.map((vm) => {
      const total = parts.reduce((sum, part) => sum + (numberOf(vm[part]) || 0), 0);
      const pair = (part: string): string[] => [time(vm[part]), percent(numberOf(vm[part]) / total)];
      const name = typeof vm["name"] === "string" ? vm["name"] : machineName(numberOf(vm["machine_id"]));
      return {
        cells: [name, ...pair("gotten_ns"), ...pair("waited_ns"), ...pair("blocked_ns"), ...(unknown ? pair("unknown_ns") : []), count(numberOf(vm["executions"]))],
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
