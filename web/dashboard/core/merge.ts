// Rows of several windows as one row each: sums, and quantiles from the distributions they were taken from. The server merges
// too; this is for what it sends in more than one piece.
import { quantileOf } from "./lengths.ts";
import { Machines, partyOf } from "./actors.ts";
import { orNone, type AntagonistRow, type ExitRow, type IoRow, type Lengths, type ThreadRow, type WindowJson } from "./wire.ts";

/** An exit reason of a VM (or of one vCPU) over some time. */
export interface ReasonSum {
  readonly reason: string;
  readonly count: number;
  readonly total_ns: number;
  readonly p50_ns: number | undefined;
  readonly p99_ns: number | undefined;
  readonly max_ns: number | undefined;
}

export interface RivalSum {
  readonly who: string;
  readonly by: string;
  readonly times: number;
  readonly ns: number;
}

export interface IoSum {
  readonly owner: string;
  readonly kind: string;
  readonly count: number;
  readonly bytes: number;
  readonly p50_ns: number | undefined;
  readonly p99_ns: number | undefined;
}

/** Counts by bucket, added up. */
export function addLengths(into: Map<number, number>, lengths: Lengths | undefined): void {
  for (const [from, count] of lengths ?? []) into.set(from, (into.get(from) ?? 0) + count);
}

/**
 * A quantile of merged rows: from their distributions where they are there. Where they are not, one row's own is
 * right and of several nothing is known.
 */
function quantile(lengths: ReadonlyMap<number, number>, share: number, own: readonly (number | null | undefined)[]): number | undefined {
  if (lengths.size > 0) return quantileOf([...lengths], share);
  return own.length === 1 ? own[0] ?? undefined : undefined;
}

function gathered<R, K>(rows: readonly R[], key: (row: R) => K): Map<K, R[]> {
  const groups = new Map<K, R[]>();
  for (const row of rows) {
    const group = groups.get(key(row));
    if (group) group.push(row);
    else groups.set(key(row), [row]);
  }
  return groups;
}

function lengthsOf(rows: readonly { readonly lengths?: Lengths }[]): Map<number, number> {
  const sum = new Map<number, number>();
  for (const row of rows) addLengths(sum, row.lengths);
  return sum;
}

/** Exits by reason, of the VM of that name; longest first. */
export function reasonsOf(windows: readonly WindowJson[], vm: string): ReasonSum[] {
  const rows: ExitRow[] = windows.flatMap((window) => {
    const id = new Machines(window.machines).idOf(vm);
    return (window.exit_windows ?? []).filter((row) => row.machine_id === id);
  });
  const sums = [...gathered(rows, (row) => row.reason)].map(([reason, group]): ReasonSum => {
    const lengths = lengthsOf(group);
    const longest = Math.max(...group.map((row) => row.max_ns ?? -1));
    return {
      reason,
      count: group.reduce((sum, row) => sum + row.count, 0),
      total_ns: group.reduce((sum, row) => sum + row.total_ns, 0),
      p50_ns: quantile(lengths, 0.5, group.map((row) => row.p50_ns)),
      p99_ns: quantile(lengths, 0.99, group.map((row) => row.p99_ns)),
      max_ns: longest >= 0 ? longest : undefined,
    };
  });
  return sums.sort((a, b) => b.total_ns - a.total_ns || b.count - a.count);
}

/** Threads of those that `wanted` takes, busiest or most waiting first. */
export function threadsOf(windows: readonly WindowJson[], wanted: (row: ThreadRow, machines: Machines) => boolean): ThreadRow[] {
  const rows = windows.flatMap((window) => {
    const machines = new Machines(window.machines);
    return (window.thread_windows ?? []).filter((row) => wanted(row, machines));
  });
  const merged = [...gathered(rows, (row) => `${row.tid}/${row.pid}`).values()].map(mergeThread);
  const weight = (row: ThreadRow): number => orNone(row.waited_ns) + orNone(row.gotten_ns);
  return merged.sort((a, b) => weight(b) - weight(a) || a.tid - b.tid);
}

