// The test double of `transect serve`: its API over a made-up host, or over the windows of a log that `transect top --log`
// wrote, played again and again. For development and for states that the real one cannot be brought into at will.
// `npm run dashboard -- --vms 100`, or `-- --log top.jsonl`.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import type { SnapshotJson } from "../dashboard/core/snapshots.ts";
import type { GoneJson, HistoryJson, WindowJson } from "../dashboard/core/wire.ts";
import { Fleet, FLEET, type FleetOptions } from "./fleet.ts";
import { merged } from "./merge.ts";
import { pass } from "./server.ts";

export interface ServeOptions extends FleetOptions {
  readonly port: number;
  readonly dist: string;
  /** Windows of a log instead of made-up ones. */
  readonly log: string;
  /** Address of a running `transect serve` (with `?token=` if it wants one): its answers, with the page of `dist`. */
  readonly api: string;
  /** How far the history reaches back, seconds. */
  readonly history_s: number;
  /** Stretches without windows, seconds before the start: from, to. */
  readonly gaps: readonly (readonly [number, number])[];
  /** A fixed time instead of the clock, unix ms: no new windows come. */
  readonly frozen_ms: number;
}

const TABLES = ["machines", "windows", "window_details", "thread_windows", "cpu_windows", "exit_windows", "antagonists", "io_windows", "container_windows", "pressure_windows", "findings", "missing", "health"];
const TYPES: Readonly<Record<string, string>> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Windows that are kept; the others are made again. */
const CACHED = 4000;

/** What can go wrong. */
export type Mode = "ok" | "gone" | "denied" | "full" | "read-only" | "no-token";

export class Double {
  mode: Mode = "ok";
  /** A history whose newest window is this one, though there are newer ones, and that takes its time. */
  lag: { readonly newest: number; readonly answer_ms: number } | undefined;
  /** Windows that are damaged on disk. */
  damaged: GoneJson | undefined;
  /** Snapshots that were taken. */
  readonly taken: (SnapshotJson & { seconds: number })[] = [];
  /** Requests so far, by path. */
  readonly asked: string[] = [];
  private readonly fleet: Fleet;
  private readonly log: readonly WindowJson[];
  private readonly cache = new Map<number, WindowJson>();
  private readonly started_ms = Date.now();

  constructor(readonly options: ServeOptions) {
    this.fleet = new Fleet(options);
    this.log = options.log ? readLog(options.log) : [];
  }

  get window_ns(): number {
    return this.log[0]?.dur ?? this.options.window_ns;
  }

  private now_ms(): number {
    return this.options.frozen_ms || Date.now();
  }

  /** Number of the newest window. */
  newest(): number {
    return Math.floor((this.now_ms() * 1e6) / this.window_ns) - 1;
  }

  oldest(): number {
    return Math.floor(((this.options.frozen_ms || this.started_ms) * 1e6) / this.window_ns) - Math.round((this.options.history_s * 1e9) / this.window_ns);
  }

  /** Is there a window of that number? */
  private has(number: number): boolean {
    const before_s = (((this.options.frozen_ms || this.started_ms) * 1e6) / this.window_ns - number) * (this.window_ns / 1e9);
    return number >= this.oldest() && !this.options.gaps.some(([from, to]) => before_s <= from && before_s > to);
  }

  window(number: number): WindowJson {
    const known = this.cache.get(number);
    if (known) return known;
    const made = this.make(number);
    if (this.cache.size < CACHED) this.cache.set(number, made);
    return made;
  }

  private make(number: number): WindowJson {
    const ended = (number + 1) * this.window_ns;
    const missed = this.has(number - 1) || number === this.oldest() ? 0 : 1;
    if (this.log.length === 0) return { ...this.fleet.window(number, ended), missed_windows: missed };
    const of = this.log[((number % this.log.length) + this.log.length) % this.log.length]!;
    return { ...of, ts: number * this.window_ns, dur: this.window_ns, ended_unix_ns: ended, missed_windows: missed };
  }

