// Arrow IPC ↔ what the page works with. Flechette reads the streams; int64 columns are taken as raw
// BigInt64Array and turned into relative times in one go (core/time.ts).
import { tableFromIPC, type Table } from "@uwdata/flechette";
import { relColumn } from "../core/time.ts";
import type { Key } from "../core/palette.ts";
import type { Track } from "../core/tracks.ts";
import type { ExactTile, SumsTile, Tile } from "../core/tile.ts";
import type { Flow } from "../core/flows.ts";
import type { Cell } from "../core/rows.ts";

type NumberArray = ArrayLike<number>;

/** Reads a stream; 64-bit integers stay BigInt. */
export function readTable(bytes: Uint8Array): Table {
  return tableFromIPC(bytes, { useBigInt: true });
}

/** A column's values, or undefined if the table lacks it. */
function column(table: Table, name: string): ArrayLike<unknown> | undefined {
  return table.getChild(name)?.toArray();
}

function wanted(table: Table, name: string): ArrayLike<unknown> {
  const found = column(table, name);
  if (!found) throw new Error(`the response has no column ${name}: page and server versions differ; reload the page`);
  return found;
}

function int64(values: ArrayLike<unknown>): BigInt64Array {
  return values instanceof BigInt64Array ? values : BigInt64Array.from(values as ArrayLike<bigint>, BigInt);
}

function floats(values: ArrayLike<unknown> | undefined): Float64Array | undefined {
  if (!values) return undefined;
  return values instanceof Float64Array ? values : Float64Array.from(values as ArrayLike<number | null>, (value) => value ?? NaN);
}

/** `u32 length` + stream, several of them. Throws on a body that was cut. */
export function frames(body: ArrayBuffer): Uint8Array[] {
  const out: Uint8Array[] = [];
  const view = new DataView(body);
  let at = 0;
  while (at < body.byteLength) {
    if (at + 4 > body.byteLength) throw new Error(`tiles: response truncated in a frame length at byte ${at}`);
    const length = view.getUint32(at, true);
    if (at + 4 + length > body.byteLength) throw new Error(`tiles: frame at byte ${at} declares ${length} bytes, ${body.byteLength - at - 4} follow`);
    // Arrow's buffers are views of 8-byte words: a frame that lies across them is copied.
    const start = at + 4;
    out.push(start % 8 === 0 ? new Uint8Array(body, start, length) : new Uint8Array(body.slice(start, start + length)));
    at += 4 + length;
  }
  return out;
}

/** One decoded tile and where it belongs. */
export interface Placed {
  readonly track: number;
  readonly index: number;
  readonly tile: Tile;
}

/** Decodes the two frames of `/api/tiles`; `order` is the keys' stacking order, if it is known. Tiles that are in neither are empty: the caller knows which it asked for. */
export function decodeTiles(body: ArrayBuffer, origin: bigint, order?: Uint32Array): Placed[] {
  const [exact, sums] = frames(body);
  if (!exact || !sums) throw new Error("tiles: the response has fewer than two frames");
  return [...decodeExact(readTable(exact), origin), ...decodeSums(readTable(sums), order)];
}

function decodeExact(table: Table, origin: bigint): Placed[] {
  if (table.numRows === 0) return [];
  const tracks = wanted(table, "track") as NumberArray;
  const tiles = int64(wanted(table, "tile"));
  const ts = relColumn(int64(wanted(table, "ts")), origin);
  const dur = relColumn(int64(wanted(table, "dur")), 0n);
  const key = Uint32Array.from(wanted(table, "key") as NumberArray);
  const value = floats(column(table, "value"));
  return spans(tracks, tiles).map(({ from, to }) => {
    const tile: ExactTile = { kind: "exact", ts: ts.slice(from, to), dur: dur.slice(from, to), key: key.slice(from, to) };
    const counter = value !== undefined && key[from] === 0;
    return { track: tracks[from]!, index: Number(tiles[from]), tile: counter ? { ...tile, value: value.slice(from, to) } : tile };
  });
}

function decodeSums(table: Table, order: Uint32Array | undefined): Placed[] {
  if (table.numRows === 0) return [];
  const tracks = wanted(table, "track") as NumberArray;
  const tiles = int64(wanted(table, "tile"));
  const bucket = Uint16Array.from(wanted(table, "bucket") as NumberArray);
  const key = Uint32Array.from(wanted(table, "key") as NumberArray);
  const share = Uint16Array.from(wanted(table, "share") as NumberArray);
  const [min, max, mean] = ["min", "max", "mean"].map((name) => floats(column(table, name)));
  return spans(tracks, tiles).map(({ from, to }) => {
    if (order) sortBuckets(bucket, key, share, from, to, order);
    const tile: SumsTile = { kind: "sums", bucket: bucket.slice(from, to), key: key.slice(from, to), share: share.slice(from, to) };
    const counter = key[from] === 0 && min && max && mean;
    const extremes = counter ? { min: min.slice(from, to), max: max.slice(from, to), mean: mean.slice(from, to) } : {};
    return { track: tracks[from]!, index: Number(tiles[from]), tile: { ...tile, ...extremes } };
  });
}

