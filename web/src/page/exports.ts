// The visible part as PNG and SVG: names, ruler, rows and arrows, without the page around them. And a range of the
// recording as a file that the server makes.
import { axisOf } from "../core/axis.ts";
import { Columns, fillRow, runs } from "../core/columns.ts";
import { levelFor } from "../core/levels.ts";
import { greys } from "../core/palette.ts";
import { toSvg, type SvgPicture, type SvgRow } from "../core/svg.ts";
import { spanOf } from "../core/view.ts";
import type { App } from "./app.ts";
import { download, need } from "./dom.ts";

/** What is visible, for SVG: one column per CSS pixel. */
export function pictureOf(app: App): SvgPicture {
  const { state, model } = app;
  const width = Math.floor(app.width);
  const nsPerPixel = spanOf(state.view) / width;
  const scale = { from: state.view.from, nsPerPixel };
  const rows = app.rows.visible(app.scrollTop, app.height).map(({ row, y }): SvgRow => {
    const track = row.node.track;
    const base = { name: row.type === "more" ? `${row.hidden} more` : track.name, indent: row.depth, y, height: row.height, group: row.type === "group", machine_id: track.machine_id };
    if (row.type !== "track") return base;
    const columns = new Columns(width);
    fillRow(columns, app.cache, track.track, levelFor(nsPerPixel), scale, model.whole);
    if (track.kind === "counter") return { ...base, columns, counter: true };
    const labels = row.height < 14 ? [] : runs(columns, 60).filter((run) => app.paints.on(track.machine_id).of(run.key).counts !== "slept").map((run) => ({ x0: run.x0, x1: run.x1, text: shorten(model.label(run.key), (run.x1 - run.x0) / 6.5) }));
    return { ...base, columns, labels };
  });
  const grey = greys(state.theme);
  const { wall } = app.overlay.ruler;
  return {
    ...(wall ? { wall } : {}),
    title: model.info.name,
    width,
    height: Math.ceil(app.height),
    names: need("#names").clientWidth,
    background: grey.row,
    ink: grey.text,
    ticks: axisOf(state.view, width, model.unit).ticks,
    rows,
    arrows: app.overlay.arrows,
  };
}

function shorten(text: string, letters: number): string {
  return text.length <= letters ? text : letters > 3 ? `${text.slice(0, Math.floor(letters) - 1)}…` : "";
}

export function exportSvg(app: App, picture: SvgPicture): void {
  download(new Blob([toSvg(picture, app.paints)], { type: "image/svg+xml" }), `${app.model.info.name}.svg`);
}

export async function exportPng(app: App): Promise<void> {
  const canvas = composed(app);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the browser could not encode the PNG");
  download(blob, `${app.model.info.name}.png`);
}

/** What the server makes of a range. */
export type RangeFormat = "perfetto" | "recording" | "flame";

const ENDINGS: Record<RangeFormat, string> = { perfetto: "pftrace", recording: "transect.tar", flame: "stacks.html" };

/** Has the server write a range, saves it, and says how to open it. */
export async function exportRange(app: App, range: { readonly from: number; readonly to: number }, format: RangeFormat): Promise<void> {
  const { model } = app;
  const from = Math.max(range.from, model.whole.from);
  const to = Math.min(range.to, model.whole.to);
  const { blob, name } = await app.api.export(model.abs(from), model.abs(Math.ceil(to)), format);
  const file = name ?? `${model.info.name}.${ENDINGS[format]}`;
  download(blob, file);
  app.notice(howToOpen(file, format), "");
}

/** One line for people: what to do with the file. */
export function howToOpen(file: string, format: RangeFormat): string {
  if (format === "perfetto") return `${file}: open it at https://ui.perfetto.dev`;
  if (format === "flame") return `${file}: open it in a browser`;
  return `${file}: tar xf ${file}; transect view ${file.replace(/\.tar$/, "")}`;
}

/** Names drawn by hand beside the canvases as they are. */
export function composed(app: App): HTMLCanvasElement {
  const { ratio } = app.stage;
  const { height: ruler, wall } = app.overlay.ruler;
  const names = need("#names").clientWidth;
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor((names + app.width) * ratio);
  canvas.height = Math.floor((ruler + app.height) * ratio);
  const context = canvas.getContext("2d")!;
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.getPropertyValue("--row");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const left = Math.floor(names * ratio);
  context.drawImage(need<HTMLCanvasElement>("#ruler"), left, 0);
  context.drawImage(app.stage.canvas, left, Math.floor(ruler * ratio));
  context.drawImage(need<HTMLCanvasElement>("#overlay"), left, Math.floor(ruler * ratio));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textBaseline = "middle";
  context.font = '11px system-ui, "DejaVu Sans", sans-serif';
  context.fillStyle = style.getPropertyValue("--dim");
  if (wall?.base) context.fillText(wall.base, 10, ruler - 8, names - 20);
  const hues = app.model.hues(app.state.theme);
  for (const { row, y } of app.rows.visible(app.scrollTop, app.height)) {
    const track = row.node.track;
    const hue = hues.get(track.machine_id);
    context.fillStyle = hue ? `rgb(${hue.join()})` : "transparent";
    context.fillRect(0, ruler + y, 4, row.height - 1);
    context.fillStyle = style.getPropertyValue(row.type === "group" && track.kind !== "machine" ? "--dim" : "--ink");
    context.font = `${track.kind === "machine" ? "600 13px" : "12px"} system-ui, "DejaVu Sans", sans-serif`;
    context.fillText(row.type === "more" ? `${row.hidden} more …` : track.name, 22 + row.depth * 9, ruler + y + row.height / 2, names - 30 - row.depth * 9);
  }
  return canvas;
}
