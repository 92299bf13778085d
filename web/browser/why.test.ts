// "Why slow here": the critical path of a range over the rows and in its panel, on the development server; and of a
// guest's thread that writes to a disk, over the real server, through guest and host.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { idle, openForTests, withApp } from "./kit.ts";
import { withPage } from "./real.ts";

const made = openForTests({ seconds: 4 });

const answered = (page: Page): Promise<unknown> => page.waitForFunction(() => window.transect!.state.why?.findings !== undefined, null, { timeout: 60_000 });
const drawn = (page: Page): Promise<number[]> => withApp(page, (app) => [...(app.overlay.path?.tracks ?? [])], null);
const trackOf = (page: Page, kind: string, machine: string): Promise<number> =>
  withApp(page, (app, [wanted, name]: [string, string]) => app.model.tracks.find((t) => t.kind === wanted && app.model.machineName(t.machine_id) === name)!.track, [kind, machine]);

async function select(page: Page, from: number, to: number, tracks: readonly number[]): Promise<void> {
  await withApp(page, (app, range: { from: number; to: number; tracks: readonly number[] }) => {
    app.select(range.from, range.to, range.tracks);
    app.selected();
  }, { from, to, tracks });
}

async function reset(page: Page): Promise<void> {
  await withApp(page, (app) => {
    for (let i = 0; i < 6; i++) app.run("close");
    app.state.current = undefined;
    app.setView({ from: 500_000_000, to: 700_000_000 });
  }, null);
  await page.locator("#scroll").focus();
  await idle(page);
}

test("Shift+W explains the selected range of a vCPU: sentences, pieces that tile it, antagonists; Escape removes it", async () => {
  const { page } = made;
  await reset(page);
  const vcpu = await trackOf(page, "vcpu", "periodic");
  await select(page, 520_000_000, 660_000_000, [vcpu]);
  await page.locator("#panel").getByRole("button", { name: "Why slow?" }).waitFor();
  await page.locator("#scroll").focus();
  await page.keyboard.press("Shift+W");
  await answered(page);
  await idle(page);
  const text = await page.locator("#panel").innerText();
  for (const words of ["Why slow: periodic › vCPU 0", "waited", "By layer:", "Waits for a CPU", "hog vcpu0", "because of", "vCPU waits"]) assert.ok(text.includes(words), `${words} in ${text}`);
  const pieces = await withApp(page, (app) => app.state.why!.path!.pieces.map(({ from, to }) => [from, to]), null);
  assert.deepEqual([pieces[0]![0], pieces.at(-1)![1]], [520_000_000, 660_000_000]);
  pieces.slice(1).forEach(([from], i) => assert.equal(from, pieces[i]![1]));
  assert.ok((await drawn(page)).includes(vcpu));
  assert.equal(await page.locator(".why .line.longest").count() <= 1, true);

  await page.keyboard.press("Escape");
  assert.deepEqual(await withApp(page, (app) => [app.state.why === undefined, app.state.dock ?? null, app.overlay.path ?? null], null).then(async (state) => (await idle(page), state)), [true, null, null]);
  assert.ok(await withApp(page, (app) => app.state.selection !== undefined, null), "the selection stays");
});

