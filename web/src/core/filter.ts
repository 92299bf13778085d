// The filter box: `vm:web1 kind:vcpu reason:hlt nginx`. Words about tracks choose rows; words about
// states (`state:`, `reason:`, `by:`) leave the rows and fade every interval that does not match.
import type { Key } from "./palette.ts";
import type { Node } from "./tracks.ts";

/** Which tracks stay. */
export interface TrackFilter {
  readonly active: boolean;
  matches(node: Node): boolean;
}

/** Which keys stay bright; null: all. */
export type KeyFilter = ((key: Key) => boolean) | null;

export interface Filter {
  readonly tracks: TrackFilter;
  readonly keys: KeyFilter;
}

export const EVERYTHING: TrackFilter = { active: false, matches: () => true };

type Test<T> = (value: T) => boolean;

/** The words that can stand before a colon, with what they mean; the help shows them. */
export const FILTER_WORDS: readonly (readonly [string, string])[] = [
  ["vm:web1", "tracks of a machine"],
  ["kind:vcpu", "tracks of a kind (cpu, vcpu, thread, block, …)"],
  ["cpu:3  vcpu:0  tid:812", "tracks of a CPU, vCPU or thread"],
  ["nginx", "tracks with this text in their name"],
  ["state:preempted", "highlight this state"],
  ["reason:hlt", "highlight this reason"],
  ["by:hog", "highlight intervals of or due to this machine"],
];

/** Reads the box's text. `machineName` names a machine for `vm:` and `by:`. */
export function parseFilter(text: string, machineName: (machine_id: number) => string): Filter {
  const tracks: Test<Node>[] = [];
  const keys: Test<Key>[] = [];
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const [, field, value] = /^([a-z]+):(.*)$/.exec(word) ?? [];
    if (field === undefined || value === undefined) tracks.push(named(word, machineName));
    else if (value !== "") addTest(field, value, machineName, tracks, keys) || tracks.push(named(word, machineName));
  }
  return {
    tracks: tracks.length > 0 ? { active: true, matches: (node) => tracks.every((test) => test(node)) } : EVERYTHING,
    keys: keys.length > 0 ? (key) => keys.every((test) => test(key)) : null,
  };
}

function addTest(field: string, value: string, machineName: (id: number) => string, tracks: Test<Node>[], keys: Test<Key>[]): boolean {
  const number = Number(value);
  switch (field) {
    case "vm":
    case "machine":
      return tracks.push(({ track }) => machineName(track.machine_id).toLowerCase().includes(value)) > 0;
    case "kind":
      return tracks.push(({ track, group }) => track.kind === value || (!group && track.kind.includes(value))) > 0;
    case "layer":
      return tracks.push(({ track }) => track.layer.toLowerCase().includes(value)) > 0;
    case "cpu":
      return tracks.push(({ track }) => track.cpu === number) > 0;
    case "vcpu":
      return tracks.push(({ track }) => track.vcpu === number) > 0;
    case "tid":
    case "thread":
      return tracks.push(({ track }) => (Number.isInteger(number) ? track.tid === number : track.kind === "thread" && track.name.toLowerCase().includes(value))) > 0;
    case "state":
      return keys.push((key) => key.state.toLowerCase().includes(value) || key.class.includes(value)) > 0;
    case "reason":
      return keys.push((key) => (key.reason ?? "").toLowerCase().includes(value)) > 0;
    case "by":
      return keys.push((key) => key.machine_id !== null && machineName(key.machine_id).toLowerCase().includes(value)) > 0;
    default:
      return false;
  }
}

/** Name, detail or machine has the word in it. Groups match by name only, or a VM's name would match all. */
function named(word: string, machineName: (id: number) => string): Test<Node> {
  return ({ track, group }) =>
    track.name.toLowerCase().includes(word) ||
    (!group && (track.detail.toLowerCase().includes(word) || machineName(track.machine_id).toLowerCase().includes(word)));
}
