// The wall clock on the page: the ruler's second row, the times in panels, going to a time, and moments in the address.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ORIGIN } from "../dev/simulate.ts";
import { WALL_START } from "../dev/wall.ts";
import { idle, open, openForTests, withApp, type Opened } from "./kit.ts";

// Chromium takes its time zone from the environment.
process.env["TZ"] = "Europe/Berlin";

/** Set back by an hour after 2 s; unknown for 100 ms there. */
const opened = openForTests({ seconds: 4, guests: 2, wall: "-3600" });

const view = (from: Opened = opened): Promise<{ from: number; to: number }> => withApp(from.page, (app) => app.goal, null);
const press = async (key: string): Promise<void> => {
  await opened.page.locator("#scroll").focus();
  await opened.page.keyboard.press(key);
  await idle(opened.page);
};
const corner = (): Promise<string> => opened.page.locator("#b-clock").innerText();
const rulerHeight = (): Promise<number> => opened.page.locator("#ruler").evaluate((ruler) => ruler.clientHeight);
const fragment = (from: Opened = opened): Promise<string> => from.page.evaluate(() => location.hash);

/** Every text that the ruler draws in one frame. */
async function rulerTexts(): Promise<string[]> {
  await opened.page.evaluate(() => {
    const context = document.querySelector<HTMLCanvasElement>("#ruler")!.getContext("2d")!;
    const texts: string[] = ((window as unknown as { texts: string[] }).texts = []);
    context.fillText = (text: string) => void texts.push(text);
  });
  await withApp(opened.page, (app) => app.redraw(), null);
  await idle(opened.page);
  return opened.page.evaluate(() => {
    Reflect.deleteProperty(document.querySelector<HTMLCanvasElement>("#ruler")!.getContext("2d")!, "fillText");
    return [...new Set((window as unknown as { texts: string[] }).texts)];
  });
}

async function goTo(from: string, until = ""): Promise<void> {
  await press("g");
  await opened.page.locator("#goto-from").fill(from);
  await opened.page.locator("#goto-until").fill(until);
  await opened.page.keyboard.press("Enter");
}

test("the ruler has a row of the wall clock, with the date once and the step marked", async () => {
  assert.equal(await corner(), "2026-11-25 +0100");
  assert.equal(await rulerHeight(), 46);
  const texts = await rulerTexts();
  assert.ok(texts.includes("clock set by −1 h"), texts.join());
  assert.ok(texts.includes("03:41:38.500") && texts.includes("02:41:41.000"), texts.join());
  assert.ok(texts.includes("500 ms") || texts.includes("0.5 s"), texts.join());
  assert.ok(texts.every((text) => !text.includes("2026")));
});

test("where the clock was set it is unknown: no labels there", async () => {
  await withApp(opened.page, (app) => app.setView({ from: 2.01e9, to: 2.09e9 }), null);
  await idle(opened.page);
  assert.equal(await corner(), "wall clock unknown here");
  const texts = await rulerTexts();
  assert.ok(texts.includes("wall clock unknown"));
  assert.ok(texts.every((text) => !/\d\d:\d\d/.test(text)), texts.join());
  await press("0");
});

test("Z switches between local time, UTC and hidden, and the choice stays", async () => {
  await press("z");
  assert.equal(await corner(), "2026-11-25 +0000");
  assert.ok((await rulerTexts()).includes("02:41:38.500"));
  await press("z");
  assert.equal(await corner(), "wall clock hidden");
  assert.equal(await rulerHeight(), 28);
  await opened.page.reload();
  await opened.page.waitForFunction(() => (window as unknown as { transect?: unknown }).transect !== undefined);
  await press("0");
  assert.equal(await corner(), "wall clock hidden");
  await opened.page.locator("#b-clock").click();
  await idle(opened.page);
  assert.equal(await corner(), "2026-11-25 +0100");
});

