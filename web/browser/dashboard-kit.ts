// Opens the dashboard in Chromium, over the test double or over the real `transect serve`.
import type { Browser, Page } from "playwright-core";
import { startServe, type Double, type ServeOptions } from "../dev/serve.ts";
import type { App } from "../dashboard/page/app.ts";
import { launch } from "./kit.ts";

export interface OpenedDashboard {
  readonly page: Page;
  readonly browser: Browser;
  readonly url: string;
  readonly double: Double;
  /** Lines the page wrote as errors. */
  readonly errors: string[];
  /** Ends the server, and starts it again. */
  stop(): Promise<void>;
  listen(): Promise<void>;
  close(): Promise<void>;
}

export interface Look {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly scheme?: "dark" | "light";
  readonly hash?: string;
}

/** A page of this size on an address; its errors are collected. */
export async function visit(browser: Browser, url: string, look: Look = {}): Promise<{ page: Page; errors: string[] }> {
  const context = await browser.newContext({ viewport: look.viewport ?? { width: 1280, height: 720 }, colorScheme: look.scheme ?? "dark", timezoneId: "UTC" });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // What a test provokes is in the browser's log too; the page says it in its own words.
    if (message.type() === "error" && !/status of (4\d\d|503)|ERR_(CONNECTION|EMPTY|SOCKET_NOT_CONNECTED)/.test(message.text())) errors.push(message.text());
  });
  await page.goto(url + (look.hash ?? ""));
  await settled(page);
  return { page, errors };
}

/** The dashboard over a made-up host. */
export async function openDashboard(options: Partial<ServeOptions> = {}, look: Look = {}): Promise<OpenedDashboard> {
  const { url, double, stop, listen } = await startServe(options);
  const browser = await launch();
  const { page, errors } = await visit(browser, url, look);
  const close = async (): Promise<void> => {
    await browser.close();
    await stop();
  };
  return { page, browser, url, double, errors, stop, listen, close };
}

/** Waits until everything that was asked for is there and drawn. */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(() => (window as unknown as { dashboard?: App }).dashboard?.idle === true, null, { timeout: 60_000 });
}

/** Runs code with the page's `App`. */
export async function inPage<T, A>(page: Page, act: (app: App, argument: A) => T, argument: A): Promise<T> {
  return page.evaluate(`(${act.toString()})(window.dashboard, ${JSON.stringify(argument ?? null)})`) as Promise<T>;
}
