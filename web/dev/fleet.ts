// A made-up host for the dashboard: VMs that hog, serve, wake periodically or sleep, and the control groups beside them.
// Every window is made of its number and a seed alone, so a window is the same whenever it is asked for.
import type { AntagonistRow, ContainerRow, CpuRow, DetailRow, ExitRow, IoRow, PressureRow, ThreadRow, WindowJson, WindowRow } from "../dashboard/core/wire.ts";
import { findingsOf } from "./findings.ts";

export interface FleetOptions {
  readonly vms: number;
  readonly groups: number;
  readonly cpus: number;
  readonly vcpus: number;
  readonly window_ns: number;
  /** Metrics that cannot be had: their columns are null. */
  readonly missing: readonly string[];
  /** Are containers told apart? */
  readonly containers: boolean;
  /** From this window on windows have findings: those before it are of an older version. */
  readonly findings_since: number;
}

export const FLEET: FleetOptions = { vms: 8, groups: 6, cpus: 4, vcpus: 2, window_ns: 1e9, missing: [], containers: true, findings_since: 0 };

const REASONS = ["hlt", "npf", "io", "msr", "interrupt", "vintr", "pause", "cpuid", "vmmcall"] as const;
const CONTAINERS = [["docker", "shop"], ["libvirt", "qemu"], ["scope", "session-2"], ["service", "nginx"], ["service", "postgresql"], ["containerd", "web"], ["service", "cron"], ["group", "/"]] as const;
const GROUPS = ["/system.slice/docker-4f1c.scope", "/machine.slice/machine-qemu.scope", "/user.slice/user-1000.slice/session-2.scope", "/system.slice/nginx.service", "/system.slice/postgresql.service", "/kubepods.slice/pod-web.slice/cri-77.scope", "/system.slice/cron.service", "/"];

/** Uniform in [0, 1), of a few numbers. */
function noise(...parts: readonly number[]): number {
  let h = 2166136261;
  for (const part of parts) h = Math.imul(h ^ (part | 0), 16777619);
  h ^= h >>> 13;
  h = Math.imul(h, 0x5bd1e995);
  return ((h ^ (h >>> 15)) >>> 0) / 4294967296;
}

export function vmName(vm: number): string {
  return `${["web", "db", "batch", "cache", "ci", "mail"][vm % 6]!}${Math.floor(vm / 6) + 1}`;
}

/** How a VM behaves: what it wants of its CPUs at a time, and how much of that it waits for. */
function wants(vm: number, at: number): { want: number; wait: number } {
  const kind = vm % 6;
  const slow = 0.5 + 0.5 * Math.sin((at + vm * 97) / (180 + vm * 7));
  const jitter = noise(vm, at, 1) * 0.15;
  if (kind === 2) return { want: 0.75 + 0.2 * slow, wait: 0.18 * slow + jitter };
  if (kind === 4) return { want: at % 120 < 35 ? 0.9 : 0.04, wait: at % 120 < 35 ? 0.25 + jitter : 0.01 };
  if (kind === 0) return { want: 0.2 + 0.45 * slow + jitter, wait: 0.05 + 0.12 * slow };
  if (kind === 5) return { want: 0.01 + jitter * 0.05, wait: 0.002 };
  return { want: 0.1 + 0.2 * slow + jitter, wait: 0.02 + 0.03 * jitter };
}

export class Fleet {
  constructor(readonly options: FleetOptions) {}

  /** The window of that number; ends at `ended_unix_ns`. */
  window(number: number, ended_unix_ns: number): WindowJson {
    const { window_ns, missing } = this.options;
    const no = (metric: string): boolean => missing.includes(metric);
    const windows: WindowRow[] = [];
    const window_details: DetailRow[] = [];
    const exit_windows: ExitRow[] = [];
    const antagonists: AntagonistRow[] = [];
    const io_windows: IoRow[] = [];
    const thread_windows: ThreadRow[] = [];
    const machines = [{ machine_id: 0, name: "made-up", kind: "host" }];
    for (let vm = 0; vm < this.options.vms; vm++) {
      machines.push({ machine_id: vm + 1, name: vmName(vm), kind: "guest" });
      this.addVm(vm, number, { windows, window_details, exit_windows, antagonists, io_windows, thread_windows }, no);
    }
    for (let group = 0; group < this.options.groups; group++) this.addGroup(group, number, windows, window_details);
    const groups = this.options.containers ? this.containers(windows, window_details) : {};
    const findings = number < this.options.findings_since ? {} : { findings: findingsOf(number, window_ns, { machines, windows, antagonists, ...groups }) };
    return {
      ts: number * window_ns,
      dur: window_ns,
      ended_unix_ns,
      missed_windows: 0,
      machines,
      windows,
      window_details,
      thread_windows,
      ...groups,
      ...findings,
      cpu_windows: this.cpus(number),
      exit_windows: no("exits") ? [] : exit_windows,
      antagonists,
      io_windows: no("block_io") ? [] : io_windows,
      missing: missing.map((metric) => ({ metric, machine_id: null, why: `it comes from kvm:kvm_exit: this made-up host does not have ${metric}` })),
      health: { late_threads: 0, untracked_events: 0, no_room: 0, missed_events: 0, own_cpu_ns: Math.round(window_ns * (0.002 + 0.001 * noise(number))) },
    };
  }

