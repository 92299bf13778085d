// Findings over time: a lane for each subject and detector, and the sentence of each of its bins. A window without the table
// `findings` makes no bin: whether a finding held in it is not known.
import { ownerOf, type ActorId, type Machines } from "./actors.ts";
import type { View } from "./fill.ts";
import { Lanes, type Rel, type Span } from "./lanes.ts";
import { isIn } from "./merge.ts";
import { lengthText } from "./steps.ts";
import { orNone, type FindingRow, type WindowJson } from "./wire.ts";

/** Fields of a finding's lane: its time, the time that this is a share of, the length of the windows with it. */
export const FOUND = { held: 0, of: 1, present: 2 } as const;
const FIELDS = 3;

/** A finding that held this short a time ago holds now: lines must not change places with each window of a second. */
const RECENT_NS = 3e9;
/** The length below which a window has no findings; less, because windows are read a little early or late. */
const SHORTEST_NS = 0.9e9;
/** A share that makes no difference in words, and the least that is drawn. */
const LITTLE = 0.01;
/** Sentences that are kept, in all; beyond that those of the older half of the range go. */
const MOST_WORDS = 20_000;

/** A finding in words, as of one row. */
export interface Words {
  readonly sentence: string;
  readonly hint: string;
  readonly isLikely: boolean;
  /** The time that the sentence is about. */
  readonly held_ns: number;
  /** Windows of the bin with this finding that came one by one; the sentence is that of the one with the most time. */
  readonly rows: number;
}

/** Which finding it is. */
export interface Kind {
  readonly key: string;
  readonly detector: string;
  readonly subject: string;
  /** None for a thread of the host outside of control groups. */
  readonly actor: ActorId | undefined;
}

interface Known extends Kind {
  /** By number of the bin, counted from the first one that there ever was. */
  readonly words: Map<number, Words>;
  /** The end of the last window with it, and its words then. */
  last: Rel;
  latest: Words;
}

/** A line of the panel. */
export interface FoundRow {
  readonly kind: Kind;
  readonly words: Words;
  /** It holds now, or at the selected time. */
  readonly holds: boolean;
  /** Length of the windows of the range in which it held. */
  readonly present_ns: number;
}

/** The time that the lines are about: now, a selected time, or the range as a whole. */
export type About = "now" | "moment" | "range";

export class FindingLanes {
  readonly lanes: Lanes;
  private readonly kinds = new Map<string, Known>();
  private sentences = 0;

  constructor(
    step_ns: number,
    /** The VM or group whose findings are taken; undefined: all. */
    private readonly focus: ActorId | undefined,
  ) {
    this.lanes = new Lanes(FIELDS, step_ns);
  }

  /** Takes the findings of a window in. False: they are not known, or the window is older than what is there. */
  add(window: WindowJson, span: Span, machines: Machines): boolean {
    if (!Array.isArray(window.findings) || !this.lanes.begin(span)) return false;
    for (const [key, rows] of byKind(window.findings, this.focus, machines)) this.addRows(key, rows, window, span, machines);
    return true;
  }

  /** The rows of one subject and detector, such as storms of several exit reasons: their times add up, within one and the same whole. */
  private addRows(key: string, rows: readonly FindingRow[], window: WindowJson, span: Span, machines: Machines): void {
    const most = rows.reduce((a, b) => (b.held_ns > a.held_ns ? b : a));
    const whole = Math.max(...rows.map((row) => orNone(row.of_ns)));
    const held = rows.reduce((sum, row) => sum + orNone(row.held_ns), 0);
    const { lanes } = this;
    lanes.add(key, FOUND.held, whole > 0 ? Math.min(held, whole) : held);
    lanes.add(key, FOUND.of, whole);
    lanes.add(key, FOUND.present, Math.min(Math.max(...rows.map((row) => row.dur ?? window.dur)), window.dur));
    const words = { sentence: most.sentence, hint: most.hint ?? "", isLikely: most.confidence === "likely", held_ns: held, rows: 1 };
    let kind = this.kinds.get(key);
    if (!kind) this.kinds.set(key, (kind = { key, detector: most.detector, subject: most.subject, actor: machines.actorOf(most), words: new Map(), last: span.to, latest: words }));
    kind.last = span.to;
    kind.latest = words;
    const bin = lanes.dropped + lanes.length - 1;
    const before = kind.words.get(bin);
    kind.words.set(bin, before ? { ...(before.held_ns > held ? before : words), rows: before.rows + 1 } : words);
    if (!before && ++this.sentences > MOST_WORDS) this.forget((this.oldestWords() + bin) / 2);
  }

