// The address: written when the view rests, read at the start and when somebody changes it.
import { decode, encode, type Linked } from "../core/url.ts";
import { clamp } from "../core/view.ts";
import { findRange, MomentError } from "../core/moments.ts";
import { LOCAL } from "../core/zone.ts";
import type { App } from "./app.ts";
import { boundsOf } from "./times.ts";

export class Links {
  private written = "";

  constructor(private readonly app: App) {}

  /** Puts what is seen into the address. */
  write(): void {
    // What the address says can be shown only once there are tracks.
    if (this.app.model.tracks.length === 0) return;
    this.written = encode(this.linked(), this.app.model.origin);
    window.history.replaceState(null, "", `${location.pathname}#${this.written}`);
  }

  /** Shows what the address says, if it is not what was written there. */
  read(): void {
    const fragment = location.hash.slice(1);
    if (fragment === "" || fragment === this.written) return;
    const { app } = this;
    const linked = decode(fragment, app.model.origin);
    const { state } = app;
    if (linked.range) state.view = clamp(linked.range, app.model.whole);
    // Moments can be found only once the recording's times are known; the address is read again then.
    else if (linked.moments && app.model.tracks.length > 0) this.showMoments(linked.moments);
    state.pinned = [...(linked.pinned ?? [])];
    state.folded = new Set(linked.folded);
    state.opened = new Set(linked.opened);
    state.marks = [...(linked.marks ?? [])];
    state.colour = linked.colour ?? "who";
    state.flowsOn = linked.flows ?? false;
    state.selection = linked.selection ? { ...linked.selection, tracks: undefined } : undefined;
    app.setFilter(linked.filter ?? "");
    if (linked.chosen && app.model.tree.nodes.has(linked.chosen.track)) app.chooseAt(linked.chosen.track, linked.chosen.ts);
    if (state.selection) app.selected();
    const { why } = state;
    if (!linked.why) app.why.clear();
    else if (why && why.track === linked.why.track && why.from === linked.why.from && why.to === linked.why.to) app.openDock("why");
    else if (app.model.tree.nodes.has(linked.why.track)) app.why.explain(linked.why);
    if (!linked.request) app.requests.clear();
    else if (app.requests.isDrawn(linked.request)) app.openDock("requests");
    else if (app.model.tracks.length > 0) {
      app.requests.list();
      app.requests.show(linked.request);
    }
    requestAnimationFrame(() => app.scrollTo(linked.top ?? 0));
  }

  private showMoments({ from, until }: NonNullable<Linked["moments"]>): void {
    const { app } = this;
    try {
      const range = findRange(from, until, boundsOf(app.model, LOCAL));
      app.state.view = clamp({ from: app.model.rel(range.from), to: app.model.rel(range.to) }, app.model.whole);
    } catch (error) {
      if (!(error instanceof MomentError)) throw error;
      app.fail(`The range in the address is not shown. ${error.message}`);
    }
  }

  private linked(): Linked {
    const { state } = this.app;
    const out: Linked = { range: this.app.goal, pinned: state.pinned, folded: [...state.folded], opened: [...state.opened], marks: state.marks, colour: state.colour, flows: state.flowsOn, top: this.app.scrollTop };
    if (state.filterText) out.filter = state.filterText;
    if (state.chosen) out.chosen = { track: state.chosen.track, ts: state.chosen.ts };
    if (state.selection) out.selection = state.selection;
    if (state.why) out.why = { track: state.why.track, from: state.why.from, to: state.why.to };
    if (state.request) out.request = state.request.request ?? state.request.id;
    return out;
  }
}
