// Who × whom: the largest rows and columns of pairs, everything else as "others", so that a matrix fits its panel and
// its sum stays the whole.
import type { Lanes, Rel } from "./lanes.ts";

export const OTHERS = "others";

export interface Matrix {
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  /** rows × columns. */
  readonly values: Float64Array;
  readonly most: number;
}

/** Sums of a field of lanes named `row \n column` over `[from, to)`. */
export function pairsOf(lanes: Lanes, field: number, from: Rel, to: Rel): Map<string, number> {
  const pairs = new Map<string, number>();
  for (const name of lanes.names) {
    const sum = lanes.sum(name, field, from, to);
    if (sum > 0) pairs.set(name, sum);
  }
  return pairs;
}

/** The matrix of pairs (`row \n column` → value) with at most so many rows and columns, largest first. */
export function matrixOf(pairs: ReadonlyMap<string, number>, most_rows: number, most_columns: number): Matrix {
  const byRow = new Map<string, number>();
  const byColumn = new Map<string, number>();
  for (const [name, value] of pairs) {
    const [row, column] = split(name);
    byRow.set(row, (byRow.get(row) ?? 0) + value);
    byColumn.set(column, (byColumn.get(column) ?? 0) + value);
  }
  const rows = largest(byRow, most_rows);
  const columns = largest(byColumn, most_columns);
  const values = new Float64Array(rows.length * columns.length);
  const place = (names: readonly string[], name: string): number => {
    const at = names.indexOf(name);
    return at >= 0 ? at : names.length - 1;
  };
  for (const [name, value] of pairs) {
    const [row, column] = split(name);
    values[place(rows, row) * columns.length + place(columns, column)]! += value;
  }
  return { rows, columns, values, most: values.reduce((most, value) => Math.max(most, value), 0) };
}

export function split(name: string): [string, string] {
  const at = name.indexOf("\n");
  return [name.slice(0, at), name.slice(at + 1)];
}

/** The names of the largest sums; the last place goes to the others if there are more. */
export function largest(sums: ReadonlyMap<string, number>, most: number): string[] {
  const sorted = [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  return sorted.length <= most ? sorted : [...sorted.slice(0, Math.max(most - 1, 0)), OTHERS];
}
