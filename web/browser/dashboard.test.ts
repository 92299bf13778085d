// The dashboard in a real browser over the test double: what a person does, and that what is on the screen is what the API says.
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { percent, thousands } from "../src/core/format.ts";
import { inPage, openDashboard, settled, visit, type OpenedDashboard } from "./dashboard-kit.ts";
import { testdata } from "./real.ts";

let opened: OpenedDashboard;
/** A time that stands still: what is seen is the same in every run. */
const NOON_MS = Date.UTC(2026, 2, 4, 12, 0, 0);
before(async () => {
  mkdirSync("build/shots", { recursive: true });
  opened = await openDashboard({ frozen_ms: NOON_MS, gaps: [[500, 420]] });
});
after(async () => {
  try {
    assert.deepEqual(opened.errors, []);
  } finally {
    await opened.close();
  }
});

const texts = (selector: string): Promise<string[]> => opened.page.locator(selector).allInnerTexts();
const press = async (...keys: string[]): Promise<void> => {
  for (const key of keys) await opened.page.keyboard.press(key);
  await settled(opened.page);
};
const home = async (): Promise<void> => {
  await opened.page.evaluate(() => {
    location.hash = "";
    document.querySelectorAll<HTMLDialogElement>("dialog[open]").forEach((dialog) => dialog.close());
    (document.querySelector("#p-fleet .scroller") as HTMLElement).focus();
  });
  await settled(opened.page);
};
/** Numbers of the rows: name → gotten, waited, blocked. */
const rows = (): Promise<Record<string, string[]>> =>
  opened.page.evaluate(() => Object.fromEntries([...document.querySelectorAll("#p-fleet .row")].filter((row) => !(row as HTMLElement).hidden).map((row) => [row.querySelector("b")!.textContent!, [...row.querySelectorAll(".n")].map((cell) => cell.textContent!)])));

test("loads: every VM and container has its row, with the newest window's numbers", async () => {
  assert.match(await opened.page.title(), /made-up · transect/);
  const shown = await rows();
  const newest = opened.double.window(opened.double.newest());
  const machines = newest.machines!.filter((machine) => machine.kind === "guest");
  assert.equal(machines.length, 8);
  for (const machine of machines) {
    const row = newest.windows!.find(({ machine_id, vcpu }) => machine_id === machine.machine_id && vcpu === null)!;
    assert.deepEqual(shown[machine.name], [row.gotten_ns!, row.waited_ns!, row.blocked_ns!].map((ns) => percent(ns / row.dur)), machine.name);
  }
  for (const container of newest.container_windows!) assert.deepEqual(shown[container.name]?.slice(0, 2), [percent(container.gotten_ns! / 1e9), percent(container.waited_ns! / 1e9)]);
  assert.match((await texts("#live"))[0]!, /live 12:00:00/);
});

test("the range's sums are the API's: order by waited, bars, matrix", async () => {
  const order = await inPage(opened.page, (app) => app.panels.fleet.rows.map(({ actor, shares }) => [actor.id, shares.waited] as const), null);
  const { from, until } = { from: (NOON_MS - 900_000) * 1e6, until: NOON_MS * 1e6 };
  const [whole] = opened.double.history(from, until, 1e15, ["machines", "windows", "antagonists"]).windows;
  for (const [id, waited] of order.filter(([id]) => id.startsWith("vm:"))) {
    const machine = whole!.machines!.find(({ name }) => `vm:${name}` === id)!;
    const row = whole!.windows!.find(({ machine_id, vcpu }) => machine_id === machine.machine_id && vcpu === null)!;
    assert.ok(Math.abs(waited - row.waited_ns! / row.dur) < 1e-9, id);
  }
  const sorted = order.map(([, waited]) => Math.round(waited * 1000));
  assert.deepEqual(sorted, [...sorted].sort((a, b) => b - a));
  const got = await inPage(opened.page, (app) => [...app.range!.rivals.names].reduce((sum, name) => sum + app.range!.rivals.sum(name, 1, app.view.from, app.view.to), 0), null);
  assert.equal(got, whole!.antagonists!.reduce((sum, row) => sum + row.ns, 0));
});

