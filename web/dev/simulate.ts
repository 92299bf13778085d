// A made-up recording: a hypervisor, dom0 and guests whose vCPUs share pCPUs under a round-robin
// scheduler. It is a small simulation and not random noise, so that all tracks agree with one another:
// while the hog has pCPU 1, the periodic guest's vCPU waits for it, and so does the thread inside.
// Seeded: the same options give the same recording on every machine.
import type { Key } from "../src/core/palette.ts";
import type { Track } from "../src/core/tracks.ts";

export interface Options {
  readonly seed: number;
  readonly seconds: number;
  readonly cpus: number;
  /** Guests besides dom0, the periodic guest and the hog. */
  readonly guests: number;
  /** Mean time between exits of a running vCPU: what decides how many intervals there are. */
  readonly exit_us: number;
  /** Threads per guest that hardly ever run: they make the list of tracks long. */
  readonly sleepers: number;
  /** Simulates a snapshot of an overwriting log in which all CPUs are known for the last milliseconds only; 0: no snapshot. */
  readonly known_ms: number;
  /** The filter of the recording; empty: none. */
  readonly filter: string;
  /** The wall clock: `steady`, or the seconds by which it was set in the middle of the recording; empty: unknown. */
  readonly wall: string;
}

export const DEFAULTS: Options = { seed: 1, seconds: 4, cpus: 4, guests: 5, exit_us: 400, sleepers: 24, known_ms: 0, filter: "", wall: "" };

/** Where trace time starts: large, so that nobody gets away with using it as a double. */
export const ORIGIN = 1_700_000_000_123_456_789n;

export interface Intervals {
  ts: Float64Array;
  dur: Float64Array;
  key: Uint32Array;
  value?: Float64Array;
}

export interface Arrow {
  from_track: number;
  from_ts: number;
  to_track: number;
  to_ts: number;
  kind: "wakeup" | "completion" | "block" | "preempt";
  evidence: "id" | null;
}

export interface Machine {
  machine_id: number;
  name: string;
  kind: string;
  parent_id: number | null;
  clock: string;
  error_ns: number;
}

export interface Recording {
  name: string;
  /** Nanoseconds from ORIGIN to the end. */
  length: number;
  machines: Machine[];
  tracks: Track[];
  keys: Key[];
  intervals: Map<number, Intervals>;
  flows: Arrow[];
  lost: { ts: number; dur: number; machine_id: number; cpu: number; count: number | null; cause: string }[];
  filter: string;
  wall: string;
}

/** mulberry32: small, seeded, good enough to look at. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

class Rows {
  readonly ts: number[] = [];
  readonly dur: number[] = [];
  readonly key: number[] = [];
  readonly value: number[] = [];
  push(from: number, to: number, key: number, value?: number): void {
    if (to <= from) return;
    this.ts.push(from);
    this.dur.push(to - from);
    this.key.push(key);
    if (value !== undefined) this.value.push(value);
  }
  end(): number {
    const last = this.ts.length - 1;
    return last < 0 ? 0 : this.ts[last]! + this.dur[last]!;
  }
  finish(): Intervals {
    const out: Intervals = { ts: Float64Array.from(this.ts), dur: Float64Array.from(this.dur), key: Uint32Array.from(this.key) };
    if (this.value.length > 0) out.value = Float64Array.from(this.value);
    return out;
  }
}

interface Thread {
  tid: number;
  name: string;
  track: number;
}

interface Vcpu {
  machine: number;
  vcpu: number;
  cpu: number;
  track: number;
  exits: number;
  threads: Thread[];
  behaviour: "hog" | "periodic" | "server";
  /** Work left in this burst, and which thread's it is. */
  left: number;
  thread: Thread;
  turn: number;
  waits: "no" | "preempted" | "waking";
  since: number;
  wakeAt: number;
  wokenBy: number;
}

const MS = 1e6;
const US = 1e3;
const SLICE = 10 * MS;
const REASONS = ["hlt", "npf", "io", "msr", "vintr", "cpuid"];
const HYPERCALLS = ["sched_op", "event_channel_op", "grant_table_op", "mmu_update"];

