// Moments as users write them, with the meaning that `--from` gives them (crates/cli/src/moment): `+1.25s` after the start,
// trace time, and wall-clock time. Parsing and finding a moment in a recording throw a MomentError with the reason.
import { mod, msOf, rfc3339, unixOfLocal, wallText, type Zone } from "./zone.ts";
import type { TimeUnit } from "./format.ts";
import { endOf, unixEnd, type WallMap } from "./wall.ts";

/** Why a text is no moment of this recording. */
export class MomentError extends Error {}

/** A moment as it was written. */
export type Moment =
  /** Trace time, or time after the start of the window; with a unit of time, or in the recording's own unit. */
  | { readonly kind: "trace"; readonly value: bigint; readonly fromStart: boolean; readonly inSeconds: boolean }
  /** Wall-clock time with a zone, ns since 1970 (UTC). */
  | { readonly kind: "utc"; readonly unix_ns: bigint }
  /** A date and time of the local zone, in ns as if it were UTC. */
  | { readonly kind: "local"; readonly local_ns: bigint }
  /** A time of day of the local zone, ns since midnight. */
  | { readonly kind: "time"; readonly day_ns: bigint };

/** The facts of a recording that moments are found by. */
export interface Timebase {
  readonly unit: TimeUnit;
  /** Start of the window, absolute. */
  readonly start: bigint;
  readonly wall: WallMap;
  readonly zone: Zone;
}

const S = 1_000_000_000n;
const DAY = 86_400n * S;
const UNITS: Readonly<Record<string, bigint>> = { "": 1n, ns: 1n, us: 1_000n, "µs": 1_000n, "μs": 1_000n, ms: 1_000_000n, s: S, m: 60n * S, min: 60n * S, h: 3600n * S };
const MOST = (1n << 63n) - 1n;
/** Local dates of a recording that a time of day is looked for on. */
const MOST_DAYS = 400;

/** Parses a moment. */
export function parseMoment(written: string): Moment {
  const text = written.trim();
  if (text.includes(":") || /^\d{4}-\d\d-/.test(text)) return parseWall(text);
  const fromStart = text.startsWith("+");
  const { value, inSeconds } = parseNumber(fromStart ? text.slice(1) : text);
  if (fromStart && value < 0n) throw new MomentError("'+' and '-' exclude each other");
  return { kind: "trace", value, fromStart, inSeconds };
}

function parseNumber(text: string): { value: bigint; inSeconds: boolean } {
  const match = /^(-?)(\d{1,20})(?:\.(\d{1,20}))?\s*([a-zµμ]*)$/i.exec(text);
  if (!match) throw new MomentError("not a time such as +1.25s, 250ms, 1250000000 or 2026-11-25T02:41:38.5Z");
  const [, sign, whole, part = "0", unit] = match;
  const unit_ns = UNITS[unit!];
  if (unit_ns === undefined) throw new MomentError(`unknown unit '${unit}': use ns, us, ms, s, m or h`);
  const scale = 10n ** BigInt(part.length);
  const fraction = BigInt(part) * unit_ns;
  if (fraction % scale !== 0n) throw new MomentError("more precise than a nanosecond");
  const size = BigInt(whole!) * unit_ns + fraction / scale;
  if (size > MOST) throw new MomentError("too large for a 64-bit time in ns");
  return { value: sign ? -size : size, inSeconds: unit !== "" };
}

const CLOCK = /^(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d+))?)?$/;
/** As the command line prints it, too: with a space before the offset, and without a colon in it. */
const DATED = /^(\d{4})-(\d\d)-(\d\d)[Tt ]([\d:.]+)\s?([Zz]|[+-]\d\d:?\d\d)?$/;

