// Findings of made-up windows, by fewer and simpler rules than the server's; and the findings of windows that follow each other as one.
import { duration, percent, thousands } from "../src/core/format.ts";
import type { AntagonistRow, ContainerRow, FindingRow, MachineRow, PressureRow, WindowJson, WindowRow } from "../dashboard/core/wire.ts";

/** Shares from which on a rule holds. */
const STARVED = 0.28;
const THROTTLED = 0.05;
/** Windows shorter than this have no findings. */
const SHORTEST_NS = 1e9;

interface Tables {
  readonly machines: readonly MachineRow[];
  readonly windows: readonly WindowRow[];
  readonly antagonists: readonly AntagonistRow[];
  readonly container_windows?: readonly ContainerRow[];
  readonly pressure_windows?: readonly PressureRow[];
}

type Part = Omit<FindingRow, "sentence">;

export function findingsOf(number: number, window_ns: number, tables: Tables): FindingRow[] {
  if (window_ns < SHORTEST_NS) return [];
  const rows: FindingRow[] = [];
  const name = (id: number): string => tables.machines.find(({ machine_id }) => machine_id === id)?.name ?? "";
  const add = (part: Part, behind = ""): void => void rows.push(worded(part, behind));
  for (const row of tables.windows) {
    if (row.machine_id === 0 || row.vcpu === null || row.vcpu === undefined) continue;
    const key = { dur: window_ns, machine_id: row.machine_id, vcpu: row.vcpu, cgroup: null, tid: null, subject: `${name(row.machine_id)} vcpu${row.vcpu}` };
    const [waited, gotten] = [row.waited_ns ?? 0, row.gotten_ns ?? 0];
    if (waited >= STARVED * (waited + gotten) && waited >= 0.02 * window_ns) {
      const by = tables.antagonists.find((one) => one.machine_id === row.machine_id && one.vcpu === row.vcpu)!;
      add({ ...key, detector: "starved", held_ns: waited, of_ns: waited + gotten, count: 12, confidence: "certain", hint: "pin it elsewhere, or give it more weight (cpu.weight, Xen: weight)" }, `${name(by.by_machine_id)} vcpu${by.by_vcpu}`);
    }
    // The first batch VM reads a clock for some minutes of each quarter of an hour.
    if (name(row.machine_id) === "batch1" && row.vcpu === 0 && number % 900 >= 120 && number % 900 < 330) add({ ...key, detector: "exit_storm", held_ns: Math.round(gotten * 0.31), of_ns: gotten, count: 14_000, confidence: "certain", hint: "virtio in place of emulated devices; a paravirtual clock and timer" });
  }
  for (const row of tables.pressure_windows ?? []) {
    if ((row.throttled_ns ?? 0) < THROTTLED * window_ns) continue;
    add({ dur: window_ns, machine_id: 0, vcpu: null, cgroup: row.cgroup ?? "/", tid: null, subject: row.cgroup ?? "/", detector: "throttled", held_ns: Math.min(row.throttled_ns ?? 0, window_ns), of_ns: window_ns, count: row.periods_throttled ?? 0, confidence: "likely", hint: "raise the quota (cpu.max, Xen: cap)" });
  }
  return byTime(rows);
}

function worded(row: Part, behind: string): FindingRow {
  const { subject, held_ns, of_ns, count } = row;
  const [held, part, times] = [duration(held_ns), percent(held_ns / of_ns), thousands(count ?? 0)];
  const sentences: Readonly<Record<string, string>> = {
    starved: `${subject} waited ${held} (${part} of the time that it wanted a CPU), most of it behind ${behind}.`,
    throttled: `${subject} waited ${held} (${part} of the range) ${times} times, most likely because its quota or cap had ended.`,
    exit_storm: `${subject} left the guest ${times} times for io, most often 0x70: ${held} (${part} of its CPU time).`,
  };
  return Object.assign({ ...row, sentence: sentences[row.detector]! }, { share: held_ns / of_ns });
}

const byTime = (rows: FindingRow[]): FindingRow[] => rows.sort((a, b) => b.held_ns - a.held_ns);

/** The findings of a merged window; none are known if none of the windows has them. */
export function mergedFindings(windows: readonly WindowJson[]): { findings?: readonly FindingRow[] } {
  const known = windows.filter((window) => window.findings);
  if (known.length === 0) return {};
  const sums = new Map<string, FindingRow>();
  for (const row of known.flatMap((window) => window.findings!)) {
    const key = `${row.subject}\n${row.detector}`;
    const sum = sums.get(key);
    const behind = / behind (.*)\.$/.exec((sum ?? row).sentence)?.[1] ?? "";
    sums.set(key, sum ? worded({ ...sum, dur: sum.dur! + row.dur!, held_ns: sum.held_ns + row.held_ns, of_ns: sum.of_ns + row.of_ns, count: (sum.count ?? 0) + (row.count ?? 0) }, behind) : row);
  }
  return { findings: byTime([...sums.values()]) };
}