/** Makes the recording. */
export function simulate(options: Options): Recording {
  return new Simulation(options).run();
}

class Simulation {
  private readonly random: () => number;
  private readonly length: number;
  private readonly machines: Machine[] = [];
  private readonly tracks: Track[] = [];
  private readonly keys: Key[] = [];
  private readonly keyIds = new Map<string, number>();
  private readonly rows = new Map<number, Rows>();
  private readonly flows: Arrow[] = [];
  private readonly vcpus: Vcpu[] = [];
  private readonly cpuTracks: { cpu: number; guest: number; irq: number }[] = [];
  private blockLanes: number[] = [];
  private tickTrack = 0;
  private nextSort = 0;

  constructor(private readonly options: Options) {
    this.random = random(options.seed);
    this.length = Math.round(options.seconds * 1e9);
    this.key("nothing", "", "nothing known");
    this.key("others", "others", "others");
  }

  run(): Recording {
    this.makeMachines();
    for (let cpu = 0; cpu < this.options.cpus; cpu++) this.runCpu(cpu);
    this.makeIo();
    this.makeCounters();
    const lost = [...this.overwrite(), ...this.lose()];
    const intervals = new Map([...this.rows].map(([track, rows]) => [track, rows.finish()] as const));
    const tracks = this.tracks.map((track) => {
      const own = intervals.get(track.track);
      if (!own) return track;
      const shape = own.value ? "numbers" : own.dur.every((dur) => dur <= 1) ? "instants" : "intervals";
      return { ...track, intervals: own.ts.length, busy_ns: this.busy(own), shape };
    });
    this.flows.sort((a, b) => a.from_ts - b.from_ts);
    return { name: "made-up", length: this.length, machines: this.machines, tracks, keys: this.keys, intervals, flows: this.flows, lost, filter: this.options.filter, wall: this.options.wall };
  }

  /** Time of work and of waiting for the CPU, as docs/reference/timeline-format.md says. */
  private busy(own: Intervals): number {
    const rest = ["sleeping", "io_wait", "blocked", "halted", "idle", "offline", "unknown"];
    return own.dur.reduce((sum, dur, i) => sum + (rest.includes(this.keys[own.key[i]!]!.class) ? 0 : dur), 0);
  }

  private key(klass: string, state: string, label: string, more: { machine_id?: number; vcpu?: number; tid?: number; reason?: string } = {}): number {
    const name = `${klass}|${state}|${label}|${more.machine_id}|${more.vcpu}|${more.tid}|${more.reason}`;
    const known = this.keyIds.get(name);
    if (known !== undefined) return known;
    const key = this.keys.length;
    this.keyIds.set(name, key);
    this.keys.push({ key, class: klass, state, label, machine_id: more.machine_id ?? null, vcpu: more.vcpu ?? null, tid: more.tid ?? null, reason: more.reason ?? null });
    return key;
  }

  private track(kind: string, name: string, machine_id: number, parent: number | null, more: { cpu?: number; vcpu?: number; tid?: number; detail?: string } = {}): number {
    const track = this.tracks.length + 1;
    const layer = machine_id === 0 ? "hypervisor" : "guest";
    this.tracks.push({ track, parent, machine_id, layer, kind, name, detail: more.detail ?? "", sort: this.nextSort++, cpu: more.cpu ?? null, vcpu: more.vcpu ?? null, tid: more.tid ?? null, intervals: 0, busy_ns: 0, shape: "" });
    return track;
  }

  private of(track: number): Rows {
    let rows = this.rows.get(track);
    if (!rows) this.rows.set(track, (rows = new Rows()));
    return rows;
  }

