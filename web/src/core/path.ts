// A critical path: the pieces that explain why a thread or vCPU was slow, the track of each, and the part
// that a view shows. The pieces tile the explained range; the work per frame is columns times rows, for any number of pieces.
import type { Cell } from "./rows.ts";
import { numberOf, type Rel } from "./time.ts";
import type { Track } from "./tracks.ts";
import { spanOf, type Range } from "./view.ts";

/** A row of the SQL function `critical_path` (docs/reference/explain.md#sql). */
export interface Piece {
  readonly from: Rel;
  readonly to: Rel;
  /** Causes between the explained thread and this piece; 0: the thread itself. */
  readonly depth: number;
  readonly layer: string;
  readonly machine_id: number;
  readonly tid: number | null;
  readonly vcpu: number | null;
  readonly cpu: number | null;
  readonly state: string;
  readonly reason: string | null;
  /** The antagonist of a wait. */
  readonly by_machine_id: number | null;
  readonly by_tid: number | null;
  readonly by_vcpu: number | null;
  readonly why: string | null;
  readonly cause: string | null;
  readonly evidence: string;
  readonly error_ns: number | null;
}

/** An SQL answer, as far as pieces are read from it. */
export interface PieceRows {
  readonly columns: readonly string[];
  readonly length: number;
  row(i: number): Cell[];
}

/** Reads the pieces of an answer, in order of time. `rel` converts absolute trace time. */
export function piecesOf(rows: PieceRows, rel: (absolute: bigint) => Rel): Piece[] {
  const place = new Map(rows.columns.map((name, i) => [name, i]));
  for (const name of ["ts", "dur", "state"]) if (!place.has(name)) throw new Error(`critical_path: the answer has no column ${name}`);
  const pieces: Piece[] = [];
  for (let i = 0; i < rows.length; i++) {
    const row = rows.row(i);
    const cell = (name: string): Cell => row[place.get(name) ?? -1] ?? null;
    const number = (name: string): number | null => (cell(name) === null ? null : numberOf(cell(name)));
    const text = (name: string): string | null => (cell(name) === null ? null : String(cell(name)));
    const from = rel(BigInt(String(cell("ts"))));
    pieces.push({
      from,
      to: from + Math.max(number("dur") ?? 0, 0),
      depth: number("depth") ?? 0,
      layer: text("layer") ?? "unknown",
      machine_id: number("machine_id") ?? 0,
      // Interrupts have no thread, or a negative one.
      tid: (number("tid") ?? -1) < 0 ? null : number("tid"),
      vcpu: number("vcpu"),
      cpu: number("cpu"),
      state: text("state") ?? "unknown",
      reason: text("reason"),
      by_machine_id: number("by_machine_id"),
      by_tid: number("by_tid"),
      by_vcpu: number("by_vcpu"),
      why: text("why"),
      cause: text("cause"),
      evidence: text("evidence") ?? "order",
      error_ns: number("error_ns"),
    });
  }
  return pieces.sort((a, b) => a.from - b.from);
}

/** A machine, as far as places need it. */
export interface PathMachine {
  readonly machine_id: number;
  readonly name: string;
  readonly parent_id: number | null;
}

/** Finds the tracks on which a piece may lie. */
export class Places {
  private readonly tracks = new Map<string, number[]>();
  /** Threads that run a vCPU: `machine/tid` → the vCPU's track. */
  private readonly vcpus = new Map<string, number>();
  private readonly names = new Map<number, string>();
  private readonly guests: ReadonlySet<number>;

