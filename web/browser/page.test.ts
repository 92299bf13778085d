// The page in a real browser, over the development server: what a person does, and what must come of it.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { idle, openForTests, withApp } from "./kit.ts";

const opened = openForTests({ seconds: 4 });

beforeEach(() => fresh());

const view = (): Promise<{ from: number; to: number }> => withApp(opened.page, (app) => app.goal, null);
const span = async (): Promise<number> => {
  const { from, to } = await view();
  return to - from;
};
const trackOf = (kind: string, machine: string): Promise<number> =>
  withApp(opened.page, (app, [k, m]: [string, string]) => app.model.tracks.find((t) => t.kind === k && app.model.machineName(t.machine_id) === m)!.track, [kind, machine]);
const fresh = async (): Promise<void> => {
  await opened.page.evaluate(() => document.querySelectorAll<HTMLDialogElement>("dialog[open]").forEach((dialog) => dialog.close()));
  await opened.page.locator("#scroll").focus();
  await withApp(
    opened.page,
    (app) => {
      for (let i = 0; i < 5; i++) app.run("close");
      app.setFilter("");
      app.state.pinned = [];
      app.state.marks = [];
      app.state.colour = "who";
      app.state.flowsOn = false;
      app.repaint();
      app.relayout();
      app.setView(app.model.whole);
      app.scrollTo(0);
    },
    null,
  );
  await idle(opened.page);
};

test("opens with machines, names, rows drawn, problems said; the key is not left in the address", async () => {
  const { page } = opened;
  assert.match(await page.title(), /made-up/);
  assert.ok((await page.locator(".name.machine .text").allInnerTexts()).includes("xen"));
  assert.match(await page.locator("#notices").innerText(), /no real machine was traced/);
  assert.ok(!page.url().includes("token"), page.url());
  const colours = await withApp(page, (app) => new Set((app.stage as unknown as { pixels: { data: Uint32Array } }).pixels.data).size, null);
  assert.ok(colours > 20, `${colours} colours`);
});

test("a starved vCPU can be read beside its name", async () => {
  await withApp(opened.page, (app) => app.setFilter("vm:periodic kind:vcpu"), null);
  await idle(opened.page);
  assert.match(await opened.page.locator(".name.track .sum").first().innerText(), /waits \d\d %/);
});

test("wheel zooms at the pointer, Shift and wheel pan, U goes back", async () => {
  const { page } = opened;
  const box = (await page.locator("#stage").boundingBox())!;
  const x = Math.round(box.x + box.width * 0.25);
  await page.mouse.move(x, box.y + 60);
  const at = await withApp(page, (app) => app.focusTime, null);
  // Moves that follow one another closely are one step back: what comes now is a new one.
  await page.waitForTimeout(700);
  await withApp(page, (app) => {
    const { history } = app as unknown as { history: { leave: (...what: unknown[]) => void; moves?: number[] } };
    const leave = history.leave.bind(history);
    const moves: number[] = (history.moves = []);
    history.leave = (...what) => {
      moves.push(what[1] as number);
      leave(...what);
    };
  }, null);
  for (let i = 0; i < 6; i++) await page.mouse.wheel(0, -240);
  await idle(page);
  // A machine that is busy may have had pauses between them; each makes a step of its own.
  const { moves, together_ms } = await withApp(page, (app) => {
    const history = app.history as unknown as { leave?: unknown; moves: number[]; together_ms: number };
    delete history.leave;
    return history;
  }, null);
  const steps = 1 + moves.slice(1).filter((at, i) => at - moves[i]! >= together_ms).length;
  const near = await span();
  assert.ok(near < 1e9, `${near}`);
  assert.ok(Math.abs((await withApp(page, (app) => app.focusTime, null)) - at) < near * 0.005);
  const before = (await view()).from;
  await page.waitForTimeout(700);
  await page.keyboard.down("Shift");
  await page.mouse.wheel(0, 200);
  await page.keyboard.up("Shift");
  assert.ok((await view()).from > before);
  await page.keyboard.press("u");
  await idle(page);
  assert.ok(Math.abs((await view()).from - before) < 1);
  for (let i = 0; i < steps; i++) {
    assert.ok((await span()) < 4e9);
    await page.keyboard.press("u");
    await idle(page);
  }
  assert.ok((await span()) >= 4e9);
  for (let i = 0; i < steps; i++) {
    await page.keyboard.press("Shift+U");
    await idle(page);
  }
  assert.ok((await span()) < 1e9);
});

