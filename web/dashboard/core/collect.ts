// Takes windows in: what each table adds to which lane. The only place that knows both the tables and the panels' numbers.
import { labelOf, Machines, partyOf, type ActorId, type Label } from "./actors.ts";
import { Damage } from "./damage.ts";
import { FindingLanes } from "./findings.ts";
import { GROUPS, groupOf } from "./lengths.ts";
import { Lanes, type Rel, type Span } from "./lanes.ts";
import { ownerOfIo } from "./merge.ts";
import { orNone, type ContainerRow, type DetailRow, type ExitRow, type Lengths, type WindowJson, type WindowRow } from "./wire.ts";

/** Fields of an actor's lane: its states tile its time; then counts. */
export const FIELD = { guest: 0, gotten: 1, preempted: 2, waking: 3, halted: 4, blocked: 5, offline: 6, unknown: 7, executions: 8, exits: 9, span: 10 } as const;
export const STATES = 8;
export const ACTOR_FIELDS = 11;

/** Fields of a CPU's lane. */
export const CPU = { busy: 0, idle: 1, unknown: 2 } as const;
/** Fields of an I/O lane. */
export const IO = { bytes: 0, count: 1 } as const;
/** Fields of an exit's and an antagonist's lane. */
export const PAIR = { count: 0, ns: 1 } as const;
/** Fields of the server's lane. */
export const OWN = { cpu: 0, late: 1, missed: 2 } as const;

/** Where the range begins to be counted: page time 0, in unix ns. */
export interface Origin {
  readonly unix_ns: number;
}

/** What a window's time is in the page. */
export function spanOf(window: WindowJson, origin: Origin): Span {
  const to = window.ended_unix_ns - origin.unix_ns;
  return { from: to - window.dur, to, ts: window.ts, dur: window.dur, missed: window.missed_windows ?? 0 };
}

/** All that the panels draw over time. `fine` has a bin per column or finer, `coarse` fewer: its tables have more rows. */
export class Range {
  readonly actors: Lanes;
  readonly cpus: Lanes;
  readonly io: Lanes;
  readonly own: Lanes;
  /** Waits by length: one lane, a field per group of buckets. */
  readonly waits: Lanes;
  readonly exits: Lanes;
  /** `VM \n reason`. */
  readonly exitsOf: Lanes;
  /** `who waited \n behind whom`. */
  readonly rivals: Lanes;
  readonly findings: FindingLanes;
  /** What is damaged in the history. */
  readonly damage: Damage;
  /** Names of containers. */
  readonly labels = new Map<ActorId, Label>();
  /** Has all of it been read? */
  whole = false;
  /** Is what is looked at a single group, since containers are not told apart? */
  private focusIsGroup = false;

  constructor(
    readonly origin: Origin,
    readonly step_ns: number,
    readonly coarse_ns: number,
    /** The VM or group that is looked at; undefined: the whole host. */
    readonly focus: ActorId | undefined,
  ) {
    this.actors = new Lanes(ACTOR_FIELDS, step_ns);
    this.cpus = new Lanes(3, step_ns);
    this.io = new Lanes(2, step_ns);
    this.own = new Lanes(3, step_ns);
    this.waits = new Lanes(GROUPS, step_ns);
    this.findings = new FindingLanes(step_ns, focus);
    this.exits = new Lanes(2, coarse_ns);
    this.exitsOf = new Lanes(2, coarse_ns);
    this.rivals = new Lanes(2, coarse_ns);
    this.damage = new Damage(origin.unix_ns);
  }

  /** Takes the fine tables of a window in. False: it is older than what is there. */
  addFine(window: WindowJson): boolean {
    const span = spanOf(window, this.origin);
    const machines = new Machines(window.machines);
    if (![this.actors, this.cpus, this.io, this.own, this.waits].map((lanes) => lanes.begin(span)).every(Boolean)) return false;
    this.addActors(window, machines);
    for (const row of window.cpu_windows ?? []) {
      this.cpus.add(String(row.cpu), CPU.busy, orNone(row.busy_ns));
      this.cpus.add(String(row.cpu), CPU.idle, orNone(row.idle_ns));
      this.cpus.add(String(row.cpu), CPU.unknown, orNone(row.unknown_ns));
    }
    this.addIo(window, machines);
    this.findings.add(window, span, machines);
    this.own.add("own", OWN.cpu, orNone(window.health?.own_cpu_ns));
    this.own.add("own", OWN.late, orNone(window.health?.late_threads));
    this.own.add("own", OWN.missed, orNone(window.missed_windows));
    return true;
  }

  /** Takes the tables with many rows in. */
  addCoarse(window: WindowJson): boolean {
    const span = spanOf(window, this.origin);
    const machines = new Machines(window.machines);
    if (![this.exits, this.exitsOf, this.rivals].map((lanes) => lanes.begin(span)).every(Boolean)) return false;
    for (const row of window.exit_windows ?? []) this.addExit(row, machines);
    for (const row of window.antagonists ?? []) {
      const who = partyOf(row.machine_id, row.tid, row.name, machines);
      if (this.focus && this.focus !== `vm:${who}`) continue;
      const name = `${who}\n${partyOf(row.by_machine_id, row.by_tid, row.by_name, machines)}`;
      this.rivals.add(name, PAIR.ns, row.ns);
      this.rivals.add(name, PAIR.count, row.times);
    }
    return true;
  }