  constructor(
    tracks: readonly Track[],
    private readonly machines: readonly PathMachine[],
  ) {
    this.guests = new Set(machines.filter((machine) => machine.parent_id !== null).map((machine) => machine.machine_id));
    const add = (name: string, { track }: Track): void => void this.tracks.set(name, [...(this.tracks.get(name) ?? []), track]);
    for (const track of tracks) {
      const { kind, machine_id: machine } = track;
      this.names.set(track.track, track.name);
      if (kind === "thread" && track.tid !== null) add(`thread/${machine}/${track.tid}`, track);
      else if (kind === "vcpu" && track.vcpu !== null) add(`vcpu/${machine}/${track.vcpu}`, track);
      else if ((kind === "cpu" || kind === "irq") && track.cpu !== null) add(`${kind}/${machine}/${track.cpu}`, track);
      else if (kind === "block") add(`block/${machine}`, track);
    }
    for (const track of tracks) {
      // `web vCPU 0: CPU 0/KVM (812)`, as the server names the threads of vCPUs.
      const [, name, vcpu] = (track.kind === "thread" && /^(.+) vCPU (\d+): /.exec(track.name)) || [];
      const guest = machines.find((machine) => machine.parent_id === track.machine_id && machine.name === name);
      const own = guest && this.tracks.get(`vcpu/${guest.machine_id}/${vcpu}`)?.[0];
      if (own !== undefined) this.vcpus.set(`${track.machine_id}/${track.tid}`, own);
    }
  }

  /** The tracks of a piece, the best first: its thread, its vCPU, the interrupts of its CPU, its CPU, its device. */
  tracksOf(piece: Piece): number[] {
    const { machine_id: machine, tid, vcpu, cpu, state } = piece;
    const out: (number | undefined)[] = [];
    const of = (kind: string, number: number | null): number | undefined => (number === null ? undefined : this.tracks.get(`${kind}/${machine}/${number}`)?.[0]);
    // The row of a vCPU stands for the thread that runs it.
    if (tid !== null) out.push(this.vcpus.get(`${machine}/${tid}`), of("thread", tid));
    // A guest's CPUs are numbered as its vCPUs.
    const guest = this.guests.has(machine);
    if (guest && vcpu !== null) out.push(of("vcpu", vcpu));
    if (state === "device") {
      const devices = this.tracks.get(`block/${machine}`) ?? [];
      if (devices.length === 1) out.push(devices[0]);
    } else if (tid === null) {
      if (state === "handler") out.push(of("irq", cpu), of("cpu", cpu));
      if (guest) out.push(of("vcpu", cpu));
      out.push(of("cpu", cpu));
    }
    return [...new Set(out)].filter((track) => track !== undefined);
  }

  /** `web vcpu0`, `nginx (42) in web`, `kworker/0:1 (7)`, `host CPU 1`, or the machine. */
  nameOf({ machine_id: machine, tid, vcpu, cpu }: Pick<Piece, "machine_id" | "tid" | "vcpu" | "cpu">): string {
    const name = this.machineName(machine);
    if (tid !== null) {
      const own = this.vcpuName(machine, tid) ?? this.trackName("thread", machine, tid) ?? `thread ${tid}`;
      return this.guests.has(machine) ? `${own} in ${name}` : own;
    }
    if (vcpu !== null) return `${name} vcpu${vcpu}`;
    return cpu === null ? name : `${name} CPU ${cpu}`;
  }

  machineName(id: number): string {
    return this.machines.find((machine) => machine.machine_id === id)?.name || `machine ${id}`;
  }

  private trackName(kind: string, machine: number, number: number): string | undefined {
    const track = this.tracks.get(`${kind}/${machine}/${number}`)?.[0];
    return track === undefined ? undefined : this.names.get(track);
  }

  private vcpuName(machine: number, tid: number): string | undefined {
    if (!this.vcpus.has(`${machine}/${tid}`)) return undefined;
    const match = /^(.+) vCPU (\d+): /.exec(this.trackName("thread", machine, tid) ?? "");
    return match ? `${match[1]} vcpu${match[2]}` : undefined;
  }
}

/** The pieces that lie on one track. */
export interface Lane {
  readonly from: Float64Array;
  readonly to: Float64Array;
  /** Time of all pieces before this one. */
  readonly before: Float64Array;
  /** Places in `CriticalPath.pieces`. */
  readonly piece: Uint32Array;
}

/** Pieces of the same thread, vCPU or CPU, and their time. */
interface Site {
  readonly tracks: readonly number[];
  ns: number;
}

/** Pieces one after another, of a critical path or of a request, and the tracks on which they lie. */
export class CriticalPath<P extends Piece = Piece> {
  private readonly ends: Float64Array;
  private readonly sites: Site[] = [];
  private readonly siteOf: Uint32Array;
  private placed: (number | undefined)[] | undefined;
  private lanes: ReadonlyMap<number, Lane> = new Map();
  /** The place of the longest piece. */
  readonly longest: number;