  private makeMachines(): void {
    const names = ["xen", "dom0", "hog", "periodic", ...Array.from({ length: this.options.guests }, (_, i) => `web${i + 1}`)];
    names.forEach((name, machine_id) => {
      const kind = machine_id === 0 ? "hypervisor" : "guest";
      this.machines.push({ machine_id, name, kind, parent_id: machine_id === 0 ? null : 0, clock: machine_id === 0 ? "tsc" : "mono", error_ns: machine_id === 0 ? 0 : 120 + 35 * machine_id });
    });
    const xen = this.track("machine", "xen", 0, null, { detail: "hypervisor, 4.17" });
    const cpus = this.track("cpus", "pCPUs", 0, xen);
    for (let cpu = 0; cpu < this.options.cpus; cpu++) {
      const track = this.track("cpu", `pCPU ${cpu}`, 0, cpus, { cpu, detail: `cpu_slices of machine_id 0 cpu ${cpu}` });
      const guest = this.track("cpu_guest", "thread inside", 0, track, { cpu });
      this.cpuTracks.push({ cpu: track, guest, irq: this.track("irq", "interrupts", 0, track, { cpu, detail: `irqs of machine_id 0 cpu ${cpu}` }) });
    }
    for (let machine = 1; machine < names.length; machine++) this.makeGuest(machine, names[machine]!);
  }

  private makeGuest(machine: number, name: string): void {
    const root = this.track("machine", name, machine, null, { detail: "guest" });
    const behaviour = name === "hog" ? "hog" : name === "periodic" ? "periodic" : "server";
    const count = behaviour === "server" ? 2 : 1;
    const group = this.track("vcpus", "vCPUs", machine, root);
    const made = Array.from({ length: count }, (_, vcpu) => {
      const track = this.track("vcpu", `vCPU ${vcpu}`, machine, group, { vcpu, detail: `vcpu_states of machine_id ${machine} vcpu ${vcpu}` });
      return { track, exits: this.track("exits", "exits", machine, track, { vcpu, detail: `exits of machine_id ${machine} vcpu ${vcpu}` }) };
    });
    const threads = this.track("threads", "threads", machine, root);
    made.forEach(({ track, exits }, vcpu) => {
      const words = behaviour === "hog" ? ["burn"] : behaviour === "periodic" ? ["tick"] : machine === 1 ? ["blkback", "netback"] : ["nginx", "worker"];
      const own = words.map((word, i) => {
        const tid = 100 * machine + 10 * vcpu + i;
        return { tid, name: word, track: this.track("thread", `${word} ${tid}`, machine, threads, { tid, detail: `thread_states of machine_id ${machine} tid ${tid}` }) };
      });
      // The periodic guest and the hog share pCPU 1: that is the recording's story.
      const cpu = behaviour !== "server" ? 1 : machine === 1 ? [0, 1][vcpu]! : (machine + vcpu) % this.options.cpus === 1 ? 2 % this.options.cpus : (machine + vcpu) % this.options.cpus;
      const start = behaviour === "hog" ? 20 * MS : Math.floor(this.random() * 30 * MS);
      this.vcpus.push({ machine, vcpu, cpu, track, exits, threads: own, behaviour, left: 0, thread: own[0]!, turn: 0, waits: "no", since: 0, wakeAt: start, wokenBy: 0 });
    });
    for (let i = 0; i < this.options.sleepers; i++) {
      const tid = 1000 * machine + i;
      const track = this.track("thread", `kworker/${i} ${tid}`, machine, threads, { tid, detail: `thread_states of machine_id ${machine} tid ${tid}` });
      const at = Math.floor(this.random() * this.length * 0.9);
      this.of(track).push(0, at, this.key("sleeping", "blocked", "asleep", { reason: "S" }));
      this.of(track).push(at, at + 40 * US, this.key("running", "running", "running", { machine_id: machine, tid }));
      this.of(track).push(at + 40 * US, this.length, this.key("sleeping", "blocked", "asleep", { reason: "S" }));
    }
  }

  private burst(vcpu: Vcpu): void {
    vcpu.thread = vcpu.threads[vcpu.turn++ % vcpu.threads.length]!;
    if (vcpu.behaviour === "hog") vcpu.left = Infinity;
    else if (vcpu.behaviour === "periodic") vcpu.left = 12 * MS;
    else vcpu.left = Math.round((0.2 + this.random() * (vcpu.machine === 1 ? 1.5 : 6)) * MS);
  }

