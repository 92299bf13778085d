// The panel of findings in a real browser over the test double: its lines, their order, strips and words are the API's.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { percent } from "../src/core/format.ts";
import type { FindingRow } from "../dashboard/core/wire.ts";
import { inPage, openDashboard, settled, visit, type OpenedDashboard } from "./dashboard-kit.ts";

let opened: OpenedDashboard;
const NOON_MS = Date.UTC(2026, 2, 4, 12, 0, 0);
const RANGE_MS = 900_000;
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

interface Shown {
  readonly subject: string;
  readonly sentence: string;
  readonly second: string;
  readonly isLikely: boolean;
  readonly isOther: boolean;
}
/** The lines on the screen, from top to bottom. */
const lines = (page = opened.page): Promise<Shown[]> =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("#p-findings .row")]
      .filter((row) => !row.hidden)
      .map((row) => {
        const sentence = row.querySelector(".sentence")!;
        const likely = row.querySelector<HTMLElement>(".likely")!;
        return { subject: row.querySelector("b")!.textContent!, sentence: [...sentence.childNodes].slice(1).map((node) => node.textContent).join(""), second: row.querySelector("small")!.textContent!, isLikely: !likely.hidden, isOther: row.classList.contains("other") };
      }),
  );
const title = (page = opened.page): Promise<string> => page.locator("#p-findings h2 .note").innerText();
const press = async (...keys: string[]): Promise<void> => {
  for (const key of keys) await opened.page.keyboard.press(key);
  await settled(opened.page);
};
const home = async (): Promise<void> => {
  await opened.page.evaluate(() => {
    location.hash = "";
    document.querySelector<HTMLElement>("#p-fleet .scroller")!.focus();
  });
  await settled(opened.page);
  if ((await more()) === "show fewer") await opened.page.locator("#p-findings .foot button").click();
  await settled(opened.page);
};
const more = (): Promise<string> => opened.page.locator("#p-findings .foot button").evaluate((button) => ((button as HTMLElement).hidden ? "" : button.textContent!));
const showAll = async (): Promise<void> => {
  if ((await more()).startsWith("and")) await opened.page.locator("#p-findings .foot button").click();
  await settled(opened.page);
};
const keyOf = (row: { readonly subject: string; readonly detector: string }): string => `${row.subject} ${row.detector}`;
const pageKeys = (): Promise<{ key: string; holds: boolean; present_ns: number }[]> =>
  inPage(opened.page, (app) => {
    const { rows } = (app.panels as unknown as { plots: { rows: { kind: { subject: string; detector: string }; holds: boolean; present_ns: number }[] }[] }).plots[0]!;
    return rows.map(({ kind, holds, present_ns }) => ({ key: `${kind.subject} ${kind.detector}`, holds, present_ns }));
  }, null);
/** The middle of a bin, as x in the strips. */
const xOf = async (at_ms: number): Promise<{ x: number; y: number }> => {
  const box = (await opened.page.locator("#p-findings .stage canvas").boundingBox())!;
  const share = await inPage(opened.page, (app, at: number) => (app.relOf(at) - app.view.from) / (app.view.to - app.view.from), at_ms);
  return { x: box.x + share * box.width, y: box.y };
};

test("every finding of the range has one line; those of the newest window come first, in its words", async () => {
  const found = await pageKeys();
  const [whole] = opened.double.history((NOON_MS - RANGE_MS) * 1e6, NOON_MS * 1e6, 1e15, ["machines", "findings"]).windows;
  assert.deepEqual(found.map(({ key }) => key).sort(), whole!.findings!.map(keyOf).sort());
  for (const row of whole!.findings!) assert.equal(found.find(({ key }) => key === keyOf(row))!.present_ns, row.dur, keyOf(row));
  const newest = opened.double.window(opened.double.newest()).findings!;
  assert.ok(newest.length > 0);
  const holding = found.filter(({ holds }) => holds).map(({ key }) => key);
  assert.deepEqual(found.slice(0, holding.length).map(({ key }) => key), holding);
  for (const row of newest) assert.ok(holding.includes(keyOf(row)), keyOf(row));
  assert.equal(await title(), `${holding.length} now, ${found.length - holding.length} earlier`);
  await showAll();
  const shown = await lines();
  for (const row of newest) {
    const line = shown.find(({ sentence }) => sentence === row.sentence);
    assert.ok(line, row.sentence);
    assert.deepEqual([line.subject, line.second, line.isLikely, line.isOther], [row.subject, `try: ${row.hint}`, row.confidence === "likely", false]);
  }
  const earlier = shown.filter(({ isOther }) => isOther);
  assert.ok(earlier.length > 0 && earlier.every(({ second }) => /^held \S+( s| min)? of 14 min · try: /.test(second)), JSON.stringify(earlier));
  assert.ok(shown.some(({ isLikely }) => isLikely));
  await home();
});

