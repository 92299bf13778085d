// The development server: the API of `transect view` over a made-up recording. Also the test double of
// the browser tests. `npm run dev`, then open the printed address.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { Answers } from "./answers.ts";
import { SqlTables } from "./sql.ts";
import { DEFAULTS, ORIGIN, simulate, type Options } from "./simulate.ts";

const TYPES: Readonly<Record<string, string>> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export interface ServerOptions extends Options {
  readonly port: number;
  readonly dist: string;
  /** Milliseconds the tiles pretend to be built in; meanwhile half of them is missing. */
  readonly building_ms: number;
  /** Address of a running `transect view` (with its key): its answers instead of a made-up recording's. */
  readonly api: string;
  /** Delay of every API answer. */
  readonly delay_ms: number;
}

/** Starts it; resolves once it listens. */
export async function start(options: Partial<ServerOptions> = {}): Promise<{ server: Server; url: string; answers: Answers; finish(): void; close(): Promise<void> }> {
  const all: ServerOptions = { ...DEFAULTS, port: 0, dist: "dist", building_ms: 0, delay_ms: 0, api: "", ...options };
  const answers = new Answers(simulate(all));
  const service = new Service(answers, all);
  const server = createServer((request, response) => void service.serve(request, response));
  await new Promise<void>((done) => server.listen(all.port, "127.0.0.1", done));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : all.port;
  const close = (): Promise<void> =>
    new Promise((done) => {
      server.closeAllConnections();
      server.close(() => done());
    });
  return { server, url: `http://127.0.0.1:${port}/?token=development`, answers, finish: () => service.finish(), close };
}

class Service {
  /** When the first question came: building begins then. */
  private started = 0;
  private readonly sql: SqlTables;

  constructor(
    private readonly answers: Answers,
    private readonly options: ServerOptions,
  ) {
    this.sql = new SqlTables(answers.recording);
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    try {
      if (url.pathname.startsWith("/api/")) {
        if (this.options.delay_ms > 0) await new Promise((done) => setTimeout(done, this.options.delay_ms));
        await (this.options.api ? pass(this.options.api, url, request, response) : this.api(url, request, response));
      } else await this.file(url, response);
    } catch (error) {
      if (!response.headersSent) response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }));
    }
  }

  /** The tiles are made, however long it was to take. */
  finish(): void {
    this.started = -Infinity;
  }

  private building(): { stage: string; done: number; total: number; state: string } {
    this.started ||= Date.now();
    const share = this.options.building_ms > 0 ? Math.min(1, (Date.now() - this.started) / this.options.building_ms) : 1;
    return { stage: "tiles", done: Math.round(share * 1000), total: 1000, state: share < 1 ? "building" : "ready" };
  }

  private async file(url: URL, response: ServerResponse): Promise<void> {
    const path = url.pathname === "/" ? "/index.html" : normalize(url.pathname);
    const bytes = await readFile(join(this.options.dist, path)).catch(() => undefined);
    if (!bytes) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {
      "content-type": TYPES[extname(path)] ?? "application/octet-stream",
      "cache-control": "no-store",
      "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; worker-src 'self'",
      ...(url.searchParams.has("token") ? { "set-cookie": "transect=development; HttpOnly; SameSite=Strict; Path=/" } : {}),
    });
    response.end(bytes);
  }

  private async api(url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const json = (value: unknown): void => void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
    const arrow = (bytes: Uint8Array, headers: Record<string, string> = {}): void => void response.writeHead(200, { "content-type": "application/vnd.apache.arrow.stream", ...headers }).end(bytes);
    const body = request.method === "POST" ? ((await read(request)) as Record<string, unknown>) : {};
    const rel = (value: unknown): number => Number(BigInt(String(value)) - ORIGIN);
    switch (url.pathname) {
      case "/api/recording":
        return json(this.answers.info(this.building()));
      case "/api/tracks":
        return arrow(this.answers.tracks());
      case "/api/keys":
        return arrow(this.answers.keys());
      case "/api/tiles": {
        const wish = body as unknown as { level: number; first: number; count: number; tracks: number[] };
        const building = this.building();
        const ready = building.state === "ready" ? wish.tracks : wish.tracks.filter((track) => track % 2 === 0);
        return arrow(this.answers.tilesBody({ ...wish, tracks: ready }), building.state === "ready" ? {} : { "X-Tiles-Missing": "building" });
      }
      case "/api/flows":
        return arrow(this.answers.flows(rel(body["from"]), rel(body["to"]), (body["tracks"] as number[] | undefined) ?? [], Number(body["limit"] ?? 1000)));
      case "/api/busy":
        return json(this.answers.busy(rel(body["from"]), rel(body["to"])));
      case "/api/next":
        return json(this.answers.next(rel(body["from"]), body["tracks"] as number[], body["keys"] as number[]));
      case "/api/stats":
        return json(this.answers.stats(rel(body["from"]), rel(body["to"]), body["tracks"] as number[] | undefined));
      case "/api/search":
        return json(this.answers.search(String(body["text"] ?? "")));
      case "/api/at": {
        const found = this.answers.at(Number(url.searchParams.get("track")), rel(url.searchParams.get("ts")));
        if (!found) return void response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify({ error: "nothing is at this moment of this track" }));
        return json(found);
      }
      case "/api/sql": {
        const answer = await this.sql.query(String(body["sql"]), Number(body["limit"] ?? 10_000));
        return arrow(answer.body, answer.truncated ? { "X-Truncated": "true" } : {});
      }
      case "/api/progress":
        return this.progress(response);
      case "/api/export":
        return void response.writeHead(501, { "content-type": "application/json" }).end(JSON.stringify({ error: "export: the development server has no real recording to cut; use `transect view`" }));
      default:
        response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify({ error: `no such address: ${url.pathname}` }));
    }
  }

  private progress(response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    const tell = (): void => {
      const building = this.building();
      response.write(`data: ${JSON.stringify(building)}\n\n`);
      if (building.state === "ready") {
        clearInterval(timer);
        response.end();
      }
    };
    const timer = setInterval(tell, 100);
    response.on("close", () => clearInterval(timer));
    tell();
  }
}

