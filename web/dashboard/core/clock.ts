// The wall clock: where the time axis has its ticks, and how a moment is written. In the time zone of who looks.
import { LOCAL, offsetText, type Zone } from "../../src/core/zone.ts";

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

export interface Tick {
  readonly unix_ms: number;
  readonly label: string;
}

/** Ticks of `[from, to]` with at least `spacing` of `width` between them; on round times of day. */
export function ticksOf(from_ms: number, to_ms: number, width: number, spacing: number): Tick[] {
  const span_s = Math.max((to_ms - from_ms) / 1000, 1e-3);
  const least = (span_s / Math.max(width, 1)) * spacing;
  const step = (STEPS_S.find((s) => s >= least) ?? STEPS_S[STEPS_S.length - 1]!) * 1000;
  // Round by local time: an offset of a quarter of an hour is somebody's.
  const offset = new Date(to_ms).getTimezoneOffset() * 60_000;
  const ticks: Tick[] = [];
  for (let at = Math.ceil((from_ms - offset) / step) * step + offset; at <= to_ms && ticks.length < 200; at += step) {
    ticks.push({ unix_ms: at, label: label(at, step) });
  }
  return ticks;
}

function label(unix_ms: number, step_ms: number): string {
  const date = new Date(unix_ms);
  const midnight = date.getHours() === 0 && date.getMinutes() === 0;
  if (step_ms >= 86_400_000 || (midnight && step_ms >= 600_000)) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return step_ms < 60_000 ? clock(unix_ms) : clock(unix_ms).slice(0, 5);
}

const two = (n: number): string => String(n).padStart(2, "0");

/** `14:03:09`. */
export function clock(unix_ms: number): string {
  const date = new Date(unix_ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `14:03:09`, with the day before it if it is not that of `now`. */
export function moment(unix_ms: number, now_ms: number): string {
  const [date, now] = [new Date(unix_ms), new Date(now_ms)];
  const today = date.toDateString() === now.toDateString();
  return today ? clock(unix_ms) : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(unix_ms)}`;
}

/** Offset to UTC of the times in a range: `+0100`; two where it changes. */
export function offsetsText(from_ms: number, to_ms: number, zone: Zone = LOCAL): string {
  const [first, last] = [offsetText(zone.offset(from_ms)), offsetText(zone.offset(to_ms))];
  return first === last ? last : `${first} to ${last}`;
}

/** `3 s ago`, `2 h ago`. */
export function ago(unix_ms: number, now_ms: number): string {
  const seconds = Math.max(0, (now_ms - unix_ms) / 1000);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}
