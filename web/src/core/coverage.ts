// The range of a recording in which every CPU is known. A snapshot of an overwriting log holds more time of a quiet
// CPU than of a busy one: before its first record each CPU is unknown, for another length of time. The page opens on
// the range in which no CPU of a root machine is in such a stretch.
import { duration, type TimeUnit } from "./format.ts";
import { spanOf, type Range } from "./view.ts";

/** A stretch of lost events, of a CPU or (`cpu` null) of all CPUs of its machine. */
export interface Hole extends Range {
  readonly machine_id: number | null;
  readonly cpu: number | null;
}

/** A CPU, or a machine with all its CPUs (`cpu` null). */
export interface CpuPlace {
  readonly machine_id: number | null;
  readonly cpu: number | null;
}

export interface Coverage {
  /** Every CPU is known from the start of this range to its end, apart from `holes`. */
  readonly range: Range;
  /** Stretches of lost events that begin and end inside the range. */
  readonly holes: number;
  /** CPUs that are unknown in the whole window. No range can show them, so they do not limit `range`. */
  readonly dark: readonly CpuPlace[];
}

/** A range of this share of the window looks like the whole window: what is left out is about a pixel wide. */
const NEARLY_ALL = 0.999;

/**
 * The range from the latest end of a leading stretch to the earliest start of a trailing one. Undefined if that range
 * is empty or is (nearly) the whole window. `roots` are the machines that no other machine hosts; holes of others do not count.
 */
export function coveredRange(holes: readonly Hole[], window: Range, roots: ReadonlySet<number>): Coverage | undefined {
  const own = holes.filter((hole) => hole.machine_id === null || roots.has(hole.machine_id));
  let { from, to } = window;
  const dark: CpuPlace[] = [];
  for (const { place, stretches } of byPlace(own)) {
    const known = knownRange(stretches, window);
    if (known.from >= known.to) dark.push(place);
    else {
      from = Math.max(from, known.from);
      to = Math.min(to, known.to);
    }
  }
  if (to <= from || to - from >= spanOf(window) * NEARLY_ALL) return undefined;
  const inside = own.filter((hole) => hole.from > from && hole.to < to);
  return { range: { from, to }, holes: inside.length, dark: dark.sort((a, b) => (a.machine_id ?? -1) - (b.machine_id ?? -1) || (a.cpu ?? -1) - (b.cpu ?? -1)) };
}

/** The holes of each CPU. Holes of a whole machine count for it alone: they limit the range in the same way. */
function byPlace(holes: readonly Hole[]): Iterable<{ place: CpuPlace; stretches: Hole[] }> {
  const places = new Map<string, { place: CpuPlace; stretches: Hole[] }>();
  for (const hole of holes) {
    const name = `${hole.machine_id}/${hole.cpu}`;
    const entry = places.get(name);
    if (entry) entry.stretches.push(hole);
    else places.set(name, { place: { machine_id: hole.machine_id, cpu: hole.cpu }, stretches: [hole] });
  }
  return places.values();
}

/** The window without the stretches at its start and its end. Stretches that touch one another count as one. */
function knownRange(stretches: readonly Hole[], window: Range): Range {
  let { from, to } = window;
  for (const hole of [...stretches].sort((a, b) => a.from - b.from)) if (hole.from <= from) from = Math.max(from, hole.to);
  for (const hole of [...stretches].sort((a, b) => b.to - a.to)) if (hole.to >= to) to = Math.min(to, hole.from);
  return { from, to };
}

/** The line above the timeline. `opened`: the view is this range now. */
export function coverageText({ range, holes, dark }: Coverage, window: Range, opened: boolean, nameOf: (place: CpuPlace) => string, unit: TimeUnit = "ns"): string {
  const [known, all] = [duration(spanOf(range), unit), duration(spanOf(window), unit)];
  const cpus = dark.length > 0 ? `all CPUs except ${listed(dark.map(nameOf))}` : "all CPUs";
  const gaps = holes > 0 ? `, apart from ${holes === 1 ? "one stretch" : `${holes} stretches`} of lost events` : "";
  const rest = `the rest of the ${all} is partly unknown`;
  return opened ? `Opened on the ${known} that ${cpus} cover${gaps}; ${rest}` : `In ${known} of this recording ${cpus} are known${gaps}; ${rest}`;
}

/** `a, b and c`; of many names the first three. */
function listed(names: readonly string[]): string {
  const shown = names.length > 4 ? [...names.slice(0, 3), `${names.length - 3} others`] : names;
  return shown.length === 1 ? shown[0]! : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** Keys of a recording filter that select threads (docs/reference/record.md, Filters). */
const SELECTS_THREADS = ["vm", "cgroup", "pid", "tid"];

/** `filtered: pid=4711; other threads are unknown`: the effect of the filter that the recording was made with. */
export function filterText(filter: string): string {
  const keys = filter.split(",").map((term) => /^\s*([a-z]+)/.exec(term)?.[1] ?? "");
  const missing = [keys.some((key) => SELECTS_THREADS.includes(key)) && "other threads", keys.includes("dur") && "shorter intervals"].filter(Boolean);
  return `filtered: ${filter}; ${missing.join(" and ") || "other events"} are unknown`;
}