test("the panel has few lines until all are wanted; the other panels keep their room", async () => {
  const all = (await pageKeys()).length;
  const few = (await lines()).length;
  assert.ok(few >= 3 && few <= 8 && all > few, `${few} of ${all}`);
  assert.equal(await more(), `and ${all - few} more`);
  await showAll();
  assert.equal(await more(), "show fewer");
  const { scrollHeight, clientHeight } = await opened.page.locator("#p-findings .list").evaluate(({ scrollHeight, clientHeight }) => ({ scrollHeight, clientHeight }));
  const height = await opened.page.locator("#p-findings .row").first().evaluate((row) => row.clientHeight + 1);
  assert.ok(Math.abs(scrollHeight - all * height) <= 1 && clientHeight <= 720 * 0.45, `${scrollHeight} of ${all} × ${height}, ${clientHeight}`);
  await home();
  assert.equal((await lines()).length, few);
});

test("a strip under the pointer: the share and the sentence of that bin, or that it was not found; a gap", async () => {
  await home();
  const { key } = (await pageKeys())[0]!;
  const bins = await inPage(opened.page, (app) => {
    const { lanes } = app.range!.findings;
    return Array.from({ length: lanes.length }, (_, at) => lanes.bin(at)).map(({ from, to }) => ({ from: from + app.origin_ns, to: to + app.origin_ns }));
  }, null);
  const rowIn = (bin: { from: number; to: number }): FindingRow | undefined => opened.double.history(bin.from, bin.to, 1e15, ["machines", "findings"]).windows[0]!.findings!.find((one) => keyOf(one) === key);
  const found = bins.filter((bin) => rowIn(bin) !== undefined);
  assert.ok(found.length > 3 && found.length < bins.length, `${found.length} of ${bins.length}`);
  for (const bin of [...found.slice(0, 3), ...found.slice(-2), ...bins.filter((one) => !found.includes(one)).slice(0, 3)]) {
    const row = rowIn(bin);
    const { x, y } = await xOf((bin.from + bin.to) / 2e6);
    await opened.page.mouse.move(x, y + 15);
    const tip = await opened.page.locator("#tip").innerText();
    if (row) assert.ok(tip.includes(percent(row.held_ns / row.of_ns)) && tip.includes(row.sentence), `${tip}\n${row.sentence}`);
    else assert.match(tip, /not found/);
  }
  const { x, y } = await xOf(NOON_MS - 460_000);
  await opened.page.mouse.move(x, y + 15);
  assert.match(await opened.page.locator("#tip").innerText(), /no data: 1 window missed/);
});

test("a click into a strip selects that time: the findings of its window come first, the others are of other times", async () => {
  await home();
  const at_ms = NOON_MS - 640_000;
  const { x, y } = await xOf(at_ms);
  await opened.page.mouse.click(x, y + 15);
  await settled(opened.page);
  assert.match(opened.page.url(), /at=2026-03-04T11/);
  const bin = await inPage(opened.page, (app) => {
    const { from, to } = app.range!.actors.bin(app.range!.actors.at(app.moment!)!);
    return { from: from + app.origin_ns, to: to + app.origin_ns };
  }, null);
  const [window] = opened.double.history(bin.from, bin.to, 1e15, ["machines", "findings"]).windows;
  const found = await pageKeys();
  assert.deepEqual(found.filter(({ holds }) => holds).map(({ key }) => key).sort(), window!.findings!.map(keyOf).sort());
  assert.ok(found.findIndex(({ holds }) => !holds) >= window!.findings!.length);
  assert.match(await title(), new RegExp(`^${window!.findings!.length} at 11:49:\\d\\d, \\d+ at other times$`));
  assert.ok(await opened.page.locator("#p-findings .cursor").isVisible());
  await press("Escape");
  assert.match(await title(), /now, \d+ earlier/);
});

test("by keyboard: a line is selected, read out and opened; the VM has its own findings, and Escape leads back", async () => {
  await home();
  await opened.page.locator("#p-findings .list").focus();
  await press("ArrowDown");
  const [first] = await lines();
  assert.equal(await opened.page.locator('#p-findings .row[aria-selected="true"] b').innerText(), first!.subject);
  const says = await opened.page.locator("#says").innerText();
  assert.ok(says.includes(first!.sentence) && says.includes("try: "), says);
  await showAll();
  const at = (await lines()).findIndex(({ subject }) => / vcpu\d$/.test(subject));
  await opened.page.locator("#p-findings .list").focus();
  for (let i = 0; i < at; i++) await press("ArrowDown");
  await press("Enter");
  const { subject } = (await lines())[0]!;
  const vm = subject.replace(/ vcpu\d$/, "");
  assert.ok(decodeURIComponent(opened.page.url()).endsWith(`of=vm:${vm}`), opened.page.url());
  assert.ok((await pageKeys()).every(({ key }) => key.startsWith(`${vm} vcpu`)), JSON.stringify(await pageKeys()));
  assert.equal(await opened.page.locator("#p-findings .row:not([hidden]) b.opens").count(), 0, "it is open");
  await press("Escape");
  assert.ok(!opened.page.url().includes("of="));
});

