// What the browser draws is true: pixels of rows on the canvas against sums over the same time, at ten
// zoom levels; the page while tiles are being built; frame times and memory of a short tour.
import assert from "node:assert/strict";
import { test } from "node:test";
import { start } from "../dev/server.ts";
import { sums } from "../dev/tiles.ts";
import { encode } from "../src/core/url.ts";
import { idle, launch, open, withApp } from "./kit.ts";

test("pixels are sums: ten zoom levels, three kinds of rows", async () => {
  const server = await start({ seconds: 5, exit_us: 100 });
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1200, height: 700 } });
    await page.goto(server.url);
    await page.waitForFunction(() => (window as unknown as { transect?: unknown }).transect !== undefined);
    const { recording } = server.answers;
    const tracks = ["cpu", "vcpu", "thread"].map((kind) => recording.tracks.find((t) => t.kind === kind && t.machine_id === (kind === "cpu" ? 0 : 3))!.track);
    for (let zoom = 0; zoom < 10; zoom++) {
      const span = Math.round(recording.length / Math.pow(5, zoom));
      const from = Math.round((recording.length - span) * 0.37);
      for (const track of tracks) {
        await withApp(page, (app, [a, b, id]: [number, number, number]) => {
          app.state.pinned = [id];
          app.relayout();
          app.setView({ from: a, to: b });
        }, [from, from + span, track]);
        await idle(page);
        const drawn = await withApp(page, (app, id: number) => {
          const paints = app.paints.on(app.model.machineOf(id));
          const { data, width } = (app.stage as unknown as { pixels: { data: Uint32Array; width: number } }).pixels;
          const height = app.rows.pinned[0]!.height - 2;
          const pixels: Record<string, number> = {};
          for (let y = 1; y <= height; y++) for (let x = 0; x < width; x++) {
            const colour = String(data[y * width + x]);
            pixels[colour] = (pixels[colour] ?? 0) + 1;
          }
          return { pixels, area: width * height, height, view: app.state.view, front: Array.from(paints.front), back: Array.from(paints.back) };
        }, track);
        // Keys that share a colour (every wait for the hog) are compared together.
        const own = recording.intervals.get(track)!;
        const truth = sums(own, drawn.view.from, drawn.view.to);
        const groups = new Map<string, { colours: Set<string>; ns: number }>();
        for (const [key, ns] of truth) {
          const colours = [String(drawn.front[key]), String(drawn.back[key])];
          const name = colours.join();
          const group = groups.get(name) ?? { colours: new Set(colours), ns: 0 };
          group.ns += ns;
          groups.set(name, group);
        }
        for (const group of groups.values()) {
          const area = [...group.colours].reduce((sum, colour) => sum + (drawn.pixels[colour] ?? 0), 0) / drawn.area;
          const share = group.ns / (drawn.view.to - drawn.view.from);
          // A column's heights are whole pixels: half a pixel each way at most, and rare states one whole.
          assert.ok(Math.abs(area - share) < 1.3 / drawn.height + 0.002, `track ${track}, ${span} ns: drawn ${area}, true ${share}`);
        }
      }
    }
  } finally {
    await browser.close();
    await server.close();
  }
});

test("while tiles are being built the page draws what is there, shows progress, and ends complete", async () => {
  const { page, finish, close, errors } = await open({ seconds: 2, building_ms: 3_600_000 });
  try {
    assert.ok(await page.locator("#progress").isVisible());
    assert.match(await page.locator("#progress").innerText(), /Step 3 of 3: building tiles.* … \d+ %/);
    const known = async (wanted: (known: readonly boolean[]) => boolean): Promise<void> => {
      const all = (): Promise<boolean[]> => withApp(page, (app) => app.tracksOnScreen().map((track) => app.cache.sources(track, app.stage.level(app.state.view), 0).length > 0), null);
      while (!wanted(await all())) await page.waitForTimeout(50);
    };
    // Half of the tracks have tiles, and are drawn; the page can be used.
    await known((all) => all.includes(true) && all.includes(false));
    await withApp(page, (app) => app.setView({ from: 5e8, to: 6e8 }), null);
    await known((all) => all.includes(true) && all.includes(false));
    finish();
    await page.waitForFunction(() => document.querySelector<HTMLElement>("#progress")?.hidden === true);
    await known((all) => all.length > 5 && all.every(Boolean));
    assert.deepEqual(await withApp(page, (app) => app.state.view, null), { from: 5e8, to: 6e8 }, "the view is left where it was");
    assert.deepEqual(errors, []);
  } finally {
    await close();
  }
});

test("while tiles are being made, those that were missing are asked for again as it goes on", async () => {
  const { page, close, errors } = await open({ seconds: 2, building_ms: 3_600_000 });
  let give = (): void => undefined;
  const given = new Promise<void>((done) => (give = done));
  try {
    // With the recording's description everything is asked for again anyway: here none comes.
    await page.route("**/api/recording", async (route) => {
      await given;
      await route.continue();
    });
    await withApp(page, (app) => {
      const retry = app.loader.retry.bind(app.loader);
      app.loader.retry = () => {
        document.documentElement.dataset["retries"] = String(1 + Number(document.documentElement.dataset["retries"] ?? 0));
        retry();
      };
    }, null);
    await page.waitForFunction(() => Number(document.documentElement.dataset["retries"] ?? 0) >= 5);
    assert.deepEqual(errors, []);
  } finally {
    give();
    await page.unrouteAll({ behavior: "wait" });
    await close();
  }
});

