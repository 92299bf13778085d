// Block requests and packets by stage: the list of a range, the drawn request over the rows and in its panel, on the
// development server; and a guest's request over the real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { idle, openForTests, withApp } from "./kit.ts";
import { withPage } from "./real.ts";

const made = openForTests({ seconds: 4 });

const listed = (page: Page): Promise<unknown> => page.waitForFunction(() => window.transect!.requests.listed?.done, null, { timeout: 60_000 });
const drawn = (page: Page): Promise<unknown> => page.waitForFunction(() => window.transect!.state.request?.path !== undefined, null, { timeout: 60_000 });
const panel = (page: Page): Promise<string> => page.locator("#panel").innerText();

async function reset(page: Page): Promise<void> {
  await withApp(page, (app) => {
    for (let i = 0; i < 6; i++) app.run("close");
    app.requests.listed = undefined;
    app.state.current = undefined;
    app.setView({ from: 500_000_000, to: 900_000_000 });
  }, null);
  await page.locator("#scroll").focus();
  await idle(page);
}

/** Stages of the drawn request, in order, with the kind and machine of the track on which each lies. */
const stages = (page: Page): Promise<{ name: string; from: number; to: number; where: string; shown: boolean }[]> =>
  withApp(page, (app) => {
    const path = app.state.request!.path!;
    return path.pieces.map(({ stage, from, to }, i) => {
      const track = app.model.tracks.find((own) => own.track === path.trackOf(i));
      return { name: stage.name, from, to, where: track ? `${track.kind} ${app.model.machineName(track.machine_id)}` : "none", shown: track !== undefined && app.overlay.path!.tracks.includes(track.track) };
    });
  }, null);

test("Shift+R lists the slowest requests of the view; a click draws one over the rows, stage by stage; Escape removes it", async () => {
  const { page } = made;
  await reset(page);
  await page.keyboard.press("Shift+R");
  await listed(page);
  assert.match(await panel(page), /\d+ block requests, \d+ packets in 400 ms from 0\.500 000 000 s/);
  const lengths = await withApp(page, (app) => app.requests.listed!.found.block!.map(({ ts, dur }) => [ts, ts + dur!, dur!]), null);
  assert.ok(lengths.length > 10);
  for (const [from, to] of lengths) assert.ok(from! >= 500_000_000 && to! <= 900_000_000);
  assert.deepEqual(lengths.map(([, , dur]) => dur), lengths.map(([, , dur]) => dur!).sort((a, b) => b - a));

  // The slowest request of a VM of which all is known.
  const line = page.locator(".requests .line", { hasText: "block" }).filter({ hasText: "web" }).filter({ hasText: /–(id|context|order)$/ }).first();
  await line.click();
  await drawn(page);
  await idle(page);
  assert.equal(await page.locator(".requests .line.picked").count(), 1);
  const own = await stages(page);
  assert.equal(own.length, 12);
  own.slice(1).forEach(({ from }, i) => assert.equal(from, own[i]!.to));
  assert.deepEqual(own.map(({ name }) => name).slice(0, 5), ["submit..issue", "issue..kick", "kick..pickup", "pickup..host_submit", "host_submit..host_issue"]);
  assert.match(own[0]!.where, /^thread web/);
  assert.equal(own[2]!.where, "thread dom0");
  assert.equal(own[4]!.where, "block dom0");
  assert.equal(own[11]!.where, own[0]!.where);
  const view = await withApp(page, (app) => app.state.view, null);
  assert.ok(view.from <= own[0]!.from && view.to >= own[11]!.to);
  assert.ok(await withApp(page, (app) => app.overlay.path!.joins > 0, null), "arrows lead from stage to stage");
  // The lane of dom0's device is the one with this request.
  const lane = await withApp(page, async (app) => {
    const path = app.state.request!.path!;
    const facts = await app.api.at(path.trackOf(4)!, app.model.abs(path.pieces[4]!.from));
    return app.model.rel(facts.ts) === path.pieces[4]!.from;
  }, null);
  assert.equal(lane, true);

  const text = await panel(page);
  for (const words of ["of 4 096 bytes, device 202:0 of web", "host_issue..host_complete", "device 202:0 of dom0", "joined by", "Remove (Esc)"]) assert.ok(text.includes(words), `${words} in ${text}`);
  const shares = await page.locator(".requests .stages td:nth-child(4)").allInnerTexts();
  assert.equal(shares.length, 12);
  assert.equal(await page.locator(".requests .stages .longest").innerText().then((line) => line.split("\t")[0]), own.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a)).name);

  await page.locator("#scroll").focus();
  await page.keyboard.press("Escape");
  await idle(page);
  assert.deepEqual(await withApp(page, (app) => [app.state.request === undefined, app.overlay.path === undefined, app.state.dock ?? null, app.state.pinned], null), [true, true, null, []]);
});

