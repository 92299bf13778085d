// A critical path or a request over the rows: everything else is dimmed, its pieces have an outline, and arrows lead from
// piece to piece. Visible rows × visible columns, for any number of pieces.
import { joinsOf, stripOf, type Box, type CriticalPath } from "../core/path.ts";
import type { Placed, Rows } from "./rows.ts";
import type { DrawnPath, State } from "./state.ts";

export interface PathInks {
  readonly row: string;
  readonly path: string;
  readonly mark: string;
}

/** Where the path is drawn. */
interface PathSurface {
  readonly context: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;
  readonly inks: PathInks;
  x(at: number): number;
}

/** A piece's row on the stage. */
interface Band {
  readonly y: number;
  readonly height: number;
}

/** How much of everything else is left. */
const DIMMED = 0.58;

/** Boxes and joins of the last frame, for tests. */
export interface PathFrame {
  /** Tracks on which pieces were drawn. */
  readonly tracks: readonly number[];
  readonly joins: number;
}

export function drawPath(surface: PathSurface, state: State, drawn: DrawnPath, path: CriticalPath, rows: Rows, visible: readonly Placed[], top: number): PathFrame {
  const { context, width, height, inks } = surface;
  context.save();
  context.globalAlpha = DIMMED;
  context.fillStyle = inks.row;
  context.fillRect(0, 0, width, height);
  context.globalAlpha = 1;
  const boxes: Box[] = [];
  const tracks: number[] = [];
  const outlines: { box: Box; band: Band }[] = [];
  for (const placed of visible) {
    const { track } = placed.row.node.track;
    const lane = placed.row.type === "track" ? path.lane(track) : undefined;
    const band = lane && bandOf(placed, rows);
    if (!lane || !band) continue;
    const strip = stripOf(lane, state.view, width);
    if (strip.boxes.length + strip.columns.length > 0) tracks.push(track);
    // Where the path is, the rows show through.
    for (const box of strip.boxes) {
      context.clearRect(box.x0, band.y, box.x1 - box.x0, band.height);
      outlines.push({ box, band });
      boxes.push(box);
    }
    context.fillStyle = inks.path;
    for (const { x, share } of strip.columns) {
      const tall = Math.max(share * band.height, 1);
      context.clearRect(x, band.y + band.height - tall, 1, tall);
      context.globalAlpha = 0.22;
      context.fillRect(x, band.y + band.height - tall, 1, tall);
      context.globalAlpha = 1;
      context.fillRect(x, band.y + band.height - 2, 1, 2);
    }
  }
  for (const outline of outlines) drawOutline(surface, outline.box, outline.band, outline.box.piece === drawn.picked);
  const joins = joinsOf(path, state.view, width, boxes);
  for (const { from, to } of joins) {
    const [a, b] = [from, to].map((piece) => bandAt(path.trackOf(piece)!, rows, top));
    if (a && b) drawJoin(surface, surface.x(path.pieces[from]!.to), surface.x(path.pieces[to]!.from), a, b);
  }
  drawEnds(surface, drawn);
  context.restore();
  return { tracks, joins: joins.length };
}

/** The part of a visible row that pinned rows do not cover. */
function bandOf({ row, y, pinned }: Placed, rows: Rows): Band | undefined {
  const start = pinned ? y : Math.max(y, rows.pinnedHeight);
  const end = y + row.height;
  return end - start >= 3 ? { y: start + 1, height: end - start - 2 } : undefined;
}

/** A track's row, on the screen or off it. */
function bandAt(track: number, rows: Rows, top: number): Band | undefined {
  const placed = rows.placedOf(track, top);
  if (!placed) return undefined;
  const y = placed.pinned ? placed.y : Math.max(placed.y, rows.pinnedHeight - placed.row.height);
  return { y: y + 1, height: placed.row.height - 2 };
}

function drawOutline({ context, inks }: PathSurface, { x0, x1 }: Box, { y, height }: Band, picked: boolean): void {
  const wide = picked ? 3 : 1.5;
  const narrow = x1 - x0 < 6;
  context.lineWidth = wide;
  context.strokeStyle = picked ? inks.mark : inks.path;
  if (narrow && !picked) {
    context.fillStyle = inks.path;
    context.globalAlpha = 0.22;
    context.fillRect(x0, y, x1 - x0, height);
    context.globalAlpha = 1;
    context.fillRect(x0, y + height - 2, x1 - x0, 2);
    return;
  }
  context.strokeRect(x0 + wide / 2, y + wide / 2, Math.max(x1 - x0 - wide, 1), height - wide);
}

/** A line with a head from a piece to the next; dashed across pieces without a row. */
function drawJoin({ context, width, height, inks }: PathSurface, x0: number, x1: number, a: Band, b: Band): void {
  if (Math.max(x0, x1) < -8 || Math.min(x0, x1) > width + 8) return;
  const down = b.y > a.y;
  const from = down ? a.y + a.height : a.y;
  const to = down ? b.y : b.y + b.height;
  if (Math.max(from, to) < 0 || Math.min(from, to) > height) return;
  const line = (): void => {
    context.beginPath();
    context.moveTo(x0, from);
    context.lineTo(x1, to);
    context.stroke();
  };
  context.setLineDash(x1 - x0 > 2 ? [4, 3] : []);
  context.strokeStyle = inks.row;
  context.lineWidth = 4;
  line();
  context.strokeStyle = context.fillStyle = inks.path;
  context.lineWidth = 1.5;
  line();
  context.setLineDash([]);
  const back = down ? -6 : 6;
  context.beginPath();
  context.moveTo(x1, to);
  context.lineTo(x1 - 3.5, to + back);
  context.lineTo(x1 + 3.5, to + back);
  context.fill();
}

/** The ends of the explained range, or of the request. */
function drawEnds({ context, width, height, inks, x }: PathSurface, { from, to }: DrawnPath): void {
  context.strokeStyle = inks.path;
  context.lineWidth = 1;
  context.setLineDash([2, 4]);
  for (const at of [x(from), x(to)]) {
    if (at < -1 || at > width + 1) continue;
    context.beginPath();
    context.moveTo(Math.round(at) + 0.5, 0);
    context.lineTo(Math.round(at) + 0.5, height);
    context.stroke();
  }
  context.setLineDash([]);
}
