// A test double of the SQL functions `critical_path`, `explanation`, `blame` and `findings`: answers from the intervals of
// the made-up recording. A vCPU that sleeps was woken by the first thread of dom0, as the simulation has it.
import { duration } from "../src/core/format.ts";
import { ORIGIN, type Recording } from "./simulate.ts";

type Value = string | number | null;

/** A table of an answer: names with SQLite's types, and rows. */
export interface AnswerTable {
  readonly columns: string;
  readonly rows: readonly (readonly Value[])[];
}

/** A call in an SQL text: `critical_path(1, 'vcpu0', 5, 9)`. */
export const CALL = /\b(critical_path|explanation|blame|findings)\s*\(([^()]*)\)/i;

/** What of a piece is not its place in time. */
interface Doing {
  readonly depth: number;
  readonly layer: string;
  readonly machine_id: number;
  readonly tid: number | null;
  readonly vcpu: number | null;
  readonly state: string;
  readonly reason?: string | null;
  readonly by_machine_id?: number | null;
  readonly by_vcpu?: number | null;
  readonly why?: string | null;
  readonly cause?: string | null;
  readonly evidence: string;
}

interface Piece extends Doing {
  readonly from: number;
  readonly to: number;
}

const PATH = "ts INTEGER, dur INTEGER, depth INTEGER, layer TEXT, machine_id INTEGER, tid INTEGER, vcpu INTEGER, cpu INTEGER, state TEXT, reason TEXT, by_machine_id INTEGER, by_tid INTEGER, by_vcpu INTEGER, why TEXT, cause TEXT, evidence TEXT, error_ns INTEGER";
/** Findings need a range of at least a second. */
const SECOND = 1e9;

export class Explainer {
  constructor(private readonly recording: Recording) {}

  /** Answers a call. Throws one line, as the server does. */
  answer(name: string, text: string): AnswerTable {
    const words = text.split(",").map((word) => word.trim());
    const [machine, subject] = [Number(words[0]), (words[1] ?? "").replaceAll("'", "")];
    const { from, to } = this.range(words[2], words[3]);
    if (name === "findings") return this.findings(machine, from, to);
    const pieces = this.path(machine, subject, from, to);
    if (name === "critical_path") return { columns: PATH, rows: pieces.map(rowOf) };
    const waits = pieces.filter((piece) => piece.why);
    if (name === "explanation") return { columns: "line INTEGER, sentence TEXT", rows: this.sentences(pieces, waits, `${this.name(machine)} ${subject}`).map((sentence, line) => [line, sentence]) };
    return { columns: "level TEXT, victim TEXT, culprit TEXT, why TEXT, total_ns INTEGER, count INTEGER, evidence TEXT", rows: this.blame(waits) };
  }

  private range(from: string | undefined, to: string | undefined): { from: number; to: number } {
    const rel = (word: string | undefined, otherwise: number): number => (word ? Number(BigInt(word) - ORIGIN) : otherwise);
    return { from: rel(from, 0), to: rel(to, this.recording.length) };
  }

  private name(machine: number): string {
    return this.recording.machines.find((own) => own.machine_id === machine)?.name ?? `machine ${machine}`;
  }

  private path(machine: number, subject: string, from: number, to: number): Piece[] {
    const vcpu = /^vcpu(\d+)$/.exec(subject)?.[1];
    const track = this.recording.tracks.find((own) => own.machine_id === machine && (vcpu === undefined ? own.kind === "thread" && own.tid === Number(subject) : own.kind === "vcpu" && own.vcpu === Number(vcpu)));
    if (!track) throw new Error(`critical_path: machine ${machine} has no ${vcpu === undefined ? `thread ${subject}` : `vCPU ${vcpu}`}`);
    const waker = this.recording.tracks.find((own) => own.kind === "thread" && own.machine_id === 1);
    return [...this.pieces(track.track, from, to, 0, waker?.track)];
  }

  /** The pieces of a track in a range. Its sleep is its waker's time, while that ran or waited, and a timer's otherwise. */
  private *pieces(track: number, from: number, to: number, depth: number, waker: number | undefined): Generator<Piece> {
    const { machine_id, tid, vcpu } = this.recording.tracks.find((own) => own.track === track)!;
    const own = { depth, machine_id, tid, vcpu, evidence: depth === 0 ? "id" : "context", cause: depth === 0 ? null : "wakeup" };
    const rows = this.recording.intervals.get(track);
    let at = from;
    for (let i = 0; rows && i < rows.ts.length; i++) {
      const [start, end] = [Math.max(rows.ts[i]!, at), Math.min(rows.ts[i]! + rows.dur[i]!, to)];
      if (end <= start) continue;
      if (start > at) yield { ...own, layer: "unknown", state: "unknown", from: at, to: start };
      const key = this.recording.keys[rows.key[i]!]!;
      const sleeps = ["sleeping", "halted", "blocked"].includes(key.class);
      if (sleeps && depth === 0 && waker !== undefined && waker !== track) yield* this.pieces(waker, start, end, 1, undefined);
      else yield { ...own, ...doingOf(key.class, key.machine_id, key.vcpu, key.reason), from: start, to: end };
      at = end;
    }
    if (at < to) yield { ...own, layer: "unknown", state: "unknown", from: at, to };
  }

