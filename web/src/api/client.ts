// The server as functions.
import { decodeFlows, decodeKeys, decodeSql, decodeTracks, type SqlTable } from "./arrow.ts";
import { call } from "./call.ts";
import type { Facts, RecordingInfo, SearchAnswer } from "./types.ts";
import type { Flow } from "../core/flows.ts";
import type { Key } from "../core/palette.ts";
import type { StatsAnswer } from "../core/stats.ts";
import type { Track } from "../core/tracks.ts";

async function bytes(answer: Response): Promise<Uint8Array> {
  return new Uint8Array(await answer.arrayBuffer());
}

export const api = {
  recording: async (): Promise<RecordingInfo> => (await (await call("api/recording")).json()) as RecordingInfo,
  tracks: async (): Promise<Track[]> => decodeTracks(await bytes(await call("api/tracks"))),
  keys: async (): Promise<Key[]> => decodeKeys(await bytes(await call("api/keys"))),
  at: async (track: number, ts: bigint, signal?: AbortSignal): Promise<Facts> =>
    (await (await call(`api/at?track=${track}&ts=${ts}`, undefined, signal)).json()) as Facts,
  flows: async (from: bigint, to: bigint, tracks: readonly number[], limit: number, origin: bigint, signal?: AbortSignal): Promise<Flow[]> =>
    decodeFlows(await bytes(await call("api/flows", { from: String(from), to: String(to), tracks, limit }, signal)), origin),
  stats: async (from: bigint, to: bigint, tracks: readonly number[] | undefined, signal?: AbortSignal): Promise<StatsAnswer> => {
    const range = { from: String(from), to: String(to) };
    return (await (await call("api/stats", tracks ? { ...range, tracks } : range, signal)).json()) as StatsAnswer;
  },
  busy: async (from: bigint, to: bigint, signal?: AbortSignal): Promise<ReadonlyMap<number, number>> => {
    const answer = (await (await call("api/busy", { from: String(from), to: String(to) }, signal)).json()) as { tracks: readonly { track: number; busy_ns: number }[] };
    return new Map(answer.tracks.map(({ track, busy_ns }) => [track, busy_ns]));
  },
  next: async (from: bigint, tracks: readonly number[], keys: readonly number[]): Promise<{ found: { track: number; ts: string; dur: string; key: number } | null; complete: boolean }> =>
    (await (await call("api/next", { from: String(from), tracks, keys })).json()) as { found: { track: number; ts: string; dur: string; key: number } | null; complete: boolean },
  sql: async (sql: string, limit: number, signal?: AbortSignal): Promise<{ table: SqlTable; truncated: boolean }> => {
    const answer = await call("api/sql", { sql, limit }, signal);
    return { table: decodeSql(await bytes(answer)), truncated: answer.headers.get("x-truncated") === "true" };
  },
  search: async (text: string, signal?: AbortSignal): Promise<SearchAnswer> => (await (await call("api/search", { text }, signal)).json()) as SearchAnswer,
  export: async (from: bigint, to: bigint, format: "perfetto" | "recording" | "flame"): Promise<{ blob: Blob; name: string | undefined }> => {
    const answer = await call("api/export", { from: String(from), to: String(to), format });
    const name = /filename="?([^";]+)"?/.exec(answer.headers.get("content-disposition") ?? "")?.[1];
    return { blob: await answer.blob(), name };
  },
};