test("a click on a piece moves there and marks it; the list is sorted by length; the address keeps the path", async () => {
  const { page } = made;
  await reset(page);
  await select(page, 520_000_000, 660_000_000, [await trackOf(page, "vcpu", "periodic")]);
  await page.locator("#panel").getByRole("button", { name: "Why slow?" }).click();
  await answered(page);
  await page.getByRole("button", { name: "By length" }).click();
  const longest = page.locator(".why .line").first();
  assert.match((await longest.getAttribute("class"))!, /longest/);
  await longest.click();
  await idle(page);
  const state = await withApp(page, (app) => ({ picked: app.state.why!.picked, longest: app.state.why!.path!.longest, own: app.state.why!.path!.pieces[app.state.why!.picked!]!, view: app.state.view }), null);
  assert.equal(state.picked, state.longest);
  assert.ok(state.view.from <= state.own.from && state.view.to >= state.own.to);
  assert.ok((state.view.to - state.view.from) / (state.own.to - state.own.from) < 60);
  // The keys go on from there.
  await page.locator(".why .grid").focus();
  await page.keyboard.press("ArrowDown");
  assert.notEqual(await withApp(page, (app) => app.state.why!.picked, null), state.picked);
  await page.waitForTimeout(400);
  await idle(page);
  await page.waitForFunction(() => /[#&]why=\d+%40\d+-\d+/.test(location.hash));
  await page.reload();
  await page.waitForFunction(() => window.transect !== undefined);
  await answered(page);
  assert.deepEqual(await withApp(page, ({ state: { why } }) => [why!.from, why!.to], null), [520_000_000, 660_000_000]);
});

test("rows of the path that are not shown are stated, and pinned on demand", async () => {
  const { page } = made;
  await reset(page);
  const dom0 = await trackOf(page, "machine", "dom0");
  await withApp(page, (app, track: number) => app.toggleFold(track, false), dom0);
  await select(page, 520_000_000, 660_000_000, [await trackOf(page, "vcpu", "periodic")]);
  await page.locator("#scroll").focus();
  await page.keyboard.press("Shift+W");
  await answered(page);
  const panel = page.locator("#panel");
  assert.match(await panel.innerText(), /One row of the path is not shown: [\d.]+ ms \(\d+ %\)/);
  await panel.getByRole("button", { name: "Show its rows" }).click();
  await idle(page);
  assert.doesNotMatch(await panel.innerText(), /not shown/);
  assert.ok((await drawn(page)).length >= 2);
  assert.ok(await withApp(page, (app) => app.state.pinned.length >= 1, null));
  await page.getByRole("button", { name: "Remove (Esc)" }).click();
  assert.deepEqual(await withApp(page, (app) => app.state.pinned, null), [], "its pins go with it");
  await withApp(page, (app, track: number) => app.toggleFold(track, true), dom0);
});

test("a range of several threads asks which; without one the panel explains itself; errors are one line", async () => {
  const { page } = made;
  await reset(page);
  await page.keyboard.press("Shift+W");
  assert.match(await page.locator("#panel").innerText(), /Select an interval or a range on the row of a thread or vCPU/);
  const tracks = [await trackOf(page, "vcpu", "periodic"), await trackOf(page, "vcpu", "hog")];
  await select(page, 520_000_000, 560_000_000, tracks);
  await page.locator("#scroll").focus();
  await page.keyboard.press("Shift+W");
  await page.locator(".why .choice button").getByText("hog › vCPU 0").click();
  await answered(page);
  assert.equal(await withApp(page, (app) => app.state.why!.track, null), tracks[1]);

  // A path that is longer than what the page takes is cut, and the panel states it.
  await withApp(page, (app, track: number) => {
    const ask = app.api.sql;
    app.api.sql = async (sql, limit, signal) => ({ ...(await ask(sql, limit, signal)), truncated: sql.includes("critical_path") });
    app.why.explain({ track, from: 520_000_000, to: 660_000_000 });
    app.api.sql = ask;
  }, tracks[0]!);
  await answered(page);
  assert.match(await page.locator("#panel .bad").innerText(), /^Only the first 100.000 pieces are shown, up to 0.660 000 000 s: select a shorter range\.$/);

  await withApp(page, (app, track: number) => {
    const ask = app.api.sql;
    app.api.sql = () => Promise.reject(new Error("table function 'critical_path' not found"));
    app.why.explain({ track, from: 0, to: 1000 });
    app.api.sql = ask;
  }, tracks[0]!);
  await page.locator("#panel .bad").getByText("table function 'critical_path' not found").waitFor();
  assert.equal(await page.locator(".why .right").isVisible(), false);
  await page.locator("#tabs .close").click();
  assert.equal(await withApp(page, (app) => app.state.why, null), undefined, "the panel's close removes the path");
});

test("over the real server: a guest's disk thread is explained by its host, piece by piece", async () => {
  await withPage((folder) => folder.nested(), async (page) => {
    await idle(page);
    await page.evaluate(() => document.querySelectorAll<HTMLElement>("#notices button").forEach((button) => button.click()));
    const disk = await withApp(page, (app) => {
      const { track } = app.model.tracks.find(({ kind, machine_id, name }) => kind === "thread" && machine_id === 1 && name.startsWith("wl-disk"))!;
      const { from, to } = app.model.home;
      app.showTrack(track);
      app.select(from, to, [track]);
      app.selected();
      return track;
    }, null);
    await page.locator("#scroll").focus();
    await page.keyboard.press("Shift+W");
    await answered(page);
    await page.getByRole("button", { name: "Zoom" }).click();
    await idle(page);
    assert.deepEqual(await withApp(page, (app) => app.state.why!.errors, null), []);

    // The pieces tile the thread's life, and are of guest and host.
    const pieces = await withApp(page, (app) => app.state.why!.path!.pieces.map(({ from, to, machine_id, tid, depth }) => ({ from, to, machine_id, tid, depth })), null);
    assert.ok(pieces.length > 1000, String(pieces.length));
    pieces.slice(1).forEach(({ from }, i) => assert.equal(from, pieces[i]!.to));
    assert.ok(pieces.some(({ machine_id, tid, depth }) => machine_id === 0 && tid === 137 && depth > 0), "QEMU's thread");
    const panel = await page.locator("#panel").innerText();
    assert.match(panel, /wl-disk \(319\) in guest, .* waited .* for qemu-system-x86 \(137\)/);
    assert.match(panel, /Waits for a CPU by machine/);

    // They are drawn on rows of the host's threads and of the guest.
    await page.getByRole("button", { name: /^Show its/ }).click();
    await idle(page);
    const kinds = await withApp(page, (app) => app.overlay.path!.tracks.map((id) => app.model.tracks.find((t) => t.track === id)!).map(({ kind, machine_id }) => `${kind} ${machine_id}`), null);
    for (const kind of ["thread 0", "thread 1", "vcpu 1"]) assert.ok(kinds.includes(kind), `${kind} among ${kinds.join(", ")}`);
    assert.ok((await drawn(page)).includes(disk));

    // A click on a piece moves the view to it and marks it.
    await page.getByRole("button", { name: "By length" }).click();
    const before = await withApp(page, (app) => app.state.view, null);
    await page.locator(".why .line").first().click();
    await idle(page);
    const { view, own } = await withApp(page, (app) => ({ view: app.state.view, own: app.state.why!.path!.pieces[app.state.why!.picked!]! }), null);
    assert.ok(view.to - view.from < (before.to - before.from) / 4);
    assert.ok(view.from <= own.from && view.to >= own.to);
    assert.ok(await withApp(page, (app) => app.overlay.path!.joins > 0, null), "arrows lead from piece to piece");

    await page.locator("#scroll").focus();
    await page.keyboard.press("Escape");
    await idle(page);
    assert.deepEqual(await withApp(page, (app) => [app.state.why === undefined, app.overlay.path === undefined, app.state.pinned], null), [true, true, []]);
  });
});
