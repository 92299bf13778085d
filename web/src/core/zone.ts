// Wall-clock time as text: in the browser's time zone with its offset to UTC, or in UTC.

/** A time zone, as far as the page needs one. */
export interface Zone {
  /** The zone's name, for tooltips: `Europe/Berlin`. */
  readonly name: string;
  /** Local time minus UTC at a time, minutes. */
  offset(unix_ms: number): number;
}

export const UTC: Zone = { name: "UTC", offset: () => 0 };

/** The time zone of the browser. */
export const LOCAL: Zone = {
  get name() {
    return Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  },
  offset: (unix_ms) => -new Date(unix_ms).getTimezoneOffset(),
};

/** A zone whose offset never changes, minutes. */
export function fixedZone(minutes: number): Zone {
  return { name: offsetText(minutes), offset: () => minutes };
}

const MS = 1_000_000n;
const S = 1_000_000_000n;
/** No zone is farther from UTC than this. */
const DAY_MS = 86_400_000;

/** Milliseconds of ns, rounded down. */
export function msOf(unix_ns: bigint): number {
  return Number((unix_ns - mod(unix_ns, MS)) / MS);
}

/** The rest of a division, never negative. */
export function mod(value: bigint, by: bigint): bigint {
  return ((value % by) + by) % by;
}

/** `+0100`, as `date +%z` and the command line print it. */
export function offsetText(minutes: number): string {
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}${two(size % 60)}`;
}

/** Offset of a zone at a time. */
export function offsetAt(unix_ns: bigint, zone: Zone): string {
  return offsetText(zone.offset(msOf(unix_ns)));
}

/** The zone's calendar and clock at a time, as the UTC fields of a date. */
function fields(unix_ns: bigint, zone: Zone): Date {
  const unix_ms = msOf(unix_ns);
  return new Date(unix_ms + zone.offset(unix_ms) * 60_000);
}

/** `2026-11-25`. */
export function dateText(unix_ns: bigint, zone: Zone): string {
  const date = fields(unix_ns, zone);
  return `${String(date.getUTCFullYear()).padStart(4, "0")}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
}

/** `03:41:38.123 456`: a time of day with so many decimals, in groups of three; the rest is cut off. */
export function timeText(unix_ns: bigint, zone: Zone, digits = 3): string {
  const date = fields(unix_ns, zone);
  const clock = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
  if (digits === 0) return clock;
  const fraction = String(mod(unix_ns, S)).padStart(9, "0").slice(0, digits);
  return `${clock}.${fraction.replace(/(\d{3})(?=\d)/g, "$1 ")}`;
}

/** `2026-11-25 03:41:38.123 +0100`. */
export function wallText(unix_ns: bigint, zone: Zone, digits = 3): string {
  return `${dateText(unix_ns, zone)} ${timeText(unix_ns, zone, digits)} ${offsetAt(unix_ns, zone)}`;
}

/** `2026-11-25 03:41:38.123 to 03:41:43.123 +0100`: of the second time only what differs of date and offset. */
export function wallRangeText(from_ns: bigint, until_ns: bigint, zone: Zone, digits = 3): string {
  const [first, second] = [offsetAt(from_ns, zone), offsetAt(until_ns, zone)];
  const [day, next] = [dateText(from_ns, zone), dateText(until_ns, zone)];
  const start = `${day} ${timeText(from_ns, zone, digits)}${first === second ? "" : ` ${first}`}`;
  return `${start} to ${day === next ? "" : `${next} `}${timeText(until_ns, zone, digits)} ${second}`;
}

/** `2026-11-25T02:41:38.5Z`: exact, and a moment that `--from` accepts. */
export function rfc3339(unix_ns: bigint): string {
  const fraction = String(mod(unix_ns, S)).padStart(9, "0").replace(/0+$/, "");
  return `${dateText(unix_ns, UTC)}T${timeText(unix_ns, UTC, 0)}${fraction ? `.${fraction}` : ""}Z`;
}

/**
 * Every UTC time at which the zone's clocks show a date and time, given as if it were UTC: one, two in the hour that the zone
 * repeats, none in the hour that it skips.
 */
export function unixOfLocal(local_ns: bigint, zone: Zone): bigint[] {
  const local_ms = msOf(local_ns);
  const offsets = new Set([-DAY_MS, 0, DAY_MS].map((by) => zone.offset(local_ms + by)));
  const found = [...offsets].flatMap((minutes) => {
    const unix_ns = local_ns - BigInt(minutes) * 60n * S;
    return zone.offset(msOf(unix_ns)) === minutes ? [unix_ns] : [];
  });
  return found.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