  trim(from: Rel): void {
    for (const lanes of [this.actors, this.cpus, this.io, this.own, this.waits, this.exits, this.exitsOf, this.rivals]) lanes.trim(from);
    this.findings.trim(from);
    this.damage.trim(from);
    for (const id of this.labels.keys()) if (this.actors.lane(id) === undefined) this.labels.delete(id);
  }

  private addActors(window: WindowJson, machines: Machines): void {
    const details = new Map<ActorId, DetailRow>();
    for (const row of window.window_details ?? []) {
      const id = machines.actorOf(row);
      if (id !== undefined) details.set(id, row);
    }
    const containers = new Set((window.container_windows ?? []).map((row) => row.cgroup));
    this.focusIsGroup = this.focus !== undefined && !containers.has(this.focus.slice(3));
    const grouped = (window.windows ?? []).some((row) => machines.actorOf(row)?.startsWith("cg:"));
    for (const row of window.windows ?? []) {
      const id = machines.actorOf(row);
      if (id === undefined) continue;
      const detail = details.get(id);
      // A thread is in one group: the groups' waits are the host's. Where there are no groups, VMs are all that is known.
      if (this.focus ? id === this.focus && (this.focusIsGroup || !id.startsWith("cg:")) : id.startsWith(grouped ? "cg:" : "vm:")) this.addWaits(detail);
      // A container stands for the groups in it; others stand for themselves.
      if (this.wants(id) && !(id.startsWith("cg:") && isIn(id.slice(3), containers))) this.addStates(id, row, detail);
    }
    for (const row of window.container_windows ?? []) this.addContainer(row, machines);
  }

  private addContainer(row: ContainerRow, machines: Machines): void {
    const id = `cg:${row.cgroup}`;
    this.labels.set(id, labelOf(row, machines));
    if (!this.wants(id)) return;
    this.addStates(id, { ...row, cgroup: row.cgroup }, { machine_id: 0, waking_ns: row.waking_ns ?? null });
    if (this.focus === id && !this.focusIsGroup) this.addWaits(row);
  }

  /** The host's rows are VMs and groups, a VM's its vCPUs and itself. */
  private wants(id: ActorId): boolean {
    if (!this.focus) return !id.startsWith("vcpu:");
    return id === this.focus || (id.startsWith("vcpu:") && id.startsWith(`vcpu:${this.focus.slice(3)}:`));
  }

  private addStates(id: ActorId, row: WindowRow, detail: DetailRow | undefined): void {
    const { actors } = this;
    const guest = Math.min(orNone(row.guest_ns), orNone(row.gotten_ns));
    const halted = Math.min(orNone(row.halted_ns), orNone(row.blocked_ns));
    // Where wakeups are not traced all waiting is told as one.
    const waking = Math.min(orNone(detail?.waking_ns), orNone(row.waited_ns));
    actors.add(id, FIELD.guest, guest);
    actors.add(id, FIELD.gotten, orNone(row.gotten_ns) - guest);
    actors.add(id, FIELD.preempted, orNone(row.waited_ns) - waking);
    actors.add(id, FIELD.waking, waking);
    actors.add(id, FIELD.halted, halted);
    actors.add(id, FIELD.blocked, orNone(row.blocked_ns) - halted);
    actors.add(id, FIELD.offline, orNone(row.offline_ns));
    actors.add(id, FIELD.unknown, orNone(row.unknown_ns));
    actors.add(id, FIELD.executions, orNone(row.executions));
    actors.add(id, FIELD.exits, orNone(row.exits));
    actors.add(id, FIELD.span, row.dur);
  }

  private addWaits(detail: { readonly lengths?: Lengths } | undefined): void {
    for (const [from_ns, count] of detail?.lengths ?? []) this.waits.add("waits", groupOf(from_ns), count);
  }

  private addExit(row: ExitRow, machines: Machines): void {
    const vm = machines.name(row.machine_id);
    if (this.focus && this.focus !== `vm:${vm}`) return;
    for (const [lanes, name] of [[this.exits, row.reason], [this.exitsOf, `${this.focus ? `vCPU ${row.vcpu}` : vm}\n${row.reason}`]] as const) {
      lanes.add(name, PAIR.count, row.count);
      lanes.add(name, PAIR.ns, row.total_ns);
    }
  }

  private addIo(window: WindowJson, machines: Machines): void {
    for (const row of window.io_windows ?? []) {
      const owner = ownerOfIo(row, machines);
      if (this.focus && this.focus !== `vm:${owner}`) continue;
      const name = `${owner}\n${row.kind}`;
      this.io.add(name, IO.bytes, row.bytes);
      this.io.add(name, IO.count, row.count);
    }
  }
}

/** Is this group one of these, or in one of them? */
function isIn(group: string, containers: ReadonlySet<string>): boolean {
  for (let end = group.indexOf("/", 1); end > 0; end = group.indexOf("/", end + 1)) if (containers.has(group.slice(0, end))) return true;
  return containers.has(group);
}
