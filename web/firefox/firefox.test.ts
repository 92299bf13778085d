// The page in Firefox: it opens, draws, zooms, asks for facts. Skipped, and said so, where there is none.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { start } from "../dev/server.ts";
import { Firefox, firefoxPath } from "./marionette.ts";

const path = firefoxPath();

test("in Firefox", { skip: path === undefined ? "no Firefox here" : false }, async () => {
  const server = await start({ seconds: 4 });
  const firefox = await Firefox.start(path!);
  try {
    await firefox.go(server.url);
    await firefox.run("await until(() => window.transect);");
    const seen = await firefox.run<{ colours: number; arrows: number; title: string; notices: string }>(`
      await app.idle();
      app.setView({ from: 5e8, to: 6e8 });
      app.run("flows");
      await until(() => app.overlay.arrows.length > 0);
      await app.idle();
      return { colours: new Set(app.stage.pixels.data).size, arrows: app.overlay.arrows.length, title: document.title, notices: document.querySelector("#notices").innerText };
    `);
    assert.ok(seen.colours > 15 && seen.arrows > 0, JSON.stringify(seen));
    assert.match(seen.title, /made-up/);
    assert.ok(!seen.notices.includes("tiles:"), seen.notices);
    const facts = await firefox.run<string>(`
      const track = app.model.tracks.find((t) => t.kind === "vcpu" && app.model.machineName(t.machine_id) === "periodic").track;
      app.jump(track, 5.05e8);
      await until(() => document.querySelector("#panel").textContent.includes("preempted by"));
      await app.idle();
      return document.querySelector("#panel").textContent;
    `);
    assert.match(facts, /preempted by hog.*hog › vCPU 0|preempted by.*hog/s);
    mkdirSync("build/shots", { recursive: true });
    writeFileSync("build/shots/firefox.png", await firefox.screenshot());
  } finally {
    await firefox.close();
    await server.close();
  }
});
