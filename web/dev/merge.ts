// Windows that follow each other as one: what `Snapshot::extend` of crates/live does, for the test double.
import type { WindowJson } from "../dashboard/core/wire.ts";
import { mergedFindings } from "./findings.ts";

type Row = Record<string, unknown>;

/** What a row is the row of, by table. */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  windows: ["machine_id", "vcpu", "cgroup"],
  window_details: ["machine_id", "vcpu", "cgroup"],
  thread_windows: ["tid", "pid"],
  cpu_windows: ["cpu"],
  exit_windows: ["machine_id", "vcpu", "reason"],
  antagonists: ["tid", "by_tid"],
  container_windows: ["cgroup"],
  pressure_windows: ["cgroup"],
  io_windows: ["pid", "name", "kind"],
};
const SUMS = /^(dur|count|bytes|times|ns|executions|exits|waits|io_count|late_threads|own_cpu_ns|.*_ns)$/;
const LARGEST = /^(.*max_ns|.*_p\d\d_ns|p\d\d_ns)$/;

export function merged(windows: readonly WindowJson[], tables: readonly string[]): WindowJson {
  const first = windows[0]!;
  const last = windows[windows.length - 1]!;
  const out: Row = { ts: first.ts, dur: sum(windows, "dur"), ended_unix_ns: last.ended_unix_ns, missed_windows: sum(windows, "missed_windows") };
  for (const table of tables) {
    if (table === "machines" || table === "missing") out[table] = last[table as "machines"];
    else if (table === "findings") Object.assign(out, mergedFindings(windows));
    else if (table === "health") out[table] = add({ ...(first.health as Row) }, windows.slice(1).map((window) => window.health as Row));
    else out[table] = mergedRows(windows.map((window) => (window as unknown as Record<string, readonly Row[]>)[table] ?? []), KEYS[table]!);
  }
  return out as unknown as WindowJson;
}

function sum(windows: readonly WindowJson[], column: "dur" | "missed_windows"): number {
  return windows.reduce((all, window) => all + (window[column] ?? 0), 0);
}

function mergedRows(tables: readonly (readonly Row[])[], key: readonly string[]): Row[] {
  const rows = new Map<string, Row>();
  for (const table of tables) for (const row of table) {
    const name = key.map((column) => String(row[column] ?? "")).join("|");
    const known = rows.get(name);
    if (known) add(known, [row]);
    else rows.set(name, { ...row });
  }
  return [...rows.values()];
}

function add(into: Row, others: readonly Row[]): Row {
  for (const row of others) for (const [column, value] of Object.entries(row)) {
    const known = into[column];
    if (column === "lengths") into[column] = addLengths(known as [number, number][], value as [number, number][]);
    else if (typeof value !== "number" || typeof known !== "number") into[column] = value;
    else if (LARGEST.test(column)) into[column] = Math.max(known, value);
    else if (SUMS.test(column)) into[column] = known + value;
    else into[column] = value;
  }
  return into;
}

function addLengths(a: readonly [number, number][], b: readonly [number, number][]): [number, number][] {
  const all = new Map(a);
  for (const [from, count] of b) all.set(from, (all.get(from) ?? 0) + count);
  return [...all].sort((x, y) => x[0] - y[0]);
}
