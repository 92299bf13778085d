// The dashboard out of the real program: `transect serve` on this host, two loads that share a CPU, and a browser that looks at
// them, takes a snapshot and opens it in the timeline. Needs root and BPF, and a build with the page; says so where they are missing.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { percent } from "../src/core/format.ts";
import type { HistoryJson, WindowJson } from "../dashboard/core/wire.ts";
import { inPage, settled, visit } from "./dashboard-kit.ts";
import { launch } from "./kit.ts";
import { program } from "./real.ts";
import { exprs, namesOf } from "../test/grafana.ts";

/** `transect serve` with a directory of its own, until it is stopped. */
class Daemon {
  private constructor(
    private readonly child: ChildProcess,
    readonly dir: string,
    readonly url: string,
    readonly said: string[],
  ) {}

  /** What it said instead, where it cannot be had here. */
  static async start(): Promise<Daemon | string> {
    const dir = mkdtempSync(join(tmpdir(), "transect-dashboard-"));
    const child = spawn(program(), ["serve", "--data", dir, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
    const said: string[] = [];
    const url = await new Promise<string | undefined>((done) => {
      createInterface({ input: child.stderr! }).on("line", (line) => {
        said.push(line);
        const found = /serving (http:\S+)/.exec(line)?.[1];
        if (found) done(found);
      });
      child.once("exit", () => done(undefined));
    });
    if (url !== undefined) return new Daemon(child, dir, url, said);
    rmSync(dir, { recursive: true, force: true });
    return said.join("; ") || "transect serve ended";
  }

  get token(): string {
    return readFileSync(join(this.dir, "control.token"), "utf8").trim();
  }

  /** The window that is this many further than the newest, or than the first if there is none yet. */
  async window(further: number): Promise<WindowJson> {
    let window = await this.newer(0);
    for (let i = 0; i < further; i++) window = await this.newer(window.ts);
    return window;
  }

  private async newer(ts: number): Promise<WindowJson> {
    for (;;) {
      const answer = await fetch(new URL(`api/v1/now?after=${ts}`, this.url));
      if (answer.status === 200) return (await answer.json()) as WindowJson;
      // None that is newer yet, or none at all: windows are late on a machine that stood still.
      assert.ok([204, 503].includes(answer.status), `${answer.status}: ${await answer.text()}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  async stop(): Promise<void> {
    const over = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGTERM");
    await over;
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A control group with a process that runs all the time on CPU 0. */
class Hog {
  private constructor(
    readonly group: string,
    private readonly path: string,
    private readonly child: ChildProcess,
  ) {}

  static async start(name: string): Promise<Hog | undefined> {
    const group = `transect-dashboard-${process.pid}-${name}`;
    const root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu"].find((path) => existsSync(join(path, "cgroup.procs")));
    if (root === undefined) return undefined;
    const path = join(root, group);
    try {
      mkdirSync(path);
    } catch {
      return undefined;
    }
    const child = spawn("sh", ["-c", `echo $$ > ${path}/cgroup.procs && exec taskset -c 0 sh -c 'while :; do :; done'`], { stdio: "ignore" });
    return new Hog(`/${group}`, path, child);
  }

  async stop(): Promise<void> {
    const over = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGKILL");
    await over;
    for (let i = 0; i < 50; i++) {
      try {
        return rmdirSync(this.path);
      } catch {
        await new Promise((done) => setTimeout(done, 20));
      }
    }
  }
}

test("transect serve: every metric of the Grafana dashboard is among its metrics", async (context) => {
  const daemon = await Daemon.start();
  if (typeof daemon === "string") return context.skip(`skipped: ${daemon}`);
  try {
    // Two windows: the first ones to be counted, with some traffic in them.
    await fetch(new URL("api/v1/status", daemon.url));
    // A metric has no series, and is not there, where there is nobody it could be about; that is asked of the same daemon,
    // and before: who comes in between is among the metrics, and who goes stays there.
    const now = await daemon.window(1);
    const text = await (await fetch(new URL("metrics", daemon.url), { headers: { accept: "application/openmetrics-text; version=1.0.0" } })).text();
    const families = new Map([...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, kind]) => [name!, kind!]));
    const known = (series: string): boolean => {
      const of = (ending: RegExp, kind: string): boolean => families.get(series.replace(ending, "")) === kind;
      return families.has(series) || of(/_total$/, "counter") || of(/_info$/, "info") || of(/_(bucket|sum|count)$/, "histogram");
    };
    const names = new Set(exprs().flatMap(namesOf));
    assert.ok(names.size > 25);
    const { triggers } = (await (await fetch(new URL("api/v1/triggers", daemon.url), { headers: { authorization: `Bearer ${daemon.token}` } })).json()) as { triggers: readonly unknown[] };
    const guests = new Set(now.machines!.filter(({ kind }) => kind === "guest").map(({ machine_id }) => machine_id));
    const ofGuests = now.windows!.filter(({ machine_id }) => guests.has(machine_id));
    const nobody: readonly (readonly [RegExp, boolean])[] = [
      [/^transect_(vm|vcpu)_/, guests.size === 0],
      // A guest that has just come has no vCPU that ran yet, and none that exited.
      [/^transect_vcpu_/, ofGuests.every(({ vcpu }) => vcpu === null || vcpu === undefined)],
      [/^transect_vm_guest_/, ofGuests.every(({ guest_ns }) => guest_ns === null || guest_ns === undefined)],
      [/^transect_vm_exit/, now.exit_windows!.length === 0],
      [/^transect_container_/, (now.container_windows ?? []).length === 0],
      [/^transect_cgroup_(throttled_)?periods_/, (now.pressure_windows ?? []).every(({ periods }) => periods === null)],
      [/^transect_pressure_/, (now.pressure_windows ?? []).length === 0],
      [/^transect_exit_/, now.exit_windows!.length === 0],
      [/^transect_block_/, now.io_windows!.every(({ kind }) => kind !== "read" && kind !== "write")],
      [/^transect_net_/, now.io_windows!.every(({ kind }) => kind === "read" || kind === "write")],
      [/^transect_missing_/, now.missing!.length === 0],
      [/^transect_trigger_/, triggers.length === 0],
    ];
    const unknown = [...names].filter((name) => !known(name) && !nobody.some(([pattern, none]) => none && pattern.test(name)));
    assert.deepEqual(unknown, []);
    context.diagnostic(`${[...names].filter(known).length} of ${names.size} metrics have series here`);
  } finally {
    await daemon.stop();
  }
});

test("transect serve: the dashboard loads, drills down, takes a snapshot and opens it in the timeline", async (context) => {
  const daemon = await Daemon.start();
  if (typeof daemon === "string") return context.skip(`skipped: ${daemon}`);
  const hogs = [await Hog.start("one"), await Hog.start("two")].filter((hog) => hog !== undefined);
  const browser = await launch();
  try {
    const page_there = await (await fetch(daemon.url)).text();
    if (!page_there.includes("p-fleet")) return context.skip("skipped: the program was built without the page: make build");
    // Both share a CPU for some windows.
    await daemon.window(6);
    const { page, errors } = await visit(browser, `${daemon.url}?token=${daemon.token}`, { hash: "#range=30s" });
    assert.ok(!page.url().includes("token"), "the token does not stay in the address");

    // It follows.
    const newest = await inPage(page, (app) => app.newest!.ts, null);
    await page.waitForFunction((ts) => window.dashboard!.newest!.ts >= ts + 2e9, newest);
    await settled(page);
    assert.match(await page.locator("#live").innerText(), /live/);
    assert.match(await page.locator("#p-server").innerText(), /History/);

    // A moment: its numbers are the API's of that window.
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await settled(page);
    const bin = await inPage(page, (app) => {
      const { from, to } = app.range!.actors.bin(app.range!.actors.at(app.moment!)!);
      return { from: from + app.origin_ns, to: to + app.origin_ns };
    }, null);
    const path = `api/v1/history?from=${BigInt(Math.round(bin.from))}&until=${BigInt(Math.round(bin.to))}&step=1s`;
    const answer = (await (await fetch(new URL(path, daemon.url), { headers: { authorization: `Bearer ${daemon.token}` } })).json()) as HistoryJson;
    // Steps begin at whole seconds: a window of before may be in the first one.
    const inBin = ({ ended_unix_ns, dur }: WindowJson): boolean => bin.from <= ended_unix_ns - dur / 2 && ended_unix_ns - dur / 2 < bin.to;
    const [window_, ...others] = answer.windows.filter(inBin);
    assert.equal(others.length, 0);
    for (const hog of hogs) {
      const row = window_!.windows!.find(({ cgroup }) => cgroup === hog.group)!;
      const shown = await page.locator(`#p-fleet .row[data-actor="cg:${hog.group}"] .n`).allInnerTexts();
      assert.deepEqual(shown.slice(0, 2), [row.gotten_ns!, row.waited_ns!].map((ns) => percent(ns / window_!.dur)));
    }
    await page.screenshot({ path: "build/shots/dashboard-real.png" });

    // Down to one of them: it waited behind the other, as its threads tell.
    if (hogs.length === 2) {
      await page.locator(`#p-fleet .row[data-actor="cg:${hogs[0]!.group}"]`).click();
      await settled(page);
      assert.match(await page.locator("#p-threads").innerText(), /\bcount\s+[^\n]*\bsh\b[\s\S]*\bthread\s+role\b/);
      await page.screenshot({ path: "build/shots/dashboard-real-group.png" });
      await page.keyboard.press("Escape");
      await page.keyboard.press("Escape");
      await settled(page);
    }

    // A snapshot, and its timeline.
    await page.keyboard.press("s");
    await page.waitForFunction(() => /Snapshot .* taken|No snapshot/.test(document.querySelector("#notices")!.textContent ?? ""), null, { timeout: 90_000 });
    assert.match(await page.locator("#notices").innerText(), /Snapshot .* taken/);
    const [timeline] = await Promise.all([page.context().waitForEvent("page"), page.locator("#notices a").click()]);
    await timeline.waitForFunction(() => window.transect !== undefined && window.transect.model.tracks.some((track) => track.kind === "thread") && document.querySelector<HTMLElement>("#progress")!.hidden, null, { timeout: 90_000 });
    assert.match(timeline.url(), /\/view\/[^/]+\/(#.*)?$/);
    await timeline.evaluate(() => window.transect!.idle());
    const drawn = await timeline.evaluate(() => ({ tracks: window.transect!.model.tracks.map((track) => track.kind), seconds: (window.transect!.model.whole.to - window.transect!.model.whole.from) / 1e9 }));
    assert.ok(drawn.tracks.includes("cpu") && drawn.tracks.includes("thread"), drawn.tracks.join());
    assert.ok(drawn.seconds > 0.5, `${drawn.seconds} s`);
    await timeline.screenshot({ path: "build/shots/dashboard-real-timeline.png" });
    const { pathname } = new URL(timeline.url());
    await timeline.close();
    assert.deepEqual(errors, []);

    // Without a token: windows, and no snapshot is taken.
    const reader = await visit(browser, daemon.url, {});
    await reader.page.waitForFunction(() => document.querySelector("#b-open")!.textContent === "Snapshots need a token");
    await reader.page.keyboard.press("s");
    await reader.page.waitForFunction(() => /needs a token with the scope “control”/.test(document.querySelector("#notices")!.textContent ?? ""));
    // A timeline leads to the dashboard, which asks for the token and leads back.
    await reader.page.goto(new URL(pathname, daemon.url).href);
    await reader.page.waitForFunction(() => /reading them needs a token/.test(document.querySelector("#notices")?.textContent ?? ""));
    assert.equal(new URL(reader.page.url()).pathname, "/");
    await reader.page.fill("#token", daemon.token);
    await reader.page.keyboard.press("Enter");
    await reader.page.waitForURL(new URL(pathname, daemon.url).href);
    await reader.page.waitForFunction(() => window.transect !== undefined && window.transect.model.tracks.length > 0, null, { timeout: 90_000 });
    assert.deepEqual(reader.errors, []);
  } finally {
    await browser.close();
    for (const hog of hogs) await hog.stop();
    await daemon.stop();
  }
});
