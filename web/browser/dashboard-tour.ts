// How fluid the dashboard is: an hour of 1 s windows of 100 VMs in memory (as after an hour of following), every frame drawn anew while
// the range moves and zooms, rows scroll, and the moment moves. Prints what frames took, as `tour.ts` does of the timeline.
// `npm run dashboard:tour`, with `-- --vms 200` or `-- --width 3840 --height 2160`.
import { build } from "esbuild";
import { startServe } from "../dev/serve.ts";
import { inPage, settled } from "./dashboard-kit.ts";
import { launch } from "./kit.ts";
import { selfTimes } from "./profile.ts";

const options: Record<string, number> = { vms: 100, vcpus: 2, groups: 20, cpus: 16, seconds: 3600, width: 1920, height: 1080 };
for (let i = 2; i + 1 < process.argv.length; i += 2) options[process.argv[i]!.replace(/^--/, "")] = Number(process.argv[i + 1]);
const number = (name: string): number => options[name]!;

// The page over a small host; then the large one's windows are given to it, one after the other, as if they had been heard.
const { url, stop } = await startServe({ vms: 2, groups: 1, history_s: 60 });
const browser = await launch(["--disable-frame-rate-limit", "--disable-gpu-vsync"]);
const page = await browser.newPage({ viewport: { width: number("width"), height: number("height") }, colorScheme: "dark" });
await page.goto(`${url}#range=1h`);
await settled(page);
const end_ns = Math.floor(Date.now() / 1000) * 1e9;
await inPage(page, (app, [from]: [number]) => {
  const { constructor } = app.range as unknown as { constructor: new (origin: object, fine: number, coarse: number, focus: undefined) => NonNullable<typeof app.range> };
  // Bins of one window each: as fine as they come.
  app.range = new constructor({ unix_ns: from }, 1e9, 60e9, undefined);
  app.range.whole = true;
  // What the small host says from now on is not heard.
  app.window = app.loaded = () => undefined;
}, [end_ns - number("seconds") * 1e9]);
// The windows are made inside the page: an hour of them is gigabytes of JSON.
const made = await build({ entryPoints: ["dev/fleet.ts"], bundle: true, format: "iife", globalName: "made", write: false, logLevel: "warning" });
await page.evaluate(`${made.outputFiles[0]!.text}; globalThis.made = made;`);
const taken_ms = await inPage(page, (app, { options, end_ns }: { options: Record<string, number>; end_ns: number }) => {
  const { Fleet, FLEET } = (globalThis as unknown as { made: { Fleet: new (options: object) => { window(number: number, ended: number): NonNullable<typeof app.newest> }; FLEET: object } }).made;
  const fleet = new Fleet({ ...FLEET, ...options });
  let sum = 0;
  for (let at = 0; at < options["seconds"]!; at++) {
    const window = fleet.window(at, end_ns - (options["seconds"]! - at - 1) * 1e9);
    const began = performance.now();
    app.range!.addFine(window);
    app.range!.addCoarse(window);
    sum += performance.now() - began;
    app.newest = window;
  }
  return sum;
}, { options, end_ns });
const client = await page.context().newCDPSession(page);
const profiling = process.env["TRANSECT_PROFILE"] !== undefined;
if (profiling) {
  await client.send("Profiler.enable");
  await client.send("Profiler.start");
}
const result = await inPage(page, async (app, seconds: number) => {
  app.pick([app.newest!]);
  app.paintNow();
  const intervals: number[] = [];
  let last = 0;
  const next = (): Promise<void> =>
    new Promise((done) =>
      requestAnimationFrame(() => {
        app.paintNow();
        const now = performance.now();
        if (last) intervals.push(now - last);
        last = now;
        done();
      }),
    );
  app.meter.reset();
  const end_ms = app.unixMs(app.knownTo);
  const scroller = document.querySelector("#p-fleet .scroller")!;
  const length = (ns: number, back_ms: number): void => void (app.seen = { ...app.seen, length_ns: ns, until_ms: end_ms - back_ms });
  for (let i = 0; i < 90; i++) {
    length(3600e9 * 0.97 ** i + 60e9, i * 2000);
    await next();
  }
  for (let i = 0; i < 90; i++) {
    length(seconds * 1e9, i * 500);
    scroller.scrollTop += 25;
    await next();
  }
  for (let i = 0; i < 90; i++) {
    app.moment = app.view.from + ((app.view.to - app.view.from) * i) / 90;
    await next();
  }
  intervals.sort((a, b) => a - b);
  const at = (q: number): number => Math.round((intervals[Math.min(intervals.length - 1, Math.floor(q * intervals.length))] ?? 0) * 10) / 10;
  return { rows: app.panels.fleet.rows.length, bins: app.range!.actors.length, frame_ms: { frames: intervals.length, median: at(0.5), p99: at(0.99), max: at(1) }, work_ms: app.meter.read().work_ms };
}, number("seconds"));
if (profiling) process.stderr.write(`${selfTimes((await client.send("Profiler.stop")).profile)}\n`);
const heap_MiB = (await page.evaluate(() => {
  (globalThis as unknown as { gc?: () => void }).gc?.();
  return (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize;
})) / 1048576;
process.stdout.write(`${JSON.stringify({ browser: browser.version(), ...options, take_ms_per_window: Math.round((taken_ms / number("seconds")) * 100) / 100, ...result, heap_MiB: Math.round(heap_MiB) })}\n`);
await browser.close();
await stop();
