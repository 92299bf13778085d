// A scripted tour: zooms from the whole recording down to nanoseconds and back, pans at several zooms,
// scrolls through the tracks; then says how long frames took and how much the page keeps. Rendering is
// Chromium's software renderer (no GPU). `npm run tour -- --seconds 60 …`, or TRANSECT_VIEW_URL=….
//
// Frames come as fast as they can be made (TRANSECT_VSYNC=1: at the display's 60 a second), so the time from
// one to the next is what a frame costs altogether: moving the view, drawing, and Chromium's compositing of it.
// Every interval of the tour counts, pauses and all.
import { idle, open, withApp } from "./kit.ts";
import { selfTimes } from "./profile.ts";

const options: Record<string, number> = {};
for (let i = 2; i + 1 < process.argv.length; i += 2) options[process.argv[i]!.replace(/^--/, "")] = Number(process.argv[i + 1]);

const unlimited = process.env["TRANSECT_VSYNC"] ? [] : ["--disable-frame-rate-limit", "--disable-gpu-vsync"];
const opened = await open(options, "", undefined, unlimited);
const { page } = opened;
await idle(page);
// Since the navigation began; nothing that is to be seen is missing then.
const drawn_ms = await page.evaluate(() => performance.now());
const painted_ms = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);

const client = await page.context().newCDPSession(page);
const profiling = process.env["TRANSECT_PROFILE"] !== undefined;
if (profiling) {
  await client.send("Profiler.enable");
  await client.send("Profiler.start");
}
const result = await withApp(
  page,
  async (app) => {
    const whole = app.model.whole;
    const span = (r: { from: number; to: number }): number => r.to - r.from;
    const intervals: number[] = [];
    let last = 0;
    const next = (): Promise<void> =>
      new Promise((done) =>
        requestAnimationFrame(() => {
          const now = performance.now();
          if (last) intervals.push(now - last);
          last = now;
          done();
        }),
      );
    // The same moves each time: a fixed sequence, one per frame.
    let state = 12345;
    const random = (): number => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
    app.meter.reset();
    const started = performance.now();
    for (let leg = 0; leg < 6; leg++) {
      const at = whole.from + span(whole) * (0.1 + 0.8 * random());
      for (let i = 0; i < 60; i++) {
        const width = Math.max(40, span(app.state.view) * 0.74);
        const share = (at - app.state.view.from) / span(app.state.view);
        app.setView({ from: at - width * share, to: at + width * (1 - share) });
        await next();
      }
      for (let i = 0; i < 25; i++) {
        const by = span(app.state.view) * 0.04 * (leg % 2 ? -1 : 1);
        app.setView({ from: app.state.view.from + by, to: app.state.view.to + by });
        await next();
      }
      for (let i = 0; i < 60 && span(app.state.view) < span(whole); i++) {
        const middle = (app.state.view.from + app.state.view.to) / 2;
        const half = (span(app.state.view) * 1.35) / 2;
        app.setView({ from: middle - half, to: middle + half });
        if (i % 3 === 0) app.scrollTo((app.scrollTop + 60) % Math.max(1, app.rows.height));
        await next();
      }
    }
    intervals.sort((a, b) => a - b);
    const at = (q: number): number => intervals[Math.min(intervals.length - 1, Math.floor(q * intervals.length))] ?? 0;
    const frame_ms = { frames: intervals.length, median: at(0.5), p99: at(0.99), max: at(1) };
    return { frame_ms, work_ms: app.meter.read().work_ms, seconds: (performance.now() - started) / 1000, cache_MiB: app.cache.bytes / 1048576, tracks: app.model.tracks.length, rows: app.rows.rows.length };
  },
  null,
);
if (profiling) {
  const { profile } = await client.send("Profiler.stop");
  process.stderr.write(`${selfTimes(profile)}\n`);
}
await idle(page);
const heap_MiB = (await page.evaluate(() => {
  const collect = (globalThis as unknown as { gc?: () => void }).gc;
  collect?.();
  return (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize;
})) / 1048576;
process.stdout.write(`${JSON.stringify({ browser: opened.browser.version(), painted_ms, drawn_ms, ...result, heap_MiB, errors: opened.errors })}\n`);
await opened.close();
