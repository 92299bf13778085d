// Fetches and decodes tiles off the page's own thread, so that no answer, however large, costs a frame.
import { decodeTiles, type Placed } from "../api/arrow.ts";
import { ApiError, call } from "../api/call.ts";
import type { AskTiles, TilesAnswer } from "../api/messages.ts";

// The DOM's types describe a page's `self`; a worker's `postMessage` takes the list of what to hand over.
const worker = self as unknown as { postMessage(message: TilesAnswer, transfer: Transferable[]): void; onmessage: ((event: MessageEvent<AskTiles>) => void) | null };

/** The keys' stacking order, as the page said last. */
let order: Uint32Array | undefined;

worker.onmessage = (event) => {
  order = event.data.order ?? order;
  void answer(event.data);
};

async function answer({ id, origin, request }: AskTiles): Promise<void> {
  try {
    const response = await call("api/tiles", request);
    const building = response.headers.get("x-tiles-missing") !== null;
    const tiles = decodeTiles(await response.arrayBuffer(), origin, order);
    worker.postMessage({ id, ok: true, tiles, building }, tiles.flatMap(buffers));
  } catch (error) {
    const building = error instanceof ApiError && error.status === 503;
    const tooLarge = error instanceof ApiError && error.status === 413;
    worker.postMessage({ id, ok: false, error: error instanceof Error ? error.message : String(error), building, tooLarge }, []);
  }
}

function buffers({ tile }: Placed): ArrayBuffer[] {
  if (tile.kind === "empty") return [];
  const arrays = tile.kind === "exact" ? [tile.ts, tile.dur, tile.key, tile.value] : [tile.bucket, tile.key, tile.share, tile.min, tile.max, tile.mean];
  return arrays.flatMap((array) => (array ? [array.buffer as ArrayBuffer] : []));
}
