// Real recordings of testdata/, whole and broken, behind the real `transect view`.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Browser, Page } from "playwright-core";
import { start } from "../dev/server.ts";
import { launch } from "./kit.ts";

const TESTDATA = resolve("../testdata/succeed");

/** The program, from where cargo puts it, or what `TRANSECT_BIN` names. */
export function program(): string {
  const target = resolve("..", process.env["TRANSECT_BIN_DIR"] ?? process.env["CARGO_TARGET_DIR"] ?? "target");
  const places = [process.env["TRANSECT_BIN"], join(target, "release/transect"), join(target, "debug/transect")];
  const found = places.find((path) => path !== undefined && existsSync(path));
  if (!found) throw new Error("these tests need the transect binary: make build, or set TRANSECT_BIN");
  return found;
}

export const testdata = (name: string): string => join(TESTDATA, name);

/** A folder for recordings and what is cached of them; gone when the test ends. */
export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), "transect-page-"));

  /** What the compact recorder leaves when it is killed: its file so far, and a manifest that was not finished. */
  compact(name: string, bytes: Uint8Array, more: readonly string[] = []): string {
    const recording = join(this.path, name);
    mkdirSync(recording);
    writeFileSync(join(recording, "host.compact"), bytes);
    writeFileSync(join(recording, "clocks.jsonl"), '{"evidence":"reference","machine":0,"clock":"mono"}\n');
    const source = (file: string): object => ({ machine_id: 0, file, format: "compact", spooled: false, clock: "mono", tsc_to_ns: null, sub_buffer_bytes: 32768, cpu_count: 4, long_bytes: 8, big_endian: false, trace_id: 0, uname: "" });
    const host = { id: 0, parent: null, kind: "host", name: "host", vmm_pid: null, cgroup: null, uname: null, cpu_count: null, clock: "mono", vcpus: [] };
    const manifest = { format: 1, transect: "0.1.0", created_unix_ns: 0, command_line: ["test"], recorder_pid: 1, finished: false, ended_by: null, machines: [host], sources: ["host.compact", ...more].map(source), gaps: [], lost: [], threads: [], events: [], cost: null, notes: [] };
    writeFileSync(join(recording, "manifest.json"), JSON.stringify(manifest));
    return recording;
  }

  /** A host and its guest, recorded together, as one recording. */
  pair(): string {
    return this.imported("pair", ["tracedat/pair-host.dat", "tracedat/pair-guest.dat"]);
  }

  /** A nested host and its guest, which makes 150 requests to a disk. */
  nested(): string {
    return this.imported("nested", ["nested/host.dat", "nested/guest.dat"]);
  }

  private imported(name: string, files: readonly string[]): string {
    const recording = join(this.path, `${name}.transect`);
    execFileSync(program(), ["import", ...files.map(testdata), "-o", recording], { stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, XDG_CACHE_HOME: this.path } });
    return recording;
  }

  /** Part of a file of testdata. */
  cut(name: string, share: number): Uint8Array {
    const whole = readFileSync(testdata(name));
    return whole.subarray(0, Math.floor(whole.length * share));
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** `transect view` of a recording, until it is stopped. */
export class Served {
  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
    private readonly page?: { close(): Promise<void> },
  ) {}

  static async start(folder: Folder, recording: string): Promise<Served> {
    // The page of this folder in place of the program's own, which may have none: changes need no build of the program.
    const dist = process.env["TRANSECT_PAGE"];
    const child = spawn(program(), ["view", "--no-browser", ...(dist ? ["--api-only"] : []), recording], { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, XDG_CACHE_HOME: folder.path } });
    const lines = createInterface({ input: child.stdout });
    const url = await new Promise<string>((done, failed) => {
      lines.once("line", done);
      child.once("error", failed);
      child.once("exit", (code) => failed(new Error(`transect view ended with ${code}`)));
    });
    if (!dist) return new Served(child, url);
    const page = await start({ api: url, dist, seconds: 1 });
    return new Served(child, page.url, page);
  }

  async stop(): Promise<void> {
    await this.page?.close();
    const over = new Promise((done) => this.child.once("exit", done));
    if (this.child.exitCode === null && this.child.kill("SIGKILL")) await over;
  }
}

/** Does something with the page of a recording once nothing is being made any more. */
export async function withPage(recording: (folder: Folder) => string, act: (page: Page, folder: Folder) => Promise<void>): Promise<void> {
  const folder = new Folder();
  let served: Served | undefined;
  let browser: Browser | undefined;
  try {
    served = await Served.start(folder, recording(folder));
    browser = await launch();
    const page = await browser.newPage({ viewport: { width: 1300, height: 800 }, colorScheme: "dark" });
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(served.url);
    await page.waitForFunction(() => !document.querySelector<HTMLElement>("#nothing")!.hidden || (window.transect !== undefined && document.querySelector<HTMLElement>("#progress")!.hidden), null, { timeout: 60_000 });
    await act(page, folder);
    if (errors.length > 0) throw new Error(errors.join("\n"));
  } finally {
    await browser?.close();
    await served?.stop();
    folder.remove();
  }
}