for (const [what, hash, wanted] of [["the whole recording", "", undefined], ["what the address says", "#r=ADDRESS", { from: 5e8, to: 6e8 }]] as const) {
  test(`opened before there is a single track, the page comes to show ${what}`, async () => {
    const server = await start({ seconds: 2, building_ms: 3_600_000 });
    const browser = await launch();
    const page = await browser.newPage({ viewport: { width: 1200, height: 700 } });
    try {
      // As the real server answers while it makes the tables: the window is known before there is any track. Tracks
      // come at once, as where they are there just after the recording was described.
      let early = true;
      await page.route("**/api/recording", async (route) => {
        const answer = await route.fetch();
        const info = (await answer.json()) as Record<string, unknown>;
        const building = { stage: "events", state: "building", done: 3, total: 10 };
        await route.fulfill({ json: early ? { ...info, origin: "0", from: "0", to: "0", tracks: 0, keys: 0, building } : info });
      });
      const link = hash === "" ? "" : `#${encode({ range: wanted! }, BigInt((server.answers.info({ done: 0, total: 1, state: "" }) as { origin: string }).origin))}`;
      await page.goto(server.url + link);
      await page.waitForFunction(() => document.querySelector("#progress b")?.textContent?.match(/Step \d of 3.* \d+ %/) && window.transect?.model.tracks.length === 0);
      early = false;
      await page.waitForFunction(() => window.transect!.model.tracks.length > 0);
      server.finish();
      await page.waitForFunction(() => document.querySelector<HTMLElement>("#progress")!.hidden);
      await idle(page);
      const { view, home } = await withApp(page, (app) => ({ view: app.state.view, home: app.model.home }), null);
      const target = wanted ?? home;
      assert.ok(Math.abs(view.from - target.from) < 1 && Math.abs(view.to - target.to) < 1, JSON.stringify([view, target]));
    } finally {
      // An answer that is being made still is put into the page, not after it.
      await page.unrouteAll({ behavior: "wait" });
      await browser.close();
      await server.close();
    }
  });
}

test("the bar of progress goes when what was made is there to be drawn, not before", async () => {
  const server = await start({ seconds: 2, building_ms: 3_600_000 });
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1200, height: 700 } });
  let give = (): void => undefined;
  const given = new Promise<void>((done) => (give = done));
  try {
    await page.addInitScript(() => {
      const { close } = EventSource.prototype;
      EventSource.prototype.close = function (): void {
        document.documentElement.dataset["heard"] = "all";
        close.call(this);
      };
    });
    // Before there is a track the page is opened; the description of when all is made is kept back.
    await page.route("**/api/recording", async (route) => {
      const answer = await route.fetch();
      const info = (await answer.json()) as { building: { state: string } };
      if (info.building.state === "ready") await given;
      const early = { origin: "0", from: "0", to: "0", tracks: 0, keys: 0, building: { stage: "events", state: "building", done: 3, total: 10 } };
      await route.fulfill({ json: info.building.state === "ready" ? info : { ...info, ...early } });
    });
    await page.goto(server.url);
    await page.waitForFunction(() => window.transect?.model.tracks.length === 0);
    server.finish();
    await page.waitForFunction(() => document.documentElement.dataset["heard"] === "all");
    assert.equal(await page.evaluate(() => document.querySelector<HTMLElement>("#progress")!.hidden), false, "the server is ready, the page is not");
    let over = false;
    const idled = idle(page).then(() => (over = true));
    await page.waitForTimeout(500);
    assert.ok(!over, "the page waits for what it asked for");
    give();
    const tracks = await page.waitForFunction(() => document.querySelector<HTMLElement>("#progress")!.hidden && { many: window.transect!.model.tracks.length });
    assert.ok((await tracks.jsonValue() as { many: number }).many > 0);
    await idled;
    assert.ok(await withApp(page, (app) => app.tracksOnScreen().length > 0, null));
  } finally {
    give();
    await page.unrouteAll({ behavior: "wait" });
    await browser.close();
    await server.close();
  }
});

test("without a key the page says what to do", async () => {
  const server = await start({ seconds: 1 });
  const browser = await launch();
  const page = await browser.newPage();
  try {
    await page.route("**/api/**", (route) => route.fulfill({ status: 403, contentType: "application/json", body: '{"error":"no or a wrong key"}' }));
    await page.goto(server.url);
    await page.waitForFunction(() => document.querySelector("#nothing")?.textContent?.includes("contains the access token"));
  } finally {
    await page.unrouteAll({ behavior: "wait" });
    await browser.close();
    await server.close();
  }
});

test("memory stays bounded on a tour over millions of intervals", async () => {
  const { page, close, errors } = await open({ seconds: 12, exit_us: 40, guests: 8, cpus: 6 });
  try {
    await idle(page);
    const result = await withApp(page, async (app) => {
      const whole = app.model.whole;
      app.meter.reset();
      for (let i = 0; i < 160; i++) {
        const width = (whole.to - whole.from) / Math.pow(1.3, i % 80);
        const at = whole.from + (whole.to - whole.from) * ((i * 0.013) % 0.9);
        app.setView({ from: at, to: at + width });
        await new Promise((done) => requestAnimationFrame(done));
      }
      return { times: app.meter.read(), cache: app.cache.bytes, budget: app.cache.budget_bytes };
    }, null);
    // How long frames take is measured by `make bench`: here others may use the machine.
    assert.ok(result.times.frames > 0, JSON.stringify(result));
    assert.ok(result.cache <= result.budget);
    const heap = await page.evaluate(() => {
      (globalThis as unknown as { gc?: () => void }).gc?.();
      return (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize;
    });
    assert.ok(heap < 200 * 1048576, `${heap}`);
    assert.deepEqual(errors, []);
  } finally {
    await close();
  }
});