test("the pointer and the panels show both times with the zone", async () => {
  const { page } = opened;
  await press("0");
  const box = (await page.locator("#stage").boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.3, box.y + 30);
  const texts = await rulerTexts();
  assert.ok(texts.some((text) => /^1\.\d{3} \d{3} \d{3} s$/.test(text)), texts.join());
  assert.ok(texts.some((text) => /^2026-11-25 03:41:39\.\d{3} \+0100$/.test(text)), texts.join());
  await withApp(page, (app) => {
    app.select(1e9, 1.5e9, undefined);
    app.selected();
  }, null);
  await page.waitForFunction(() => document.querySelector("#panel .wall"));
  assert.equal(await page.locator("#panel .wall").innerText(), "wall clock 2026-11-25 03:41:39.123 456 789 to 03:41:39.623 456 789 +0100 ± 310 ns");
  await withApp(page, (app) => {
    app.select(1e9, 3e9, undefined);
    app.selected();
  }, null);
  assert.match(await page.locator("#panel .wall").innerText(), /03:41:39\.123 456 789 to 02:41:41\.123 456 789 \+0100 ± 310 ns; the clock was set in between$/);
  const track = await withApp(page, (app) => app.model.tracks.find((t) => t.kind === "vcpu")!.track, null);
  await withApp(page, (app, own: number) => app.jump(own, 1.2e9), track);
  await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("wall clock"));
  assert.match(await page.locator("#panel").innerText(), /wall clock\s+2026-11-25 03:41:39\.\d{3} \d{3} \d{3} to 03:41:39\.\d{3} \d{3} \d{3} \+0100 ± 310 ns/);
});

test("copied times are moments that --from accepts", async () => {
  const { page } = opened;
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const copied = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
  await withApp(page, (app) => {
    app.select(1e9, 2.05e9, undefined);
    app.selected();
  }, null);
  await page.locator("#panel button", { hasText: "Copy times" }).click();
  // The second one lies where the clock is unknown: trace time.
  assert.equal(await copied(), "--from 2026-11-25T02:41:39.123456789Z --until 1700000002.173456789s");
  await withApp(page, (app) => app.addMark(1.5e9), null);
  await withApp(page, (app) => app.openDock("marks"), null);
  await page.locator("#panel .copy").first().click();
  assert.equal(await copied(), "2026-11-25T02:41:39.623456789Z");
  await page.mouse.move(2, 2);
  await withApp(page, (app) => app.setView({ from: 1.2e9, to: 1.4e9 }), null);
  await press("y");
  assert.equal(await copied(), "2026-11-25T02:41:39.423456789Z");
  await withApp(page, (app) => {
    app.removeMark(0);
    app.clearSelection();
    app.openDock(undefined);
  }, null);
});

test("an exported SVG has the wall clock's labels, its date and its step", async () => {
  const { page } = opened;
  await press("0");
  const download = page.waitForEvent("download");
  await withApp(page, (app) => app.exportSvg(), null);
  const svg = readFileSync(await (await download).path(), "utf8");
  for (const text of [">2026-11-25 +0100<", ">03:41:38.500<", ">clock set by −1 h<"]) assert.ok(svg.includes(text), text);
});

test("going to a time takes every form", async () => {
  const middle = async (): Promise<number> => {
    const { from, to } = await view();
    return Math.round((from + to) / 2);
  };
  await withApp(opened.page, (app) => app.setView({ from: 0.1e9, to: 0.2e9 }), null);
  for (const [text, at] of [
    ["+1.25s", 1.25e9],
    [`${ORIGIN + 500_000_000n}`, 0.5e9],
    ["1700000003.123456789s", 3e9],
    ["2026-11-25T02:41:39.123456789Z", 1e9],
    ["2026-11-25T03:41:39.623456789+01:00", 1.5e9],
    ["2026-11-25 03:41:39.923456789", 1.8e9],
    ["02:41:41.123456789", 3e9],
  ] as const) {
    await goTo(text);
    await idle(opened.page);
    assert.equal(await opened.page.locator("#goto").evaluate((dialog) => (dialog as HTMLDialogElement).open), false, text);
    assert.ok(Math.abs((await middle()) - at) <= 1, `${text}: ${await middle()}`);
  }
  await goTo("+1s", "2026-11-25T02:41:39.323456789Z");
  await idle(opened.page);
  assert.deepEqual(await view(), { from: 1e9, to: 1.2e9 });
});

