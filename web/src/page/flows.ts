// Fetches the arrows of the visible range, when they are on and the view rests.
import { spanOf, type Range } from "../core/view.ts";
import type { App } from "./app.ts";

const LIMIT = 2000;

export class Flows {
  private have: (Range & { tracks: string; complete: boolean }) | undefined;
  private abort: AbortController | undefined;

  constructor(private readonly app: App) {}

  /** Fetches if what is there does not cover the view. */
  update(): void {
    const { state } = this.app;
    if (!state.flowsOn) return;
    const tracks = this.app.tracksOnScreen();
    const name = tracks.join();
    const { view } = state;
    const have = this.have;
    const covered = have && have.tracks === name && have.from <= view.from && have.to >= view.to && (have.complete || spanOf(have) <= spanOf(view) * 1.01);
    if (!covered && tracks.length > 0) void this.fetch(tracks, name, view);
  }

  private async fetch(tracks: readonly number[], name: string, view: Range): Promise<void> {
    const { app } = this;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    const margin = spanOf(view) * 0.25;
    const from = Math.floor(Math.max(view.from - margin, app.model.whole.from));
    const to = Math.ceil(Math.min(view.to + margin, app.model.whole.to));
    this.have = { from: Math.min(from, view.from), to: Math.max(to, view.to), tracks: name, complete: true };
    try {
      const flows = await app.api.flows(app.model.abs(from), app.model.abs(to), tracks, LIMIT, app.model.origin, abort.signal);
      if (abort.signal.aborted) return;
      this.have = { ...this.have, complete: flows.length < LIMIT };
      app.state.flows = flows;
      app.redraw();
    } catch (error) {
      if (!abort.signal.aborted) app.fail(`arrows: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