test("a stage without events is named by its neighbours, and what is missing stands below", async () => {
  const { page } = made;
  await reset(page);
  await page.keyboard.press("Shift+R");
  await listed(page);
  await page.locator(".requests .line", { hasText: "kick, pickup" }).filter({ hasText: "block" }).first().click();
  await drawn(page);
  await idle(page);
  assert.ok((await stages(page)).some(({ name }) => name === "issue..host_submit"));
  assert.equal(await page.locator(".requests .missing").innerText(), "missing: kick, pickup");
  // A click on a stage moves the view to it and marks it.
  const stage = page.locator(".requests .stages tr", { hasText: "wake..run" });
  await stage.click();
  await idle(page);
  assert.match((await stage.getAttribute("class"))!, /picked/);
  await page.locator(".requests .left").focus();
  await page.keyboard.press("ArrowUp");
  assert.equal(await page.locator(".requests .stages .picked").innerText().then((line) => line.split("\t")[0]), "complete..wake");
  await page.keyboard.press("ArrowDown");
  await idle(page);
  const { view, own } = await withApp(page, (app) => ({ view: app.state.view, own: app.state.request!.path!.pieces.at(-1)! }), null);
  assert.ok(view.from <= own.from && view.to >= own.to && view.to - view.from < 60 * (own.to - own.from));
  await page.getByRole("button", { name: "Show its rows" }).click();
  await idle(page);
  const unseen = (await stages(page)).filter(({ shown, from, to }) => !shown && to > view.from && from < view.to);
  // The back end is unknown, and the guest's device has no row.
  assert.deepEqual(unseen.map(({ name, where }) => [name, where]), [["host_complete..signal", "none"]]);
  assert.match(await panel(page), /30 µs \([\d.]+ %\) of the request has no row in this recording\./);
  assert.ok(await withApp(page, (app) => app.state.pinned.length >= 2, null));
});

