// The page on a snapshot of an overwriting log: what it opens on, how unknown time is drawn, and its line above the rows.
import assert from "node:assert/strict";
import { test } from "node:test";
import { idle, open, openForTests, withApp } from "./kit.ts";

const SNAPSHOT = { seconds: 4, known_ms: 500, filter: "pid=300" };
/** The simulated CPU 0 overwrites most: it is known from here on. */
const KNOWN = { from: 3.5e9, to: 4e9 };
const HOME = { from: 0, to: 4e9 };

const opened = openForTests(SNAPSHOT);

const view = (from = opened): Promise<{ from: number; to: number }> => withApp(from.page, (app) => app.goal, null);
const line = (from = opened): Promise<string> => from.page.locator("#notices .coverage span").innerText();
const trackOf = (kind: string, cpu: number): Promise<number> =>
  withApp(opened.page, (app, [k, c]: [string, number]) => app.model.tracks.find((t) => t.kind === k && t.cpu === c)!.track, [kind, cpu]);

test("opens on the range that all CPUs cover, with a line that states it", async () => {
  assert.deepEqual(await view(), KNOWN);
  assert.equal(await line(), "Opened on the 500 ms that all CPUs cover; the rest of the 4 s is partly unknown");
  assert.equal(await opened.page.locator(".name .sum .unknown").evaluateAll((all) => all.filter((one) => one.textContent !== "").length), 0);
});

test("buttons and keys lead to the whole recording and back", async () => {
  const { page } = opened;
  await page.locator("#notices .coverage button", { hasText: "Whole recording" }).click();
  await idle(page);
  assert.deepEqual(await view(), HOME);
  await page.locator("#scroll").focus();
  await page.keyboard.press("o");
  await idle(page);
  assert.deepEqual(await view(), KNOWN);
  await page.keyboard.press("0");
  await idle(page);
  assert.deepEqual(await view(), HOME);
  await page.locator("#notices .coverage button", { hasText: "Known part" }).click();
  await idle(page);
  assert.deepEqual(await view(), KNOWN);
});

test("the unknown stretch of each CPU is hatched up to its own first record, and its share stands beside the name", async () => {
  const { page } = opened;
  await withApp(page, (app) => app.run("whole"), null);
  await idle(page);
  const share = (cpu: number): Promise<string> => page.locator(".name.track", { hasText: new RegExp(`^▾?pCPU ${cpu}`) }).locator(".unknown").innerText();
  // CPU c is known for 500 ms · (1 + 0.8 c) of 4 s.
  assert.equal(await share(0), "? 88 %");
  assert.equal(await share(3), "? 59 %");
  const drawn = await withApp(page, (app, track: number) => {
    const placed = app.rows.visible(app.scrollTop, app.height).find(({ row }) => row.node.track.track === track)!;
    const { pixels } = app.stage as unknown as { pixels: { data: Uint32Array; width: number } };
    const top = Math.round((placed.y + 4) * app.stage.ratio);
    const colours = (from: number, to: number): number[] => {
      const seen = new Set<number>();
      const [a, b] = [from, to].map((at) => Math.round((at / 4e9) * pixels.width)) as [number, number];
      for (let y = top; y < top + 12; y++) for (let x = a + 2; x < b - 2; x++) seen.add(pixels.data[y * pixels.width + x]!);
      return [...seen];
    };
    return { unknown: colours(0, 3.5e9), known: colours(3.5e9, 4e9) };
  }, await trackOf("cpu", 0));
  const hatching = 0xffb4b4be;
  assert.ok(drawn.unknown.includes(hatching), "hatched");
  assert.ok(!drawn.known.includes(hatching), "no hatching where the CPU is known");
  assert.ok(drawn.unknown.length < drawn.known.length, `nothing but unknown: ${drawn.unknown.length} and ${drawn.known.length} colours`);
});

test("the panel of an unknown interval names no waker and no preemptor", async () => {
  const { page } = opened;
  const track = await withApp(page, (app) => app.model.tracks.find((t) => t.kind === "vcpu" && app.model.machineName(t.machine_id) === "periodic")!.track, null);
  await withApp(page, (app, own: number) => app.jump(own, 1e9), track);
  await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("unknown: no event"));
  const panel = await page.locator("#panel").innerText();
  assert.doesNotMatch(panel, /woken by|preempted by/);
  assert.match(panel, /filtered: pid=300; other threads are unknown/);
  await withApp(page, (app) => app.run("close"), null);
});

test("the filter of the recording stands beside its title, and a recording without one shows none", async () => {
  assert.equal(await opened.page.locator("#filtered").innerText(), "filtered: pid=300; other threads are unknown");
  const plain = await open({ seconds: 1 });
  try {
    await idle(plain.page);
    assert.ok(await plain.page.locator("#filtered").isHidden());
    assert.equal(await plain.page.locator("#notices .coverage").count(), 0);
    assert.deepEqual(await view(plain), { from: 0, to: 1e9 });
  } finally {
    await plain.close();
  }
});

test("a range in the address has priority, and the line offers the known range", async () => {
  const origin = await withApp(opened.page, (app) => String(app.model.origin), null);
  const at = (rel: number): string => String(BigInt(origin) + BigInt(rel));
  const linked = await open(SNAPSHOT, `#v=${at(1e9)}-${at(2e9)}`);
  try {
    await idle(linked.page);
    assert.deepEqual(await view(linked), { from: 1e9, to: 2e9 });
    assert.match(await line(linked), /^In 500 ms of this recording all CPUs are known; the rest of the 4 s is partly unknown/);
  } finally {
    await linked.close();
  }
});

test("a dismissed line does not come back when the description is read again", async () => {
  const building = await open({ ...SNAPSHOT, building_ms: 3_600_000 });
  try {
    assert.deepEqual(await view(building), KNOWN);
    await building.page.locator("#notices .coverage button", { hasText: "✕" }).click();
    building.finish();
    await building.page.waitForFunction(() => document.querySelector<HTMLElement>("#progress")!.hidden);
    await idle(building.page);
    assert.equal(await building.page.locator("#notices .coverage").count(), 0);
    assert.deepEqual(await view(building), KNOWN);
  } finally {
    await building.close();
  }
});
