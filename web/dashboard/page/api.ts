// `transect serve` as functions. Times on the wire are unix ns as decimal strings: JSON's numbers end at 2^53.
import { call } from "../../src/api/call.ts";
import type { SnapshotJson } from "../core/snapshots.ts";
import type { HistoryJson, MissingRow, Table, WindowJson } from "../core/wire.ts";

export interface HistoryStatus {
  readonly oldest_unix_ns?: number | null;
  readonly newest_unix_ns?: number | null;
  readonly bytes?: number;
  readonly bytes_limit?: number;
  /** Windows that are damaged on disk. */
  readonly windows_gone?: number;
  /** `ok`, `full`, `failed` or `off`. */
  readonly state?: string;
  readonly why?: string | null;
}

export interface StatusJson {
  readonly version?: string;
  readonly host?: string;
  readonly window_ns?: number;
  readonly history?: HistoryStatus;
  readonly missing?: readonly MissingRow[];
  readonly health?: Readonly<Record<string, unknown>>;
  /** Rights of this page's requests, of `windows`, `read` and `control`. */
  readonly scopes?: readonly string[];
  /** Why no window comes any more. */
  readonly ended?: string | null;
  readonly snapshots?: {
    readonly state?: string;
    readonly why?: string | null;
    readonly kept?: number;
    /** Since when the flight recorder has all events. */
    readonly reach_back_to_unix_ns?: number | null;
  };
}

const wire = (unix_ns: number): string => String(BigInt(Math.round(unix_ns)));

/** A step as the server reads it. */
function stepWord(ns: number): string {
  return ns % 1e9 === 0 ? `${ns / 1e9}s` : `${Math.round(ns / 1e6)}ms`;
}

async function json<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await call(path, body, signal)).json()) as T;
}

export const api = {
  status: (signal?: AbortSignal): Promise<StatusJson> => json<StatusJson>("api/v1/status", undefined, signal),
  /** The newest window, with these tables or (of none) all; undefined if none that is newer than `after` came while the server waited. */
  now: async (tables: readonly Table[], after: number | undefined, signal?: AbortSignal): Promise<WindowJson | undefined> => {
    const parts = [...(tables.length > 0 ? [`tables=${tables.join(",")}`] : []), ...(after === undefined ? [] : [`after=${after}`])];
    const query = parts.length > 0 ? `?${parts.join("&")}` : "";
    const answer = await call(`api/v1/now${query}`, undefined, signal);
    return answer.status === 204 ? undefined : ((await answer.json()) as WindowJson);
  },
  history: (from_unix_ns: number, until_unix_ns: number, step_ns: number, tables: readonly Table[], signal?: AbortSignal): Promise<HistoryJson> =>
    json<HistoryJson>(`api/v1/history?from=${wire(from_unix_ns)}&until=${wire(until_unix_ns)}&step=${stepWord(step_ns)}&tables=${tables.join(",")}`, undefined, signal),
  snapshots: async (signal?: AbortSignal): Promise<readonly SnapshotJson[]> => {
    return (await json<{ readonly snapshots: readonly SnapshotJson[] }>("api/v1/snapshots", undefined, signal)).snapshots;
  },
  take: (seconds: number, reason: string): Promise<SnapshotJson> => json<SnapshotJson>("api/v1/snapshots", { seconds, reason }),
  login: async (token: string): Promise<void> => void (await call("login", { token })),
};

/** The address at which the timeline shows a snapshot. */
export function viewPath(id: string): string {
  return `view/${encodeURIComponent(id)}/`;
}
