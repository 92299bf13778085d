// What several tests need: a small made-up recording, its tiles in a cache, and keys with paints.
import { Answers } from "../dev/answers.ts";
import { DEFAULTS, ORIGIN, simulate, type Intervals, type Options } from "../dev/simulate.ts";
import { decodeTiles } from "../src/api/arrow.ts";
import { TileCache } from "../src/core/cache.ts";
import { levelFor, tilesOf } from "../src/core/levels.ts";
import { machineHues, Paints, stackingOrder, type PaintTable } from "../src/core/palette.ts";
import type { Range } from "../src/core/view.ts";

export function made(options: Partial<Options> = {}): { answers: Answers; whole: Range; paints: PaintTable; all: Paints } {
  const answers = new Answers(simulate({ ...DEFAULTS, ...options }));
  const { recording } = answers;
  const all = new Paints(recording.keys, machineHues(recording.machines, "dark"), { mode: "who", theme: "dark", bright: null });
  return { answers, whole: { from: 0, to: recording.length }, paints: all.on(0), all };
}

/** Fetches, through the wire format, what a view of a track needs. */
export function load(answers: Answers, cache: TileCache, track: number, view: Range, width: number): number {
  const whole = { from: 0, to: answers.recording.length };
  const level = levelFor((view.to - view.from) / width);
  const span = tilesOf(view, whole, level);
  if (!span) return level;
  const request = { level, first: span.first, count: span.last - span.first + 1, tracks: [track] };
  const body = answers.tilesBody(request);
  for (let i = 0; i < request.count; i++) cache.put(track, level, request.first + i, { kind: "empty" });
  for (const { index, tile } of decodeTiles(body.buffer as ArrayBuffer, ORIGIN, stackingOrder(answers.recording.keys))) cache.put(track, level, index, tile);
  return level;
}

/** Intervals from triples, for tests that want few and known ones. */
export function intervals(rows: readonly (readonly [number, number, number])[]): Intervals {
  return { ts: Float64Array.from(rows, (r) => r[0]), dur: Float64Array.from(rows, (r) => r[1]), key: Uint32Array.from(rows, (r) => r[2]) };
}