  private addVm(vm: number, at: number, out: { windows: WindowRow[]; window_details: DetailRow[]; exit_windows: ExitRow[]; antagonists: AntagonistRow[]; io_windows: IoRow[]; thread_windows: ThreadRow[] }, no: (metric: string) => boolean): void {
    const { window_ns, vcpus } = this.options;
    const { want, wait } = wants(vm, at);
    const machine_id = vm + 1;
    const whole = { gotten: 0, waited: 0, guest: 0, halted: 0, blocked: 0, exits: 0 };
    const lengths = new Map<number, number>();
    for (let vcpu = 0; vcpu < vcpus; vcpu++) {
      const share = want * (0.7 + 0.6 * noise(vm, at, vcpu, 2)) * (vcpu === 0 ? 1 : 0.8);
      const gotten = Math.round(window_ns * Math.min(0.98, share));
      const waited = Math.round(Math.min(window_ns - gotten, window_ns * wait * (0.5 + noise(vm, at, vcpu, 3))));
      const blocked = window_ns - gotten - waited;
      const guest = Math.round(gotten * 0.86);
      const halted = Math.round(blocked * 0.97);
      const waking = Math.round(waited * 0.35);
      const own = lengthsOf(vm, at, vcpu, waited);
      for (const [from, count] of own) lengths.set(from, (lengths.get(from) ?? 0) + count);
      const key = { machine_id, vcpu, cgroup: null };
      out.windows.push({ ...key, dur: window_ns, executions: own.reduce((sum, [, count]) => sum + count, 0), gotten_ns: gotten, waited_ns: waited, blocked_ns: blocked, offline_ns: 0, unknown_ns: 0, guest_ns: no("guest_time") ? null : guest, halted_ns: no("halted_time") ? null : halted, exits: no("exits") ? null : 100 });
      out.window_details.push({ ...key, preempted_ns: waited - waking, waking_ns: waking, waits: 1, lengths: own, unattributed_ns: 0 });
      const tid = 1000 + vm * 10 + vcpu;
      out.thread_windows.push({ dur: window_ns, machine_id: 0, tid, pid: 1000 + vm * 10, name: `CPU ${vcpu}/KVM`, role: "vcpu", vm_machine_id: machine_id, vcpu, cgroup: GROUPS[1]!, cpu: (vm + vcpu) % this.options.cpus, state: gotten > window_ns / 2 ? "running" : "halted", executions: 10, gotten_ns: gotten, waited_ns: waited, blocked_ns: blocked, wait_p99_ns: 4_194_303, wait_max_ns: 9_000_000 });
      REASONS.forEach((reason, i) => {
        const count = Math.round(want * 4000 * noise(vm, i, 4) * (0.6 + 0.8 * noise(vm, at, i, 5)) * (reason === "hlt" ? 1 - want : 1));
        if (count > 0) out.exit_windows.push({ machine_id, vcpu, reason, count, total_ns: count * 3000 * (i + 1), handling_ns: count * 1500 * (i + 1), p50_ns: 2047, p90_ns: 4095, p99_ns: 16_383, max_ns: 900_000, lengths: [[1792, count]] });
        whole.exits += count;
      });
      whole.gotten += gotten;
      whole.waited += waited;
      whole.guest += guest;
      whole.halted += halted;
      whole.blocked += blocked;
      // Who has what it waits for: mostly the batch VMs.
      const by = vm % 6 === 2 ? (vm + 4) % this.options.vms : (Math.floor(noise(vm, Math.floor(at / 60), 6) * this.options.vms / 6) * 6 + 2) % this.options.vms;
      const of = { machine_id, vcpu, tid, name: `CPU ${vcpu}/KVM`, times: 10 };
      out.antagonists.push({ ...of, by_machine_id: by + 1, by_vcpu: 0, by_tid: 1000 + by * 10, by_name: "CPU 0/KVM", ns: Math.round(waited * 0.7) });
      out.antagonists.push({ ...of, by_machine_id: 0, by_vcpu: null, by_tid: 33, by_name: "kworker/1:2-events", ns: Math.round(waited * 0.1) });
      if (vcpu === 0) out.antagonists.push({ ...of, by_machine_id: 0, by_vcpu: null, by_tid: 0, by_name: "swapper", ns: Math.round(waited * 0.05) });
    }
    const key = { machine_id, vcpu: null, cgroup: null };
    out.windows.push({ ...key, dur: window_ns * vcpus, executions: 20, gotten_ns: whole.gotten, waited_ns: whole.waited, blocked_ns: whole.blocked, offline_ns: 0, unknown_ns: 0, guest_ns: no("guest_time") ? null : whole.guest, halted_ns: no("halted_time") ? null : whole.halted, exits: no("exits") ? null : whole.exits });
    out.window_details.push({ ...key, preempted_ns: Math.round(whole.waited * 0.65), waking_ns: Math.round(whole.waited * 0.35), waits: 2, lengths: [...lengths] });
    for (const kind of ["read", "write"] as const) {
      const count = Math.round(noise(vm, Math.floor(at / 7), kind.length, 8) ** 3 * 400);
      if (count > 0) out.io_windows.push({ machine_id, kind, pid: 1000 + vm * 10, name: "qemu", count, bytes: count * 16_384, total_ns: count * 90_000, p50_ns: 81_919, p99_ns: 655_359, lengths: [[65_536, count]] });
    }
  }