  constructor(
    readonly pieces: readonly P[],
    places: { tracksOf(piece: P): number[] },
    /** The explained vCPU or thread: its own pieces lie on its track. */
    own?: number,
  ) {
    this.ends = Float64Array.from(pieces, (piece) => piece.to);
    this.siteOf = new Uint32Array(pieces.length);
    const known = new Map<string, number>();
    let longest = 0;
    pieces.forEach((piece, i) => {
      const tracks = places.tracksOf(piece);
      if (own !== undefined && piece.depth === 0 && piece.tid !== null) tracks.unshift(own);
      const name = tracks.join();
      if (!known.has(name)) known.set(name, this.sites.push({ tracks, ns: 0 }) - 1);
      const site = known.get(name)!;
      this.siteOf[i] = site;
      this.sites[site]!.ns += piece.to - piece.from;
      if (piece.to - piece.from > pieces[longest]!.to - pieces[longest]!.from) longest = i;
    });
    this.longest = longest;
  }

  /** Puts each piece on the first of its tracks that has a row. Returns whether anything moved. */
  place(hasRow: (track: number) => boolean): boolean {
    const placed = this.sites.map(({ tracks }) => tracks.find(hasRow));
    if (this.placed && placed.every((track, i) => track === this.placed![i])) return false;
    this.placed = placed;
    const lists = new Map<number, number[]>();
    this.siteOf.forEach((site, i) => {
      const track = placed[site];
      if (track === undefined) return;
      const list = lists.get(track);
      if (list) list.push(i);
      else lists.set(track, [i]);
    });
    this.lanes = new Map([...lists].map(([track, list]) => [track, laneOf(this.pieces, list)]));
    return true;
  }

  lane(track: number): Lane | undefined {
    return this.lanes.get(track);
  }

  /** The track on whose row a piece lies; undefined if none of its tracks has a row. */
  trackOf(piece: number): number | undefined {
    return this.placed?.[this.siteOf[piece]!];
  }

  /** The best track of a piece, whether it has a row or not. */
  bestTrackOf(piece: number): number | undefined {
    return this.trackOf(piece) ?? this.sites[this.siteOf[piece]!]?.tracks[0];
  }

  /** The tracks of the path, those with the most time first, and that time. */
  get tracks(): { track: number; ns: number }[] {
    const sums = new Map<number, number>();
    this.sites.forEach(({ tracks, ns }, i) => {
      const track = this.placed?.[i] ?? tracks[0];
      if (track !== undefined) sums.set(track, (sums.get(track) ?? 0) + ns);
    });
    return [...sums].map(([track, ns]) => ({ track, ns })).sort((a, b) => b.ns - a.ns);
  }

  /** Time of the pieces without a row, the tracks that would show them, and the time that no track shows. */
  get hidden(): { ns: number; tracks: number[]; trackless_ns: number } {
    const out = { ns: 0, tracks: new Set<number>(), trackless_ns: 0 };
    this.sites.forEach(({ tracks, ns }, i) => {
      if (this.placed?.[i] !== undefined) return;
      out.ns += ns;
      if (tracks[0] === undefined) out.trackless_ns += ns;
      else out.tracks.add(tracks[0]);
    });
    return { ...out, tracks: [...out.tracks] };
  }

  /** From the first piece to the last one: a thread that begins or ends in the asked range is explained for its lifetime. */
  get range(): Range {
    return { from: this.pieces[0]?.from ?? 0, to: this.ends.at(-1) ?? 0 };
  }

  /** The pieces that touch a range: `[first, last)`. */
  within({ from, to }: Range): { first: number; last: number } {
    const first = firstAbove(this.ends, from);
    let [low, high] = [first, this.pieces.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.pieces[middle]!.from < to) low = middle + 1;
      else high = middle;
    }
    return { first, last: low };
  }

  /** The piece at a moment. */
  at(at: Rel): number | undefined {
    const i = firstAbove(this.ends, at);
    return i < this.pieces.length && this.pieces[i]!.from <= at ? i : undefined;
  }

  /** Time per layer, the most first. */
  get layers(): { layer: string; ns: number }[] {
    const sums = new Map<string, number>();
    for (const { layer, from, to } of this.pieces) sums.set(layer, (sums.get(layer) ?? 0) + to - from);
    return [...sums].map(([layer, ns]) => ({ layer, ns })).filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns);
  }
}

