// All that the user can change, in one place. Modules read it; `App` changes it and asks for a frame.
import type { Facts } from "../api/types.ts";
import { EVERYTHING, type KeyFilter, type TrackFilter } from "../core/filter.ts";
import type { Flow } from "../core/flows.ts";
import type { Theme } from "../core/palette.ts";
import type { CriticalPath, Places } from "../core/path.ts";
import type { Blame, Finding } from "../core/pathwords.ts";
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

/** An explanation of a range of a thread or vCPU: `transect explain` by SQL. A field is undefined until its query is answered. */
export interface Explained extends Range {
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
  /** The piece that was clicked. */
  picked?: number;
}

export type DockTab = "facts" | "range" | "why" | "sql" | "marks";

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
}
