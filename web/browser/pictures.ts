// The pictures of the docs, of real recordings: `npm run pictures -- DEMO XEN LOG OUT NESTED`, where DEMO is what `make demo`
// leaves, XEN a recording of a Xen host with domUs named hog and duty, and LOG what `transect top --log` wrote meanwhile on
// the demo's host. NESTED is a recording of `testdata/succeed/nested`. Nothing is drawn that the pages do not draw. Of `-` there is no picture.
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openDashboard } from "./dashboard-kit.ts";
import { readLog } from "../dev/serve.ts";
import { idle, launch, withApp } from "./kit.ts";
import { Folder, Served } from "./real.ts";

const [demo, xen, log, out, nested] = process.argv.slice(2);
if (!demo || !xen || !log || !out || !nested) throw new Error("npm run pictures -- DEMO XEN LOG OUT NESTED");

if (demo !== "-") await picture(demo, join(out, "timeline-demo.png"), 940, async () => undefined);
if (log !== "-") for (const scheme of ["dark", "light"] as const) await dashboard(log, join(out, `dashboard-${scheme}.png`), scheme);
if (xen !== "-") await picture(xen, join(out, "timeline-xen.png"), 800, async (page) => {
  await withApp(
    page,
    async (app) => {
      // The longest that hog was kept off its CPU by duty, in the middle of 12 ms.
      const { table } = await app.api.sql(
        `SELECT s.ts, s.dur FROM vcpu_states s JOIN machines m ON m.machine_id = s.machine_id JOIN machines b ON b.machine_id = s.by_machine_id
         WHERE m.name = 'hog' AND b.name = 'duty' AND s.state = 'preempted' ORDER BY s.dur DESC LIMIT 1`,
        1,
      );
      const [ts, dur] = table.row(0).map((cell) => BigInt(String(cell)));
      const at = app.model.rel(ts!);
      app.setView({ from: at - 6e6, to: at + Number(dur) + 6e6 });
      for (const { track } of app.model.tree.nodes.values()) {
        const ofDom0 = app.model.machineName(track.machine_id) === "dom0";
        if (ofDom0 && ["threads", "counters", "events"].includes(track.kind)) app.state.folded.add(track.track);
      }
      app.relayout();
    },
    null,
  );
});

if (nested !== "-") for (const name of ["why-path", "why-piece"]) await picture(nested, join(out, `${name}.png`), 900, async (page) => {
  await withApp(
    page,
    (app) => {
      const { track } = app.model.tracks.find(({ kind, name }) => kind === "thread" && name.startsWith("wl-disk"))!;
      const { from, to } = app.model.home;
      app.showTrack(track);
      app.select(from, to, [track]);
      app.selected();
    },
    null,
  );
  await page.locator("#scroll").focus();
  await page.keyboard.press("Shift+W");
  await page.waitForFunction(() => window.transect!.state.why?.findings !== undefined, null, { timeout: 60_000 });
  await page.getByRole("button", { name: "Zoom" }).click();
  if (name === "why-path") return;
  await page.getByRole("button", { name: /^Show its/ }).click();
  await page.getByRole("button", { name: "By length" }).click();
  await page.locator(".why .line").first().click();
  await page.getByRole("button", { name: "By time" }).click();
});

/** The log's windows as if the last one had just ended. */
async function dashboard(file: string, to: string, scheme: "dark" | "light"): Promise<void> {
  const windows = readLog(file);
  const day_ms = 24 * 3_600_000;
  const length_ms = (windows.length * windows[0]!.dur) / 1e6;
  const ended_ms = windows.at(-1)!.ended_unix_ns / 1e6;
  const frozen_ms = Math.floor(Math.max(ended_ms, day_ms) / length_ms) * length_ms;
  const opened = await openDashboard({ log: file, frozen_ms, history_s: length_ms / 1000 }, { viewport: { width: 1280, height: 720 }, scheme, hash: `#range=${Math.round(length_ms / 1000)}s&until=${new Date(frozen_ms).toISOString()}` });
  try {
    await opened.page.screenshot({ path: to });
  } finally {
    await opened.close();
  }
}

async function picture(recording: string, file: string, height: number, prepare: (page: Page) => Promise<unknown>): Promise<void> {
  const folder = new Folder();
  const served = await Served.start(folder, recording);
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height }, colorScheme: "dark" });
    await page.goto(served.url);
    await page.waitForFunction(() => window.transect !== undefined && document.querySelector<HTMLElement>("#progress")!.hidden, null, { timeout: 60_000 });
    await idle(page);
    // What was noted of a recording is the reader's business, not the picture's.
    await page.evaluate(() => document.querySelectorAll<HTMLElement>("#notices button").forEach((button) => button.click()));
    await prepare(page);
    await idle(page);
    await page.screenshot({ path: file });
  } finally {
    await browser.close();
    await served.stop();
    folder.remove();
  }
}