  private sleep(vcpu: Vcpu, now: number): void {
    const start = vcpu.wakeAt;
    if (vcpu.behaviour === "periodic") vcpu.wakeAt = Math.max(start + 40 * MS, now + 1 * MS);
    else vcpu.wakeAt = now + Math.round((0.5 + this.random() * 12) * MS);
  }

  /** One pCPU from start to end: who is woken joins the queue, a slice ends when its time or its work does. */
  private runCpu(cpu: number): void {
    const all = this.vcpus.filter((vcpu) => vcpu.cpu === cpu);
    const sleeping = new Set(all);
    const queue: Vcpu[] = [];
    const slices = this.of(this.cpuTracks[cpu]!.cpu);
    const idle = this.key("idle", "idle", "idle", {});
    const slept = new Map<Vcpu, number>(all.map((vcpu) => [vcpu, 0]));
    let now = 0;
    const wakeUntil = (end: number): void => {
      for (const vcpu of [...sleeping].filter((v) => v.wakeAt <= end).sort((a, b) => a.wakeAt - b.wakeAt)) {
        sleeping.delete(vcpu);
        vcpu.waits = "waking";
        vcpu.since = vcpu.wakeAt;
        this.burst(vcpu);
        this.state(vcpu, slept.get(vcpu)!, vcpu.wakeAt, this.key("halted", "halted", "halted", { machine_id: vcpu.machine, vcpu: vcpu.vcpu, reason: "hlt" }), this.key("sleeping", "blocked", "asleep", { reason: "S" }));
        this.of(this.cpuTracks[cpu]!.irq).push(Math.max(vcpu.wakeAt, this.of(this.cpuTracks[cpu]!.irq).end()), vcpu.wakeAt + 4 * US, this.key("irq", "irq", "event channel", { reason: "evtchn" }));
        queue.push(vcpu);
      }
    };
    while (now < this.length) {
      wakeUntil(now);
      const vcpu = queue.shift();
      if (!vcpu) {
        const next = Math.min(this.length, ...[...sleeping].map((v) => v.wakeAt));
        slices.push(now, next, idle);
        now = next;
        continue;
      }
      const others = [...sleeping].map((v) => v.wakeAt);
      // Alone on its CPU a vCPU runs on until somebody else wakes; then it has the rest of its slice.
      const until = queue.length > 0 ? now + SLICE : Math.max(now + SLICE, Math.min(...others, now + 50 * MS));
      const end = Math.min(until, now + vcpu.left, this.length);
      this.runSlice(vcpu, now, end, cpu);
      wakeUntil(end);
      for (const waiting of queue) this.wait(waiting, Math.max(now, waiting.since), end, vcpu);
      vcpu.left -= end - now;
      now = end;
      if (vcpu.left <= 0) {
        sleeping.add(vcpu);
        slept.set(vcpu, end);
        this.sleep(vcpu, end);
      } else {
        vcpu.waits = "preempted";
        vcpu.since = end;
        if (queue.length > 0) this.flows.push({ from_track: queue[0]!.track, from_ts: end, to_track: vcpu.track, to_ts: end, kind: "preempt", evidence: null });
        queue.push(vcpu);
      }
    }
    for (const vcpu of sleeping) this.state(vcpu, slept.get(vcpu)!, this.length, this.key("halted", "halted", "halted", { machine_id: vcpu.machine, vcpu: vcpu.vcpu, reason: "hlt" }), this.key("sleeping", "blocked", "asleep", { reason: "S" }));
  }

  /** A state of a vCPU that its threads share. */
  private state(vcpu: Vcpu, from: number, to: number, key: number, threadKey: number): void {
    this.of(vcpu.track).push(from, to, key);
    for (const thread of vcpu.threads) this.of(thread.track).push(Math.max(from, this.of(thread.track).end()), to, threadKey);
  }

