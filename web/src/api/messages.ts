// What the page and its tile worker say to each other.
import type { TileRequest } from "../core/plan.ts";
import type { Placed } from "./arrow.ts";

/** Page → worker. */
export interface AskTiles {
  /** The keys' stacking order; sent when it has changed. */
  readonly order?: Uint32Array;
  readonly id: number;
  readonly origin: bigint;
  readonly request: TileRequest;
}

/** Worker → page. */
export type TilesAnswer =
  | { readonly id: number; readonly ok: true; readonly tiles: readonly Placed[]; readonly building: boolean }
  | { readonly id: number; readonly ok: false; readonly error: string; /** They are being made: no failure. */ readonly building: boolean; /** The answer would have too many rows. */ readonly tooLarge: boolean };
