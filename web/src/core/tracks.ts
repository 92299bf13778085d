// The tree of tracks: machines, their layers, the tracks, and the lanes of a track; and which of
// them make rows. Order is the causal stack's, as the recording gives it, so the eye reads downwards:
// who had the CPU, whose vCPU that was, which thread inside, what it waited for.
import type { TrackFilter } from "./filter.ts";

/** One line of the recording's track table. */
export interface Track {
  readonly track: number;
  readonly parent: number | null;
  readonly machine_id: number;
  readonly layer: string;
  readonly kind: string;
  readonly name: string;
  readonly detail: string;
  readonly sort: number;
  readonly cpu: number | null;
  readonly vcpu: number | null;
  readonly tid: number | null;
  readonly intervals: number;
  /** Time in which something was done or waited for the CPU. */
  readonly busy_ns: number;
  /** intervals, instants (drawn as marks) or numbers; of groups nothing. */
  readonly shape: string;
}

/** Kinds that only hold others. */
const GROUPS = new Set(["machine", "cpus", "vcpus", "threads", "cgroup", "io", "counters", "events", "lost"]);
/** Kinds whose lanes are shown from the start: a pCPU's guest thread inside is half the answer. */
const OPEN_LANES = new Set(["cpu"]);
/** How many threads of a machine are shown before one asks for more: the busiest. */
const SHOWN_THREADS = 6;
/** Groups with more tracks than this start folded, if they are not what one looks for first. */
const MANY = 12;

export interface Node {
  readonly track: Track;
  readonly parent: Node | undefined;
  readonly children: Node[];
  readonly depth: number;
  readonly group: boolean;
  /** Is it a lane: part of what another track shows? */
  readonly lane: boolean;
}

export type RowType = "group" | "track" | "more";

/** One row of the window. Heights and positions in CSS pixels. */
export interface Row {
  readonly type: RowType;
  readonly node: Node;
  readonly y: number;
  readonly height: number;
  readonly depth: number;
  readonly folded: boolean;
  readonly foldable: boolean;
  /** For "more": how many tracks are not shown. For a folded group: how many it holds. */
  readonly hidden: number;
  /** For a folded group: the tracks drawn small inside its row. */
  readonly strips: readonly Node[];
}

/** What the user has done to the tree. */
export interface TreeState {
  /** Folded although they start open. */
  readonly folded: ReadonlySet<number>;
  /** Opened although they start folded (or, for threads, shown in full). */
  readonly opened: ReadonlySet<number>;
  readonly pinned: readonly number[];
  readonly filter: TrackFilter;
  /** How busy threads are in the range that is seen, where that is known: those are shown first. */
  readonly busy?: ReadonlyMap<number, number> | undefined;
  /** Tracks that stay on the screen whatever they do: what the user is at. */
  readonly kept?: ReadonlySet<number>;
}

export class TrackTree {
  readonly roots: Node[] = [];
  readonly nodes = new Map<number, Node>();
  /** With many machines only the outermost start open. */
  private readonly manyMachines: boolean;

  constructor(tracks: readonly Track[]) {
    this.manyMachines = tracks.filter((track) => track.kind === "machine").length > MANY;
    const byId = new Map(tracks.map((track) => [track.track, track]));
    const children = new Map<number | null, Track[]>();
    for (const track of tracks) {
      // A parent that is not in the table would hide its children: they become roots.
      const parent = track.parent !== null && byId.has(track.parent) && track.parent !== track.track ? track.parent : null;
      const list = children.get(parent);
      if (list) list.push(track);
      else children.set(parent, [track]);
    }
    const visit = (track: Track, parent: Node | undefined): void => {
      if (this.nodes.has(track.track)) return;
      const lane = parent !== undefined && !parent.group;
      const node: Node = { track, parent, children: [], depth: parent ? parent.depth + 1 : 0, group: GROUPS.has(track.kind), lane };
      this.nodes.set(track.track, node);
      (parent ? parent.children : this.roots).push(node);
      for (const child of sorted(children.get(track.track))) visit(child, node);
    };
    for (const track of sorted(children.get(null))) visit(track, undefined);
  }

  /** Are there more threads somewhere than are shown at first? */
  get choosesThreads(): boolean {
    return [...this.nodes.values()].some((node) => (node.track.kind === "threads" || node.track.kind === "cgroup") && node.children.length > 2);
  }

