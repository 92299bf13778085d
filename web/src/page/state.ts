// All that the user can change, in one place. Modules read it; `App` changes it and asks for a frame.
import type { Facts } from "../api/types.ts";
import { EVERYTHING, type KeyFilter, type TrackFilter } from "../core/filter.ts";
import type { Flow } from "../core/flows.ts";
import type { Theme } from "../core/palette.ts";
import type { CriticalPath, Places } from "../core/path.ts";
import type { Blame, Finding } from "../core/pathwords.ts";
import type { Request, RequestId } from "../core/request.ts";
import type { RequestPlaces, StagePiece } from "../core/requestplaces.ts";
import type { Rel } from "../core/time.ts";
import type { ColourMode } from "../core/url.ts";
import type { Range } from "../core/view.ts";
import { memory } from "./dom.ts";

/** A point in time on a track (or on none, from the ruler). */
export interface Spot {
  readonly at: Rel;
  readonly track: number | undefined;
}

/** The chosen interval. */
export interface Chosen {
  readonly track: number;
  readonly ts: Rel;
  readonly dur: number;
  readonly key: number;
}

/** A selected range and the tracks it was drawn over (undefined: those on the screen). */
export interface Selection extends Range {
  readonly tracks: readonly number[] | undefined;
}

export interface Mark {
  readonly at: Rel;
  readonly note: string;
}

/** What the layer of paths draws over the rows in a range: pieces one after another. */
export interface DrawnPath extends Range {
  /** The row that has a place on the screen in any case. */
  readonly track?: number;
  readonly path?: CriticalPath;
  /** The piece that was clicked. */
  picked?: number;
}

/** An explanation of a range of a thread or vCPU: `transect explain` by SQL. A field is undefined until its query is answered. */
export interface Explained extends DrawnPath {
  readonly track: number;
  path?: CriticalPath;
  places?: Places;
  /** The path has more pieces: those after this moment are missing. */
  cut?: Rel;
  sentences?: readonly string[];
  blame?: readonly Blame[];
  findings?: readonly Finding[];
  /** Failed queries, one line each. */
  readonly errors: string[];
}

/** A block request or packet by stage. A field is undefined until its query is answered. */
export interface DrawnRequest extends DrawnPath {
  readonly id: RequestId;
  from: Rel;
  to: Rel;
  request?: Request;
  places?: RequestPlaces;
  /** Undefined if fewer than two of its events are known. */
  path?: CriticalPath<StagePiece>;
  /** Failed queries, one line each. */
  readonly errors: string[];
}

export type DockTab = "facts" | "range" | "why" | "requests" | "sql" | "marks";

/** The ruler's row of the wall clock: in the browser's zone, in UTC, or hidden. */
export type ClockRow = "local" | "utc" | "off";

export class State {
  view: Range = { from: 0, to: 1 };
  folded = new Set<number>();
  opened = new Set<number>();
  pinned: number[] = [];
  filterText = "";
  trackFilter: TrackFilter = EVERYTHING;
  keyFilter: KeyFilter = null;
  colour: ColourMode = "who";
  theme: Theme = "dark";
  clock: ClockRow = (["utc", "off"] as const).find((row) => row === memory.get("clock")) ?? "local";
  chosen: Chosen | undefined;
  facts: Facts | undefined;
  factsError: string | undefined;
  selection: Selection | undefined;
  /** The explained thread or vCPU and its critical path. */
  why: Explained | undefined;
  /** The request whose stages are drawn. There is a critical path or a request, never both. */
  request: DrawnRequest | undefined;
  marks: Mark[] = [];
  measureFrom: Spot | undefined;
  measureTo: Spot | undefined;
  flowsOn = false;
  flows: readonly Flow[] = [];
  flowsLeftOut = 0;
  /** Pointer over the stage, in CSS pixels of the stage; undefined when it is elsewhere. */
  pointer: { x: number; y: number } | undefined;
  /** How busy threads were in the range that is seen, ns, where that is known. */
  busy: ReadonlyMap<number, number> | undefined;
  /** The track the keyboard is on. */
  current: number | undefined;
  dock: DockTab | undefined;

  /** The critical path or request that is drawn over the rows. */
  get drawn(): DrawnPath | undefined {
    return this.why ?? this.request;
  }
}