test("keys alone reach everything: zoom to nanoseconds, whole, rows, facts, marks, fold, pin", async () => {
  const { page } = opened;
  await page.locator("#scroll").focus();
  await page.mouse.move(5, 5);
  for (let i = 0; i < 60 && (await span()) > 100; i++) await page.keyboard.press("w");
  await idle(page);
  assert.ok((await span()) <= 100);
  await page.keyboard.press("0");
  await idle(page);
  assert.ok((await span()) >= 4e9);
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
  assert.match(await page.locator("#says").textContent().then(String), /pCPU 0/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("duration"));
  const first = await withApp(page, (app) => app.state.chosen!.ts, null);
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((before) => {
    const { chosen } = window.transect!.state;
    return chosen !== undefined && chosen.ts > before && document.querySelector("#panel")?.textContent?.includes("duration");
  }, first);
  await page.keyboard.press("p");
  await page.waitForSelector(".name.pinrow");
  await page.keyboard.press("p");
  await page.keyboard.press(" ");
  assert.equal(await withApp(page, (app) => app.state.folded.size, null), 1);
  await page.keyboard.press(" ");
  await page.keyboard.press("m");
  assert.equal(await withApp(page, (app) => app.state.marks.length, null), 1);
  await page.keyboard.press("?");
  assert.ok(await page.locator("#help").isVisible());
  assert.match(await page.locator("#help").innerText(), /zoom in at the pointer/);
  await page.keyboard.press("Escape");
  assert.ok(!(await page.locator("#help").isVisible()));
  await withApp(page, (app) => app.removeMark(0), null);
});

/** A page whose questions for facts are held back. */
interface Holding {
  letGo: () => Promise<void>;
}

test("Escape while it is asked what is there: the answer chooses nothing; while it is asked the former is not shown", async () => {
  const { page } = opened;
  const panel = (): Promise<string> => page.locator("#panel").innerText();
  const chosen = (): Promise<{ track: number; ts: number } | undefined> => withApp(page, (app) => app.state.chosen, null);
  /** Does something that asks for facts, something else before the question goes out, and waits until that is over. */
  const meanwhile = async (ask: () => Promise<unknown>, act: () => Promise<unknown>): Promise<void> => {
    await page.evaluate(() => {
      const real = window.fetch;
      let give = (): void => undefined;
      const given = new Promise<void>((done) => (give = done));
      const over: Promise<unknown>[] = [];
      window.fetch = (input, init) => {
        const isAt = (input as URL).pathname.endsWith("/api/at");
        const answer = isAt ? given.then(() => real(input, init)) : real(input, init);
        over.push(answer.catch(() => undefined));
        return answer;
      };
      (window as unknown as Holding).letGo = async () => {
        give();
        window.fetch = real;
        // Answered, or not wanted any more.
        await Promise.all(over);
      };
    });
    try {
      await ask();
      await page.waitForFunction(() => window.transect!.asking);
      await act();
    } finally {
      await page.evaluate(() => (window as unknown as Holding).letGo());
    }
    await idle(page);
  };
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
  await meanwhile(() => page.keyboard.press("Enter"), () => page.keyboard.press("Escape"));
  assert.equal(await chosen(), undefined, "nobody waits for what is at a moment");
  assert.match(await panel(), /^Click an interval/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.transect!.state.facts !== undefined);
  const first = (await chosen())!;
  await meanwhile(() => withApp(page, (app, one: typeof first) => app.choose({ dur: 1, key: 0, ...one }), first), () => page.keyboard.press("Escape"));
  assert.equal(await chosen(), undefined, "nobody waits for an interval's facts");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.transect!.state.facts !== undefined);
  const second = (await chosen())!;
  await meanwhile(() => page.keyboard.press("ArrowRight"), async () => assert.equal(await panel(), "…"));
  await page.waitForFunction(() => window.transect!.state.facts !== undefined);
  assert.ok((await chosen())!.ts > second.ts);
  assert.match(await panel(), /duration/);
});

