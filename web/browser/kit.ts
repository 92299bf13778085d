// Starts the development server and Debian's Chromium for the tests of the page.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";
import { start, type ServerOptions } from "../dev/server.ts";
import type { App } from "../src/page/app.ts";

export interface Opened {
  readonly page: Page;
  readonly browser: Browser;
  readonly url: string;
  /** Lines the page wrote as errors. Empty at the end of every test. */
  readonly errors: string[];
  /** Ends the building of tiles (`building_ms`) of the development server. */
  finish(): void;
  close(): Promise<void>;
}

/** Debian's Chromium, or what `TRANSECT_CHROMIUM` names. */
export function browserPath(): string {
  const named = process.env["TRANSECT_CHROMIUM"] ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path));
  if (!named) throw new Error("no Chromium: apt-get install chromium, or set TRANSECT_CHROMIUM");
  return named;
}

export async function launch(more: readonly string[] = []): Promise<Browser> {
  // Root (CI containers) has no sandbox; software rendering is what the tests are about.
  const args = ["--disable-gpu", "--enable-precise-memory-info", "--js-flags=--expose-gc", ...more, ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
  return chromium.launch({ executablePath: browserPath(), args });
}

/** Opens the page on a made-up recording, or on `TRANSECT_VIEW_URL` if that is set. */
export async function open(options: Partial<ServerOptions> = {}, hash = "", viewport = { width: 1400, height: 860 }, chromium: readonly string[] = []): Promise<Opened> {
  const given = process.env["TRANSECT_VIEW_URL"];
  const server = given ? undefined : await start(options);
  const url = given ?? server!.url;
  const browser = await launch(chromium);
  const context = await browser.newContext({ viewport, colorScheme: "dark", reducedMotion: "no-preference", acceptDownloads: true });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // Answers that a test provokes are in the browser's log too; the page says them in its own words.
    if (message.type() === "error" && !/status of (400|404|501)/.test(message.text())) errors.push(message.text());
  });
  await page.goto(url + hash);
  await page.waitForFunction(() => (window as unknown as { transect?: unknown }).transect !== undefined);
  const close = async (): Promise<void> => {
    await browser.close();
    await server?.close();
  };
  return { page, browser, url, errors, finish: () => server?.finish(), close };
}

/** The page that all tests of a file share: opened before them, closed behind them, and without errors until then. */
export function openForTests(options: Partial<ServerOptions>): Opened {
  const shared = {} as Opened;
  before(async () => {
    Object.assign(shared, await open(options));
    await idle(shared.page);
  });
  after(async () => {
    try {
      assert.deepEqual(shared.errors, []);
    } finally {
      await shared.close();
    }
  });
  return shared;
}

/** Waits until the page has drawn all it wants to draw. */
export async function idle(page: Page): Promise<void> {
  await page.evaluate(() => (window as unknown as { transect: App }).transect.idle());
}

/** Runs code with the page's `App`. */
export async function withApp<T, A>(page: Page, act: (app: App, argument: A) => T, argument: A): Promise<T> {
  return page.evaluate(`(${act.toString()})(window.transect, ${JSON.stringify(argument ?? null)})`) as Promise<T>;
}