/** Passes a question on to a real server, with its key. */
export async function pass(api: string, url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const there = new URL(api);
  const token = there.searchParams.get("token");
  const init: RequestInit = { method: request.method ?? "GET", headers: { ...(token ? { authorization: `Bearer ${token}` } : {}), "content-type": "application/json" } };
  if (request.method === "POST") {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    init.body = Buffer.concat(parts);
  }
  const answer = await fetch(new URL(url.pathname + url.search, there), init);
  response.writeHead(answer.status, Object.fromEntries([...answer.headers].filter(([name]) => !["content-length", "transfer-encoding", "connection", "content-encoding"].includes(name))));
  for await (const chunk of answer.body ?? []) response.write(chunk);
  response.end();
}

async function read(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
}

const TEXTS = ["dist", "api", "filter", "wall"];

/** `--seconds 60 --cpus 8 --guests 20 --exit_us 50 --known_ms 800 --filter pid=300 --wall steady --port 8000 …` */
function fromArguments(words: readonly string[]): Partial<ServerOptions> {
  const out: Record<string, number | string> = {};
  for (let i = 0; i + 1 < words.length; i += 2) {
    const name = words[i]!.replace(/^--/, "");
    out[name] = TEXTS.includes(name) ? words[i + 1]! : Number(words[i + 1]);
  }
  return out as Partial<ServerOptions>;
}

if (process.argv[1]?.endsWith("build/dev/server.mjs")) {
  const { url, answers } = await start({ port: 8017, ...fromArguments(process.argv.slice(2)) });
  const intervals = [...answers.recording.intervals.values()].reduce((sum, own) => sum + own.ts.length, 0);
  process.stdout.write(`${url}\n${answers.recording.tracks.length} tracks, ${intervals} intervals\n`);
}
