// Broken and half-written recordings in the real page: each opens with what it has, and says in words
// what is missing.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { idle, withApp } from "./kit.ts";
import { testdata, withPage } from "./real.ts";

const shot = async (page: Page, name: string): Promise<void> => {
  await page.screenshot({ path: `build/shots/broken-${name}.png` }).catch(() => undefined);
};
const notices = (page: Page): Promise<string> => page.locator("#notices").innerText();
const open = async (page: Page): Promise<void> => {
  await page.evaluate(() => document.querySelectorAll("#notices details").forEach((details) => details.setAttribute("open", "")));
};
/** Rows on the screen, and colours on the canvas: is anything drawn? */
const drawn = async (page: Page): Promise<{ rows: number; colours: number }> => {
  await idle(page);
  return withApp(page, (app) => ({ rows: app.tracksOnScreen().length, colours: new Set((app.stage as unknown as { pixels: { data: Uint32Array } }).pixels.data).size }), null);
};

test("a recorder that was killed: what reached the disk is drawn, the end is said to be missing", async () => {
  await withPage(
    (folder) => folder.compact("killed.transect", folder.cut("compact/recorded.compact", 0.6)),
    async (page) => {
      const { rows, colours } = await drawn(page);
      assert.ok(rows > 3 && colours > 8, `${rows} rows, ${colours} colours`);
      await open(page);
      const said = await notices(page);
      assert.match(said, /did not shut down cleanly/);
      assert.match(said, /host\.compact/, "where the file was cut");
      assert.ok(await page.locator("#notices .bad").count() > 0, "lost data is no mere remark");
      await shot(page, "killed");
    },
  );
});

test("lost events: hatched on the rows they concern, count and cause under the pointer", async () => {
  await withPage(
    () => testdata("tracedat/lost-slow.dat"),
    async (page) => {
      const zone = await withApp(page, (app) => {
        const widest = [...app.model.lost].sort((a, b) => b.to - b.from - (a.to - a.from))[0]!;
        const span = (widest.to - widest.from) * 3;
        app.setView({ from: widest.from - span / 3, to: widest.from - span / 3 + span });
        return { cpu: widest.cpu, count: Number(widest.info.count), from: widest.from, to: widest.to };
      }, null);
      await idle(page);
      assert.ok(zone.count > 0 && zone.cpu !== null, JSON.stringify(zone));
      const pixels = await withApp(page, (app, { cpu, from, to }: { cpu: number; from: number; to: number }) => {
        const { data, width } = (app.stage as unknown as { pixels: { data: Uint32Array; width: number } }).pixels;
        const x = (at: number): number => ((at - app.state.view.from) / (app.state.view.to - app.state.view.from)) * width;
        const hatch = app.state.theme === "dark" ? 0xffb4b4be : 0xff50505a;
        const share = (number: number, a: number, b: number): number => {
          const placed = app.rows.visible(app.scrollTop, app.height).find(({ row }) => row.type === "track" && row.node.track.kind === "cpu" && row.node.track.cpu === number)!;
          let [hatched, all] = [0, 0];
          for (let y = Math.ceil(placed.y) + 2; y < placed.y + placed.row.height - 2; y++) for (let i = Math.ceil(a); i < Math.floor(b); i++) {
            all++;
            if (data[y * width + i] === hatch) hatched++;
          }
          return hatched / all;
        };
        const other = app.model.tracks.find((track) => track.kind === "cpu" && track.cpu !== cpu)?.cpu ?? undefined;
        const losses = app.model.lost.filter((lost) => lost.cpu === other && lost.to > from && lost.from < to).length;
        const row = app.rows.visible(app.scrollTop, app.height).find(({ row: r }) => r.type === "track" && r.node.track.kind === "cpu" && r.node.track.cpu === cpu)!;
        return { within: share(cpu, x(from) + 2, x(to) - 2), before: share(cpu, 2, x(from) - 4), other: other === undefined || losses > 0 ? 0 : share(other, x(from) + 2, x(to) - 2), at: { x: x((from + to) / 2), y: row.y + row.row.height / 2 } };
      }, zone as { cpu: number; from: number; to: number });
      assert.ok(pixels.within > 0.1 && pixels.within < 0.6, `hatched: ${pixels.within}`);
      assert.ok(pixels.before < pixels.within / 4, `before the loss: ${pixels.before}`);
      assert.equal(pixels.other, 0, "another CPU's row, where nothing was lost");
      const box = (await page.locator("#stage").boundingBox())!;
      await page.mouse.move(box.x + pixels.at.x, box.y + pixels.at.y);
      await page.waitForFunction(() => !document.querySelector<HTMLElement>("#tip")!.hidden);
      const tip = await page.locator("#tip").innerText();
      assert.ok(tip.includes("lost") && tip.replace(/\D/g, "").includes(String(zone.count)), tip);
      assert.match(tip, new RegExp(`on CPU ${zone.cpu}`));
      await shot(page, "lost");
    },
  );
});

test("a recording with nothing in it opens and says so", async () => {
  await withPage(
    (folder) => folder.compact("empty.transect", readFileSync(testdata("compact/empty.compact"))),
    async (page) => {
      await shot(page, "empty");
      const said = await page.locator("#nothing").innerText();
      assert.match(said, /cannot be shown/);
      assert.match(said, /empty\.transect: no usable events/);
    },
  );
});

test("a source that is not there is named, the others are drawn", async () => {
  await withPage(
    (folder) => folder.compact("missing.transect", readFileSync(testdata("compact/recorded.compact")), ["guest-web.compact"]),
    async (page) => {
      const { rows } = await drawn(page);
      assert.ok(rows > 3);
      await open(page);
      assert.match(await notices(page), /guest-web\.compact/);
      await shot(page, "missing");
    },
  );
});

test("tiles that are damaged behind the page's back are made again, and drawn", async () => {
  await withPage(
    (folder) => folder.compact("damaged.transect", readFileSync(testdata("compact/recorded.compact"))),
    async (page, folder) => {
      const before = await drawn(page);
      assert.ok(before.rows > 5 && before.colours > 10, JSON.stringify(before));
      const view = join(folder.path, "damaged.transect/view");
      for (const name of readdirSync(view).filter((file) => file.endsWith(".tiles"))) {
        const bytes = readFileSync(join(view, name));
        // In place, chunks and tiles only: the server has the file open, and knows its index.
        for (let at = 20; at < Math.min(bytes.length, 400); at += 40) bytes[at]! ^= 0x55;
        writeFileSync(join(view, name), bytes);
      }
      await page.reload();
      await page.waitForFunction(() => window.transect !== undefined);
      await page.waitForFunction(
        ([rows, colours]) => {
          const app = window.transect!;
          const { data } = (app.stage as unknown as { pixels: { data: Uint32Array } }).pixels;
          return app.tracksOnScreen().length === rows && new Set(data).size === colours && document.querySelector<HTMLElement>("#progress")!.hidden;
        },
        [before.rows, before.colours] as const,
        { timeout: 60_000, polling: 200 },
      );
      assert.deepEqual(await page.locator("#notices p.bad:not(.remarks)").allInnerTexts(), [], "nothing that is mended by itself is complained of");
      await shot(page, "damaged");
    },
  );
});