test("a gap is hatched, said under the pointer, and nothing is drawn across it", async () => {
  const place = await inPage(opened.page, (app) => {
    const { fleet } = app.panels;
    const { pixels } = fleet as unknown as { pixels: { data: Uint32Array; width: number } };
    const { from, to } = app.view;
    const x = (at: number): number => Math.floor(((at - from) / (to - from)) * pixels.width);
    const colours = (a: number, b: number): number => {
      const seen = new Set<number>();
      for (let y = 4; y < 20; y++) for (let at = a; at < b; at++) seen.add(pixels.data[y * pixels.width + at]!);
      return seen.size;
    };
    const middle = to - 460e9;
    return { inside: colours(x(to - 490e9), x(to - 430e9)), outside: colours(x(to - 400e9), x(to - 340e9)), x: (x(middle) / pixels.width) * fleet.width };
  }, null);
  assert.equal(place.inside, 2, "row and hatching");
  assert.ok(place.outside > 2, `${place.outside} colours`);
  const box = (await opened.page.locator("#p-fleet .stage canvas").boundingBox())!;
  await opened.page.mouse.move(box.x + place.x, box.y + 10);
  assert.match(await opened.page.locator("#tip").innerText(), /no data: 1 window missed/);
});

test("a click into time chooses the moment everywhere; its numbers are that window's; Esc lets go", async () => {
  await home();
  const box = (await opened.page.locator("#p-cpus canvas").boundingBox())!;
  await opened.page.mouse.click(box.x + box.width * 0.8, box.y + box.height / 2);
  await settled(opened.page);
  const bin = await inPage(opened.page, (app) => {
    const { from, to } = app.range!.actors.bin(app.range!.actors.at(app.moment!)!);
    return { from: from + app.origin_ns, to: to + app.origin_ns };
  }, null);
  const [window] = opened.double.history(bin.from, bin.to, 1e15, ["machines", "windows"]).windows;
  const row = window!.windows!.find(({ machine_id, vcpu }) => machine_id === 3 && vcpu === null)!;
  assert.deepEqual((await rows())["batch1"], [row.gotten_ns!, row.waited_ns!, row.blocked_ns!].map((ns) => percent(ns / row.dur)));
  assert.match(opened.page.url(), /#at=2026-03-04T11/);
  assert.equal(await opened.page.locator(".cursor:visible").count(), 6, "a line in every panel with time");
  const before = opened.page.url();
  await press("ArrowLeft", "ArrowLeft");
  assert.notEqual(opened.page.url(), before);
  await press("Escape");
  assert.ok(!opened.page.url().includes("at="));
});

test("drill down by keyboard: a VM's vCPUs, exits, threads; its numbers; back", async () => {
  await home();
  await press("c", "o", "ArrowDown", "Enter");
  const name = (await texts("#crumbs b"))[1]!;
  const shown = await rows();
  assert.deepEqual(Object.keys(shown), ["all vCPUs", "vCPU 0", "vCPU 1"], name);
  const [whole] = opened.double.history((NOON_MS - 900_000) * 1e6, NOON_MS * 1e6, 1e15, ["machines", "exit_windows"]).windows;
  const id = whole!.machines!.find((machine) => machine.name === name)!.machine_id;
  const wanted = new Map<string, number>();
  for (const row of whole!.exit_windows!.filter((exit) => exit.machine_id === id)) wanted.set(row.reason, (wanted.get(row.reason) ?? 0) + row.count);
  const table = await opened.page.evaluate(() => [...document.querySelectorAll("#p-reasons tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent!)));
  assert.deepEqual(Object.fromEntries(table.map((row) => [row[0], Number(row[1]!.replace(/\D/g, ""))])), Object.fromEntries(wanted));
  assert.ok(table.every((row) => row[4] === "2.05 µs"), "p50 of each reason");
  assert.match((await texts("#p-threads"))[0]!, /CPU 0\/KVM 10\d\d/);
  assert.match(opened.page.url(), /of=vm%3A/);
  await press("Escape");
  assert.ok(Object.keys(await rows()).length === 8);
});

test("an address with a moment shows that moment's numbers at once", async () => {
  const { page, errors } = await visit(opened.browser, opened.url, { hash: "#of=vm:batch1&at=2026-03-04T11:55:02.500Z" });
  const [window] = opened.double.history(Date.UTC(2026, 2, 4, 11, 55, 0) * 1e6, Date.UTC(2026, 2, 4, 11, 55, 5) * 1e6, 1e15, ["machines", "windows"]).windows;
  const row = window!.windows!.find(({ machine_id, vcpu }) => machine_id === 3 && vcpu === 1)!;
  assert.deepEqual(await page.locator("#p-fleet .row:has(b:text-is('vCPU 1')) .n").allInnerTexts(), [row.gotten_ns!, row.waited_ns!, row.blocked_ns!].map((ns) => percent(ns / row.dur)));
  assert.equal(await page.locator("#p-threads tbody tr").count() > 2, true);
  assert.deepEqual(errors, []);
  await page.context().close();
});

test("a container: its name, limit and pressure", async () => {
  await home();
  await opened.page.locator('#p-fleet .row:has(b:text-is("shop"))').click();
  await settled(opened.page);
  assert.equal((await texts("#crumbs b"))[1], "shop");
  assert.match((await texts("#p-reasons"))[0]!, /Limits and pressure[\s\S]*1\.5 CPUs[\s\S]*of 10 periods/);
});

test("the matrix: chosen by keyboard, said, opened; exits by VM and by time", async () => {
  await home();
  await opened.page.locator("#p-rivals canvas").focus();
  await press("ArrowDown", "ArrowRight");
  assert.match(await opened.page.locator("#tip").innerText(), /·[\s\S]*% of the time/);
  assert.match((await texts("#says"))[0]!, /of the time/);
  await press("Enter");
  assert.match(opened.page.url(), /of=vm/);
  await press("Escape", "e");
  assert.match(opened.page.url(), /exits=who/);
  assert.equal(await opened.page.locator("#p-exits .turn").innerText(), "over time");
});

test("ranges, own ranges, zoom, pan, pause and now; the address brings all of it back", async () => {
  await home();
  await press("2");
  assert.match(opened.page.url(), /range=1h/);
  await press("0");
  await opened.page.keyboard.type("40m");
  await press("Enter");
  assert.match(opened.page.url(), /range=40min/);
  await press("a");
  const url = opened.page.url();
  assert.match(url, /until=2026-03-04T11%3A40/);
  const seen = await inPage(opened.page, (app) => [app.view.to - app.view.from, app.unixMs(app.view.to), app.range!.actors.length], null);
  const other = await visit(opened.browser, url);
  assert.deepEqual(await inPage(other.page, (app) => [app.view.to - app.view.from, app.unixMs(app.view.to), app.range!.actors.length], null), seen);
  assert.deepEqual(other.errors, []);
  await other.page.close();
  await press("n");
  assert.ok(!opened.page.url().includes("until"));
  await press(" ");
  assert.match((await texts("#live"))[0]!, /paused/);
  await press(" ");
  assert.match((await texts("#live"))[0]!, /live/);
});

test("a VM's tables are sums of the range that is seen, whichever it comes to be", async () => {
  await home();
  await opened.page.locator('#p-fleet .row:has(b:text-is("batch1"))').click();
  await settled(opened.page);
  const counts = (): Promise<string[][]> => opened.page.evaluate(() => [...document.querySelectorAll("#p-reasons tbody tr")].map((row) => [...row.querySelectorAll("td")].slice(0, 2).map((cell) => cell.textContent!)));
  const wanted = (from_ms: number, until_ms: number): string[][] => {
    const [whole] = opened.double.history(from_ms * 1e6, until_ms * 1e6, 1e15, ["machines", "exit_windows"]).windows;
    const id = whole!.machines!.find(({ name }) => name === "batch1")!.machine_id;
    const sums = new Map<string, number>();
    for (const row of whole!.exit_windows!) if (row.machine_id === id) sums.set(row.reason, (sums.get(row.reason) ?? 0) + row.count);
    return [...sums].map(([reason, count]) => [reason, thousands(count)]).sort();
  };
  const MIN_MS = 60_000;
  assert.deepEqual((await counts()).sort(), wanted(NOON_MS - 15 * MIN_MS, NOON_MS), "15 minutes");
  await press("2");
  assert.deepEqual((await counts()).sort(), wanted(NOON_MS - 60 * MIN_MS, NOON_MS), "an hour");
  await press("a");
  const { from, to } = await inPage(opened.page, (app) => ({ from: app.unixMs(app.view.from), to: app.unixMs(app.view.to) }), null);
  assert.ok(to < NOON_MS);
  assert.deepEqual((await counts()).sort(), wanted(from, to), "an hour of before");
  await press("+");
  const zoomed = await inPage(opened.page, (app) => ({ from: app.unixMs(app.view.from), to: app.unixMs(app.view.to) }), null);
  assert.ok(zoomed.to - zoomed.from < to - from);
  assert.deepEqual((await counts()).sort(), wanted(zoomed.from, zoomed.to), "half of that");
  await press("n");
  assert.deepEqual((await counts()).sort(), wanted(zoomed.from + NOON_MS - zoomed.to, NOON_MS), "up to now");
});

test("filter, kinds, order, large panel, help, theme: all from the keyboard", async () => {
  await home();
  await press("/");
  await opened.page.keyboard.type("web");
  await press("Enter");
  assert.ok(Object.keys(await rows()).every((name) => /web|shop/.test(name)), JSON.stringify(await rows()));
  await press("Escape", "c");
  assert.ok(!(await texts("#p-fleet .row:visible small")).some((text) => text.includes("CPU")), "VMs only");
  await press("c", "c", "f");
  assert.equal(await opened.page.locator(".panel:visible").count(), 1);
  await press("f", "?");
  assert.match(await opened.page.locator("#help").innerText(), /take a snapshot now/);
  await press("Escape", "l");
  assert.equal(await opened.page.evaluate(() => document.documentElement.dataset["theme"]), "light");
  await press("l");
});

test("a snapshot: taken with S, listed, marked, opened in the timeline with V; a reader is told why not", async () => {
  await home();
  await press("s");
  await opened.page.waitForFunction(() => document.querySelector("#notices")!.textContent!.includes(" taken:"));
  assert.deepEqual(opened.double.taken.map(({ seconds }) => seconds), [10]);
  assert.equal(await opened.page.locator("#notices a").getAttribute("href"), "view/s1/");
  const popup = opened.page.context().waitForEvent("page");
  await press("v");
  assert.match((await popup).url(), /\/view\/s1\/$/);
  await (await popup).close();
  opened.double.mode = "read-only";
  await press("s");
  await opened.page.waitForFunction(() => document.querySelector("#notices .bad")?.textContent?.includes("lacks the scope “control”"));
  opened.double.mode = "ok";
  await opened.page.evaluate(() => document.querySelectorAll<HTMLElement>("#notices button").forEach((button) => button.click()));
});

test("snapshots are listed with their extent, and open at the selected time; the zone is shown", async () => {
  await home();
  const { page, double } = opened;
  double.taken.splice(0);
  await press("s");
  await page.waitForFunction(() => document.querySelector("#notices")!.textContent!.includes(" taken:"));
  assert.equal(await page.locator("#zone").innerText(), "+0000");
  assert.match(await page.locator("#zone").getAttribute("title") ?? "", /UTC/);
  // Frozen at noon of another day: the date stands before the time.
  const extent = "2026-03-04 11:59:50 – 12:00:00";
  assert.equal(await page.locator("#b-open").innerText(), `Open snapshot of ${extent}`);
  const link = page.locator("#p-server .snapshots a");
  assert.deepEqual([await link.innerText(), await link.getAttribute("href")], [extent, "view/s1/"]);
  await inPage(page, (app, at: number) => app.see({ at_ms: at }), NOON_MS - 4_500);
  await inPage(page, (app) => app.moments.pickAgain(), null);
  await settled(page);
  const { from, to } = await inPage(page, (app) => {
    const bin = app.range!.actors.bin(app.range!.actors.at(app.moment!)!);
    return { from: app.unixMs(bin.from), to: app.unixMs(bin.to) };
  }, null);
  const popup = page.context().waitForEvent("page");
  await press("v");
  const address = new URL((await popup).url());
  await (await popup).close();
  const parts = new URLSearchParams(address.hash.slice(1));
  const ends = [parts.get("from"), parts.get("until")].map((text) => (text === null ? undefined : Date.parse(text)));
  assert.ok(ends[0] === undefined ? from <= NOON_MS - 10_000 + 1 : Math.abs(ends[0] - from) <= 1, address.hash);
  assert.ok(ends[1] === undefined ? to >= NOON_MS - 1 : Math.abs(ends[1] - to) <= 1, address.hash);
  assert.ok(ends[0] !== undefined || ends[1] !== undefined, address.hash);
  assert.equal(await link.getAttribute("href"), `view/s1/${address.hash}`);
  await home();
  double.taken.splice(0);
  await inPage(page, (app) => app.moments.refreshStatus(), null);
  await page.evaluate(() => document.querySelectorAll<HTMLElement>("#notices button").forEach((button) => button.click()));
});

test("a remark's link keeps its focus, and a click on it counts, while what is said above it changes", async () => {
  await home();
  await press("s");
  const link = opened.page.locator("#notices a");
  await link.waitFor();
  await link.focus();
  const box = (await link.boundingBox())!;
  const status = async (mode: "full" | "ok"): Promise<void> => {
    opened.double.mode = mode;
    await inPage(opened.page, (app) => app.moments.refreshStatus(), null);
    await opened.page.waitForFunction((full) => document.querySelector("#notices")!.textContent!.includes("The history is full") === full, mode === "full");
  };
  await status("full");
  assert.equal(await opened.page.evaluate(() => document.activeElement?.getAttribute("href")), await link.getAttribute("href"));
  await status("ok");
  assert.deepEqual(await link.boundingBox(), box);
  await opened.page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await opened.page.mouse.down();
  await status("full");
  await status("ok");
  const popup = opened.page.context().waitForEvent("page");
  await opened.page.mouse.up();
  await (await popup).close();
  // A line that says what it said is the same line, with whatever somebody does in it.
  await status("full");
  const same = await opened.page.evaluate(async () => {
    const { moments, panels } = window.dashboard!;
    const line = document.querySelector("#notices .bad")!;
    const refreshed = new Promise<void>((done) => {
      panels.notices = () => {
        delete (panels as { notices?: unknown }).notices;
        panels.notices();
        done();
      };
    });
    moments.refreshStatus();
    await refreshed;
    return line.isConnected;
  });
  assert.ok(same, "the line is another one");
  await status("ok");
  await opened.page.evaluate(() => document.querySelectorAll<HTMLElement>("#notices button").forEach((button) => button.click()));
  assert.equal(await opened.page.locator("#notices p").count(), 0);
});

test("dark and light, a desk, a wall and a phone: nothing overflows, every panel has its room", async () => {
  for (const [name, viewport, scheme, hash] of [
    ["desk", { width: 1280, height: 720 }, "dark", ""],
    ["light", { width: 1280, height: 720 }, "light", "#exits=who"],
    ["wall", { width: 3840, height: 2160 }, "dark", ""],
    ["vm", { width: 1600, height: 900 }, "dark", "#of=vm:batch1&at=2026-03-04T11:55:02.500Z"],
    ["narrow", { width: 480, height: 860 }, "light", ""],
  ] as const) {
    const { page, errors } = await visit(opened.browser, opened.url, { viewport, scheme, hash });
    await page.screenshot({ path: `build/shots/dashboard-${name}.png` });
    const small = await page.evaluate(() => {
      const panels = [...document.querySelectorAll<HTMLElement>(".panel")].filter((panel) => panel.offsetParent !== null);
      return { wide: document.documentElement.scrollWidth - innerWidth, small: panels.filter((panel) => panel.clientHeight < (panel.id === "p-findings" ? 60 : 150) || panel.clientWidth < 220).map((panel) => panel.id), panels: panels.length };
    });
    assert.deepEqual(small, { wide: 0, small: [], panels: 8 }, name);
    assert.deepEqual(errors, []);
    await page.context().close();
  }
});

test("recorded windows of real guests: who starves, behind whom, by which exits; a CPU nobody saw idle is unknown", async (context) => {
  const log = testdata("live/nested.jsonl");
  if (!existsSync(log)) return context.skip(`skipped: there is no ${log}`);
  const real = await openDashboard({ log, frozen_ms: NOON_MS, history_s: 60 }, { hash: "#range=1min" });
  try {
    const [first] = await inPage(real.page, (app) => app.panels.fleet.rows.filter(({ actor }) => actor.kind === "vm").map(({ actor, shares }) => [actor.name, shares.waited] as const), null);
    assert.equal(first![0], "starved");
    const window = real.double.window(real.double.newest());
    const id = window.machines!.find(({ name }) => name === "starved")!.machine_id;
    const row = window.windows!.find(({ machine_id, vcpu }) => machine_id === id && vcpu === null)!;
    assert.deepEqual(await real.page.locator("#p-fleet .row:has(b:text-is('starved')) .waited").allInnerTexts(), [percent(row.waited_ns! / row.dur)]);
    assert.match(await real.page.locator("#p-cpus h2").innerText(), /50 % unknown/);
    await real.page.locator("#p-fleet .row:has(b:text-is('starved'))").click();
    await settled(real.page);
    assert.match(await real.page.locator("#p-threads tbody tr").first().innerText(), /^greedy\tvCPU 0/);
    assert.match(await real.page.locator("#p-reasons").innerText(), /hlt/);
    await real.page.screenshot({ path: "build/shots/dashboard-nested.png" });
    assert.deepEqual(real.errors, []);
  } finally {
    await real.close();
  }
});