  /** Is this node's inside shown? */
  open(node: Node, state: TreeState): boolean {
    const id = node.track.track;
    if (state.folded.has(id)) return false;
    if (state.opened.has(id)) return true;
    if (node.track.kind === "machine" && node.parent && this.manyMachines) return false;
    return startsOpen(node);
  }

  /** The rows in order, from `y` = 0. */
  rows(state: TreeState): Row[] {
    const out: Row[] = [];
    let y = 0;
    const push = (row: Omit<Row, "y">): void => {
      out.push({ ...row, y });
      y += row.height;
    };
    const found = state.filter.active ? matching(this.roots, state.filter) : undefined;
    const shown = found?.shown;
    const visit = (node: Node, lift = 0): void => {
      if (shown && !shown.has(node)) return;
      if (!shown && !state.opened.has(node.track.track) && redundant(node)) return;
      const only = onlyChild(node);
      if (only) {
        visit(only, lift + 1);
        return;
      }
      // A filter opens what it must to show its matches.
      const open = this.open(node, state) || (found !== undefined && found.opened.has(node) && !state.folded.has(node.track.track));
      push({ ...rowOf(node, open), depth: node.depth - lift });
      if (!open) return;
      const all = shown ? node.children.filter((child) => shown.has(child)) : node.children;
      // What was searched for is shown in full; what came along with its machine is not.
      const threads = node.track.kind === "threads" || node.track.kind === "cgroup";
      const few = threads && all.length === node.children.length && !state.opened.has(node.track.track) ? busiest(all, SHOWN_THREADS, state.busy, state.kept) : all;
      for (const child of few) visit(child, lift);
      if (few.length < all.length) {
        push({ type: "more", node, height: 20, depth: node.depth + 1 - lift, folded: false, foldable: false, hidden: all.length - few.length, strips: [] });
      }
    };
    for (const root of this.roots) visit(root);
    return out;
  }

  /** Rows of the pinned tracks, from `y` = 0. */
  pinnedRows(state: TreeState): Row[] {
    const out: Row[] = [];
    let y = 0;
    for (const id of state.pinned) {
      const node = this.nodes.get(id);
      if (!node) continue;
      const row = rowOf(node, !node.group);
      out.push({ ...row, y, depth: 0, foldable: false });
      y += row.height;
    }
    return out;
  }

  /** The tracks below a node that hold time, without lanes. */
  leaves(node: Node): Node[] {
    if (!node.group) return [node];
    return node.children.flatMap((child) => this.leaves(child));
  }

  /** `web1 › vCPU 0`: where a track is. */
  path(id: number): string {
    const names: string[] = [];
    for (let node = this.nodes.get(id); node; node = node.parent) {
      if (!node.group || node.track.kind === "machine") names.unshift(node.track.name);
    }
    return names.join(" › ");
  }
}

/** A group of one track that stands for itself: a heading above one row says nothing. */
function onlyChild(node: Node): Node | undefined {
  const plain = node.track.kind === "cpus" || node.track.kind === "vcpus";
  return plain && node.children.length === 1 ? node.children[0] : undefined;
}

/** What a domain does as a whole, when it has one vCPU whose row says the same. It can be searched for. */
function redundant({ track, parent }: Node): boolean {
  if (track.kind !== "domain") return false;
  const vcpus = parent?.children.find((group) => group.track.kind === "vcpus");
  return (vcpus?.children.length ?? 0) === 1;
}

function sorted(tracks: readonly Track[] | undefined): Track[] {
  return [...(tracks ?? [])].sort((a, b) => a.sort - b.sort || a.track - b.track);
}

function startsOpen(node: Node): boolean {
  if (!node.group) return OPEN_LANES.has(node.track.kind);
  const kind = node.track.kind;
  if (kind === "machine" || kind === "cpus" || kind === "vcpus" || kind === "threads" || kind === "cgroup") return true;
  return kind === "io" || kind === "lost" ? node.children.length <= MANY : false;
}

/**
 * The busiest, in the tree's order; of those that did next to nothing none, as long as two are left. How many there
 * are is the whole recording's doing, so that rows below stay where they are, unless more are busy in the seen range;
 * which they are is the seen range's.
 */