  private wait(vcpu: Vcpu, from: number, to: number, by: Vcpu): void {
    const name = this.machines[by.machine]!.name;
    const what = vcpu.waits === "preempted" ? "preempted" : "waking";
    const words = what === "preempted" ? `preempted by ${name}` : `woken, waits for ${name}`;
    const key = this.key(what, what, words, { machine_id: by.machine, vcpu: by.vcpu });
    this.of(vcpu.track).push(from, to, key);
    this.threadRow(vcpu, from, to, this.key(what, "vcpu_preempted", `vCPU ${words}`, { machine_id: by.machine, vcpu: by.vcpu }));
  }

  private threadRow(vcpu: Vcpu, from: number, to: number, key: number): void {
    const rows = this.of(vcpu.thread.track);
    rows.push(rows.end(), from, this.key("sleeping", "blocked", "asleep", { reason: "S" }));
    rows.push(from, to, key);
  }

  private runSlice(vcpu: Vcpu, from: number, to: number, cpu: number): void {
    const { machine, vcpu: number } = vcpu;
    const name = this.machines[machine]!.name;
    this.of(this.cpuTracks[cpu]!.cpu).push(from, to, this.key("vcpu", "running", `${name} vCPU ${number}`, { machine_id: machine, vcpu: number }));
    this.of(this.cpuTracks[cpu]!.guest).push(from, to, this.key("vcpu", "running", `${vcpu.thread.name} ${vcpu.thread.tid}`, { machine_id: machine, tid: vcpu.thread.tid }));
    if (vcpu.waits === "waking") {
      const waker = this.vcpus.find((v) => v.machine === 1)!;
      if (waker !== vcpu) this.flows.push({ from_track: waker.threads[0]!.track, from_ts: vcpu.since, to_track: vcpu.track, to_ts: from, kind: "wakeup", evidence: "id" });
    }
    vcpu.waits = "no";
    const guest = this.key("guest", "guest", "in guest", { machine_id: machine, vcpu: number });
    const running = this.key("running", "running", "running", { machine_id: machine, tid: vcpu.thread.tid });
    let at = from;
    while (at < to) {
      const next = Math.min(to, at + Math.round((0.2 + 1.6 * this.random()) * this.options.exit_us * US));
      this.of(vcpu.track).push(at, next, guest);
      this.threadRow(vcpu, at, next, running);
      at = next;
      if (at >= to) break;
      const call = this.random() < 0.5;
      const reason = call ? HYPERCALLS[Math.floor(this.random() * 4)]! : REASONS[1 + Math.floor(this.random() * 5)]!;
      const end = Math.min(to, at + Math.round((2 + this.random() * 30) * US));
      this.of(vcpu.track).push(at, end, this.key("exit", "exit", `exit ${reason}`, { machine_id: machine, vcpu: number, reason }));
      this.of(vcpu.exits).push(at, end, this.key(call ? "hypercall" : "exit", call ? "hypercall" : "exit", reason, { machine_id: machine, reason }));
      this.threadRow(vcpu, at, end, this.key("exit", "exit_handling", `in exit ${reason}`, { machine_id: machine, reason }));
      at = end;
    }
  }

  private makeIo(): void {
    const io = this.track("io", "block I/O", 1, 1 + this.tracks.findIndex((t) => t.name === "dom0"));
    this.blockLanes = [0, 1, 2].map((lane) => this.track("block", lane === 0 ? "202:0" : `202:0 · ${lane + 1}`, 1, io, { detail: "block_io of machine_id 1" }));
    const servers = this.vcpus.filter((v) => v.behaviour === "server" && v.machine > 1);
    if (servers.length === 0) return;
    for (let at = 5 * MS; at < this.length - 20 * MS; at += Math.round(this.random() * 9 * MS)) {
      const lane = this.blockLanes.find((track) => this.of(track).end() <= at);
      if (lane === undefined) continue;
      const from = servers[Math.floor(this.random() * servers.length)]!;
      const end = at + Math.round((0.3 + this.random() * 6) * MS);
      const op = this.random() < 0.7 ? "read" : "write";
      this.of(lane).push(at, end, this.key("block", op, `${op} 4 KiB`, { reason: op }));
      this.flows.push({ from_track: from.threads[0]!.track, from_ts: at, to_track: lane, to_ts: at, kind: "block", evidence: null });
      this.flows.push({ from_track: lane, from_ts: end, to_track: from.threads[0]!.track, to_ts: end, kind: "completion", evidence: "id" });
    }
  }

