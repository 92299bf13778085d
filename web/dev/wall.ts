// The simulated wall clock: the rows of `wall_clock` for a made-up recording.
import type { WallJson } from "../src/core/wall.ts";
import { ORIGIN } from "./simulate.ts";

/** 2026-11-25 02:41:38.123 456 789 UTC, at the start of the recording. */
export const WALL_START = 1_795_574_498_123_456_789n;
/** The clock is read so often: nothing is known between the two readings around a step. */
const READ_EVERY = 100_000_000;

/** Rows for a recording of `length` ns: `steady`, or set in the middle by so many seconds; empty: no rows. */
export function simulateWall(wall: string, length: number): WallJson[] {
  if (wall === "") return [];
  const row = (from: number, to: number, step_ns: bigint | null): WallJson => ({
    ts: String(ORIGIN + BigInt(from)),
    dur: String(to - from),
    unix_ns: String(WALL_START + BigInt(from) + (step_ns ?? 0n)),
    unix_dur: String(to - from),
    error_ns: "310",
    step_ns: step_ns === null ? null : String(step_ns),
  });
  if (wall === "steady") return [row(0, length, null)];
  const middle = Math.floor(length / 2);
  return [row(0, middle, null), row(middle + READ_EVERY, length, BigInt(Math.round(Number(wall) * 1e9)))];
}
