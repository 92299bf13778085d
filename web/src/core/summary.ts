// One line per row: what share of the visible time it ran, waited, slept. It is what the columns on
// the screen add up to, written beside the row's name, so that a starved row can be read, not guessed.
import { SLOTS, type Columns } from "./columns.ts";
import { percent } from "./format.ts";
import type { PaintTable } from "./palette.ts";

export interface Summary {
  readonly ran: number;
  readonly waited: number;
  readonly slept: number;
  readonly unknown: number;
  /** Share of the row that has tiles; the others are shares of this part. */
  readonly known: number;
}

/** Adds a row's columns up. */
export function summaryOf(columns: Columns, paints: PaintTable): Summary {
  const sums = { ran: 0, waited: 0, slept: 0, unknown: 0, other: 0 };
  let known = 0;
  for (let x = 0; x < columns.width; x++) {
    known += columns.known[x]!;
    for (let slot = 0; slot < columns.count[x]!; slot++) {
      sums[paints.of(columns.key[x * SLOTS + slot]!).counts] += columns.share[x * SLOTS + slot]!;
    }
  }
  const of = Math.max(known, 1e-9);
  return { ran: (sums.ran + sums.other) / of, waited: sums.waited / of, slept: sums.slept / of, unknown: sums.unknown / of, known: known / Math.max(columns.width, 1) };
}

/** `12 %`, `61 %`: shares of ran, waited and unknown time; empty if they are negligible. */
export function summaryText(summary: Summary): Readonly<Record<"ran" | "waited" | "unknown", string>> {
  return {
    ran: summary.ran > 0.0005 ? percent(summary.ran) : "",
    waited: summary.waited >= 0.01 ? percent(summary.waited) : "",
    unknown: summary.unknown >= 0.01 ? percent(summary.unknown) : "",
  };
}