function parseWall(text: string): Moment {
  const wrong = (): MomentError => new MomentError(`'${text}' is not a wall-clock time such as 2026-11-25T02:41:38.5Z, 2026-11-25T03:41:38+01:00, 2026-11-25 03:41:38 or 03:41:38`);
  const dated = DATED.exec(text);
  const day_ns = dayTime(dated ? dated[4]! : text);
  if (day_ns === undefined) throw wrong();
  if (!dated) return { kind: "time", day_ns };
  const [year, month, day] = [Number(dated[1]), Number(dated[2]), Number(dated[3])];
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) throw wrong();
  const local_ns = BigInt(date.getTime()) * 1_000_000n + day_ns;
  const zone = dated[5];
  if (zone === undefined) return { kind: "local", local_ns };
  const seconds = offsetOf(zone);
  if (seconds === undefined || !CLOCK.exec(dated[4]!)?.[3]) throw wrong();
  return { kind: "utc", unix_ns: local_ns - BigInt(seconds) * S };
}

/** ns since midnight. */
function dayTime(text: string): bigint | undefined {
  const match = CLOCK.exec(text);
  if (!match) return undefined;
  const [hours, minutes, seconds, part = ""] = [Number(match[1]), Number(match[2]), Number(match[3] ?? 0), match[4]];
  if (hours > 23 || minutes > 59 || seconds > 59) return undefined;
  if (part.length > 9) throw new MomentError("more precise than a nanosecond");
  return BigInt((hours * 60 + minutes) * 60 + seconds) * S + BigInt(part.padEnd(9, "0"));
}

/** Seconds of `Z`, `+01:00`, `-0530`. */
function offsetOf(text: string): number | undefined {
  if (/^z$/i.test(text)) return 0;
  const [hours, minutes] = [Number(text.slice(1, 3)), Number(text.slice(-2))];
  if (hours > 23 || minutes > 59) return undefined;
  return (text.startsWith("-") ? -1 : 1) * (hours * 60 + minutes) * 60;
}

/** The trace time of a moment in a recording, absolute. */
export function resolveMoment(moment: Moment, base: Timebase): bigint {
  const inTime = moment.kind !== "trace" || moment.inSeconds;
  if (inTime && base.unit !== "ns") throw new MomentError("the recording's time is in ticks of unknown length: enter bare numbers");
  if (moment.kind === "trace") return moment.fromStart ? base.start + moment.value : moment.value;
  const { wall, zone } = base;
  if (wall.isEmpty) throw new MomentError("the recording has no wall-clock time: enter trace time, or +T from its start");
  const meant = candidates(moment, base);
  const found = meant.flatMap((unix_ns) => wall.tracesOf(unix_ns).map((ts) => ({ ts, unix_ns })));
  if (found.length === 1) return found[0]!.ts;
  if (found.length === 0) throw new MomentError(reasonForNone(meant, textOf(moment), wall, zone));
  const each = found.map(({ ts, unix_ns }) => `${traceText(ts, "ns")} (${rfc3339(unix_ns)})`).join(", ");
  throw new MomentError(`the time ${textOf(moment)} exists ${found.length} times in the recording: enter one of its trace times, ${each}`);
}

/** The recording that a range is looked for in, absolute: its window, and everything in it. */
export interface Bounds extends Timebase {
  readonly end: bigint;
  readonly first: bigint;
  readonly last: bigint;
}

/** The trace time of a text; refuses a time outside of the recording. */
export function findMoment(text: string, bounds: Bounds): bigint {
  const ts = resolveMoment(parseMoment(text), bounds);
  if (ts < bounds.first || ts > bounds.last) throw new MomentError(`trace time ${traceText(ts, bounds.unit)} is outside of the recording, which is from ${traceText(bounds.first, bounds.unit)} to ${traceText(bounds.last, bounds.unit)}`);
  return ts;
}

/** The range between two moments; without one of them it begins or ends with the window. Ends outside of the recording are cut. */
export function findRange(from: string | undefined, until: string | undefined, bounds: Bounds): { readonly from: bigint; readonly to: bigint } {
  const end = (name: string, text: string | undefined, otherwise: bigint): bigint => {
    if (text === undefined) return otherwise;
    try {
      return resolveMoment(parseMoment(text), bounds);
    } catch (error) {
      throw error instanceof MomentError ? new MomentError(`${name}: ${error.message}`) : error;
    }
  };
  const [a, b] = [end("from", from, bounds.start), end("until", until, bounds.end)];
  if (a >= b) throw new MomentError(`the range is empty: ${traceText(a, bounds.unit)} is not before ${traceText(b, bounds.unit)}`);
  if (a >= bounds.last || b <= bounds.first) throw new MomentError(`the range from ${traceText(a, bounds.unit)} to ${traceText(b, bounds.unit)} is outside of the recording, which is from ${traceText(bounds.first, bounds.unit)} to ${traceText(bounds.last, bounds.unit)}`);
  return { from: a > bounds.first ? a : bounds.first, to: b < bounds.last ? b : bounds.last };
}