  private oldestWords(): number {
    let oldest = Infinity;
    for (const { words } of this.kinds.values()) for (const bin of words.keys()) oldest = Math.min(oldest, bin);
    return oldest;
  }

  /** Drops the sentences of the bins before this one. */
  private forget(before: number): void {
    this.sentences = 0;
    for (const { words } of this.kinds.values()) {
      for (const bin of words.keys()) if (bin < before) words.delete(bin);
      this.sentences += words.size;
    }
  }

  trim(from: Rel): void {
    const { lanes, kinds } = this;
    const { dropped } = lanes;
    lanes.trim(from);
    if (lanes.dropped === dropped) return;
    for (const key of kinds.keys()) if (lanes.lane(key) === undefined) kinds.delete(key);
    this.forget(lanes.dropped);
  }

  /** The words of a bin; undefined: the finding did not hold in it, or the sentence is not kept. */
  wordsAt(key: string, bin: number): Words | undefined {
    return this.kinds.get(key)?.words.get(this.lanes.dropped + bin);
  }

  /** The words of a finding in the newest window (`now`), or in the window with the most time. */
  words(key: string, about: About): Words | undefined {
    const kind = this.kinds.get(key);
    return kind && (about === "now" ? kind.latest : this.sums(kind, 0, this.lanes.length).words);
  }

  /**
   * The findings of `[from, to)`, those that hold first, then by their time. `picked` are the findings of the newest window or of
   * the selected time.
   */
  rows(from: Rel, to: Rel, about: About, picked: FindingLanes | undefined): FoundRow[] {
    const [first, end] = this.lanes.between(from, to);
    const measured = Math.max(this.lanes.measured(from, to), 1);
    const found: { row: FoundRow; held: number }[] = [];
    for (const kind of this.kinds.values()) {
      const sums = this.sums(kind, first, end);
      if (sums.present <= 0) continue;
      const now = about === "range" ? undefined : picked?.words(kind.key, about);
      const recent = about === "now" && this.isRecent(kind) ? kind.latest : undefined;
      const words = now ?? recent ?? sums.words ?? kind.latest;
      // Thousandths: lines that differ by less keep their places.
      found.push({ row: { kind, words, holds: now !== undefined || recent !== undefined, present_ns: sums.present }, held: Math.round((sums.held / measured) * 1000) });
    }
    found.sort((a, b) => Number(b.row.holds) - Number(a.row.holds) || b.held - a.held || (a.row.kind.key < b.row.kind.key ? -1 : 1));
    return found.map(({ row }) => row);
  }

  /** Sums over bins, and the words of the bin with the most time. */
  private sums(kind: Known, first: number, end: number): { present: number; held: number; words: Words | undefined } {
    const lane = this.lanes.lane(kind.key);
    let [present, held] = [0, 0];
    for (let bin = first; lane && bin < end; bin++) {
      present += lane[bin * FIELDS + FOUND.present]!;
      held += lane[bin * FIELDS + FOUND.held]!;
    }
    let most: Words | undefined;
    for (const [bin, words] of kind.words) {
      const at = bin - this.lanes.dropped;
      if (at >= first && at < end && (most === undefined || words.held_ns > most.held_ns)) most = words;
    }
    return { present, held, words: most };
  }

  private isRecent(kind: Known): boolean {
    const { newest } = this.lanes;
    return newest !== undefined && newest - kind.last < RECENT_NS;
  }

  /** Its share in a bin, and the length of the bin's windows in which it held. */
  shareAt(key: string, bin: number): { readonly share: number; readonly present_ns: number } {
    const lane = this.lanes.lane(key);
    if (!lane) return { share: 0, present_ns: 0 };
    return { share: shareIn(lane, bin * FIELDS), present_ns: lane[bin * FIELDS + FOUND.present]! };
  }

  /** How strong a finding is, column by column: its share, times the part of the time in which it held. NaN where it is not known. */
  fill(out: Float64Array, key: string, view: View): void {
    const { lanes } = this;
    const weight = new Float64Array(view.width);
    out.fill(0, 0, view.width);
    const { from, to, dur } = lanes.edges;
    const [first, end] = lanes.between(view.from - lanes.step_ns, view.to + lanes.step_ns);
    const lane = lanes.lane(key);
    const perNs = view.width / (view.to - view.from);
    for (let bin = first; bin < end; bin++) {
      const x0 = Math.max((from[bin]! - view.from) * perNs, 0);
      const x1 = Math.min((to[bin]! - view.from) * perNs, view.width);
      if (x1 <= x0) continue;
      const at = bin * FIELDS;
      const present = lane ? lane[at + FOUND.present]! : 0;
      const value = present > 0 ? (Math.max(shareIn(lane!, at), LITTLE) * present) / dur[bin]! : 0;
      for (let x = Math.floor(x0); x < x1; x++) {
        const part = Math.min(x + 1, x1) - Math.max(x, x0);
        weight[x]! += part;
        out[x]! += value * part;
      }
    }
    for (let x = 0; x < view.width; x++) out[x] = weight[x]! < 0.5 ? NaN : out[x]! / weight[x]!;
  }
}

