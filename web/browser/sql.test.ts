// What the page draws of a real recording against SQL over the same range, at ten zoom levels, all asked from the real
// `transect view`: of testdata's host and guest and a Xen host's domains, or of TRANSECT_VIEW_URL='http://127.0.0.1:…/?token=…'.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { idle, open, withApp } from "./kit.ts";
import { testdata, withPage } from "./real.ts";

const LEVELS = 10;

interface Compared {
  readonly track: string;
  readonly span: number;
  readonly states: string;
  readonly drawn: number;
  readonly asked: number;
  readonly height: number;
}

test("pixels of vCPU rows are what SQL says, at ten zoom levels", async () => {
  if (!process.env["TRANSECT_VIEW_URL"]) {
    await withPage((folder) => folder.pair(), compareAll);
    // One of its vCPUs has more intervals than a tile gives exactly, so sums are drawn, too.
    await withPage(() => testdata("xentrace/live/top.bin"), compareAll);
    return;
  }
  const { page, close } = await open();
  try {
    await compareAll(page);
  } finally {
    await close();
  }
});

async function compareAll(page: Page): Promise<void> {
  await idle(page);
  const tracks = await withApp(page, (app) => app.model.tracks.filter((t) => t.kind === "vcpu" && t.intervals > 0).slice(0, 4).map((t) => t.track), null);
  assert.ok(tracks.length > 0, "the recording has no vCPU states");
  let compared = 0;
  for (let zoom = 0; zoom < LEVELS; zoom++) {
    for (const track of tracks) {
      for (const line of await compare(page, track, zoom)) {
        // Heights are whole pixels: half a pixel a column at most, one whole for waits and losses.
        assert.ok(Math.abs(line.drawn - line.asked) < 1.3 / line.height + 0.002, JSON.stringify(line));
        compared++;
      }
    }
  }
  assert.ok(compared >= LEVELS * tracks.length, `only ${compared} sums compared`);
}

/** One row at one zoom: shares of its area by groups of states that look alike, drawn and asked for. */
async function compare(page: Page, track: number, zoom: number): Promise<Compared[]> {
  await withApp(page, (app, [id, depth]: [number, number]) => {
    const { whole } = app.model;
    const span = Math.max(Math.round((whole.to - whole.from) / Math.pow(4, depth)), 64);
    const from = Math.round(whole.from + (whole.to - whole.from - span) * 0.43);
    app.state.pinned = [id];
    app.state.current = undefined;
    app.relayout();
    app.setView({ from, to: from + span });
    app.pointAt(undefined);
  }, [track, zoom]);
  await idle(page);
  return withApp(page, async (app, id: number) => {
    const { view } = app.state;
    const info = app.model.tree.nodes.get(id)!.track;
    const [from, to] = [app.model.abs(view.from), app.model.abs(view.to)];
    const { table } = await app.api.sql(
      `SELECT state, CAST(SUM(LEAST(ts + dur, ${to}) - GREATEST(ts, ${from})) AS BIGINT) AS ns FROM vcpu_states WHERE machine_id = ${info.machine_id} AND vcpu = ${info.vcpu} AND ts < ${to} AND ts + dur > ${from} GROUP BY state`,
      1000,
    );
    const asked = new Map(Array.from({ length: table.length }, (_, i) => [String(table.row(i)[0]), Number(table.row(i)[1])]));
    const { data, width } = (app.stage as unknown as { pixels: { data: Uint32Array; width: number } }).pixels;
    const height = app.rows.pinned[0]!.height - 2;
    const pixels = new Map<number, number>();
    for (let y = 1; y <= height; y++) for (let x = 0; x < width; x++) pixels.set(data[y * width + x]!, (pixels.get(data[y * width + x]!) ?? 0) + 1);
    // States that share a colour are compared together.
    const paints = app.paints.on(info.machine_id);
    const groups: { states: Set<string>; colours: Set<number> }[] = [];
    for (const key of app.model.keys) {
      if (!asked.has(key.state)) continue;
      const colours = [paints.front[key.key]!, paints.back[key.key]!];
      const same = groups.filter((g) => g.states.has(key.state) || colours.some((c) => g.colours.has(c)));
      const joined = { states: new Set([key.state, ...same.flatMap((g) => [...g.states])]), colours: new Set([...colours, ...same.flatMap((g) => [...g.colours])]) };
      for (const old of same) groups.splice(groups.indexOf(old), 1);
      groups.push(joined);
    }
    const span = view.to - view.from;
    return groups.map((group) => ({
      track: app.model.trackName(id),
      span,
      states: [...group.states].join(" "),
      drawn: [...group.colours].reduce((sum, colour) => sum + (pixels.get(colour) ?? 0), 0) / (width * height),
      asked: [...group.states].reduce((sum, state) => sum + (asked.get(state) ?? 0), 0) / span,
      height,
    }));
  }, track);
}