function busiest(nodes: readonly Node[], limit: number, busy?: ReadonlyMap<number, number>, kept?: ReadonlySet<number>): Node[] {
  // Containers among the threads stay: they choose among their own.
  const groups = nodes.filter((node) => node.group);
  if (groups.length > 0) {
    const rest = new Set([...groups, ...busiest(nodes.filter((node) => !node.group), limit, busy, kept)]);
    return nodes.filter((node) => rest.has(node));
  }
  if (nodes.length <= 2) return [...nodes];
  // Losses are unknown time, however long: they never outrank work or waits.
  const weight = ({ track }: Node): number => (track.kind === "lost" ? 0 : track.busy_ns);
  const ordered = [...nodes].sort((a, b) => weight(b) - weight(a));
  const worth = (weights: readonly number[]): number => weights.slice(0, limit).filter((own) => own > weights[0]! / 100).length;
  let many = Math.max(worth(ordered.map(weight)), 2);
  if (busy) {
    const seen = ({ track }: Node): number => busy.get(track.track) ?? 0;
    ordered.sort((a, b) => seen(b) - seen(a) || weight(b) - weight(a));
    many = Math.max(many, worth(ordered.map(seen)));
  }
  const first = ordered.filter((node) => kept?.has(node.track.track));
  const keep = new Set([...first, ...ordered.filter((node) => !first.includes(node))].slice(0, Math.max(many, first.length)));
  return nodes.filter((node) => keep.has(node));
}

/** Matching nodes with all that is in them; `opened`: what they are in, and groups that were asked for by name. */
function matching(roots: readonly Node[], filter: TrackFilter): { shown: Set<Node>; opened: Set<Node> } {
  const shown = new Set<Node>();
  const opened = new Set<Node>();
  const all = (node: Node): void => {
    shown.add(node);
    // A machine that runs on this one is not a part of it: it must match by itself.
    for (const child of node.children) if (child.track.kind !== "machine") all(child);
  };
  const visit = (node: Node): boolean => {
    const own = filter.matches(node);
    if (own) all(node);
    if (own && node.group && node.track.kind !== "machine") opened.add(node);
    const inside = node.children.filter((child) => !own || child.track.kind === "machine").map(visit).some(Boolean);
    if (inside) [shown, opened].forEach((set) => set.add(node));
    return own || inside;
  };
  roots.forEach(visit);
  return { shown, opened };
}

function rowOf(node: Node, open: boolean): Omit<Row, "y"> {
  const foldable = node.children.length > 0;
  const strips = node.group && !open ? stripsOf(node) : [];
  return {
    type: node.group ? "group" : "track",
    node,
    height: heightOf(node),
    depth: node.depth,
    folded: foldable && !open,
    foldable,
    hidden: node.group && !open ? leafCount(node) : 0,
    strips,
  };
}

/** The tracks a folded group still shows, small: those with most to tell. */
function stripsOf(node: Node): Node[] {
  const leaves: Node[] = [];
  const visit = (at: Node): void => {
    if (at.group) at.children.forEach(visit);
    else if (at.track.kind !== "counter") leaves.push(at);
  };
  visit(node);
  return busiest(leaves, 5).slice(0, 5);
}

function leafCount(node: Node): number {
  return node.group ? node.children.reduce((sum, child) => sum + leafCount(child), 0) : 1;
}

/** Row heights in CSS pixels. Lanes are thinner: they explain the row above. */
export function heightOf(node: Node): number {
  if (node.track.kind === "machine") return 28;
  if (node.group) return 20;
  if (node.track.kind === "counter") return 30;
  if (node.track.kind === "ticks" || node.track.kind === "net") return 16;
  if (node.track.kind === "irq") return 15;
  return node.lane ? 17 : 24;
}

/** The index of the row at `y`, or -1. Rows lie one below the other without gaps. */
export function rowAt(rows: readonly Row[], y: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const row = rows[middle]!;
    if (row.y + row.height > y) high = middle;
    else low = middle + 1;
  }
  return low < rows.length && rows[low]!.y <= y ? low : -1;
}

/** Height of all rows together. */
export function totalHeight(rows: readonly Row[]): number {
  const last = rows[rows.length - 1];
  return last ? last.y + last.height : 0;
}

/** The rows that a window of `height` pixels at `top` shows: `[first, last)`. */
export function visibleRows(rows: readonly Row[], top: number, height: number): { first: number; last: number } {
  if (rows.length === 0) return { first: 0, last: 0 };
  const first = Math.max(rowAt(rows, Math.max(top, 0)), 0);
  let last = first;
  while (last < rows.length && rows[last]!.y < top + height) last++;
  return { first, last };
}