function shareIn(lane: Float64Array, at: number): number {
  const of = lane[at + FOUND.of]!;
  return of > 0 ? Math.min(1, lane[at + FOUND.held]! / of) : 0;
}

/** Rows by subject and detector, of those that concern the VM or group that is looked at. */
function byKind(rows: readonly FindingRow[], focus: ActorId | undefined, machines: Machines): Map<string, FindingRow[]> {
  const kinds = new Map<string, FindingRow[]>();
  for (const row of rows) {
    if (focus !== undefined && !concerns(row, focus, machines)) continue;
    // Two VMs of one name stay two.
    const key = [machines.actorOf(row) ?? "", row.detector, row.subject].join("\n");
    const group = kinds.get(key);
    if (group) group.push(row);
    else kinds.set(key, [row]);
  }
  return kinds;
}

/** Is this a finding of a VM or group: its own, of its vCPUs or groups below it, or of the control group that the VM is in? */
export function concerns(row: FindingRow, focus: ActorId, machines: Machines): boolean {
  const actor = machines.actorOf(row);
  if (actor !== undefined && ownerOf(actor) === focus) return true;
  const isBelow = (group: string | undefined, cgroup: string | null | undefined): boolean => group !== undefined && group !== "/" && isIn(group, cgroup);
  if (focus.startsWith("cg:")) return isBelow(focus.slice(3), row.machine_id === 0 ? row.cgroup : machines.groupOf(row.machine_id));
  const id = machines.idOf(focus.replace(/^vm:/, ""));
  return row.machine_id === 0 && id !== undefined && isBelow(machines.groupOf(id), row.cgroup);
}

/** The VM or group that a finding's subject opens: a vCPU its VM, a group in a container the container. */
export function openedBy(actor: ActorId | undefined, isThere: (id: ActorId) => boolean): ActorId | undefined {
  if (actor === undefined) return undefined;
  const owner = ownerOf(actor);
  if (isThere(owner)) return owner;
  if (!owner.startsWith("cg:")) return undefined;
  for (let end = owner.lastIndexOf("/"); end > 3; end = owner.lastIndexOf("/", end - 1)) if (isThere(owner.slice(0, end))) return owner.slice(0, end);
  return undefined;
}

/** A sentence around its subject; where the subject is not in it, it stands before it. */
export function around(sentence: string, subject: string): readonly [string, string, string] {
  const at = subject === "" ? -1 : sentence.indexOf(subject);
  return at < 0 ? ["", subject, `: ${sentence}`] : [sentence.slice(0, at), subject, sentence.slice(at + subject.length)];
}

const SCALES: readonly (readonly [number, string])[] = [
  [3600e9, "h"],
  [60e9, "min"],
  [1e9, "s"],
];

/** `held 3 of 15 min`, `held 40 s of 15 min`, `held all of 15 min`. */
export function heldText(present_ns: number, measured_ns: number): string {
  const [scale, unit] = SCALES.find(([ns]) => measured_ns >= 2 * ns) ?? SCALES[2]!;
  const number = (ns: number): string => String(Number((ns / scale).toPrecision(2)));
  const whole = `${number(measured_ns)} ${unit}`;
  if (present_ns >= measured_ns * (1 - LITTLE)) return `held all of ${whole}`;
  if (present_ns >= scale) return `held ${number(present_ns)} of ${whole}`;
  const [less, word] = SCALES.find(([ns]) => present_ns >= ns) ?? [1e6, "ms"];
  return `held ${Number((present_ns / less).toPrecision(2))} ${word} of ${whole}`;
}

/** Why there is no line: none was found in all of the time, or it is not known. */
export function noneText(known_ns: number, all_ns: number, window_ns: number): string {
  if (window_ns < SHORTEST_NS) return "Not known: windows shorter than 1 s have no findings.";
  if (known_ns <= 0) return "Not known: the windows of this range do not contain findings.";
  if (known_ns >= all_ns * (1 - LITTLE)) return "No findings in this range.";
  return `No findings in ${lengthText(known_ns)} of this range. The other windows do not contain findings.`;
}
