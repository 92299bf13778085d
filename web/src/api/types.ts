// The JSON of the server's API (docs/reference/timeline-format.md). Times are decimal strings, because JSON's
// numbers end at 2^53; what is not known is null or absent.

import type { WallJson } from "../core/wall.ts";

export interface MachineInfo {
  readonly machine_id: number;
  readonly name: string;
  readonly kind: string;
  readonly parent_id: number | null;
  readonly clock?: string | null;
  readonly error_ns?: number | string | null;
}

export interface LostInfo {
  readonly ts: string;
  readonly dur: string | number | null;
  readonly machine_id: number | null;
  readonly cpu: number | null;
  readonly count: number | string | null;
  readonly cause?: string | null;
}

export interface BuildState {
  /** rows, events (of the tables) or tiles. */
  readonly stage?: string | null;
  /** building, ready or failed. */
  readonly state: string;
  readonly done: number;
  /** 0: not known. */
  readonly total: number;
  readonly error?: string | null;
}

export interface RecordingInfo {
  readonly name: string;
  readonly unit?: string;
  readonly origin?: string | null;
  readonly from: string;
  readonly to: string;
  readonly window?: { readonly from: string; readonly to: string } | null;
  /** How many tracks there were when this was said. */
  readonly tracks: number;
  readonly machines: readonly MachineInfo[];
  readonly lost?: readonly LostInfo[];
  readonly problems?: readonly (string | Readonly<Record<string, unknown>>)[];
  /** The filter that the recording was made with; null or absent: none. */
  readonly filter?: string | null;
  /** The map from trace time to the host's wall clock, in order of time; empty or absent: unknown. */
  readonly wall?: readonly WallJson[] | null;
  readonly building?: BuildState | null;
}

/** A place one can jump to. */
export interface Place {
  readonly track?: number | null;
  readonly ts?: string | null;
  readonly dur?: string | number | null;
  readonly key?: number | null;
  readonly label?: string | null;
  readonly reason?: string | null;
}

/** Who woke somebody, and what kind of cause that was. */
export interface Waker extends Place {
  readonly kind?: string | null;
  readonly evidence?: string | null;
  /** It was an interrupt, which the label names. */
  readonly interrupt?: boolean | null;
}

/** An arrow in `/api/at`. */
export interface FactsArrow {
  readonly from: Place;
  readonly to: Place;
  readonly kind: string;
  readonly evidence?: string | null;
  readonly what?: string | null;
}

/** `/api/at`: everything about one interval. */
export interface Facts {
  readonly track: number;
  readonly ts: string;
  readonly dur: string | number | null;
  readonly key?: number | null;
  readonly label?: string | null;
  readonly rows?: readonly { readonly table: string; readonly values: Readonly<Record<string, unknown>> }[];
  readonly previous?: Place | null;
  readonly next?: Place | null;
  readonly exit?: Place | null;
  readonly waker?: Waker | null;
  readonly preemptor?: Place | null;
  readonly arrows?: readonly FactsArrow[];
}

export interface SearchAnswer {
  readonly tracks?: readonly { readonly track: number; readonly why?: string | null }[];
  readonly keys?: readonly { readonly key: number }[];
  readonly hits?: readonly { readonly track: number; readonly ts: string; readonly dur?: string | number | null; readonly label?: string | null }[];
}
