// Snapshots: their extent by the wall clock, the one that a time belongs to, and the range at which the timeline opens one.
import { rfc3339 } from "../../src/core/zone.ts";
import { clock, moment } from "./clock.ts";

/** A snapshot as the server lists it. */
export interface SnapshotJson {
  readonly id: string;
  readonly reason?: string | null;
  readonly trigger?: string | null;
  /** When it was taken. */
  readonly taken_unix_ns?: number;
  /** The wall clock at its start and end; null or absent: unknown. */
  readonly from_unix_ns?: number | null;
  readonly until_unix_ns?: number | null;
  readonly seconds?: number;
  readonly bytes?: number;
}

/** A range by the wall clock, ms since 1970. */
export interface WallRange {
  readonly from_ms: number;
  readonly until_ms: number;
}

export interface Taken {
  readonly id: string;
  readonly unix_ms: number;
  readonly reason: string;
  /** Its extent, where the wall clock of both ends is known. */
  readonly extent?: WallRange;
}

/** Ends of a snapshot and of a range that are nearer than this are the same. */
const SAME_MS = 1;

/** A snapshot's entry; none if the time at which it was taken is missing. */
export function takenOf(json: SnapshotJson): Taken[] {
  const { taken_unix_ns, from_unix_ns, until_unix_ns } = json;
  if (typeof taken_unix_ns !== "number") return [];
  const isKnown = typeof from_unix_ns === "number" && typeof until_unix_ns === "number" && from_unix_ns < until_unix_ns;
  const extent = isKnown ? { extent: { from_ms: from_unix_ns / 1e6, until_ms: until_unix_ns / 1e6 } } : {};
  return [{ id: json.id, unix_ms: taken_unix_ns / 1e6, reason: json.trigger ? `trigger ${json.trigger}` : json.reason ?? "", ...extent }];
}

/** The snapshot nearest to a time: one that contains it, else the one that ends or begins nearest to it. */
export function nearestTo(snapshots: readonly Taken[], at_ms: number): Taken | undefined {
  const distance = ({ extent, unix_ms }: Taken): number => {
    const { from_ms, until_ms } = extent ?? { from_ms: unix_ms, until_ms: unix_ms };
    return Math.max(0, from_ms - at_ms, at_ms - until_ms);
  };
  const by = (taken: Taken): [number, number] => [distance(taken), Math.abs(taken.unix_ms - at_ms)];
  return [...snapshots].sort((a, b) => by(a)[0] - by(b)[0] || by(a)[1] - by(b)[1])[0];
}

/**
 * The fragment with which the timeline opens a snapshot on a range: moments as RFC 3339 in UTC. An end that lies outside of the
 * snapshot is left out. Empty if the snapshot's extent is unknown, or the range has no part of it.
 */
export function fragmentOf({ extent }: Taken, range: WallRange | undefined): string {
  if (!extent || !range || range.from_ms >= extent.until_ms || range.until_ms <= extent.from_ms) return "";
  const parts: string[] = [];
  if (range.from_ms > extent.from_ms + SAME_MS) parts.push(`from=${stamp(range.from_ms)}`);
  if (range.until_ms < extent.until_ms - SAME_MS) parts.push(`until=${stamp(range.until_ms)}`);
  return parts.length > 0 ? `#${parts.join("&")}` : "";
}

/** To the microsecond: a number of ns since 1970 is no more exact. */
function stamp(unix_ms: number): string {
  return rfc3339(BigInt(Math.round(unix_ms * 1e3)) * 1000n);
}

/** `14:02:59 – 14:03:09`, or the time at which it was taken. */
export function extentText({ extent, unix_ms }: Taken, now_ms: number): string {
  return extent ? `${moment(extent.from_ms, now_ms)} – ${clock(extent.until_ms)}` : moment(unix_ms, now_ms);
}