  private makeCounters(): void {
    const root = 1;
    const counters = this.track("counters", "counters", 0, root);
    const waiting = this.track("counter", "vCPUs waiting", 0, counters, { detail: "counters of machine_id 0" });
    let value = 0;
    for (let at = 0; at < this.length; at += 2 * MS) {
      value = Math.max(0, value + Math.floor(this.random() * 5) - 2);
      this.of(waiting).push(at, Math.min(at + 2 * MS, this.length), 0, value);
    }
    const events = this.track("events", "events", 0, root);
    this.tickTrack = this.track("ticks", "wakeups", 0, events, { detail: "ev_wake of machine_id 0" });
    const wake = this.key("others", "event", "wake");
    let last = -1;
    for (const at of this.flows.filter((flow) => flow.kind === "wakeup").map((flow) => flow.from_ts).sort((a, b) => a - b)) {
      if (at <= last) continue;
      this.of(this.tickTrack).push(at, at + 1, wake);
      last = at;
    }
  }

  /** Cuts every track to what a snapshot of an overwriting log holds: from the first record of its CPU on. */
  private overwrite(): Recording["lost"] {
    const { cpus, known_ms } = this.options;
    if (known_ms <= 0) return [];
    const starts = Array.from({ length: cpus }, (_, cpu) => this.length - Math.min(Math.round(known_ms * MS * (1 + 0.8 * cpu)), this.length));
    const latest = Math.max(...starts);
    const startOf = new Map<number, number>();
    this.cpuTracks.forEach(({ cpu, guest, irq }, i) => [cpu, guest, irq].forEach((track) => startOf.set(track, starts[i]!)));
    for (const { cpu, track, exits, threads } of this.vcpus) [track, exits, ...threads.map((thread) => thread.track)].forEach((own) => startOf.set(own, starts[cpu]!));
    const unknown = this.key("unknown", "unknown", "unknown");
    const tiled = new Set(this.tracks.filter(({ kind }) => kind === "cpu" || kind === "vcpu" || kind === "thread").map(({ track }) => track));
    for (const [track, old] of this.rows) {
      const start = startOf.get(track) ?? latest;
      const rows = new Rows();
      if (tiled.has(track)) rows.push(0, start, unknown);
      old.ts.forEach((ts, i) => rows.push(Math.max(ts, start), ts + old.dur[i]!, old.key[i]!, old.value[i]));
      this.rows.set(track, rows);
    }
    this.flows.splice(0, Infinity, ...this.flows.filter((flow) => flow.from_ts >= latest));
    return starts.map((dur, cpu) => ({ ts: 0, dur, machine_id: 0, cpu, count: null, cause: "overwritten" }));
  }

  /** Events of one CPU are lost for a while: what it would have shown is unknown. */
  private lose(): Recording["lost"] {
    const cpu = this.options.cpus - 1;
    const from = Math.round(this.length * 0.6);
    const to = from + Math.round(this.length * 0.012);
    const unknown = this.key("unknown", "unknown", "unknown: events lost");
    const track = this.cpuTracks[cpu]!.cpu;
    const old = this.of(track);
    const rows = new Rows();
    old.ts.forEach((ts, i) => {
      const end = ts + old.dur[i]!;
      rows.push(ts, Math.min(end, from), old.key[i]!);
      if (end > from && rows.end() < to) rows.push(Math.max(from, rows.end()), to, unknown);
      rows.push(Math.max(ts, to), end, old.key[i]!);
    });
    this.rows.set(track, rows);
    return [{ ts: from, dur: to - from, machine_id: 0, cpu, count: 1834, cause: "ring buffer full" }];
  }
}
