// Arrows of a disk request of a guest, from its doorbell to the thread that waited for it: over the real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { idle, withApp } from "./kit.ts";
import { withPage } from "./real.ts";

/** A request whose kick woke the back end, with the thread that made it and the CPU that completed it. */
const REQUEST = `SELECT b.ts, b.ts + b.dur AS until, b.machine_id, b.tid, b.complete_cpu FROM block_io b JOIN machines m ON m.machine_id = b.machine_id
  JOIN causes k ON k.kind = 'kick' AND k.machine_id = b.machine_id AND k.ts BETWEEN b.ts + b.issue_ns AND b.ts + b.dur
  WHERE m.kind = 'guest' AND k.to_tid IS NOT NULL AND k.to_tid NOT IN (SELECT vmm_tid FROM vcpus) ORDER BY b.ts LIMIT 1 OFFSET 40`;

test("a disk request's arrows: kick, injection, line and completion, by colour, in words, and along the keys", async () => {
  await withPage((folder) => folder.nested(), async (page) => {
    await idle(page);
    await page.evaluate(() => document.querySelectorAll<HTMLElement>("#notices button").forEach((button) => button.click()));
    const request = await withApp(
      page,
      async (app, sql: string) => {
        const { table } = await app.api.sql(sql, 1);
        const [ts, until, machine_id, tid, cpu] = table.row(0).map((cell) => BigInt(String(cell)));
        const { model, state } = app;
        const [from, to] = [model.rel(ts!), model.rel(until!)];
        const margin = (to - from) / 4;
        // Everything that an arrow of it begins or ends on has a row.
        const flows = await app.api.flows(model.abs(Math.floor(from - margin)), model.abs(Math.ceil(to + margin)), [], 2000, model.origin);
        const chain = flows.filter(({ kind }) => ["kick", "injection", "line", "completion", "block"].includes(kind));
        const thread = model.tracks.find((t) => t.kind === "thread" && t.machine_id === Number(machine_id) && t.tid === Number(tid))!.track;
        for (const track of new Set([...chain.flatMap((flow) => [flow.from_track, flow.to_track]), thread])) if (!state.pinned.includes(track)) app.togglePin(track);
        app.setView({ from: from - margin, to: to + margin });
        if (!state.flowsOn) app.run("flows");
        return { thread, cpu: Number(cpu), from, to };
      },
      REQUEST,
    );
    await page.waitForFunction(() => ["kick", "injection", "line", "completion", "block"].every((kind) => window.transect!.overlay.arrows.some(({ flow }) => flow.kind === kind)));
    await idle(page);
    const chain = await withApp(
      page,
      (app, { thread, from, to }: typeof request) => {
        const within = app.overlay.arrows.map(({ flow }) => flow).filter((flow) => flow.from_ts >= from && flow.from_ts <= to);
        const last = within.findLast(({ kind, to_track }) => kind === "completion" && to_track === thread)!;
        const line = within.findLast(({ kind, to_track, to_ts }) => kind === "line" && to_track === last.from_track && to_ts <= last.from_ts)!;
        const injection = within.findLast(({ kind, to_track, to_ts }) => kind === "injection" && to_track === line.from_track && to_ts === line.from_ts)!;
        const kick = within.find(({ kind }) => kind === "kick")!;
        const kindOf = (track: number): string => app.model.tracks.find((t) => t.track === track)!.kind;
        return [kick, injection, line, last].map((flow) => ({ ...flow, from_kind: kindOf(flow.from_track), to_kind: kindOf(flow.to_track) }));
      },
      request,
    );
    // From the guest to its host and back.
    assert.deepEqual(chain.map(({ kind, from_kind, to_kind }) => [kind, from_kind, to_kind]), [
      ["kick", "vcpu", "thread"],
      ["injection", "thread", "vcpu"],
      ["line", "vcpu", "irq"],
      ["completion", "irq", "thread"],
    ]);
    const [kick, injection, line, done] = chain;
    const times = [kick!.from_ts, injection!.from_ts, injection!.to_ts, line!.to_ts, done!.from_ts, done!.to_ts];
    assert.deepEqual(times, [...times].sort((a, b) => a - b), "one behind the other");
    assert.match(kick!.what!, /^doorbell 0x[0-9a-f]+$/);
    assert.match(injection!.what!, /^vector 3[56]$/);
    assert.match(line!.what!, /^irq 2[56] \(virtio.*\), vector 3[56]$/);
    assert.match(done!.what!, /^irq 2[56] \(virtio/);
    assert.deepEqual([kick!.evidence, injection!.evidence, done!.evidence], ["context", "id", "context"]);

    // Pointing at the handler says what it was run for, and whom it woke.
    const spot = await withApp(
      page,
      (app, { to_track, from_ts, until }: { to_track: number; from_ts: number; until: number }) => {
        // A view has the arrows that begin in it.
        app.setView({ from: from_ts - (until - from_ts) / 4, to: until + (until - from_ts) / 4 });
        return to_track;
      },
      { to_track: line!.to_track, from_ts: line!.from_ts, until: done!.from_ts },
    );
    await idle(page);
    await page.waitForFunction((track) => window.transect!.overlay.arrows.some(({ flow }) => flow.kind === "line" && flow.to_track === track), spot);
    const point = await withApp(
      page,
      (app, { track, at }: { track: number; at: number }) => {
        const { view } = app.state;
        const box = app.stage.canvas.getBoundingClientRect();
        const placed = app.rows.middleOf(track, app.model.tree, app.scrollTop)!;
        return { x: box.left + ((at - view.from) / (view.to - view.from)) * app.width, y: box.top + placed };
      },
      { track: line!.to_track, at: (line!.to_ts + done!.from_ts) / 2 },
    );
    await page.mouse.move(point.x, point.y);
    await page.waitForFunction(() => document.querySelector("#tip")?.textContent?.includes("handler of an injected interrupt: irq 2"));
    const tip = await page.locator("#tip").innerText();
    assert.match(tip, /request done: irq 2/);
    assert.match(tip, /joined by the same/);

    // Its panel lists the arrows, and the keys follow them back to the back end, and on to the thread.
    await page.mouse.click(point.x, point.y);
    await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("handler of an injected interrupt: irq 2"));
    await page.locator("#scroll").focus();
    await page.keyboard.press(",");
    await page.waitForFunction((track) => window.transect!.state.chosen?.track === track, line!.from_track);
    await withApp(page, (app, { from_track, from_ts }: { from_track: number; from_ts: number }) => app.jump(from_track, from_ts), done!);
    await page.waitForFunction((track) => window.transect!.state.chosen?.track === track && window.transect!.state.facts?.arrows?.some(({ kind }) => kind === "completion"), done!.from_track);
    await page.keyboard.press(".");
    await page.waitForFunction((track) => window.transect!.state.chosen?.track === track, request.thread);
    await page.waitForFunction((cpu) => document.querySelector("#panel")?.textContent?.includes(`request done on CPU ${cpu} (irq 2`), request.cpu);

    // The help explains the colours.
    await page.keyboard.press("?");
    const help = await page.locator("#help .legend").nth(1).innerText();
    for (const words of ["Arrows", "kick of a device's back end", "interrupt into a vCPU", "request done"]) assert.ok(help.includes(words), words);
  });
});
