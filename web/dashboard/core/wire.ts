// The JSON of `transect serve`'s API (docs/reference/serve.md) as types. Columns that cannot be had are null; columns that an
// older server does not send are absent. Nothing here is trusted to be there.

type Num = number | null | undefined;

export interface MachineRow {
  readonly machine_id: number;
  readonly name: string;
  readonly kind: string;
  readonly cgroup?: string | null;
}

/** Whose row it is: a vCPU, a VM (no vCPU), or a control group. */
export interface ActorKey {
  readonly machine_id: number;
  readonly vcpu?: number | null;
  readonly cgroup?: string | null;
}

export interface WindowRow extends ActorKey {
  readonly dur: number;
  readonly executions?: Num;
  readonly gotten_ns?: Num;
  readonly waited_ns?: Num;
  readonly blocked_ns?: Num;
  readonly offline_ns?: Num;
  readonly unknown_ns?: Num;
  readonly guest_ns?: Num;
  readonly halted_ns?: Num;
  readonly exits?: Num;
  readonly io_count?: Num;
}

/** `[from_ns, count]` of each bucket in use. */
export type Lengths = readonly (readonly [number, number])[];

export interface DetailRow extends ActorKey {
  readonly preempted_ns?: Num;
  readonly waking_ns?: Num;
  readonly migrations?: Num;
  readonly waits?: Num;
  readonly wait_p50_ns?: Num;
  readonly wait_p90_ns?: Num;
  readonly wait_p99_ns?: Num;
  readonly wait_max_ns?: Num;
  readonly unattributed_ns?: Num;
  readonly injections?: Num;
  readonly halts?: Num;
  readonly halts_polled?: Num;
  readonly poll_ns?: Num;
  readonly threads?: Num;
  readonly lengths?: Lengths;
}

export interface ThreadRow {
  readonly dur: number;
  readonly machine_id: number;
  readonly tid: number;
  readonly pid: number;
  readonly name: string;
  readonly role: string;
  readonly vm_machine_id?: number | null;
  readonly vcpu?: number | null;
  readonly cgroup?: string | null;
  readonly cpu: number;
  readonly state: string;
  readonly executions?: Num;
  readonly gotten_ns?: Num;
  readonly waited_ns?: Num;
  readonly blocked_ns?: Num;
  readonly migrations?: Num;
  readonly wait_p99_ns?: Num;
  readonly wait_max_ns?: Num;
}

export interface CpuRow {
  readonly cpu: number;
  readonly busy_ns?: Num;
  readonly idle_ns?: Num;
  readonly unknown_ns?: Num;
}

export interface ExitRow {
  readonly machine_id: number;
  readonly vcpu: number;
  readonly reason: string;
  readonly count: number;
  readonly total_ns: number;
  readonly handling_ns?: Num;
  readonly p50_ns?: Num;
  readonly p90_ns?: Num;
  readonly p99_ns?: Num;
  readonly max_ns?: Num;
  readonly lengths?: Lengths;
}

export interface AntagonistRow {
  readonly machine_id: number;
  readonly vcpu?: number | null;
  readonly tid: number;
  readonly name: string;
  readonly by_machine_id: number;
  readonly by_vcpu?: number | null;
  readonly by_tid: number;
  readonly by_name: string;
  readonly times: number;
  readonly ns: number;
}

export interface IoRow {
  readonly machine_id: number;
  readonly kind: string;
  readonly pid?: number | null;
  readonly name: string;
  readonly count: number;
  readonly bytes: number;
  readonly total_ns?: Num;
  readonly p50_ns?: Num;
  readonly p99_ns?: Num;
  readonly lengths?: Lengths;
}

/** A container (or pod, machine, service, slice): the sum of the control groups in it. */
export interface ContainerRow {
  readonly machine_id: number;
  readonly dur: number;
  readonly kind: string;
  readonly name: string;
  readonly pod?: string | null;
  readonly namespace?: string | null;
  readonly cgroup: string;
  readonly parent?: string | null;
  readonly vm_machine_id?: number | null;
  readonly executions?: Num;
  readonly gotten_ns?: Num;
  readonly waited_ns?: Num;
  readonly preempted_ns?: Num;
  readonly waking_ns?: Num;
  readonly blocked_ns?: Num;
  readonly unknown_ns?: Num;
  readonly guest_ns?: Num;
  readonly exits?: Num;
  readonly lengths?: Lengths;
}

/** A finding: a rule that held for a vCPU, a VM, a control group or a thread of the host in a window. */
export interface FindingRow extends ActorKey {
  /** How much of a merged window the windows with this finding are. */
  readonly dur?: Num;
  readonly tid?: Num;
  readonly detector: string;
  readonly subject: string;
  readonly held_ns: number;
  readonly of_ns: number;
  readonly count?: Num;
  readonly confidence?: string | null;
  readonly sentence: string;
  readonly hint?: string | null;
}

/** What a control group (null: the host) was short of. `dur` is its own: a group that did nothing is looked at seldom. */
export interface PressureRow {
  readonly dur: number;
  readonly cgroup?: string | null;
  readonly quota_ns?: Num;
  readonly period_ns?: Num;
  readonly periods?: Num;
  readonly periods_throttled?: Num;
  readonly throttled_ns?: Num;
  readonly cpu_some_ns?: Num;
  readonly cpu_full_ns?: Num;
  readonly io_some_ns?: Num;
  readonly io_full_ns?: Num;
  readonly memory_some_ns?: Num;
  readonly memory_full_ns?: Num;
}

export interface MissingRow {
  readonly metric: string;
  readonly machine_id?: number | null;
  readonly why: string;
}

export interface HealthRow {
  readonly late_threads?: Num;
  readonly untracked_events?: Num;
  readonly no_room?: Num;
  readonly missed_events?: Num;
  readonly own_cpu_ns?: Num;
}

/** One window, or several merged to one: then `dur` is the sum of theirs. */
export interface WindowJson {
  readonly ts: number;
  readonly dur: number;
  readonly ended_unix_ns: number;
  readonly missed_windows?: number;
  readonly machines?: readonly MachineRow[];
  readonly windows?: readonly WindowRow[];
  readonly window_details?: readonly DetailRow[];
  readonly thread_windows?: readonly ThreadRow[];
  readonly cpu_windows?: readonly CpuRow[];
  readonly exit_windows?: readonly ExitRow[];
  readonly antagonists?: readonly AntagonistRow[];
  readonly io_windows?: readonly IoRow[];
  readonly container_windows?: readonly ContainerRow[];
  readonly pressure_windows?: readonly PressureRow[];
  /** Absent or null: not known. */
  readonly findings?: readonly FindingRow[] | null;
  readonly missing?: readonly MissingRow[];
  readonly health?: HealthRow;
}

/** A stretch of time whose windows are damaged on disk. */
export interface GoneJson {
  readonly from_unix_ns: number;
  readonly until_unix_ns: number;
  readonly windows: number;
}

export interface HistoryJson {
  readonly step_ns: number;
  /** Absent without any. */
  readonly gone?: readonly GoneJson[];
  readonly windows: readonly WindowJson[];
}

/** Tables that a view asks for. */
export type Table =
  | "machines" | "windows" | "window_details" | "thread_windows" | "cpu_windows" | "exit_windows" | "antagonists" | "io_windows" | "container_windows" | "pressure_windows" | "findings" | "missing" | "health";

/** A number, or NaN for what is null or absent: it must not become 0. */
export function known(value: Num): number {
  return value ?? NaN;
}

/** A number that counts nothing if it is not there: only for sums whose absence is told elsewhere. */
export function orNone(value: Num): number {
  return value ?? 0;
}