  history(from_ns: number, until_ns: number, step_ns: number, tables: readonly string[]): HistoryJson {
    const windows: WindowJson[] = [];
    const { damaged } = this;
    let gone = 0;
    let open: WindowJson[] = [];
    let step = -1;
    const close = (): void => {
      if (open.length > 0) windows.push(merged(open, tables));
      open = [];
    };
    const first = Math.max(this.oldest(), Math.floor(from_ns / this.window_ns) - 1);
    for (let number = first; number <= this.newest(); number++) {
      const middle = (number + 0.5) * this.window_ns;
      if (middle < from_ns || middle >= until_ns || !this.has(number)) continue;
      if (damaged && middle >= damaged.from_unix_ns && middle < damaged.until_unix_ns) {
        gone++;
        continue;
      }
      const of = Math.floor(middle / step_ns);
      if (of !== step) close();
      step = of;
      open.push(this.window(number));
    }
    close();
    return { step_ns, windows, ...(damaged && gone > 0 ? { gone: [{ ...damaged, windows: gone }] } : {}) };
  }
}

/** Starts it; resolves once it listens. */
export async function startServe(options: Partial<ServeOptions> = {}): Promise<{ url: string; double: Double; close(): Promise<void>; listen(): Promise<void>; stop(): Promise<void> }> {
  const all: ServeOptions = { ...FLEET, port: 0, dist: "dist", log: "", api: "", history_s: 7200, gaps: [], frozen_ms: 0, ...options };
  const double = new Double(all);
  const service = new Service(double);
  let server: Server | undefined;
  let port = all.port;
  const listen = async (): Promise<void> => {
    server = createServer((request, response) => void service.serve(request, response));
    await new Promise<void>((done) => server!.listen(port, "127.0.0.1", done));
    const address = server.address();
    if (typeof address === "object" && address) port = address.port;
  };
  const stop = (): Promise<void> =>
    new Promise((done) => {
      server?.closeAllConnections();
      server?.close(() => done());
    });
  await listen();
  return { url: `http://127.0.0.1:${port}/`, double, close: stop, listen, stop };
}

class Service {
  constructor(private readonly double: Double) {}

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    this.double.asked.push(url.pathname + url.search);
    if (this.double.mode === "gone") return void request.socket.destroy();
    try {
      if (this.double.options.api && (url.pathname.startsWith("/api/") || url.pathname.startsWith("/view/"))) await pass(this.double.options.api, url, request, response);
      else if (url.pathname.startsWith("/api/") || url.pathname === "/login") await this.api(url, request, response);
      else await this.file(url, response);
    } catch (error) {
      response.headersSent ? response.end() : this.json(response, { error: error instanceof Error ? error.message : String(error) }, 400);
    }
  }

  private json(response: ServerResponse, value: unknown, status = 200): void {
    if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  }

  private async file(url: URL, response: ServerResponse): Promise<void> {
    const path = url.pathname === "/" ? "/dashboard.html" : normalize(url.pathname);
    const bytes = await readFile(join(this.double.options.dist, path)).catch(() => undefined);
    if (!bytes) return void response.writeHead(404, { "content-type": "text/plain" }).end("there is no such page\n");
    response.writeHead(200, {
      "content-type": TYPES[extname(path)] ?? "application/octet-stream",
      "cache-control": "no-store",
      "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; worker-src 'self'",
    });
    response.end(bytes);
  }

  private async api(url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { double } = this;
    const parameter = (name: string): string => url.searchParams.get(name) ?? "";
    const tables = parameter("tables") ? parameter("tables").split(",") : TABLES;
    const unknown = tables.find((table) => !TABLES.includes(table));
    if (unknown !== undefined) return this.json(response, { error: `there is no table ${unknown}`, hint: TABLES.join(", ") }, 400);
    if (url.pathname === "/login") {
      const { token } = (await read(request)) as { token: string };
      if (token !== "development-token") return this.json(response, { error: "this token is not known", hint: "see read_tokens" }, 401);
      double.mode = "ok";
      return this.json(response, {});
    }
    if (double.mode === "denied") return this.json(response, { error: "this address needs a token", hint: "Authorization: Bearer TOKEN" }, 401);
    if (double.mode === "no-token" && url.pathname.startsWith("/api/v1/snapshots")) return this.json(response, { error: "this request needs a token with the scope read", hint: "Authorization: Bearer TOKEN" }, 401);
    switch (url.pathname) {
      case "/api/v1/status":
        return this.json(response, this.status());
      case "/api/v1/now": {
        const until = Date.now() + 30_000;
        const after = url.searchParams.has("after") ? Number(parameter("after")) : -Infinity;
        while (double.newest() * double.window_ns <= after && Date.now() < until && !request.socket.destroyed && double.mode === "ok") await new Promise((done) => setTimeout(done, 20));
        return this.json(response, picked(double.window(double.newest()), tables));
      }
      case "/api/v1/history": {
        const step_ns = lengthOf(parameter("step"));
        const [from, until] = [Number(parameter("from")), Number(parameter("until"))];
        if ((until - from) / step_ns > 2001) return this.json(response, { error: `${Math.round((until - from) / step_ns)} steps are too many`, hint: "at most 2,000" }, 400);
        const { lag } = double;
        const answer = double.history(from, lag ? Math.min(until, (lag.newest + 1) * double.window_ns) : until, step_ns, tables);
        if (lag) await new Promise((done) => setTimeout(done, lag.answer_ms));
        return this.json(response, answer);
      }
      case "/api/v1/snapshots":
        return request.method === "POST" ? this.take(request, response) : this.json(response, { snapshots: double.taken });
      default:
        return this.json(response, { error: `no such address: ${url.pathname}`, hint: "" }, 404);
    }
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { double } = this;
    if (double.mode === "read-only") return this.json(response, { error: "this token may read only", hint: "use one of control_tokens" }, 403);
    const { seconds, reason } = (await read(request)) as { seconds: number; reason: string };
    const until_ms = double.options.frozen_ms || Date.now();
    const made = { id: `s${double.taken.length + 1}`, reason, taken_unix_ns: until_ms * 1e6, from_unix_ns: (until_ms - seconds * 1000) * 1e6, until_unix_ns: until_ms * 1e6, seconds, bytes: 123_456 };
    double.taken.push(made);
    this.json(response, made, 201);
  }

  private status(): unknown {
    const { double } = this;
    const full = double.mode === "full";
    return {
      version: "0.1.0",
      host: double.window(double.newest()).machines?.[0]?.name ?? "made-up",
      window_ns: double.window_ns,
      history: { oldest_unix_ns: double.oldest() * double.window_ns, newest_unix_ns: double.newest() * double.window_ns, bytes: full ? 1 << 30 : 314_572_800, bytes_limit: 1 << 30, state: full ? "full" : "ok" },
      snapshots: { state: "ready", why: null, kept: double.taken.length, reach_back_to_unix_ns: (Date.now() - 42_000) * 1e6 },
      scopes: { "no-token": ["windows"], "read-only": ["windows", "read"] }[double.mode as string] ?? ["windows", "read", "control"],
    };
  }
}

