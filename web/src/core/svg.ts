// The visible part as SVG: the same columns as on the screen, as rectangles one can edit and print.
import type { Columns } from "./columns.ts";
import { hex, maskOf, type Paint, type Paints, type Rgb } from "./palette.ts";
import { stacked } from "./raster.ts";
import type { Arrow } from "./flows.ts";
import { flowColour, flowWords, headOf, pathOf } from "./flows.ts";
import type { Tick } from "./axis.ts";
import type { WallAxis } from "./wallaxis.ts";

/** Heights of the ruler's rows. */
const TRACE_ROW = 24;
const WALL_ROW = 18;

/** One row of the picture. */
export interface SvgRow {
  readonly name: string;
  readonly indent: number;
  readonly y: number;
  readonly height: number;
  readonly group: boolean;
  readonly machine_id: number;
  readonly columns?: Columns;
  /** Counters are drawn as a line of means. */
  readonly counter?: boolean;
  readonly labels?: readonly { readonly x0: number; readonly x1: number; readonly text: string }[];
}

export interface SvgPicture {
  readonly title: string;
  readonly width: number;
  readonly height: number;
  /** Width of the names at the left. */
  readonly names: number;
  readonly background: Rgb;
  readonly ink: Rgb;
  readonly ticks: readonly Tick[];
  /** The ruler's row of the wall clock, where it is shown. */
  readonly wall?: WallAxis;
  readonly rows: readonly SvgRow[];
  readonly arrows: readonly Arrow[];
}

/** The picture as one SVG document. Text from the recording is escaped: names are anybody's. */
export function toSvg(picture: SvgPicture, paints: Paints): string {
  const used = new Map<string, Paint>();
  const body = picture.rows.map((row) => rowSvg(row, picture, paints, used)).join("");
  const ruler = TRACE_ROW + (picture.wall ? WALL_ROW : 0);
  const ticks = picture.ticks
    .map(({ x, label, major }) => `<path d="M${f(picture.names + x)} ${major ? 0 : TRACE_ROW - 5}V${major ? picture.height + ruler : TRACE_ROW}" stroke="${hex(picture.ink)}" stroke-opacity="${major ? 0.12 : 0.3}"/>` + (label ? `<text x="${f(picture.names + x + 4)}" y="14">${escapeXml(label)}</text>` : ""))
    .join("");
  const arrows = picture.arrows.map((arrow) => arrowSvg(arrow, hex(picture.ink))).join("");
  const total = picture.height + ruler;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${picture.width + picture.names}" height="${total}" viewBox="0 0 ${picture.width + picture.names} ${total}" font-family="system-ui, sans-serif" font-size="11" fill="${hex(picture.ink)}">` +
    `<title>${escapeXml(picture.title)}</title><defs>${[...used].map(([name, paint]) => patternSvg(name, paint)).join("")}</defs>` +
    `<rect width="100%" height="100%" fill="${hex(picture.background)}"/>${ticks}${picture.wall ? wallSvg(picture.wall, picture) : ""}` +
    `<g transform="translate(0 ${ruler})">${body}<g transform="translate(${picture.names} 0)">${arrows}</g></g></svg>\n`
  );
}

/** A dark rim keeps an arrow visible on bars of its own colour. */
function arrowSvg(arrow: Arrow, ink: string): string {
  const [path, colour] = [pathOf(arrow), flowColour(arrow.flow.kind, ink)];
  return `<g><title>${escapeXml(flowWords(arrow.flow))}</title><path d="${path}" fill="none" stroke="#000" stroke-opacity=".75" stroke-width="4"/><path d="${path}" fill="none" stroke="${colour}"/><path d="${headOf(arrow)}" fill="${colour}"/></g>`;
}