test("dragging selects a range; its statistics are the server's, machines, states and exits", async () => {
  const { page } = opened;
  const box = (await page.locator("#stage").boundingBox())!;
  await page.mouse.move(box.x + 300, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 150, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("Exits by reason"));
  const text = await page.locator("#panel").innerText();
  for (const word of ["gotten", "waited", "hog", "periodic", "p99", "pCPU 0"]) assert.ok(text.includes(word), word);
  const expected = await withApp(page, (app) => (300 / app.width) * 4e9, null);
  const selected = await withApp(page, (app) => app.state.selection!.to - app.state.selection!.from, null);
  assert.ok(Math.abs(selected - expected) < expected * 0.02, `${selected} ${expected}`);
  await page.keyboard.press("f");
  await idle(page);
  assert.ok(Math.abs((await span()) / selected - 1.25) < 0.02);
});

test("the events of a range are a list; a row of it jumps to its moment", async () => {
  const { page } = opened;
  const { model, range } = await withApp(page, (app) => {
    app.select(5e8, 5.2e8, undefined);
    return { model: String(app.model.abs(0)), range: [5e8, 5.2e8] as const };
  }, null);
  await page.keyboard.press("v");
  await page.waitForFunction(() => /^\d+ rows in/.test(document.querySelector(".sql .right span")?.textContent ?? ""));
  await page.locator(".grid .line").nth(1).click();
  const at = Number(BigInt(await page.locator(".grid .line").nth(1).locator(".cell").first().innerText()) - BigInt(model));
  assert.ok(at >= range[0] && at < range[1], String(at));
  await page.waitForFunction((moment) => {
    const { view } = (window as unknown as { transect: { goal: { from: number; to: number } } & { state: { view: { from: number; to: number } } } }).transect.state;
    return view.from <= moment && moment <= view.to;
  }, at);
  await withApp(page, (app) => {
    app.clearSelection();
    app.openDock(undefined);
  }, null);
});

test("a click gives an interval's facts; links and keys go along the arrows to the culprit", async () => {
  const { page } = opened;
  const track = await trackOf("vcpu", "periodic");
  await withApp(page, (app, id: number) => {
    const lost = (): void => undefined;
    lost();
    app.jump(id, 5.05e8);
  }, track);
  await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("preempted by"));
  await page.keyboard.press(",");
  await page.waitForFunction(() => document.querySelector("#panel h3")?.textContent?.match(/in guest|exit/) && document.querySelector("#panel")?.textContent?.includes("hog › vCPU 0"));
});

test("the filter chooses rows, fades states, and Escape clears it", async () => {
  const { page } = opened;
  await page.keyboard.press("/");
  await page.keyboard.type("vm:hog burn");
  await page.waitForFunction(() => document.querySelectorAll(".name.track:not([style*='display: none'])").length === 1);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelectorAll(".name.track:not([style*='display: none'])").length > 8);
  const pixels = (): Promise<number> => withApp(page, (app) => {
    const { data } = (app.stage as unknown as { pixels: { data: Uint32Array } }).pixels;
    const orange = app.paints.on(0).front[app.model.keys.find((k) => k.class === "vcpu" && app.model.machineName(k.machine_id!) === "hog")!.key];
    return data.filter((p) => p === orange).length;
  }, null);
  const bright = await pixels();
  assert.ok(bright > 1000);
  await withApp(page, (app) => app.setFilter("state:idle"), null);
  await idle(page);
  // The faded key has another colour now: count the old one.
  const orange = await withApp(page, (app) => {
    app.setFilter("");
    return app.paints.on(0).front[app.model.keys.find((k) => k.class === "vcpu" && app.model.machineName(k.machine_id!) === "hog")!.key]!;
  }, null);
  await withApp(page, (app) => app.setFilter("state:idle"), null);
  await idle(page);
  const left = await withApp(page, (app, colour: number) => (app.stage as unknown as { pixels: { data: Uint32Array } }).pixels.data.filter((p) => p === colour).length, orange);
  assert.equal(left, 0);
});

