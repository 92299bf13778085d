// The dashboard when something is wrong: it says what, and what to do, and comes back by itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inPage, openDashboard, settled, visit, type OpenedDashboard } from "./dashboard-kit.ts";

let opened: OpenedDashboard;
before(async () => {
  opened = await openDashboard({ vms: 3, groups: 1, history_s: 120, missing: ["exits", "exit_durations", "guest_time", "block_io"] }, { hash: "#range=2min" });
});
after(async () => {
  try {
    assert.deepEqual(opened.errors, []);
  } finally {
    await opened.close();
  }
});

const notices = (): Promise<string> => opened.page.locator("#notices").innerText();
const says = (pattern: RegExp, timeout = 20_000): Promise<unknown> => opened.page.waitForFunction((source) => new RegExp(source).test(document.querySelector("#notices")!.textContent ?? ""), pattern.source, { timeout });
const quiet = (): Promise<unknown> => opened.page.waitForFunction(() => document.querySelector("#notices")!.childElementCount === 0, null, { timeout: 30_000 });
const isHistory = (path: string): boolean => path.startsWith("/api/v1/history");
const bins = (): Promise<{ length: number; newest: number }> => inPage(opened.page, (app) => ({ length: app.range!.actors.length, newest: app.range!.actors.newest! + app.origin_ns }), null);

test("what cannot be had is said with its reason, in its panel and in the list; it is no zero", async () => {
  const server = await opened.page.locator("#p-server").innerText();
  assert.match(server, /Missing metrics: 4/);
  assert.match(server, /exits: it comes from kvm:kvm_exit/);
  const nothing = await inPage(opened.page, (app) => app.whyNo("exits", "none"), null);
  assert.match(nothing, /Not available on this host: it comes from kvm:kvm_exit/);
  await opened.page.locator("#p-fleet .row", { hasText: "web1" }).click();
  await settled(opened.page);
  assert.match(await opened.page.locator("#p-reasons").innerText(), /Not available on this host/);
  await opened.page.keyboard.press("Escape");
  await settled(opened.page);
});

test("follows: new windows come without being asked for one by one, and the bins stay whole", async () => {
  const before = await bins();
  const asked = opened.double.asked.length;
  await opened.page.waitForFunction((newest) => {
    const app = (window as unknown as { dashboard: { range: { actors: { newest: number } }; origin_ns: number } }).dashboard;
    return app.range.actors.newest + app.origin_ns > newest + 2.5e9;
  }, before.newest);
  const polls = opened.double.asked.slice(asked).filter((path) => path.startsWith("/api/v1/now"));
  assert.ok(polls.length <= 6 && polls.every((path) => path.includes("after=")), polls.join("\n"));
  const gaps = await inPage(opened.page, (app) => {
    const lanes = app.range!.actors;
    let found = 0;
    for (let at = 1; at < lanes.length; at++) if (lanes.bin(at).from - lanes.bin(at - 1).to > 1e8) found++;
    return found;
  }, null);
  assert.equal(gaps, 0);
});

test("buttons whose words are written anew with every window keep the focus, and a click on them counts", async () => {
  const { page } = opened;
  const painted = async (): Promise<void> => {
    const ts = await inPage(page, (app) => app.newest!.ts, null);
    await page.waitForFunction((before) => window.dashboard!.newest!.ts > before, ts);
    await settled(page);
  };
  await page.locator("#p-fleet .row", { hasText: "web1" }).click();
  await settled(page);
  for (const [selector, holds] of [["#p-exits .turn", () => window.dashboard!.seen.exits === "who"], ["#crumbs .crumb", () => window.dashboard!.seen.focus === undefined]] as const) {
    const button = page.locator(selector);
    await button.focus();
    await painted();
    assert.ok(await button.evaluate((element) => element === document.activeElement), `${selector} has lost the focus`);
    await button.hover();
    await page.mouse.down();
    await painted();
    await page.mouse.up();
    assert.ok(await page.evaluate(holds), `a click on ${selector} was lost`);
    await settled(page);
  }
  await page.keyboard.press("e");
  await settled(page);
});

test("the server goes and comes back: said, hatched, and what went by meanwhile is read again", async () => {
  const before = await bins();
  await opened.stop();
  await says(/The server does not respond[\s\S]*systemctl status transect/);
  await opened.page.waitForFunction(() => /no response since/.test(document.querySelector("#live")!.textContent ?? ""));
  await opened.page.waitForTimeout(2500);
  assert.ok((await inPage(opened.page, (app) => app.knownTo + app.origin_ns, null)) > before.newest + 1e9, "time goes on");
  await opened.listen();
  await quiet();
  await settled(opened.page);
  const now = await bins();
  assert.ok(now.newest > before.newest + 2e9);
  assert.ok(await inPage(opened.page, (app, at: number) => app.range!.actors.covers(at - app.origin_ns), before.newest + 1e9), "no gap is left of what the server knows");
});

test("a history that lags behind live windows: what it did not have yet is read again, once", async () => {
  // The range is read without its newest windows, and slowly: live ones that come meanwhile do not follow on it.
  opened.double.lag = { newest: opened.double.newest() - 3, answer_ms: 600 };
  const asked = opened.double.asked.length;
  await inPage(opened.page, (app) => app.reload(), null);
  while (opened.double.asked.slice(asked).filter(isHistory).length < 5) await opened.page.waitForTimeout(20);
  opened.double.lag = undefined;
  await settled(opened.page);
  const { newest } = await bins();
  await opened.page.waitForFunction((ts) => window.dashboard!.range!.actors.newest! + window.dashboard!.origin_ns > ts + 1.5e9, newest);
  await settled(opened.page);
  const holes = await inPage(opened.page, (app) => {
    const lanes = app.range!.actors;
    return Array.from({ length: lanes.length - 1 }, (_, at) => lanes.bin(at + 1).from - lanes.bin(at).to).filter((hole) => hole > 1e8);
  }, null);
  assert.deepEqual(holes, []);
  const histories = opened.double.asked.slice(asked).filter(isHistory);
  // Four pieces and the coarse one, then what was missed of both.
  assert.ok(histories.length >= 7 && histories.length <= 11, histories.join("\n"));
});