function picked(window: WindowJson, tables: readonly string[]): unknown {
  const { ts, dur, ended_unix_ns, missed_windows } = window;
  return { ts, dur, ended_unix_ns, missed_windows, ...Object.fromEntries(tables.map((table) => [table, window[table as "windows"]])) };
}

function lengthOf(text: string): number {
  const match = /^(\d+)(ms|s|m)$/.exec(text);
  if (!match) throw new Error(`step ${text}: a number with ms, s or m`);
  return Number(match[1]) * { ms: 1e6, s: 1e9, m: 60e9 }[match[2] as "ms" | "s" | "m"];
}

async function read(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
}

/** Windows of a log: after each `snapshot` line its rows. */
export function readLog(path: string): WindowJson[] {
  const windows: Record<string, unknown>[] = [];
  for (const line of readFileSync(path, "utf8").split("\n")) {
    if (line === "") continue;
    const { table, rows: _, ...row } = JSON.parse(line) as Record<string, unknown> & { table: string };
    if (table === "snapshot") windows.push({ ...row, ...Object.fromEntries(TABLES.map((name) => [name, []])) });
    else if (table === "health") windows[windows.length - 1]![table] = row;
    else (windows[windows.length - 1]![table] as unknown[]).push(row);
  }
  // A log of an older version has no findings: they are not known.
  if (!windows.some((window) => (window["findings"] as unknown[]).length > 0)) for (const window of windows) delete window["findings"];
  return windows as unknown as WindowJson[];
}

if (process.argv[1]?.endsWith("build/dev/serve.mjs")) {
  const out: Record<string, number | string> = {};
  const words = process.argv.slice(2);
  for (let i = 0; i + 1 < words.length; i += 2) {
    const name = words[i]!.replace(/^--/, "");
    out[name] = ["log", "dist", "api"].includes(name) ? words[i + 1]! : Number(words[i + 1]);
  }
  const { url } = await startServe({ port: 8018, ...(out as Partial<ServeOptions>) });
  process.stdout.write(`${url}\n`);
}