/** Every time in UTC that a wall-clock moment can mean. */
function candidates(moment: Exclude<Moment, { kind: "trace" }>, { wall, zone }: Timebase): bigint[] {
  if (moment.kind === "utc") return [moment.unix_ns];
  if (moment.kind === "time") return daysOf(wall, zone).flatMap((day) => unixOfLocal(day + moment.day_ns, zone));
  const found = unixOfLocal(moment.local_ns, zone);
  if (found.length === 0) throw new MomentError(`the local time ${textOf(moment)} does not exist: the time zone skips it`);
  return found;
}

/** The local dates that the recording's wall clock showed, as ns of their midnight as if it were UTC. */
function daysOf(wall: WallMap, zone: Zone): bigint[] {
  const dayOf = (unix_ns: bigint): bigint => {
    const local_ns = unix_ns + BigInt(zone.offset(msOf(unix_ns))) * 60n * S;
    return local_ns - mod(local_ns, DAY);
  };
  const days = new Set<bigint>();
  for (const piece of wall.pieces) {
    const last = dayOf(unixEnd(piece));
    for (let day = dayOf(piece.unix_ns); day <= last && days.size < MOST_DAYS; day += DAY) days.add(day);
  }
  return [...days].sort((a, b) => (a < b ? -1 : 1));
}

/** Why no trace time has this wall-clock time: the clock was set past it, or it is outside of the recording. */
function reasonForNone(meant: readonly bigint[], text: string, wall: WallMap, zone: Zone): string {
  const { pieces } = wall;
  for (let i = 1; i < pieces.length; i++) {
    const [before, after] = [pieces[i - 1]!, pieces[i]!];
    if (!meant.some((unix_ns) => unix_ns >= unixEnd(before) && unix_ns <= after.unix_ns)) continue;
    return `the time ${text} is not in the recording: its wall clock was set from ${wallText(unixEnd(before), zone)} to ${wallText(after.unix_ns, zone)} at about ${traceText(endOf(before), "ns")} of trace time`;
  }
  const first = pieces.reduce((least, { unix_ns }) => (unix_ns < least ? unix_ns : least), pieces[0]!.unix_ns);
  const last = pieces.reduce((most, piece) => (unixEnd(piece) > most ? unixEnd(piece) : most), unixEnd(pieces[0]!));
  return `the time ${text} is not in the recording, whose wall clock shows ${wallText(first, zone)} to ${wallText(last, zone)}`;
}

/** A wall-clock moment, for messages. */
function textOf(moment: Exclude<Moment, { kind: "trace" }>): string {
  if (moment.kind === "utc") return rfc3339(moment.unix_ns);
  const text = rfc3339(moment.kind === "local" ? moment.local_ns : moment.day_ns).slice(0, -1);
  return moment.kind === "local" ? text.replace("T", " ") : text.slice(text.indexOf("T") + 1);
}

/** Trace time as `parseMoment` and `--from` read it: `12.5s`, or ticks. */
export function traceText(ts: bigint, unit: TimeUnit): string {
  if (unit === "ticks") return String(ts);
  const size = ts < 0n ? -ts : ts;
  const part = String(size % S).padStart(9, "0").replace(/0+$/, "");
  return `${ts < 0n ? "-" : ""}${size / S}${part ? `.${part}` : ""}s`;
}

/** A trace time as text that `--from` reads back: RFC 3339 where the wall clock is known and showed that time once. */
export function copyText(ts: bigint, base: Pick<Timebase, "unit" | "wall">): string {
  const time = base.unit === "ns" ? base.wall.wallOf(ts) : null;
  const traces = time ? base.wall.tracesOf(time.unixNs) : [];
  return time && traces.length === 1 ? rfc3339(time.unixNs) : traceText(ts, base.unit);
}