test("401: a token is asked for, a wrong one is told, the right one goes on", async () => {
  opened.double.mode = "denied";
  await opened.stop();
  await opened.listen();
  await says(/A token is required \(401\)/);
  await opened.page.fill("#token", "wrong");
  await opened.page.keyboard.press("Enter");
  await says(/this token is not known/);
  await opened.page.fill("#token", "development-token");
  await opened.page.keyboard.press("Enter");
  await quiet();
  await opened.page.waitForFunction(() => /live/.test(document.querySelector("#live")!.textContent ?? ""));
  // The range is read anew now: the next test, which denies again, would have it fail.
  await settled(opened.page);
});

test("401 at the start: the page is there, and asks", async () => {
  opened.double.mode = "denied";
  const page = await opened.browser.newPage();
  await page.goto(opened.url);
  await page.waitForFunction(() => document.querySelector("#notices")!.textContent!.includes("A token is required"));
  await page.screenshot({ path: "build/shots/dashboard-401.png" });
  await page.fill("#token", "development-token");
  await page.keyboard.press("Enter");
  await settled(page);
  await page.close();
});

test("without a token snapshots are locked: the page says so, and a token opens them", async () => {
  const { page, double } = opened;
  double.mode = "no-token";
  await inPage(page, (app) => app.moments.refreshStatus(), null);
  await page.waitForFunction(() => document.querySelector("#b-open")!.textContent === "Snapshots need a token");
  await page.waitForFunction(() => /readable with a token/.test(document.querySelector("#p-server")!.textContent ?? ""));
  // Windows go on.
  const ts = await inPage(page, (app) => app.newest!.ts, null);
  await page.waitForFunction((before) => window.dashboard!.newest!.ts > before, ts);
  await page.locator("#b-open").click();
  await says(/reading them needs a token with the scope “read”/);
  await page.fill("#token", "development-token");
  await page.keyboard.press("Enter");
  await quiet();
  await page.waitForFunction(() => document.querySelector("#b-open")!.textContent !== "Snapshots need a token");
});

test("a timeline that needs a token leads to the dashboard, which asks for it and leads back", async () => {
  opened.double.mode = "no-token";
  const page = await opened.browser.newPage();
  await page.goto(`${opened.url}?next=/view/s1/#from=1`);
  await page.waitForFunction(() => /The timeline opens then/.test(document.querySelector("#notices")!.textContent ?? ""));
  assert.ok(!page.url().includes("next"), page.url());
  await page.fill("#token", "wrong");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /this token is not known/.test(document.querySelector("#notices")!.textContent ?? ""));
  await page.fill("#token", "development-token");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${opened.url}view/s1/#from=1`);
  await page.close();
});

test("a full history: said, with what to do; live goes on", async () => {
  opened.double.mode = "full";
  await inPage(opened.page, (app) => app.moments.refreshStatus(), null);
  await says(/The history is full[\s\S]*Free space/);
  await opened.page.waitForFunction(() => /1 GiB of 1 GiB/.test(document.querySelector("#p-server")!.textContent ?? ""));
  await opened.page.screenshot({ path: "build/shots/dashboard-full.png" });
  opened.double.mode = "ok";
  await inPage(opened.page, (app) => app.moments.refreshStatus(), null);
  await quiet();
});

test("damaged windows: their number in a line, hatched and named in the charts", async () => {
  const { double, page } = opened;
  const until_unix_ns = (double.newest() - 20) * double.window_ns;
  double.damaged = { from_unix_ns: until_unix_ns - 12 * double.window_ns, until_unix_ns, windows: 12 };
  await inPage(page, (app) => app.reload(), null);
  await says(/12 windows of this range are damaged and left out/);
  await settled(page);
  const gap = await inPage(page, (app, unix_ns) => {
    const { fleet } = app.panels;
    const { from, to } = app.view;
    const x = fleet.margins().left + ((unix_ns - app.origin_ns - from) / (to - from)) * fleet.plotWidth;
    return fleet.hit(x, 5)?.lines[0];
  }, until_unix_ns - 6 * double.window_ns);
  assert.match(String(gap), /12 windows of the history damaged/);
  double.damaged = undefined;
  await inPage(page, (app) => app.reload(), null);
  await quiet();
});

test("before the history: hatched and named; an address of nonsense is as at the start", async () => {
  const { page, errors } = await visit(opened.browser, opened.url, { hash: "#range=10min" });
  const gap = await inPage(page, (app) => {
    const { fleet } = app.panels;
    return fleet.hit(3, 5)!.lines[0];
  }, null);
  assert.match(String(gap), /before the start of the history/);
  await page.close();
  const other = await visit(opened.browser, opened.url, { hash: "#range=%3Cscript%3E&of=x&at=never" });
  assert.equal(await inPage(other.page, (app) => app.seen.length_ns, null), 900e9);
  await other.page.close();
  assert.deepEqual([...errors, ...other.errors], []);
  assert.equal(await notices(), "");
});
