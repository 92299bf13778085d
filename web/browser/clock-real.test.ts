// The wall clock on a real recording behind the real `transect view`. This one has no readings of it, so the test adds the rows
// to the server's description of the recording.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { idle, open, withApp } from "./kit.ts";
import { Folder, Served, testdata } from "./real.ts";

// Chromium takes its time zone from the environment.
process.env["TZ"] = "Europe/Berlin";

const UNIX = 1_795_574_498_000_000_000n;

interface Described {
  window: { from: string; to: string } | null;
  from: string;
  to: string;
  wall?: unknown[];
}

test("a recording without readings has no wall clock; with rows the address, the ruler and Go to use it", async () => {
  const folder = new Folder();
  const served = await Served.start(folder, folder.compact("clock.transect", readFileSync(testdata("compact/recorded.compact"))));
  const opened = await open({ api: served.url });
  const { page } = opened;
  try {
    await page.waitForFunction(() => document.querySelector<HTMLElement>("#progress")!.hidden);
    await idle(page);
    const described = (await (await page.request.get(new URL("api/recording", opened.url).href)).json()) as Described;
    assert.deepEqual(described.wall ?? [], []);
    assert.ok(await page.locator("#b-clock").isHidden());

    const { from, to } = described.window ?? described;
    const [start, dur] = [BigInt(from), BigInt(to) - BigInt(from)];
    const wall = [{ ts: from, dur: String(dur), unix_ns: String(UNIX), unix_dur: String(dur), error_ns: "40", step_ns: null }];
    await page.route("**/api/recording", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...((await response.json()) as object), wall } });
    });
    const half = dur / 2n;
    const until = UNIX + half;
    const text = `${new Date(Number(until / 1_000_000n)).toISOString().slice(0, 20)}${String(until % 1_000_000_000n).padStart(9, "0")}Z`;
    // Another page first: an address that differs in its fragment alone loads nothing.
    await page.goto("about:blank");
    await page.goto(`${opened.url}#until=${text}`);
    await page.waitForFunction(() => (window as unknown as { transect?: unknown }).transect !== undefined);
    await idle(page);
    assert.equal(await page.locator("#b-clock").innerText(), "2026-11-25 +0100");
    const absolute = (): Promise<string[]> => withApp(page, (app) => [app.goal.from, app.goal.to].map((at) => String(app.model.abs(at))), null);
    assert.deepEqual(await absolute(), [String(start), String(start + half)]);

    await page.locator("#scroll").focus();
    await page.keyboard.press("g");
    await page.locator("#goto-from").fill("2026-11-25 03:41:38");
    await page.locator("#goto-until").fill(`+${half / 2n}`);
    assert.match(await page.locator("#goto-from-line").innerText(), /2026-11-25 03:41:38\.000 000 000 \+0100 ± 40 ns$/);
    await page.keyboard.press("Enter");
    await idle(page);
    assert.deepEqual(await absolute(), [String(start), String(start + half / 2n)]);
    assert.deepEqual(opened.errors, []);
  } finally {
    await opened.close();
    await served.stop();
    folder.remove();
  }
});
