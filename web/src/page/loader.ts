// Gets tiles: a few requests at a time, what is seen before what may be seen next. Requests that were
// not sent yet are planned anew every frame, so a fast zoom leaves no trail of useless work.
import type { AskTiles, TilesAnswer } from "../api/messages.ts";
import { ROOT } from "../api/call.ts";
import { EMPTY, type TileCache } from "../core/cache.ts";
import { halve, Pending, planFor, type TileRequest, type Wish } from "../core/plan.ts";
import type { Range } from "../core/view.ts";

/** Requests under way at once: one that is being answered, one on the wire. */
const AT_ONCE = 3;
const RETRY_MS = 2000;

export class Loader {
  private readonly worker = new Worker(new URL("assets/tiles.js", ROOT), { type: "module" });
  private readonly pending = new Pending();
  private readonly running = new Map<number, TileRequest>();
  private deferred: TileRequest[] = [];
  private queue: TileRequest[] = [];
  /** Halves of requests whose answer was too large: asked for next, and pending until they are answered. */
  private halves: TileRequest[] = [];
  private next = 0;
  private order: Uint32Array | undefined;

  constructor(
    private readonly cache: TileCache,
    private readonly origin: () => bigint,
    private readonly arrived: (request?: TileRequest) => void,
    private readonly failed: (line: string) => void,
    /** Tiles are missing because they are being made (again): somebody must hear when they are there. */
    private readonly missing: () => void,
  ) {
    this.worker.onmessage = (event: MessageEvent<TilesAnswer>) => this.take(event.data);
    this.worker.onerror = (event) => this.failed(`tiles: ${event.message || "the decoder worker did not start"}`);
  }

  /** Is anything on its way or still to be asked for? */
  get busy(): boolean {
    return this.running.size > 0 || this.halves.length > 0 || this.queue.length > 0;
  }

  /** Takes the keys' stacking order, for the worker to sort by. */
  setOrder(order: Uint32Array): void {
    this.order = order;
  }

  /** Asks for what these wishes lack, the first wish first. */
  want(wishes: readonly Wish[], whole: Range): void {
    this.queue = [];
    const planned = new Set<string>();
    for (const wish of wishes) {
      for (const request of planFor(wish, whole, this.cache, this.pending)) {
        const name = `${request.level}/${request.first}/${request.count}/${request.tracks.join()}`;
        if (!planned.has(name)) this.queue.push(request);
        planned.add(name);
      }
    }
    this.send();
  }

  /** More has been built: what was missing may be there now. */
  retry(): void {
    for (const request of this.deferred) this.pending.end(request);
    this.deferred = [];
    this.arrived();
  }

  private send(): void {
    while (this.running.size < AT_ONCE) {
      const request = this.halves.shift() ?? this.queue.shift();
      if (!request) return;
      const id = this.next++;
      this.pending.start(request);
      this.running.set(id, request);
      const message: AskTiles = { id, origin: this.origin(), request };
      this.worker.postMessage(this.order ? { ...message, order: this.order } : message);
      this.order = undefined;
    }
  }

  private take(answer: TilesAnswer): void {
    const request = this.running.get(answer.id);
    if (!request) return;
    this.running.delete(answer.id);
    if (answer.building) this.missing();
    const halves = !answer.ok && answer.tooLarge ? halve(request) : [];
    if (halves.length > 0) {
      this.halves.push(...halves);
    } else if (!answer.ok) {
      if (!answer.building) this.failed(answer.error);
      this.deferred.push(request);
      setTimeout(() => this.retry(), RETRY_MS);
    } else {
      this.store(request, answer.tiles, answer.building);
      if (answer.building) this.deferred.push(request);
      else this.pending.end(request);
    }
    this.arrived(request);
    this.send();
  }

  private store(request: TileRequest, tiles: Extract<TilesAnswer, { ok: true }>["tiles"], building: boolean): void {
    const given = new Set<string>();
    for (const { track, index, tile } of tiles) {
      this.cache.put(track, request.level, index, tile, building);
      given.add(`${track}/${index}`);
    }
    // What is in no answer is empty, unless it may just not be built yet.
    if (building) return;
    for (const track of request.tracks) {
      for (let i = 0; i < request.count; i++) {
        const index = request.first + i;
        if (!given.has(`${track}/${index}`)) this.cache.put(track, request.level, index, EMPTY);
      }
    }
  }
}