test("a click on a subject opens it, a control group as its container; paused, the lines are those of the range", async () => {
  await home();
  await showAll();
  const group = opened.page.locator("#p-findings .row:not([hidden]) b", { hasText: "/system.slice/docker-4f1c.scope" });
  await group.click();
  await settled(opened.page);
  assert.equal(await opened.page.locator("#crumbs b").nth(1).innerText(), "shop");
  assert.ok((await lines()).every(({ isLikely, sentence }) => isLikely && sentence.includes("most likely because")));
  await press("Escape", " ");
  assert.match(await title(), /^\d+ in 15 min to /);
  assert.ok((await lines()).every(({ isOther, second }) => !isOther && second.startsWith("held ")));
  await press(" ");
});

test("no findings are said so in one line; windows of older versions are not known", async () => {
  const none = await openDashboard({ frozen_ms: NOON_MS, vms: 0, groups: 0 });
  const old = await openDashboard({ frozen_ms: NOON_MS, vms: 3, groups: 2, findings_since: NOON_MS / 1000 + 1 });
  const half = await openDashboard({ frozen_ms: NOON_MS, vms: 5, groups: 2, findings_since: NOON_MS / 1000 - 300 });
  try {
    assert.equal(await title(none.page), "No findings in this range.");
    assert.ok((await none.page.locator("#p-findings").boundingBox())!.height < 40);
    assert.equal(await title(old.page), "Not known: the windows of this range do not contain findings.");
    assert.ok(old.double.asked.filter((path) => path.includes("tables=")).every((path) => !path.includes("findings")), "a server without the table is not asked for it");
    const box = (await half.page.locator("#p-findings .stage canvas").boundingBox())!;
    await half.page.mouse.move(box.x + box.width * 0.3, box.y + 15);
    assert.match(await half.page.locator("#tip").innerText(), /not known: this window does not contain findings/);
    assert.ok((await lines(half.page)).length > 0);
    for (const { errors } of [none, old, half]) assert.deepEqual(errors, []);
  } finally {
    for (const one of [none, old, half]) await one.close();
  }
});

test("while windows come, a line keeps its element, and a click on its subject counts", async () => {
  const live = await openDashboard({ vms: 6, groups: 2, history_s: 120 }, { hash: "#range=2min" });
  try {
    const { page } = live;
    const painted = async (): Promise<void> => {
      const ts = await inPage(page, (app) => app.newest!.ts, null);
      await page.waitForFunction((before) => window.dashboard!.newest!.ts > before, ts);
      await settled(page);
    };
    const row = await page.locator("#p-findings .row:not([hidden])").first().elementHandle();
    await painted();
    assert.ok(await row!.evaluate((element) => element.isConnected));
    await page.locator("#p-findings .row:not([hidden]) b.opens").first().hover();
    await page.mouse.down();
    await painted();
    await page.mouse.up();
    await page.waitForFunction(() => window.dashboard!.seen.focus !== undefined);
    assert.deepEqual(live.errors, []);
  } finally {
    await live.close();
  }
});

test("dark and light, wide, narrow and large: the panel fits, and its strips have the axis of the other panels", async () => {
  for (const [name, viewport, scheme, hash] of [
    ["desk", { width: 1280, height: 720 }, "dark", ""],
    ["light", { width: 1280, height: 720 }, "light", "#at=2026-03-04T11:49:22.500Z"],
    ["wide", { width: 1920, height: 1080 }, "light", ""],
    ["vm", { width: 1600, height: 900 }, "dark", "#of=vm:batch1"],
    ["narrow", { width: 480, height: 860 }, "light", ""],
    ["narrow-dark", { width: 480, height: 860 }, "dark", ""],
    ["large", { width: 1280, height: 720 }, "dark", "#large=findings"],
  ] as const) {
    const { page, errors } = await visit(opened.browser, opened.url, { viewport, scheme, hash });
    await page.screenshot({ path: `build/shots/findings-${name}.png` });
    const sizes = await page.evaluate(() => {
      const list = document.querySelector("#p-findings .list")!;
      const [strip, axis] = [document.querySelector("#p-findings .stage")!, document.querySelector("#p-findings .foot canvas")!].map((element) => element.getBoundingClientRect());
      return { wide: document.documentElement.scrollWidth - innerWidth, across: list.scrollWidth - list.clientWidth, left: Math.round(strip!.left - axis!.left), right: Math.round(strip!.right - axis!.right), width: strip!.width };
    });
    assert.deepEqual({ ...sizes, width: sizes.width > 100 }, { wide: 0, across: 0, left: 0, right: 0, width: true }, name);
    assert.deepEqual(errors, []);
    await page.context().close();
  }
});
