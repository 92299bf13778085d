// Which threads do anything in the range that is seen: asked when the view rests, so that of hundreds of
// threads those are shown that have something to show.
import type { Range } from "../core/view.ts";
import type { App } from "./app.ts";

/** How long the view must have been still: rows must not change under a moving hand. */
const REST_MS = 350;

export class Busy {
  private asked: Range | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private abort: AbortController | undefined;

  constructor(private readonly app: App) {}

  /** Is an answer still to come? */
  get waits(): boolean {
    return this.timer !== undefined || this.abort !== undefined;
  }

  /** The view rests. */
  update(): void {
    const { view } = this.app.state;
    if (!this.app.model.tree.choosesThreads) return;
    if (this.asked && this.asked.from === view.from && this.asked.to === view.to) return;
    // The first answer is waited for by nobody's hand.
    const rest_ms = this.app.state.busy ? REST_MS : 0;
    this.asked = { ...view };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(view), rest_ms);
  }

  /** More of the recording is known: what was asked may have another answer. */
  forget(): void {
    this.asked = undefined;
  }

  private async ask(view: Range): Promise<void> {
    const { app } = this;
    this.timer = undefined;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    try {
      const { model } = app;
      const busy = await app.api.busy(model.abs(Math.floor(view.from)), model.abs(Math.ceil(view.to)), abort.signal);
      if (abort.signal.aborted) return;
      app.state.busy = busy;
      app.relayout();
    } catch {
      // The threads that are shown stay those that they were.
    } finally {
      if (this.abort === abort) this.abort = undefined;
    }
  }
}