/** Labels of the wall clock, the times at which it was set, and at the left the date and the offset to UTC. */
function wallSvg({ ticks, steps, base }: WallAxis, { names, ink }: SvgPicture): string {
  const y = TRACE_ROW + WALL_ROW - 5;
  const label = (x: number, text: string): string => `<text x="${f(names + x + 4)}" y="${y}">${escapeXml(text)}</text>`;
  const line = (x: number, width: number): string => `<path d="M${f(names + x)} ${TRACE_ROW}V${TRACE_ROW + WALL_ROW}" stroke="${hex(ink)}" stroke-width="${width}"/>`;
  const times = ticks.map((tick) => line(tick.x, 0.5) + label(tick.x, tick.label)).join("");
  const set = steps.map((step) => line(step.x, 2) + `<text x="${f(names + step.x + 4)}" y="${TRACE_ROW - 1}" font-weight="600">${escapeXml(step.text)}</text>`).join("");
  return `${base === undefined ? "" : `<text x="6" y="${y}">${escapeXml(base)}</text>`}${times}${set}`;
}

function rowSvg(row: SvgRow, picture: SvgPicture, paints: Paints, used: Map<string, Paint>): string {
  const weight = row.group ? ' font-weight="600"' : "";
  const name = `<text x="${6 + row.indent * 12}" y="${f(row.y + row.height / 2 + 4)}"${weight}>${escapeXml(row.name)}</text>`;
  if (!row.columns) return name;
  const shapes = row.counter ? counterSvg(row, row.columns, picture.ink) : shapesSvg(row, row.columns, paints, used);
  const labels = (row.labels ?? [])
    .map((label) => `<text x="${f(label.x0 + 4)}" y="${f(row.y + row.height / 2 + 4)}" paint-order="stroke" stroke="${hex(picture.background)}" stroke-width="2.5">${escapeXml(label.text)}</text>`)
    .join("");
  return `${name}<g transform="translate(${picture.names} 0)">${shapes}${labels}</g>`;
}

/** Rectangles of a row: neighbouring columns that look the same make one. */
function shapesSvg(row: SvgRow, columns: Columns, paints: Paints, used: Map<string, Paint>): string {
  const height = row.height - 2;
  const table = paints.on(row.machine_id);
  let out = "";
  let before = "";
  let start = 0;
  let current: ReturnType<typeof stacked> = [];
  const flush = (end: number): void => {
    for (const { key, from, to } of current) {
      const paint = table.of(key);
      const plain = maskOf(paint.pattern) === null;
      const name = `m${row.machine_id}k${key}`;
      if (!plain) used.set(name, paint);
      const fill = plain ? hex(paint.front) : `url(#${name})`;
      out += `<rect x="${start}" y="${f(row.y + 1 + height - to)}" width="${end - start}" height="${f(to - from)}" fill="${fill}"/>`;
    }
  };
  for (let x = 0; x < columns.width; x++) {
    const shape = stacked(columns, x, height, table);
    const name = shape.map(({ key, from, to }) => `${key}:${from}-${to}`).join();
    if (name === before) continue;
    flush(x);
    [before, start, current] = [name, x, shape];
  }
  flush(columns.width);
  return out;
}

function counterSvg(row: SvgRow, columns: Columns, ink: Rgb): string {
  let highest = 0;
  for (let x = 0; x < columns.width; x++) if (columns.weight[x]! > 0) highest = Math.max(highest, columns.max[x]!);
  if (highest <= 0) return "";
  const points: string[] = [];
  for (let x = 0; x < columns.width; x++) {
    if (columns.weight[x] === 0) continue;
    const mean = columns.sum[x]! / columns.weight[x]!;
    points.push(`${x},${f(row.y + row.height - 1 - (mean / highest) * (row.height - 2))}`);
  }
  return `<polyline points="${points.join(" ")}" fill="none" stroke="${hex(ink)}" stroke-opacity="0.7"/>`;
}

/** The screen's 8 × 8 pattern as an SVG pattern, one path for its set pixels. */
function patternSvg(name: string, paint: Paint): string {
  const mask = maskOf(paint.pattern) ?? [];
  let path = "";
  mask.forEach((row, y) => {
    for (let x = 0; x < 8; x++) if ((row >> (7 - x)) & 1) path += `M${x} ${y}h1v1h-1z`;
  });
  return `<pattern id="${name}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="${hex(paint.back)}"/><path d="${path}" fill="${hex(paint.front)}"/></pattern>`;
}

function f(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** Text for XML: the five characters, and controls that XML cannot hold at all. */
export function escapeXml(text: string): string {
  const clean = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "�");
  return clean.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