  private addGroup(group: number, at: number, windows: WindowRow[], details: DetailRow[]): void {
    const { window_ns } = this.options;
    const key = { machine_id: 0, vcpu: null, cgroup: GROUPS[group % GROUPS.length]! + (group >= GROUPS.length ? `-${group}` : "") };
    const gotten = Math.round(window_ns * noise(group, Math.floor(at / 20), 9) ** 2 * 1.6);
    const waited = Math.round(gotten * 0.2 * noise(group, at, 10));
    windows.push({ ...key, dur: window_ns, executions: 200, gotten_ns: gotten, waited_ns: waited, blocked_ns: window_ns * 11, offline_ns: 0, unknown_ns: 0, guest_ns: 0, halted_ns: 0, exits: 0 });
    details.push({ ...key, preempted_ns: waited, waking_ns: 0, waits: 5, lengths: lengthsOf(group + 500, at, 0, waited) });
  }

  /** Each group as a container, with its limit. */
  private containers(windows: readonly WindowRow[], details: readonly DetailRow[]): Pick<WindowJson, "container_windows" | "pressure_windows"> {
    const of = windows.filter((row) => row.cgroup != null);
    const container_windows = of.map((row, i): ContainerRow => {
      const [kind, name] = CONTAINERS[i % CONTAINERS.length]!;
      const detail = details.find((one) => one.cgroup === row.cgroup)!;
      const isPod = kind === "containerd";
      return { ...row, cgroup: row.cgroup!, kind, name: i < CONTAINERS.length ? name : `${name}-${i}`, pod: isPod ? "web-7f9c" : null, namespace: isPod ? "shop" : null, parent: null, vm_machine_id: null, preempted_ns: detail.preempted_ns ?? 0, waking_ns: detail.waking_ns ?? 0, lengths: detail.lengths ?? [] };
    });
    const pressure_windows = container_windows.map((row, i): PressureRow => {
      const limited = i % 5 === 0;
      const throttled = limited ? Math.round((row.gotten_ns ?? 0) / 4e8) : 0;
      return { dur: row.dur, cgroup: row.cgroup, quota_ns: limited ? 150_000_000 : null, period_ns: 100_000_000, periods: limited ? 10 : null, periods_throttled: limited ? throttled : null, throttled_ns: limited ? throttled * 2e7 : null, cpu_some_ns: row.waited_ns ?? 0, cpu_full_ns: 0, io_some_ns: 0, io_full_ns: 0, memory_some_ns: null, memory_full_ns: null };
    });
    return { container_windows, pressure_windows };
  }

  private cpus(at: number): CpuRow[] {
    const { window_ns, cpus } = this.options;
    return Array.from({ length: cpus }, (_, cpu) => {
      const busy_ns = Math.round(window_ns * Math.min(1, Math.max(0, 0.55 + 0.4 * Math.sin((at + cpu * 300) / 240) + 0.15 * (noise(cpu, at, 11) - 0.5))));
      return { cpu, busy_ns, idle_ns: window_ns - busy_ns, unknown_ns: 0 };
    });
  }
}

/** Waits of a window by length: most of them short, with a tail as long as what was waited. */
function lengthsOf(who: number, at: number, part: number, waited: number): [number, number][] {
  const tail = Math.max(1, Math.log2(Math.max(waited, 1024)) - 9);
  const out: [number, number][] = [];
  for (let octave = 0; octave < tail - 1; octave++) {
    const count = Math.round(300 * Math.exp(-octave / 3.5) * (0.5 + noise(who, at, part, octave)));
    if (count > 0) out.push([512 * 2 ** octave, count]);
  }
  return out;
}