  private sentences(pieces: readonly Piece[], waits: readonly Piece[], name: string): string[] {
    const [first, last] = [pieces[0], pieces.at(-1)];
    if (!first || !last) return [];
    const length = last.to - first.from;
    const sum = (own: readonly Piece[]): string => duration(own.reduce((ns, piece) => ns + piece.to - piece.from, 0));
    return [`${name}, ${duration(length)}: waited ${sum(waits)} for a CPU.`, `ran ${sum(pieces.filter((piece) => piece.state === "running" && piece.depth === 0))}.`];
  }

  private blame(waits: readonly Piece[]): Value[][] {
    const sums = new Map<string, { line: readonly string[]; ns: number; count: number }>();
    const add = (level: string, victim: string, culprit: string, ns: number): void => {
      const name = [level, victim, culprit].join("/");
      const sum = sums.get(name) ?? { line: [level, victim, culprit], ns: 0, count: 0 };
      sums.set(name, { ...sum, ns: sum.ns + ns, count: sum.count + 1 });
    };
    for (const { from, to, machine_id, tid, vcpu, by_machine_id, by_vcpu } of waits) {
      const [victim, culprit] = [this.name(machine_id), this.name(by_machine_id ?? 0)];
      add("thread", tid === null ? `${victim} vcpu${vcpu}` : `thread ${tid} in ${victim}`, `${culprit} vcpu${by_vcpu}`, to - from);
      add("machine", victim, culprit, to - from);
    }
    return [...sums.values()].sort((a, b) => b.ns - a.ns).map(({ line, ns, count }) => [...line, "share", Math.round(ns), count, "id"]);
  }

  /** Those of a machine's vCPUs. */
  private findings(machine: number, from: number, to: number): AnswerTable {
    const columns = "detector TEXT, subject TEXT, held_ns INTEGER, share REAL, count INTEGER, confidence TEXT, sentence TEXT, hint TEXT";
    if (to - from < SECOND) return { columns, rows: [] };
    const rows = this.recording.tracks.filter((own) => own.kind === "vcpu" && own.machine_id === machine).flatMap((own): Value[][] => {
      const waits = [...this.pieces(own.track, from, to, 0, undefined)].filter((piece) => piece.why);
      const ns = Math.round(waits.reduce((sum, piece) => sum + piece.to - piece.from, 0));
      const name = `${this.name(own.machine_id)} vcpu${own.vcpu}`;
      if (ns < 0.1 * (to - from)) return [];
      return [["starved", name, ns, ns / (to - from), waits.length, "certain", `${name} waited ${duration(ns)}.`, "pin it elsewhere, or give it more weight (cpu.weight, Xen: weight)"]];
    });
    return { columns, rows };
  }
}

function doingOf(kind: string, by_machine_id: number | null, by_vcpu: number | null, reason: string | null): Pick<Doing, "layer" | "state"> & Partial<Doing> {
  if (kind === "preempted" || kind === "waking") return { layer: "host", state: "vcpu_wait", by_machine_id, by_vcpu, why: "share" };
  if (kind === "exit") return { layer: "host", state: "exit", reason };
  if (kind === "unknown") return { layer: "unknown", state: "unknown" };
  return ["sleeping", "halted", "blocked"].includes(kind) ? { layer: "timer", state: "timer" } : { layer: "guest", state: "running" };
}

function rowOf(piece: Piece): Value[] {
  const from = Math.round(piece.from);
  const { depth, layer, machine_id, tid, vcpu, state, evidence } = piece;
  // Stamps exceed what sql.js takes as a number, and it takes no BigInt: as text into an INTEGER column.
  return [String(ORIGIN + BigInt(from)), Math.round(piece.to) - from, depth, layer, machine_id, tid, vcpu, null, state, piece.reason ?? null, piece.by_machine_id ?? null, null, piece.by_vcpu ?? null, piece.why ?? null, piece.cause ?? null, evidence, 0];
}