test("a packet is drawn from its sender to the thread that waited; the list is sorted by time; the address keeps the request", async () => {
  const { page } = made;
  await reset(page);
  await page.keyboard.press("Shift+R");
  await listed(page);
  await page.getByRole("button", { name: "By time" }).click();
  const starts = await page.locator(".requests .line td:nth-child(5)").allInnerTexts();
  assert.deepEqual(starts, [...starts].sort());
  await page.locator(".requests .line", { hasText: "packet" }).filter({ hasText: /web\d to web\d/ }).filter({ hasNotText: "kick" }).first().click();
  await drawn(page);
  await idle(page);
  const own = await stages(page);
  assert.deepEqual([own[0]!.name, own.at(-1)!.name], ["send..kick", "wake..run"]);
  assert.match(await panel(page), /packet of [\d ]+ bytes, web\d to web\d/);
  assert.notEqual(own[0]!.where, own.at(-1)!.where);
  await page.waitForFunction(() => /[#&]request=packet-\d+-\d+-\d+%40\d+/.test(location.hash));
  // The keys go on to the next line.
  await page.locator(".requests .list").focus();
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction((ts) => window.transect!.state.request!.id.ts !== ts, own[0]!.from);
  await drawn(page);
  await idle(page);
  const id = await withApp(page, (app) => app.state.request!.request!.ts, null);
  await page.waitForTimeout(400);
  await page.reload();
  await page.waitForFunction(() => window.transect !== undefined);
  await drawn(page);
  assert.equal(await withApp(page, (app) => app.state.request!.request!.ts, null), id);
  await listed(page);
});

test("an interval of a block device's row: Shift+R draws that very request; a critical path takes its place", async () => {
  const { page } = made;
  await reset(page);
  const chosen = await withApp(page, async (app) => {
    const { track } = app.model.tracks.find(({ name }) => name === "202:0 · 2")!;
    const { table } = await app.api.sql(`SELECT ts FROM block_io WHERE machine_id = 1 AND ts > ${app.model.abs(600_000_000)} ORDER BY ts LIMIT 40`, 40);
    for (let i = 0; i < table.length; i++) {
      const at = app.model.rel(String(table.row(i)[0]));
      const facts = await app.api.at(track, app.model.abs(at)).catch(() => undefined);
      if (!facts || app.model.rel(facts.ts) !== at) continue;
      app.jump(track, at);
      return { track, at };
    }
    throw new Error("no request on this lane");
  }, null);
  await page.locator("#panel").getByRole("button", { name: "Stages" }).waitFor();
  await page.locator("#scroll").focus();
  await page.keyboard.press("Shift+R");
  await drawn(page);
  await idle(page);
  const own = await stages(page);
  assert.equal(own[0]!.from, chosen.at);
  assert.deepEqual(own.map(({ name }) => name), ["submit..issue", "issue..complete", "complete..wake", "wake..run"]);
  assert.equal(await withApp(page, (app) => app.state.request!.path!.trackOf(1), null), chosen.track);
  const tip = await withApp(page, (app, { track, at }: { track: number; at: number }) => {
    const y = app.rows.middleOf(track, app.model.tree, app.scrollTop)!;
    app.pointAt({ x: ((at + 20_000 - app.state.view.from) / (app.state.view.to - app.state.view.from)) * app.width, y });
    return document.querySelector("#tip")!.textContent;
  }, chosen);
  assert.match(tip!, /request: issue\.\.complete/);

  await withApp(page, (app) => {
    const { track } = app.model.tracks.find(({ kind }) => kind === "vcpu")!;
    app.why.explain({ track, from: 520_000_000, to: 560_000_000 });
  }, null);
  assert.equal(await withApp(page, (app) => app.state.request, null), undefined);
  await page.waitForFunction(() => window.transect!.state.why?.findings !== undefined);
});

test("a range over rows of one VM lists its requests; none, and errors, are one line", async () => {
  const { page } = made;
  await reset(page);
  await withApp(page, (app) => {
    const { track } = app.model.tracks.find(({ kind, machine_id }) => kind === "vcpu" && app.model.machineName(machine_id) === "web1")!;
    app.select(500_000_000, 3_000_000_000, [track]);
    app.selected();
  }, null);
  await page.locator("#panel").getByRole("button", { name: "Requests" }).click();
  await listed(page);
  assert.match(await panel(page), /of web1 in 2\.5 s/);
  const machines = await page.locator(".requests .line td:nth-child(3)").allInnerTexts();
  assert.ok(machines.length > 10 && machines.every((words) => words.includes("web1")), machines.join());

  const ask = (answer: string): Promise<void> => withApp(page, (app, line: string) => {
    const real = app.api.sql;
    app.api.sql = (sql, limit, signal) => (line === "" ? real(`${sql.split(" ORDER BY")[0]} AND ts < 0`, limit, signal) : Promise.reject(new Error(line.replace("TABLE", sql.includes("packets") ? "packets" : "io_requests"))));
    app.requests.list();
    void new Promise((done) => setTimeout(done, 300)).then(() => (app.api.sql = real));
  }, answer);
  for (const answer of ["", "line 1, column 15: no table TABLE"]) {
    await ask(answer);
    await page.locator("#panel").getByText("No block requests or packets were recorded in this range.").waitFor();
    await page.waitForTimeout(400);
    assert.equal(await page.locator("#panel .bad").count(), 0);
  }
  await ask("the query ran out of memory");
  await page.locator("#panel .bad").getByText("the query ran out of memory").waitFor();
  assert.equal(await page.locator("#panel .bad").count(), 1, "each error once");
});

test("over the real server: a guest's write to its disk, with its back end and its vCPU", async () => {
  await withPage((folder) => folder.nested(), async (page) => {
    await idle(page);
    await page.locator("#scroll").focus();
    await page.keyboard.press("Shift+R");
    await listed(page);
    const counts = await withApp(page, (app) => [app.requests.listed!.counts, app.requests.listed!.errors], null);
    assert.deepEqual(counts, [{ block: 150, packet: 0 }, []]);
    assert.match(await panel(page), /the 100 slowest of 150 block requests, 0 packets/);
    // `transect explain --request 1` prints the same stages.
    await page.locator(".requests .line").first().click();
    await drawn(page);
    await idle(page);
    const own = await stages(page);
    assert.deepEqual(own.map(({ name }) => name), ["submit..issue", "issue..kick", "kick..pickup", "pickup..signal", "signal..inject", "inject..guest_irq", "guest_irq..complete", "complete..wake", "wake..run"]);
    assert.equal(own.at(-1)!.to - own[0]!.from, 90_839_840);
    assert.equal(await page.locator(".requests .missing").innerText(), "missing: host");
    const where = await page.locator(".requests .stages td:nth-child(5)").allInnerTexts();
    assert.match(where[2]!, /^qemu-system-x86 \(137\)$/);
    assert.match(where[4]!, /^guest vcpu\d$/);
    await page.getByRole("button", { name: "Show its rows" }).click();
    await idle(page);
    const kinds = (await stages(page)).map((stage) => stage.where);
    assert.ok(kinds.includes("thread host") && kinds.includes("vcpu guest") && kinds.includes("thread guest"), kinds.join());
  });
});