test("arrows: fetched for the view, drawn between rows", async () => {
  const { page } = opened;
  await withApp(page, (app) => {
    app.setView({ from: 5e8, to: 5.6e8 });
    app.run("flows");
  }, null);
  await page.waitForFunction(() => (window as unknown as { transect: { overlay: { arrows: unknown[] } } }).transect.overlay.arrows.length > 0);
  const kinds = await withApp(page, (app) => [...new Set(app.overlay.arrows.map((arrow) => arrow.flow.kind))], null);
  assert.ok(kinds.length >= 1, kinds.join());
  await withApp(page, (app) => app.run("flows"), null);
  await idle(page);
  assert.equal(await withApp(page, (app) => app.overlay.arrows.length, null), 0);
});

test("the address holds the view: a reload and a second window show the same", async () => {
  const { page } = opened;
  const track = await trackOf("vcpu", "hog");
  await withApp(page, (app, id: number) => {
    app.setView({ from: 1_000_000_000, to: 1_100_000_000 });
    app.togglePin(id);
    app.setFilter("kind:vcpu");
    app.addMark(1_050_000_000);
    app.run("colour");
  }, track);
  // The address is written when things have been quiet for a moment.
  await page.waitForFunction(() => location.hash.includes("c=what") && location.hash.includes("m="));
  await idle(page);
  await page.reload();
  await page.waitForFunction(() => (window as unknown as { transect?: unknown }).transect !== undefined);
  await idle(page);
  const state = await withApp(page, (app) => ({ view: app.state.view, pinned: app.state.pinned, filter: app.state.filterText, marks: app.state.marks, colour: app.state.colour }), null);
  assert.deepEqual(state, { view: { from: 1_000_000_000, to: 1_100_000_000 }, pinned: [track], filter: "kind:vcpu", marks: [{ at: 1_050_000_000, note: "" }], colour: "what" });
  await withApp(page, (app, id: number) => {
    app.togglePin(id);
    app.removeMark(0);
    app.run("colour");
  }, track);
});

test("SQL: rows come, a row jumps to its interval, errors are one line, queries are kept", async () => {
  const { page } = opened;
  await page.keyboard.press("q");
  const box = page.locator(".sql textarea");
  await box.fill("SELECT ts, dur, machine_id, vcpu, state FROM vcpu_states WHERE state = 'preempted' ORDER BY dur DESC, ts LIMIT 50");
  await box.press("Control+Enter");
  await page.waitForFunction(() => document.querySelectorAll(".grid .line").length > 5);
  await page.locator(".grid .line").nth(1).click();
  await idle(page);
  await page.waitForFunction(() => (window as unknown as { transect: { state: { chosen?: unknown } } }).transect.state.chosen !== undefined);
  const chosen = await withApp(page, (app) => ({ label: app.model.label(app.state.chosen!.key), dur: app.state.chosen!.dur, span: app.goal.to - app.goal.from }), null);
  assert.match(chosen.label, /^preempted by/);
  assert.ok(chosen.span < chosen.dur * 60);
  await box.fill("SELEC nonsense");
  await box.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector(".sql .bad")?.textContent?.includes("syntax error"));
  page.once("dialog", (dialog) => void dialog.accept("long waits"));
  await page.getByRole("button", { name: "Save" }).click();
  await page.waitForFunction(() => [...document.querySelectorAll(".sql option")].some((option) => option.textContent === "long waits"));
  await page.locator("#scroll").focus();
});

test("measuring between two machines states the clocks' error", async () => {
  const { page } = opened;
  const box = (await page.locator("#stage").boundingBox())!;
  const y = await withApp(page, (app) => {
    const ys = app.rows.visible(0, app.height).filter((p) => p.row.node.track.kind === "vcpu" || p.row.node.track.kind === "cpu");
    const of = (kind: string): number => { const p = ys.find((q) => q.row.node.track.kind === kind)!; return p.y + p.row.height / 2; };
    return [of("cpu"), of("vcpu")];
  }, null);
  await page.mouse.move(box.x + 200, box.y + y[0]!);
  await page.keyboard.press("t");
  await page.mouse.move(box.x + 400, box.y + y[1]!);
  await page.keyboard.press("t");
  await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("± 155 ns"));
});

