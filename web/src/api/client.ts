// The server as functions. Every failure becomes one line for the user: what, and what the server said.
import { decodeFlows, decodeKeys, decodeSql, decodeTracks, type SqlTable } from "./arrow.ts";
import type { Facts, RecordingInfo, SearchAnswer } from "./types.ts";
import type { Flow } from "../core/flows.ts";
import type { Key } from "../core/palette.ts";
import type { StatsAnswer } from "../core/stats.ts";
import type { Track } from "../core/tracks.ts";

/** An answer that was not 2xx. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** How often, and after how long, a question is put again to a server that has too many at once (503). */
const AGAIN = [80, 200, 500, 1200];

/** Sends a request; throws `ApiError` with the server's own line. */
export async function call(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  for (const wait_ms of AGAIN) {
    try {
      return await once(path, body, signal);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 503) throw error;
    }
    await new Promise((done) => setTimeout(done, wait_ms));
    if (signal?.aborted) throw new DOMException("not wanted any more", "AbortError");
  }
  return once(path, body, signal);
}

async function once(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { credentials: "same-origin" };
  if (body !== undefined) {
    init.method = "POST";
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  if (signal) init.signal = signal;
  const answer = await fetch(path, init).catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(0, "the server does not answer: is `transect view` still running?");
  });
  if (!answer.ok) throw new ApiError(answer.status, await errorLine(answer));
  return answer;
}

async function errorLine(answer: Response): Promise<string> {
  const text = await answer.text().catch(() => "");
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed) return String(parsed.error);
  } catch {
    // Not JSON: the text itself, cut, is the best there is.
  }
  return text.slice(0, 300) || `the server answered ${answer.status}`;
}

async function bytes(answer: Response): Promise<Uint8Array> {
  return new Uint8Array(await answer.arrayBuffer());
}

export const api = {
  recording: async (): Promise<RecordingInfo> => (await (await call("/api/recording")).json()) as RecordingInfo,
  tracks: async (): Promise<Track[]> => decodeTracks(await bytes(await call("/api/tracks"))),
  keys: async (): Promise<Key[]> => decodeKeys(await bytes(await call("/api/keys"))),
  at: async (track: number, ts: bigint, signal?: AbortSignal): Promise<Facts> =>
    (await (await call(`/api/at?track=${track}&ts=${ts}`, undefined, signal)).json()) as Facts,
  flows: async (from: bigint, to: bigint, tracks: readonly number[], limit: number, origin: bigint, signal?: AbortSignal): Promise<Flow[]> =>
    decodeFlows(await bytes(await call("/api/flows", { from: String(from), to: String(to), tracks, limit }, signal)), origin),
  stats: async (from: bigint, to: bigint, tracks: readonly number[] | undefined, signal?: AbortSignal): Promise<StatsAnswer> => {
    const range = { from: String(from), to: String(to) };
    return (await (await call("/api/stats", tracks ? { ...range, tracks } : range, signal)).json()) as StatsAnswer;
  },
  busy: async (from: bigint, to: bigint, signal?: AbortSignal): Promise<ReadonlyMap<number, number>> => {
    const answer = (await (await call("/api/busy", { from: String(from), to: String(to) }, signal)).json()) as { tracks: readonly { track: number; busy_ns: number }[] };
    return new Map(answer.tracks.map(({ track, busy_ns }) => [track, busy_ns]));
  },
  next: async (from: bigint, tracks: readonly number[], keys: readonly number[]): Promise<{ found: { track: number; ts: string; dur: string; key: number } | null; complete: boolean }> =>
    (await (await call("/api/next", { from: String(from), tracks, keys })).json()) as { found: { track: number; ts: string; dur: string; key: number } | null; complete: boolean },
  sql: async (sql: string, limit: number, signal?: AbortSignal): Promise<{ table: SqlTable; truncated: boolean }> => {
    const answer = await call("/api/sql", { sql, limit }, signal);
    return { table: decodeSql(await bytes(answer)), truncated: answer.headers.get("x-truncated") === "true" };
  },
  search: async (text: string, signal?: AbortSignal): Promise<SearchAnswer> => (await (await call("/api/search", { text }, signal)).json()) as SearchAnswer,
  export: async (from: bigint, to: bigint, format: "perfetto" | "recording"): Promise<{ blob: Blob; name: string | undefined }> => {
    const answer = await call("/api/export", { from: String(from), to: String(to), format });
    const name = /filename="?([^";]+)"?/.exec(answer.headers.get("content-disposition") ?? "")?.[1];
    return { blob: await answer.blob(), name };
  },
};