function laneOf(pieces: readonly Piece[], list: readonly number[]): Lane {
  const before = new Float64Array(list.length);
  let sum = 0;
  list.forEach((piece, i) => {
    before[i] = sum;
    sum += pieces[piece]!.to - pieces[piece]!.from;
  });
  return { from: Float64Array.from(list, (piece) => pieces[piece]!.from), to: Float64Array.from(list, (piece) => pieces[piece]!.to), before, piece: Uint32Array.from(list) };
}

/** The first place, at or after `low`, of a value above `limit` in a rising array. */
function firstAbove(values: Float64Array, limit: number, low = 0): number {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A piece that is wide enough for an outline of its own. */
export interface Box {
  readonly piece: number;
  readonly x0: number;
  readonly x1: number;
}

/** The part of the path on one row. `columns` are the pixels of narrower pieces, with the share of their time that is the path's. */
export interface Strip {
  readonly boxes: readonly Box[];
  readonly columns: readonly { readonly x: number; readonly share: number }[];
}

/** Pieces from this many pixels on have an outline. */
const WIDE_PX = 3;

/** The part of a lane that a view of `width` pixels shows. Pieces that fall into one pixel are added up; each step moves on by a pixel or by a wide piece. */
export function stripOf(lane: Lane, view: Range, width: number): Strip {
  const boxes: Box[] = [];
  const columns: { x: number; share: number }[] = [];
  const perPixel = spanOf(view) / width;
  const x = (at: Rel): number => (at - view.from) / perPixel;
  const wide = (i: number): boolean => lane.to[i]! - lane.from[i]! >= WIDE_PX * perPixel;
  let column = -1;
  for (let i = firstAbove(lane.to, view.from); i < lane.from.length && lane.from[i]! < view.to; ) {
    if (wide(i)) {
      boxes.push({ piece: lane.piece[i]!, x0: Math.max(x(lane.from[i]!), -4), x1: Math.min(x(lane.to[i]!), width + 4) });
      i++;
      continue;
    }
    column = Math.max(Math.floor(x(lane.from[i]!)), column + 1, 0);
    if (column >= width) break;
    const [start, end] = [view.from + column * perPixel, view.from + (column + 1) * perPixel];
    let next = firstAtLeast(lane.from, end, i + 1);
    // A wide piece that begins in this pixel has its own box.
    if (next - 1 > i && wide(next - 1)) next--;
    const last = next - 1;
    const covered = lane.before[last]! - lane.before[i]! + Math.min(lane.to[last]!, end) - lane.from[last]! - Math.max(0, Math.min(start, lane.to[i]!) - lane.from[i]!);
    if (covered > 0) columns.push({ x: column, share: Math.min(covered / perPixel, 1) });
    i = lane.to[last]! > end ? last : next;
  }
  return { boxes, columns };
}

function firstAtLeast(values: Float64Array, limit: number, low: number): number {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! >= limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The step from a piece to the next one that lies on another row. Between them may be pieces without a row. */
export interface Join {
  readonly from: number;
  readonly to: number;
}

/** Joins per thousand pixels of width above which only those of wide pieces are drawn. */
const DENSEST = 160;

/** The joins of a view: all, or where those are too many, those at the ends of pieces that have a box. */
export function joinsOf(path: CriticalPath, view: Range, width: number, boxes: readonly Box[]): Join[] {
  const { first, last } = path.within(view);
  const { length } = path.pieces;
  const steps = new Set<number>();
  const few = last - first <= (DENSEST * width) / 1000;
  if (few) for (let i = Math.max(first - 1, 0); i < last; i++) steps.add(i);
  else for (const { piece } of boxes) steps.add(piece - 1).add(piece);
  const joins: Join[] = [];
  for (const from of [...steps].sort((a, b) => a - b)) {
    if (from < 0 || path.trackOf(from) === undefined) continue;
    let to = from + 1;
    while (few && to < length && to <= last && path.trackOf(to) === undefined) to++;
    if (to < length && path.trackOf(to) !== undefined && path.trackOf(to) !== path.trackOf(from)) joins.push({ from, to });
  }
  return joins;
}