function mergeThread(group: readonly ThreadRow[]): ThreadRow {
  const last = group[group.length - 1]!;
  if (group.length === 1) return last;
  const sum = (column: "dur" | "executions" | "gotten_ns" | "waited_ns" | "blocked_ns" | "migrations"): number => group.reduce((all, row) => all + orNone(row[column]), 0);
  return {
    ...last,
    dur: sum("dur"),
    executions: sum("executions"),
    gotten_ns: sum("gotten_ns"),
    waited_ns: sum("waited_ns"),
    blocked_ns: sum("blocked_ns"),
    migrations: sum("migrations"),
    wait_max_ns: Math.max(...group.map((row) => orNone(row.wait_max_ns))),
    // Of threads no distribution is kept: of several windows the largest bound holds for all.
    wait_p99_ns: Math.max(...group.map((row) => orNone(row.wait_p99_ns))),
  };
}

/** Who was in whose way, of rows that `wanted` takes; longest first. */
export function rivalsOf(windows: readonly WindowJson[], wanted: (row: AntagonistRow, machines: Machines) => boolean): RivalSum[] {
  const sums = new Map<string, { who: string; by: string; times: number; ns: number }>();
  for (const window of windows) {
    const machines = new Machines(window.machines);
    for (const row of window.antagonists ?? []) {
      if (!wanted(row, machines)) continue;
      const who = row.vcpu === null || row.vcpu === undefined ? row.name : `vCPU ${row.vcpu}`;
      const by = partyOf(row.by_machine_id, row.by_tid, row.by_name, machines);
      const sum = sums.get(`${who}\n${by}`) ?? { who, by, times: 0, ns: 0 };
      sum.times += row.times;
      sum.ns += row.ns;
      sums.set(`${who}\n${by}`, sum);
    }
  }
  return [...sums.values()].sort((a, b) => b.ns - a.ns);
}

/** Is this thread in the group, or in one below it? */
export function isIn(group: string, cgroup: string | null | undefined): boolean {
  return cgroup === group || cgroup?.startsWith(group === "/" ? "/" : `${group}/`) === true;
}

/** Who was in the way of a control group's threads. */
export function rivalsOfGroup(windows: readonly WindowJson[], group: string): RivalSum[] {
  const tids = new Set(windows.flatMap((window) => (window.thread_windows ?? []).filter((row) => isIn(group, row.cgroup)).map((row) => row.tid)));
  return rivalsOf(windows, (row) => tids.has(row.tid));
}

/** I/O by owner and kind; most bytes first. */
export function ioOf(windows: readonly WindowJson[]): IoSum[] {
  const rows = windows.flatMap((window) => {
    const machines = new Machines(window.machines);
    return (window.io_windows ?? []).map((row) => ({ row, owner: ownerOfIo(row, machines) }));
  });
  const sums = [...gathered(rows, ({ row, owner }) => `${owner}\n${row.kind}`).values()].map((group): IoSum => {
    const of = group.map(({ row }) => row);
    const lengths = lengthsOf(of);
    return {
      owner: group[0]!.owner,
      kind: of[0]!.kind,
      count: of.reduce((sum, row) => sum + row.count, 0),
      bytes: of.reduce((sum, row) => sum + row.bytes, 0),
      p50_ns: quantile(lengths, 0.5, of.map((row) => row.p50_ns)),
      p99_ns: quantile(lengths, 0.99, of.map((row) => row.p99_ns)),
    };
  });
  return sums.sort((a, b) => b.bytes - a.bytes || b.count - a.count);
}

/** Whose I/O it is: a VM's, or of a process or device of the host. */
export function ownerOfIo(row: IoRow, machines: Machines): string {
  return row.machine_id === 0 ? row.name : machines.name(row.machine_id);
}
