// The page over the real server and real recordings: what a person does with them, and what must come of it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { idle, withApp } from "./kit.ts";
import { testdata, withPage } from "./real.ts";

const panel = (page: Page): Promise<string> => page.locator("#panel").innerText();
const says = (page: Page, words: string): Promise<unknown> => page.waitForFunction((wanted) => document.querySelector("#panel")?.textContent?.includes(wanted), words);
const clear = async (page: Page): Promise<void> => {
  await withApp(page, (app) => {
    for (let i = 0; i < 5; i++) app.run("close");
    app.setFilter("");
    app.setView(app.model.home);
  }, null);
  await idle(page);
};

test("a host and its guest: facts, culprits, statistics of every kind, search, SQL, export", async () => {
  await withPage((folder) => folder.pair(), async (page) => {
    await idle(page);
    // The longest wait by SQL; its row jumps to it, and its facts name who had the CPU.
    await page.keyboard.press("q");
    const box = page.locator(".sql textarea");
    await box.fill("SELECT ts, dur, machine_id, vcpu, by_tid FROM vcpu_states WHERE state = 'preempted' AND by_tid > 0 ORDER BY dur DESC LIMIT 20");
    await box.press("Control+Enter");
    await page.waitForFunction(() => document.querySelectorAll(".grid .line").length > 1);
    await page.locator(".grid .line").nth(1).click();
    await page.waitForFunction(() => window.transect!.state.facts !== undefined);
    await page.locator("#tabs").getByText("Interval").click();
    await says(page, "preempted by");
    const culprit = await withApp(page, (app) => app.state.facts!.preemptor!, null);
    assert.equal(typeof culprit.track, "number");
    await page.locator("#scroll").focus();
    await page.keyboard.press(",");
    await page.waitForFunction((track) => window.transect!.state.chosen?.track === track, culprit.track!);
    await clear(page);

    // A range over the whole screen with everything open: no kind of row is left without numbers.
    await withApp(page, (app) => {
      for (const { track } of app.model.tree.nodes.values()) if (["counters", "events", "io", "vcpu"].includes(track.kind)) app.state.opened.add(track.track);
      app.relayout();
      const { home } = app.model;
      const tracks = app.model.tracks.filter((track) => track.intervals > 0).slice(0, 900).map(({ track }) => track);
      app.select(home.from, home.to, tracks);
      app.selected();
    }, null);
    await says(page, "Exits by reason");
    await says(page, "Counters");
    const tables = await panel(page);
    for (const words of ["Machines: gotten, waited, blocked", "Instants", "gotten %", "known", "more tracks not shown: select fewer rows"]) assert.ok(tables.includes(words), words);
    const answer = await withApp(page, async (app) => {
      const { home, tracks } = app.model;
      const shown = tracks.filter((track) => track.intervals > 0).slice(0, 900);
      const stats = await app.api.stats(app.model.abs(Math.floor(home.from)), app.model.abs(Math.ceil(home.to)), shown.map(({ track }) => track));
      return [...new Set(shown.filter(({ track }) => {
        const own = stats.tracks!.find((of) => of.track === track)!;
        return own.states.length > 0 || own.numbers;
      }).map(({ kind }) => kind))].sort();
    }, null);
    assert.deepEqual(answer, ["block", "counter", "cpu", "cpu_guest", "exits", "irq", "syscall", "thread", "ticks", "vcpu"]);
    await clear(page);

    // The filter's Enter goes to a match; reasons fade what is not meant.
    await page.keyboard.press("/");
    await page.keyboard.type("state:preempted kind:vcpu");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => window.transect!.state.chosen !== undefined && window.transect!.model.key(window.transect!.state.chosen.key)?.class === "preempted");
    await clear(page);

    // The range as a Perfetto trace, from the server's own hands.
    await page.locator("#scroll").focus();
    await page.keyboard.press("x");
    const download = page.waitForEvent("download");
    await page.locator("#export").getByRole("button", { name: /Perfetto/ }).click();
    const file = await download;
    assert.match(file.suggestedFilename(), /^pair-.*perfetto-trace$/);
    assert.ok(readFileSync(await file.path()).length > 5000);
  });
});

test("Xen: the hypervisor's CPUs, domains' vCPUs, who preempted whom along an arrow", async () => {
  await withPage(() => testdata("xentrace/live/cap.bin"), async (page) => {
    await idle(page);
    await page.keyboard.press("q");
    const box = page.locator(".sql textarea");
    await box.fill("SELECT ts, dur, machine_id, vcpu FROM vcpu_states WHERE state = 'preempted' AND by_machine_id IS NOT NULL ORDER BY dur DESC LIMIT 20");
    await box.press("Control+Enter");
    await page.waitForFunction(() => document.querySelectorAll(".grid .line").length > 1);
    await page.locator(".grid .line").nth(1).click();
    await page.waitForFunction(() => window.transect!.state.facts?.preemptor !== undefined);
    const facts = await withApp(page, (app) => ({ preemptor: app.state.facts!.preemptor!, arrows: app.state.facts!.arrows! }), null);
    assert.equal(typeof facts.preemptor.track, "number", JSON.stringify(facts));
    assert.ok(facts.arrows.some(({ kind, from }) => kind === "preempt" && from.track === facts.preemptor.track));
    await page.waitForFunction(() => window.transect!.overlay.arrows.length > 0);
  });
});
