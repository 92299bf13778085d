// Block requests and packets: asks SQL for the slowest ones of a range, and for one whose stages are drawn over the rows.
import { CriticalPath, Places } from "../core/path.ts";
import { laneWishes, RequestPlaces, stagePieces } from "../core/requestplaces.ts";
import { isSameRequest, requestsOf, type Request, type RequestId, type RequestKind } from "../core/request.ts";
import { countSql, isTableMissing, requestSql, requestTitle, slowestSql, type Asked } from "../core/requestwords.ts";
import { numberOf } from "../core/time.ts";
import { fit, spanOf, type Range } from "../core/view.ts";
import type { App } from "./app.ts";
import { need } from "./dom.ts";
import type { DrawnRequest } from "./state.ts";

/** Block requests, and packets, that are listed. */
export const MOST_REQUESTS = 100;
/** Lanes of a device that are searched for a request. */
const MOST_LANES = 8;
/** The view is moved to a request if it is this many times as long. */
const MOST_ROOM = 6;
const KINDS = ["block", "packet"] as const;

/** The slowest requests of a range. */
export interface Listed extends Range {
  /** The machine whose requests are listed; undefined: all. */
  readonly machine_id: number | undefined;
  /** Of each kind, the longest first, and the number in the range. Undefined until the query is answered. */
  readonly found: Partial<Record<RequestKind, readonly Request[]>>;
  readonly counts: Partial<Record<RequestKind, number>>;
  readonly errors: string[];
  done: boolean;
}

export class Requests {
  listed: Listed | undefined;
  private listing: AbortController | undefined;
  private drawing: AbortController | undefined;

  constructor(private readonly app: App) {}

  /** Draws the request of the selected interval, or lists the slowest of the selected range or the view. */
  start(): void {
    const { state } = this.app;
    const chosen = state.selection ? undefined : this.chosenRequest();
    this.list();
    if (chosen) this.show(chosen);
  }

  /** The block request whose interval is selected. */
  private chosenRequest(): RequestId | undefined {
    const { model, state } = this.app;
    const { chosen, facts } = state;
    if (!chosen || !this.isRequest(chosen.track)) return undefined;
    const values = facts?.rows?.find(({ table }) => table === "block_io")?.values;
    const sector = values?.["sector"];
    const numbers = /^\d+$/.test(String(sector)) ? [String(sector)] : [];
    return { kind: "block", machine_id: model.machineOf(chosen.track), ts: chosen.ts, numbers };
  }

  /** Are the intervals of a track block requests? */
  isRequest(track: number): boolean {
    return this.app.model.tree.nodes.get(track)?.track.kind === "block";
  }

  // ---- the list

  /** Lists the slowest requests of the selected range or the view; of one VM, if only rows of that are selected. */
  list(): void {
    const { app } = this;
    const { model, state } = app;
    const range = state.selection ?? app.goal;
    const machines = new Set(state.selection?.tracks?.map((track) => model.machineOf(track)));
    const [only] = machines;
    const machine_id = machines.size === 1 && model.isGuest(only!) ? only : undefined;
    const from = Math.max(Math.floor(range.from), model.whole.from);
    const listed: Listed = { from, to: Math.min(Math.ceil(range.to), model.whole.to), machine_id, found: {}, counts: {}, errors: [], done: false };
    this.listed = listed;
    app.openDock("requests");
    app.dock.refresh("requests");
    void this.fetchList(listed);
  }

  private async fetchList(listed: Listed): Promise<void> {
    const { app } = this;
    const { model } = app;
    this.listing?.abort();
    const abort = (this.listing = new AbortController());
    const asked: Asked = { from: model.abs(listed.from), to: model.abs(listed.to), machine_id: listed.machine_id };
    for (const kind of KINDS) {
      try {
        const { table } = await app.api.sql(slowestSql(kind, asked, MOST_REQUESTS), MOST_REQUESTS, abort.signal);
        listed.found[kind] = requestsOf(table, kind, (at) => model.rel(at));
        listed.counts[kind] = table.length;
        if (table.length === MOST_REQUESTS) {
          const { table: count } = await app.api.sql(countSql(kind, asked), 1, abort.signal);
          listed.counts[kind] = numberOf(count.row(0)[0]);
        }
      } catch (error) {
        const line = messageOf(error);
        if (!isTableMissing(kind, line) && !listed.errors.includes(line)) listed.errors.push(line);
      }
      if (abort.signal.aborted) return;
      listed.done = kind === KINDS.at(-1);
      app.dock.requests.update();
    }
  }

