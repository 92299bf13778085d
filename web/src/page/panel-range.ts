// Statistics of the selected range: per machine, per state, exits by reason. Asked from the server when
// the selection rests; an answer that comes too late is dropped.
import { duration, moment } from "../core/format.ts";
import { asText, statTables, type StatsAnswer, type StatTable } from "../core/stats.ts";
import type { App } from "./app.ts";
import { debounced, make } from "./dom.ts";
import { chip, requestsButton, whyButton } from "./panel-facts.ts";
import { copyRange, wallSpan } from "./times.ts";

/** Tracks that have a table of their own; sums over all are always shown. */
const MOST_TRACKS = 36;

export class RangePanel {
  private answer: StatsAnswer | undefined;
  private error: string | undefined;
  private abort: AbortController | undefined;
  private readonly ask: () => void;

  constructor(
    private readonly app: App,
    private readonly changed: () => void,
  ) {
    this.ask = debounced(120, () => void this.fetch());
  }

  /** The selection changed. */
  update(): void {
    this.answer = this.error = undefined;
    this.abort?.abort();
    if (this.app.state.selection) this.ask();
    this.changed();
  }

  private async fetch(): Promise<void> {
    const { model, state } = this.app;
    const selection = state.selection;
    if (!selection) return;
    this.abort = new AbortController();
    try {
      const tracks = selection.tracks ?? this.app.tracksOnScreen();
      this.answer = await this.app.api.stats(model.abs(selection.from), model.abs(Math.ceil(selection.to)), tracks, this.abort.signal);
    } catch (error) {
      if (error instanceof DOMException) return;
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.changed();
  }

  content(): HTMLElement {
    const { app, answer } = this;
    const selection = app.state.selection;
    if (!selection) return make("p", { class: "dim" }, "Drag over the timeline or press R to select a range and show its statistics.");
    const span = selection.to - selection.from;
    const head = make("h3", {}, `${duration(span, app.model.unit)}`, make("span", { class: "dim" }, `   ${moment(selection.from, app.model.unit)} – ${moment(selection.to, app.model.unit)}   `));
    const root = make("div", {}, head);
    head.append(...this.actions().flatMap((button) => [button, " "]));
    const wall = wallSpan(app, selection.from, selection.to);
    if (wall) root.append(make("p", { class: "wall dim" }, `wall clock ${wall}`));
    if (this.error) root.append(make("p", { class: "bad" }, this.error));
    else if (!answer) root.append(make("p", { class: "dim" }, "…"));
    else {
      const tables = this.tables(answer, span);
      if (tables.length === 0 && !answer.missing) root.append(make("p", { class: "dim" }, "No data on these tracks in this range."));
      const ofTracks = tables.filter((table) => table.track !== undefined);
      const hidden = new Set(ofTracks.slice(MOST_TRACKS));
      root.append(make("div", { class: "columns" }, ...tables.filter((table) => !hidden.has(table)).map((table) => this.table(table))));
      if (answer.missing) root.append(make("p", { class: "bad" }, answer.missing));
      if (hidden.size > 0) root.append(make("p", { class: "dim" }, `${hidden.size} more tracks not shown: select fewer rows`));
    }
    return root;
  }

  private tables(answer: StatsAnswer, span_ns: number): StatTable[] {
    const { model } = this.app;
    return statTables(answer, span_ns, (track) => model.trackName(track), (id) => model.machineName(id), model.unit, (key) => model.isUnknown(key));
  }

  private actions(): HTMLElement[] {
    const zoom = make("button", {}, "Zoom (F)");
    zoom.addEventListener("click", () => this.app.run("fit"));
    const copy = make("button", {}, "Copy");
    copy.addEventListener("click", () => {
      const selection = this.app.state.selection;
      if (!this.answer || !selection) return;
      void navigator.clipboard.writeText(asText(this.tables(this.answer, selection.to - selection.from))).then(() => this.app.say("Copied"), () => this.app.say("The browser denied access to the clipboard"));
    });
    const events = make("button", {}, "Events (V)");
    events.addEventListener("click", () => this.app.run("events"));
    const times = make("button", { title: "Copy the range as --from and --until" }, "Copy times");
    times.addEventListener("click", () => this.app.state.selection && copyRange(this.app, this.app.state.selection));
    return [zoom, whyButton(this.app), requestsButton(this.app, "Requests"), events, copy, times];
  }

  private table(table: StatTable): HTMLElement {
    const body = make("table", {}, make("tr", {}, ...table.columns.map((name, i) => make("th", { class: i > 0 ? "n" : "" }, name))));
    for (const row of table.rows) {
      const line = make("tr", { class: row.share === undefined ? "" : "share" });
      if (row.share !== undefined) line.style.setProperty("--share", `${Math.round(row.share * 100)}%`);
      row.cells.forEach((cell, i) => {
        const td = make("td", { class: i > 0 && !/^[a-z_]/i.test(cell) ? "n" : "label" });
        if (i === 0 && row.key !== undefined && row.track !== undefined) td.append(chip(this.app, row.key, row.track));
        td.append(cell);
        line.append(td);
      });
      body.append(line);
    }
    return make("div", {}, make("h3", {}, table.title), body);
  }
}
