// The rows of the window and where they are: pinned ones fixed at the top, the others scrolled.
import { rowAt, totalHeight, visibleRows, type Node, type Row, type TrackTree } from "../core/tracks.ts";
import type { State } from "./state.ts";

/** A row on the screen, `y` in CSS pixels from the top of the stage. */
export interface Placed {
  readonly row: Row;
  readonly y: number;
  readonly pinned: boolean;
}

export class Rows {
  pinned: Row[] = [];
  rows: Row[] = [];
  pinnedHeight = 0;
  private readonly placeOf = new Map<number, number>();

  /** Makes the rows anew: the tree, the filter or folding changed. Tracks of `also` stay shown, however idle. */
  update(tree: TrackTree, state: State, also: readonly number[]): void {
    const kept = new Set([state.current, state.chosen?.track, ...also].filter((track) => track !== undefined));
    const treeState = { folded: state.folded, opened: state.opened, pinned: state.pinned, filter: state.trackFilter, kept, busy: state.busy };
    this.pinned = tree.pinnedRows(treeState);
    this.rows = tree.rows(treeState);
    this.pinnedHeight = totalHeight(this.pinned);
    this.placeOf.clear();
    this.rows.forEach((row, i) => {
      if (row.type !== "more") this.placeOf.set(row.node.track.track, i);
    });
  }

  get height(): number {
    return this.pinnedHeight + totalHeight(this.rows);
  }

  /** Rows on the screen of a stage `height` high, scrolled by `top`. */
  visible(top: number, height: number): Placed[] {
    const { first, last } = visibleRows(this.rows, top, height - this.pinnedHeight);
    const scrolled = this.rows.slice(first, last).map((row) => ({ row, y: row.y - top + this.pinnedHeight, pinned: false }));
    return [...scrolled, ...this.pinned.map((row) => ({ row, y: row.y, pinned: true }))];
  }

  /** The row under a point of the stage. */
  at(y: number, top: number): Placed | undefined {
    if (y < this.pinnedHeight) {
      const row = this.pinned[rowAt(this.pinned, y)];
      return row && { row, y: row.y, pinned: true };
    }
    const row = this.rows[rowAt(this.rows, y - this.pinnedHeight + top)];
    return row && { row, y: row.y - top + this.pinnedHeight, pinned: false };
  }

  /** Index of a track's row among the scrolled ones. */
  indexOf(track: number): number | undefined {
    return this.placeOf.get(track);
  }

  /** Has a track a row of its own, on the screen or off it? */
  has(track: number): boolean {
    return this.placeOf.has(track) || this.pinned.some((row) => row.node.track.track === track);
  }

  /** A track's own row, pinned or scrolled. */
  placedOf(track: number, top: number): Placed | undefined {
    const pinned = this.pinned.find((row) => row.node.track.track === track);
    if (pinned) return { row: pinned, y: pinned.y, pinned: true };
    const row = this.rows[this.placeOf.get(track) ?? -1];
    return row && { row, y: row.y - top + this.pinnedHeight, pinned: false };
  }

  /** The middle of a track on the stage: its pinned row, its row, or that of what it is folded into. */
  middleOf(track: number, tree: TrackTree, top: number): number | undefined {
    const pinned = this.pinned.find((row) => row.node.track.track === track);
    if (pinned) return pinned.y + pinned.height / 2;
    for (let node: Node | undefined = tree.nodes.get(track); node; node = node.parent) {
      const index = this.placeOf.get(node.track.track);
      if (index === undefined) continue;
      const row = this.rows[index]!;
      return row.y + row.height / 2 - top + this.pinnedHeight;
    }
    return undefined;
  }
}