  // ---- the drawn request

  /** Draws the stages of a request over the rows. */
  show(id: RequestId): void {
    const { app } = this;
    app.why.drop();
    this.drop();
    const drawn: DrawnRequest = { id, from: id.ts, to: id.ts, errors: [] };
    app.state.request = drawn;
    app.openDock("requests");
    app.dock.refresh("requests");
    void this.fetch(drawn);
  }

  private async fetch(drawn: DrawnRequest): Promise<void> {
    const { app } = this;
    const { model } = app;
    const abort = (this.drawing = new AbortController());
    try {
      const { kind, ts } = drawn.id;
      const { table } = await app.api.sql(requestSql(drawn.id, model.abs(ts)), 1, abort.signal);
      const [request] = requestsOf(table, kind, (at) => model.rel(at));
      if (!request) throw new Error(`No ${kind === "block" ? "block request" : "packet"} with stages begins here`);
      const places = await this.findPlaces(request, abort.signal);
      if (abort.signal.aborted) return;
      this.take(drawn, request, places);
      this.reveal(drawn);
    } catch (error) {
      if (abort.signal.aborted) return;
      drawn.errors.push(messageOf(error));
    }
    app.dock.requests.update();
    app.redraw();
  }

  /** The places of a request, with the lanes of devices that have it. */
  private async findPlaces(request: Request, signal: AbortSignal): Promise<RequestPlaces> {
    const { app } = this;
    const { model } = app;
    const places = new RequestPlaces(model.tracks, new Places(model.tracks, model.info.machines));
    for (const wish of laneWishes(request, model.info.machines)) {
      const lanes = places.lanesOf(wish).slice(0, MOST_LANES);
      if (lanes.length < 2) continue;
      const begins = await Promise.all(lanes.map((track) => app.api.at(track, model.abs(wish.at), signal).then(({ ts }) => model.rel(ts) === wish.at, () => false)));
      const lane = lanes[begins.indexOf(true)];
      if (lane !== undefined) places.choose(wish, lane);
    }
    return places;
  }

  private take(drawn: DrawnRequest, request: Request, places: RequestPlaces): void {
    const { app } = this;
    const pieces = stagePieces(request, app.model.info.machines);
    drawn.request = request;
    drawn.places = places;
    need("#says").textContent = requestTitle(request, (id) => app.model.machineName(id));
    if (pieces.length > 0) {
      const path = new CriticalPath(pieces, places);
      drawn.path = path;
      const { from, to } = path.range;
      drawn.from = from;
      drawn.to = to;
    }
    app.relayout();
  }

  /** Moves the view to a request and the row of its first stage. */
  private reveal({ from, to, path }: DrawnRequest): void {
    const { app } = this;
    if (!path) return;
    const span = Math.max(to - from, 1);
    const isSeen = from >= app.goal.from && to <= app.goal.to && spanOf(app.goal) < span * MOST_ROOM;
    if (!isSeen) app.glideTo(fit({ from: from - span / 4, to: to + span / 4 }, app.model.whole));
    const first = path.bestTrackOf(0);
    if (first !== undefined && !app.paths.isPinned(first)) app.showTrack(first);
  }

  /** Is this the drawn request? */
  isDrawn(id: RequestId): boolean {
    const { request } = this.app.state;
    return request !== undefined && isSameRequest(request.request ?? request.id, id);
  }

  /** More of the recording has been built: there are more tracks, and queries that failed may succeed. */
  renew(): void {
    const { app } = this;
    const drawn = app.state.request;
    if (!drawn?.request) return drawn && drawn.errors.length > 0 ? this.show(drawn.id) : undefined;
    const { request } = drawn;
    const { signal } = (this.drawing = new AbortController());
    void this.findPlaces(request, signal).then((places) => signal.aborted || this.take(drawn, request, places));
  }

  /** Removes the drawn request. Returns whether there was one. */
  clear(): boolean {
    const { app } = this;
    const was = app.state.request !== undefined;
    this.drop();
    if (was) {
      app.relayout();
      app.dock.refresh("requests");
    }
    return was;
  }

  /** Removes the drawn request without a redraw. */
  drop(): void {
    this.drawing?.abort();
    if (this.app.state.request) this.app.paths.unpin();
    this.app.state.request = undefined;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