test("export: a PNG and an SVG of what is visible", async () => {
  const { page } = opened;
  for (const [button, ending] of [["PNG", "png"], ["SVG", "svg"]] as const) {
    await page.keyboard.press("x");
    const download = page.waitForEvent("download");
    await page.locator("#export").getByRole("button", { name: new RegExp(`^${button}`) }).click();
    const file = await download;
    assert.equal(file.suggestedFilename(), `made-up.${ending}`);
    const path = await file.path();
    const { readFileSync } = await import("node:fs");
    const bytes = readFileSync(path);
    if (ending === "png") assert.equal(bytes.subarray(1, 4).toString(), "PNG");
    else assert.ok(bytes.toString().includes("dom0") && bytes.toString().includes("<rect"));
    assert.ok(bytes.length > 5000);
  }
});

for (const { format, button, ending, told } of [
  { format: "recording", button: "Smaller recording", ending: "transect.tar", told: (name: string) => `tar xf ${name}; transect view ${name.replace(/\.tar$/, "")}` },
  { format: "flame", button: "Flame graphs", ending: "stacks.html", told: (name: string) => `${name}: open it in a browser` },
]) test(`export: the selection as ${format}, and how to open it`, async () => {
  const { page } = opened;
  const range = await withApp(page, (app) => {
    const { from, to } = app.model.whole;
    const selection = { from: from + (to - from) / 4, to: from + (to - from) / 2, tracks: [] };
    app.state.selection = selection;
    return { from: String(app.model.abs(selection.from)), to: String(app.model.abs(Math.ceil(selection.to))) };
  }, null);
  const name = `made-up-${range.from}-${range.to}.${ending}`;
  let asked: unknown;
  await page.route("**/api/export", async (route) => {
    asked = route.request().postDataJSON();
    await route.fulfill({ body: "a file", headers: { "content-type": "application/octet-stream", "content-disposition": `attachment; filename="${name}"` } });
  });
  await page.keyboard.press("x");
  const download = page.waitForEvent("download");
  await page.locator("#export").getByRole("button", { name: new RegExp(`^${button} ?the selected range`) }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), name);
  assert.deepEqual(asked, { ...range, format });
  await page.waitForFunction((line) => document.querySelector("#notices")?.textContent?.includes(line), told(name));
  await page.unroute("**/api/export");
  await withApp(page, (app) => (app.state.selection = undefined), null);
});

test("what the server cannot do is said in its own words", async () => {
  const { page } = opened;
  await page.keyboard.press("x");
  await page.getByRole("button", { name: /Perfetto/ }).click();
  await page.waitForFunction(() => document.querySelector("#notices")?.textContent?.includes("no real recording to cut"));
});

test("every control has a name for screen readers", async () => {
  const nameless = await opened.page.evaluate(() => [...document.querySelectorAll("button, input, textarea, select, [role=separator]")].filter((e) => !(e.textContent?.trim() || e.getAttribute("aria-label") || e.getAttribute("title"))).map((e) => e.outerHTML));
  assert.deepEqual(nameless, []);
});

test("Enter in the filter goes from interval to interval of that state, and round to the first", async () => {
  const { page } = opened;
  await page.keyboard.press("/");
  await page.keyboard.type("vm:periodic kind:vcpu state:preempted");
  const at = (): Promise<number> => withApp(page, (app) => (app.state.facts && app.model.key(app.state.chosen!.key)?.class === "preempted" ? app.state.chosen!.ts : -1), null);
  const seen: number[] = [];
  for (let i = 0; i < 3; i++) {
    await page.locator("#filter").press("Enter");
    await page.waitForFunction((last) => {
      const { state } = window.transect!;
      return state.facts !== undefined && state.chosen !== undefined && state.chosen.ts > last;
    }, seen.at(-1) ?? -1);
    seen.push(await at());
  }
  assert.ok(seen.every((ts) => ts >= 0), seen.join());
  const truth = await withApp(page, async (app) => {
    const { table } = await app.api.sql("SELECT ts FROM vcpu_states WHERE state LIKE 'preempted%' AND machine_id = (SELECT machine_id FROM machines WHERE name = 'periodic') ORDER BY ts LIMIT 3", 10);
    return Array.from({ length: table.length }, (_, i) => app.model.rel(String(table.row(i)[0])));
  }, null);
  assert.deepEqual(seen, truth);
});