/**
 * Puts each bucket's entries in the order in which columns stack them. It is done once, here in the worker;
 * what every frame sorts is then in order already. Nothing relies on it: keys that came later have no place yet.
 */
function sortBuckets(bucket: Uint16Array, key: Uint32Array, share: Uint16Array, from: number, to: number, order: Uint32Array): void {
  for (let i = from + 1; i < to; i++) {
    const k = key[i]!;
    const s = share[i]!;
    const place = order[k] ?? k;
    let at = i;
    for (; at > from && bucket[at - 1] === bucket[i] && (order[key[at - 1]!] ?? 0) > place; at--) {
      key[at] = key[at - 1]!;
      share[at] = share[at - 1]!;
    }
    key[at] = k;
    share[at] = s;
  }
}

/** Runs of rows with the same track and tile. */
function spans(tracks: NumberArray, tiles: BigInt64Array): { from: number; to: number }[] {
  const out: { from: number; to: number }[] = [];
  let from = 0;
  for (let i = 1; i <= tracks.length; i++) {
    if (i < tracks.length && tracks[i] === tracks[from] && tiles[i] === tiles[from]) continue;
    out.push({ from, to: i });
    from = i;
  }
  return out;
}

function rowsOf(table: Table): Record<string, unknown>[] {
  const columns = table.names.map((name) => [String(name), wanted(table, String(name))] as const);
  return Array.from({ length: table.numRows }, (_, i) => Object.fromEntries(columns.map(([name, values]) => [name, values[i]])));
}

const number = (value: unknown): number => Number(value ?? 0);
const numberOrNull = (value: unknown): number | null => (value === null || value === undefined ? null : Number(value));
const textOrNull = (value: unknown): string | null => (value === null || value === undefined ? null : String(value));
const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));

/** `/api/tracks`. */
export function decodeTracks(bytes: Uint8Array): Track[] {
  if (bytes.length === 0) return [];
  return rowsOf(readTable(bytes)).map((row) => ({
    track: number(row["track"]),
    parent: numberOrNull(row["parent"]),
    machine_id: number(row["machine_id"]),
    layer: text(row["layer"]),
    kind: text(row["kind"]),
    name: text(row["name"]),
    detail: text(row["detail"]),
    sort: number(row["sort"]),
    cpu: numberOrNull(row["cpu"]),
    vcpu: numberOrNull(row["vcpu"]),
    tid: numberOrNull(row["tid"]),
    intervals: number(row["intervals"]),
    busy_ns: number(row["busy_ns"]),
    shape: text(row["shape"]),
  }));
}

/** `/api/keys`. */
export function decodeKeys(bytes: Uint8Array): Key[] {
  if (bytes.length === 0) return [];
  return rowsOf(readTable(bytes)).map((row) => ({
    key: number(row["key"]),
    class: text(row["class"]),
    state: text(row["state"]),
    label: text(row["label"]),
    machine_id: numberOrNull(row["machine_id"]),
    vcpu: numberOrNull(row["vcpu"]),
    tid: numberOrNull(row["tid"]),
    reason: row["reason"] === null || row["reason"] === undefined ? null : String(row["reason"]),
  }));
}

/** `/api/flows`. */
export function decodeFlows(bytes: Uint8Array, origin: bigint): Flow[] {
  const table = readTable(bytes);
  if (table.numRows === 0) return [];
  const from = relColumn(int64(wanted(table, "from_ts")), origin);
  const to = relColumn(int64(wanted(table, "to_ts")), origin);
  return rowsOf(table).map((row, i) => ({
    from_track: number(row["from_track"]),
    from_ts: from[i]!,
    to_track: number(row["to_track"]),
    to_ts: to[i]!,
    kind: text(row["kind"]),
    evidence: textOrNull(row["evidence"]),
    what: textOrNull(row["what"]),
  }));
}

/** An answer of `/api/sql`: names, and a function that gives one row, so that only seen rows are made. */
export interface SqlTable {
  readonly columns: readonly string[];
  readonly length: number;
  row(i: number): Cell[];
}

export function decodeSql(bytes: Uint8Array): SqlTable {
  const table = readTable(bytes);
  const columns = table.names.map(String);
  const children = columns.map((_, i) => table.getChildAt(i));
  return {
    columns,
    length: table.numRows,
    row: (i) => children.map((child) => cellOf(child.at(i))),
  };
}

function cellOf(value: unknown): Cell {
  if (value === null || value === undefined) return null;
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return value;
  if (value instanceof Date) return value.toISOString();
  return JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? String(inner) : inner));
}
