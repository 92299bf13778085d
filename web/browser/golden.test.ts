// The page's looks against reference pictures, with tolerance: both are scaled down to blocks of 8 × 8
// pixels, so that another version's text edges do not matter and a moved or recoloured row does.
// `GOLDEN=write npm run test:browser` makes them anew; `DOCS=write` those of docs/images too.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { idle, open, withApp } from "./kit.ts";

const FOLDER = "browser/golden";
const BLOCK = 8;
/** Share of blocks that may differ by more than `FAR` in any channel. */
const TOLERATED = 0.02;
const FAR = 36;

/** The story: pCPU 1, the hog and the periodic guest that share it. */
async function story(page: Page, theme: "dark" | "light"): Promise<void> {
  await withApp(page, (app, wanted: "dark" | "light") => {
    app.state.theme = wanted;
    app.retheme();
    document.querySelector("#notices")?.replaceChildren();
    const id = (kind: string, machine: string): number => app.model.tracks.find((t) => t.kind === kind && app.model.machineName(t.machine_id) === machine)!.track;
    for (const name of ["dom0", "web1", "web2", "web3", "web4", "web5"]) app.state.folded.add(id("machine", name));
    app.setFilter("");
    app.setView({ from: 500_000_000, to: 620_000_000 });
    app.pointAt(undefined);
  }, theme);
  await page.waitForTimeout(250);
  await idle(page);
}

test("the story in the dark theme", async () => {
  const { page, close } = await open({ seconds: 4 });
  try {
    await story(page, "dark");
    await compare(page, "view-dark");
  } finally {
    await close();
  }
});

test("statistics of a range in the light theme", async () => {
  const { page, close } = await open({ seconds: 4 }, "", { width: 1240, height: 760 });
  try {
    await story(page, "light");
    await withApp(page, (app) => {
      const vcpu = app.model.tracks.find((t) => t.kind === "vcpu" && app.model.machineName(t.machine_id) === "periodic")!.track;
      app.select(530_000_000, 600_000_000, [vcpu]);
      app.selected();
    }, null);
    await page.waitForFunction(() => document.querySelector("#panel")?.textContent?.includes("Exits by reason"));
    await idle(page);
    await compare(page, "view-range");
  } finally {
    await close();
  }
});

test("the critical path of a vCPU in the dark theme", async () => {
  const { page, close } = await open({ seconds: 4 }, "", { width: 1240, height: 760 });
  try {
    await story(page, "dark");
    await withApp(page, (app) => {
      const { track } = app.model.tracks.find((t) => t.kind === "vcpu" && app.model.machineName(t.machine_id) === "periodic")!;
      app.setView({ from: 525_000_000, to: 605_000_000 });
      app.why.explain({ track, from: 530_000_000, to: 600_000_000 });
    }, null);
    await page.waitForFunction(() => window.transect!.state.why?.findings !== undefined);
    await idle(page);
    await compare(page, "view-why");
  } finally {
    await close();
  }
});

test("the whole of a snapshot: unknown until each CPU's first record", async () => {
  const { page, close } = await open({ seconds: 4, known_ms: 500 });
  try {
    await story(page, "dark");
    await withApp(page, (app) => app.setView(app.model.home), null);
    await idle(page);
    await compare(page, "view-snapshot");
  } finally {
    await close();
  }
});

async function compare(page: Page, name: string): Promise<void> {
  const shot = await page.screenshot({ animations: "disabled", caret: "hide" });
  mkdirSync("build/shots", { recursive: true });
  writeFileSync(`build/shots/${name}.png`, shot);
  if (process.env["DOCS"] === "write") writeFileSync(`../docs/images/${name}.png`, shot);
  const path = `${FOLDER}/${name}.json`;
  const blocks = await shrink(page, shot);
  if (process.env["GOLDEN"] === "write") {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(path, `${JSON.stringify({ width: blocks.width, height: blocks.height, rgb: Buffer.from(blocks.rgb).toString("base64") })}\n`);
    return;
  }
  assert.ok(existsSync(path), `${path} is missing: GOLDEN=write makes it`);
  const golden = JSON.parse(readFileSync(path, "utf8")) as { width: number; height: number; rgb: string };
  assert.deepEqual([blocks.width, blocks.height], [golden.width, golden.height]);
  const wanted = Buffer.from(golden.rgb, "base64");
  let far = 0;
  for (let i = 0; i < wanted.length; i += 3) if ([0, 1, 2].some((c) => Math.abs(wanted[i + c]! - blocks.rgb[i + c]!) > FAR)) far++;
  const share = far / (wanted.length / 3);
  assert.ok(share <= TOLERATED, `${name}: ${(share * 100).toFixed(1)} % of the blocks look different; see build/shots/${name}.png`);
}

/** The picture's blocks as mean colours. The browser decodes the PNG. */
async function shrink(page: Page, png: Buffer): Promise<{ width: number; height: number; rgb: number[] }> {
  return page.evaluate(async ([base64, block]) => {
    const bytes = Uint8Array.from(atob(base64 as string), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const [width, height] = [Math.floor(image.width / (block as number)), Math.floor(image.height / (block as number))];
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d")!;
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const rgb: number[] = [];
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) for (let c = 0; c < 3; c++) {
      let sum = 0;
      for (let j = 0; j < (block as number); j++) for (let i = 0; i < (block as number); i++) sum += data[((y * (block as number) + j) * image.width + x * (block as number) + i) * 4 + c]!;
      rgb.push(Math.round(sum / ((block as number) * (block as number))));
    }
    return { width, height, rgb };
  }, [png.toString("base64"), BLOCK] as const);
}
