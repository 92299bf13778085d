// A critical path in words, and the SQL that asks for it.
import { FLOW_KINDS } from "./flows.ts";
import type { Piece, PieceRows, Places } from "./path.ts";
import type { Cell } from "./rows.ts";
import { numberOf } from "./time.ts";
import type { Track } from "./tracks.ts";

/** The subject of `critical_path` and its companions: a thread's number, or `vcpu0`. */
export type Subject = number | string;

/** The thread or vCPU of a track that can be explained. */
export function subjectOf({ kind, tid, vcpu }: Track): Subject | undefined {
  if (kind === "thread" && tid !== null && tid > 0) return tid;
  return kind === "vcpu" && vcpu !== null ? `vcpu${vcpu}` : undefined;
}

/** The queries of an explanation. Times are absolute trace times. */
export function explainSql(machine: number, subject: Subject, from: bigint, to: bigint): Readonly<Record<"path" | "sentences" | "blame" | "findings", string>> {
  const one = typeof subject === "number" ? String(subject) : `'${subject.replaceAll("'", "''")}'`;
  const arguments_ = `${machine}, ${one}, ${from}, ${to}`;
  return {
    path: `SELECT * FROM critical_path(${arguments_}) ORDER BY ts`,
    sentences: `SELECT line, sentence FROM explanation(${arguments_}) ORDER BY line`,
    blame: `SELECT level, victim, culprit, why, total_ns, "count", evidence FROM blame(${arguments_})`,
    findings: `SELECT detector, subject, held_ns, share, "count", confidence, sentence, hint FROM findings(${arguments_})`,
  };
}

const STATES: Readonly<Record<string, string>> = {
  running: "running",
  exit: "exit",
  user: "exit in the VMM",
  halt_poll: "halt poll",
  reclaim: "reclaims memory",
  runnable: "waits for a CPU",
  vcpu_wait: "vCPU waits",
  handler: "interrupt handler",
  delivery: "delivery",
  device: "in its device",
  timer: "until a timer",
  lock: "waits for a lock",
  outside: "outside the recording",
  unrecorded: "source not recorded",
  offline: "paused, not there",
  asleep: "asleep to the end",
  unknown: "unknown",
};

/** `exit npf`. */
export function stateWords({ state, reason }: Pick<Piece, "state" | "reason">): string {
  const words = STATES[state] ?? state.replaceAll("_", " ");
  return reason ? `${words} ${reason}` : words;
}

const REASONS: Readonly<Record<string, string>> = {
  throttled: "quota or cap had ended",
  class: "higher class or priority",
  affinity: "another CPU was idle meanwhile",
  weight: "larger weight",
  share: "share",
  leaving_idle: "leaving idle",
};

/** The scheduler's reason of a wait, in words. */
export function reasonWords(why: string): string {
  return REASONS[why] ?? why.replaceAll("_", " ");
}

/** The reason of a piece: the antagonist of a wait, or the cause that led to it; empty at the explained thread itself. */
export function becauseWords(piece: Piece, places: Pick<Places, "nameOf">): string {
  const { why, cause } = piece;
  const by = antagonistOf(piece, places);
  if (why !== null && (why === "throttled" || by === undefined)) return reasonWords(why);
  if (by !== undefined) return why === null ? by : `${by} (${reasonWords(why)})`;
  return cause === null ? "" : (FLOW_KINDS[cause]?.words ?? cause.replaceAll("_", " "));
}

/** The thread or vCPU that has the CPU meanwhile. An idle CPU has none. */
function antagonistOf({ by_machine_id: machine, by_tid: tid, by_vcpu: vcpu }: Piece, places: Pick<Places, "nameOf">): string | undefined {
  if (machine === null || tid === 0) return undefined;
  return places.nameOf({ machine_id: machine, tid: tid !== null && tid > 0 ? tid : null, vcpu, cpu: null });
}

/** The evidence of a piece. The explained thread's own pieces need none. */
export function evidenceOf({ depth, cause, evidence }: Piece): string {
  return depth === 0 && cause === null && evidence === "id" ? "" : evidence;
}

/** A line of `blame`: the waits of a victim for one antagonist. */
export interface Blame {
  readonly level: string;
  readonly victim: string;
  readonly culprit: string;
  readonly why: string;
  readonly total_ns: number;
  readonly count: number;
  readonly evidence: string;
}

/** A line of `findings`. */
export interface Finding {
  readonly detector: string;
  readonly confidence: string;
  readonly sentence: string;
  readonly hint: string;
}

/** Reads rows by the names of their columns; missing texts are empty, missing numbers 0. */
export function namedRows({ columns, length, row }: PieceRows): ((name: string) => Cell)[] {
  return Array.from({ length }, (_, i) => {
    const cells = row(i);
    return (name) => cells[columns.indexOf(name)] ?? null;
  });
}

const text = (cell: Cell): string => (cell === null ? "" : String(cell));

export function blameOf(rows: PieceRows): Blame[] {
  return namedRows(rows).map((cell) => ({
    level: text(cell("level")),
    victim: text(cell("victim")),
    culprit: text(cell("culprit")),
    why: text(cell("why")),
    total_ns: numberOf(cell("total_ns")) || 0,
    count: numberOf(cell("count")) || 0,
    evidence: text(cell("evidence")),
  }));
}

export function findingsOf(rows: PieceRows): Finding[] {
  return namedRows(rows).map((cell) => ({ detector: text(cell("detector")), confidence: text(cell("confidence")), sentence: text(cell("sentence")), hint: text(cell("hint")) }));
}

export function sentencesOf(rows: PieceRows): string[] {
  return namedRows(rows).map((cell) => text(cell("sentence")));
}