test("a time that is wrong is an error in place, with the reason", async () => {
  const { page } = opened;
  const line = (): Promise<string> => page.locator("#goto-from-line").innerText();
  const before = await view();
  await goTo("yesterday");
  assert.match(await line(), /^not a time such as/);
  assert.equal(await page.locator("#goto-from").getAttribute("aria-invalid"), "true");
  await page.locator("#goto-from").fill("12:00");
  assert.match(await line(), /is not in the recording, whose wall clock shows 2026-11-25 02:41:/);
  await page.locator("#goto-from").fill("1s");
  assert.match(await line(), /^trace time 1s is outside of the recording, which is from 1700000000\.123456789s to/);
  await page.locator("#goto-from").fill("2026-11-25T02:41:39Z");
  assert.match(await line(), /on the time axis · trace time 1699999999|on the time axis · trace time 1700000000\.999999999s|on the time axis · trace time 1700000001s/);
  await page.locator("#goto-until").fill("+0s");
  await page.keyboard.press("Enter");
  assert.match(await page.locator("#goto-until-line").innerText(), /^the range is empty/);
  await page.keyboard.press("Escape");
  assert.deepEqual(await view(), before);
});

test("the address accepts moments, and writes those that --from and --until accept", async () => {
  const wall = (rel: bigint): string => new Date(Number((WALL_START + rel) / 1_000_000n)).toISOString();
  for (const hash of ["#from=%2B1s&until=+1.5s", "#from=2026-11-25T02:41:39.123456789Z&until=2026-11-25T03:41:39.623456789+01:00", "#from=2026-11-25%2003:41:39.123456789&until=1700000001.623456789s", "#from=2026-11-25+03:41:39.123456789&until=03:41:39.623456789"]) {
    const linked = await open({ seconds: 4, guests: 2, wall: "-3600" }, hash);
    try {
      await idle(linked.page);
      assert.deepEqual(await view(linked), { from: 1e9, to: 1.5e9 }, hash);
      assert.equal(await linked.page.locator("#notices .bad").count(), 0);
      await linked.page.waitForFunction((was) => location.hash !== was, hash);
      assert.match(await fragment(linked), new RegExp(`^#from=${ORIGIN + 1_000_000_000n}&until=${ORIGIN + 1_500_000_000n}`));
    } finally {
      await linked.close();
    }
  }
  const open_ended = await open({ seconds: 4, guests: 2, wall: "steady" }, `#from=${wall(3_000_000_000n)}`);
  try {
    await idle(open_ended.page);
    assert.equal((await view(open_ended)).to, 4e9);
  } finally {
    await open_ended.close();
  }
});

test("a range in the address that cannot be found is reported with the reason, and the whole recording is shown", async () => {
  for (const [hash, reason] of [
    ["#from=2026-11-24T00:00:00Z", /from: the time 2026-11-24T00:00:00Z is not in the recording/],
    ["#from=nonsense&until=+1s", /from: not a time/],
    ["#from=+2s&until=+1s", /the range is empty/],
    ["#until=1s", /the range is empty|outside of the recording/],
  ] as const) {
    const linked = await open({ seconds: 4, guests: 2, wall: "steady" }, hash);
    try {
      await idle(linked.page);
      assert.match(await linked.page.locator("#notices .bad").first().innerText(), reason);
      assert.deepEqual(await view(linked), { from: 0, to: 4e9 });
    } finally {
      await linked.close();
    }
  }
});

test("a recording whose wall clock is unknown has no row for it, and refuses wall-clock times", async () => {
  const plain = await open({ seconds: 1 }, "#from=02:41:38");
  try {
    await idle(plain.page);
    assert.ok(await plain.page.locator("#b-clock").isHidden());
    assert.equal(await plain.page.locator("#ruler").evaluate((ruler) => ruler.clientHeight), 28);
    assert.match(await plain.page.locator("#notices .bad").innerText(), /the recording has no wall-clock time/);
  } finally {
    await plain.close();
  }
});
