// Trace time to the host's wall clock and back, by the rows of `wall_clock` (crates/model/src/wall.rs has the same arithmetic).
// A trace time that no piece covers has no known wall-clock time. A wall-clock time can have several trace times (the clock was
// set back) or none (it was set forward, or the time lies outside of the recording).

/** A straight piece of the map. Times are absolute, ns. */
export interface WallPiece {
  readonly ts: bigint;
  readonly dur: bigint;
  /** ns since 1970 (UTC) at the piece's start. */
  readonly unix_ns: bigint;
  readonly unix_dur: bigint;
  /** Error bound anywhere in the piece. */
  readonly error_ns: bigint;
  /** How far the clock was set at the piece's start; null: the first piece. */
  readonly step_ns: bigint | null;
}

/** A wall-clock time and its error bound. */
export interface WallTime {
  readonly unixNs: bigint;
  readonly errorNs: number;
}

/** A time at which the clock was set: it lies between two pieces. */
export interface WallStep {
  /** Trace time of the last moment before it that has a wall-clock time, and of the first one after it. */
  readonly before: bigint;
  readonly after: bigint;
  readonly step_ns: bigint;
}

/** A piece as the server sends it: decimal strings. */
export type WallJson = Readonly<Record<"ts" | "dur" | "unix_ns" | "unix_dur" | "error_ns" | "step_ns", string | number | null>>;

/** Pieces that follow one another without a gap or a step: in them the wall clock only goes forward. */
export interface WallRun {
  readonly from: bigint;
  readonly to: bigint;
  readonly pieces: readonly WallPiece[];
}

export class WallMap {
  readonly pieces: readonly WallPiece[];
  readonly runs: readonly WallRun[];
  /** The times at which the clock was set, as far as readings show it. */
  readonly steps: readonly WallStep[];

  /** A map of these pieces, in any order. */
  constructor(pieces: readonly WallPiece[]) {
    this.pieces = [...pieces].sort((a, b) => compare(a.ts, b.ts));
    this.runs = runsOf(this.pieces);
    this.steps = stepsOf(this.pieces);
  }

  /** Reads the server's list; a piece with an unreadable number is left out: its time is unknown. */
  static from(list: readonly WallJson[] | null | undefined): WallMap {
    return new WallMap((list ?? []).flatMap(pieceOf));
  }

  /** Is the wall clock unknown throughout? */
  get isEmpty(): boolean {
    return this.pieces.length === 0;
  }

  /** The wall-clock time at a trace time; null where it is unknown. Both ends of a piece are in it. */
  wallOf(ts: bigint): WallTime | null {
    const piece = this.pieceAt(ts);
    return piece ? { unixNs: unixAt(piece, ts), errorNs: Number(piece.error_ns) } : null;
  }

  /** Every trace time at which the wall clock showed `unix_ns`, ascending. */
  tracesOf(unix_ns: bigint): bigint[] {
    const traces: bigint[] = [];
    for (const piece of this.pieces) {
      const ts = tsOf(piece, unix_ns);
      const last = traces[traces.length - 1];
      // Where two pieces meet, both contain the time; rounding can make it two.
      if (ts !== undefined && (last === undefined || ts - last > 1n)) traces.push(ts);
    }
    return traces;
  }

  /** The last piece that begins at or before `ts`, if it reaches there. */
  private pieceAt(ts: bigint): WallPiece | undefined {
    const piece = lastOf(this.pieces, (own) => own.ts <= ts);
    return piece && ts <= endOf(piece) ? piece : undefined;
  }
}

/** Trace time at a piece's end. */
export function endOf(piece: WallPiece): bigint {
  return piece.ts + piece.dur;
}

/** Wall-clock time at a piece's end. */
export function unixEnd(piece: WallPiece): bigint {
  return piece.unix_ns + piece.unix_dur;
}

/** Wall-clock time on a piece's line. */
export function unixAt(piece: WallPiece, ts: bigint): bigint {
  return piece.unix_ns + (piece.dur === 0n ? 0n : floorDiv((ts - piece.ts) * piece.unix_dur, piece.dur));
}

/** The first trace time of a piece at which the clock shows at least `unix_ns`; undefined outside of it. */
export function tsOf(piece: WallPiece, unix_ns: bigint): bigint | undefined {
  if (unix_ns < piece.unix_ns || unix_ns > unixEnd(piece)) return undefined;
  return piece.ts + (piece.unix_dur === 0n ? 0n : -floorDiv(-(unix_ns - piece.unix_ns) * piece.dur, piece.unix_dur));
}

/** The first trace time of a run at which the clock shows at least `unix_ns`; undefined outside of it. */
export function tsInRun(run: WallRun, unix_ns: bigint): bigint | undefined {
  const piece = lastOf(run.pieces, (own) => own.unix_ns <= unix_ns);
  if (!piece) return undefined;
  // Between two pieces that meet, rounding can leave a nanosecond that neither contains.
  const isLast = piece === run.pieces[run.pieces.length - 1];
  return tsOf(piece, unix_ns) ?? (isLast ? undefined : endOf(piece));
}

/** The last of the pieces, which are in order, for which `isBefore` holds. */
function lastOf(pieces: readonly WallPiece[], isBefore: (piece: WallPiece) => boolean): WallPiece | undefined {
  let [low, high] = [0, pieces.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(pieces[middle]!)) low = middle + 1;
    else high = middle;
  }
  return pieces[low - 1];
}

function runsOf(pieces: readonly WallPiece[]): WallRun[] {
  const runs: { from: bigint; to: bigint; pieces: WallPiece[] }[] = [];
  for (const piece of pieces) {
    const last = runs[runs.length - 1];
    if (last && last.to === piece.ts && piece.step_ns === 0n && unixEnd(last.pieces[last.pieces.length - 1]!) <= piece.unix_ns) {
      last.pieces.push(piece);
      last.to = endOf(piece);
    } else runs.push({ from: piece.ts, to: endOf(piece), pieces: [piece] });
  }
  return runs;
}

function stepsOf(pieces: readonly WallPiece[]): WallStep[] {
  return pieces.flatMap((piece, i) => {
    const before = pieces[i - 1];
    return before && piece.step_ns !== null && piece.step_ns !== 0n ? [{ before: endOf(before), after: piece.ts, step_ns: piece.step_ns }] : [];
  });
}

/** Division rounded down, by a positive number. */
function floorDiv(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function pieceOf(json: WallJson): WallPiece[] {
  try {
    const int = (value: string | number | null): bigint => {
      if (value === null || value === "") throw new TypeError("a number is missing");
      return BigInt(value);
    };
    const step_ns = json.step_ns === null || json.step_ns === undefined ? null : int(json.step_ns);
    const piece = { ts: int(json.ts), dur: int(json.dur), unix_ns: int(json.unix_ns), unix_dur: int(json.unix_dur), error_ns: int(json.error_ns), step_ns };
    return piece.dur >= 0n && piece.unix_dur >= 0n ? [piece] : [];
  } catch {
    return [];
  }
}
