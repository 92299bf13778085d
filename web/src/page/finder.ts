// Enter in the filter box: from match to match. The server searches too, for what the page does not hold
// (moments, details of tables); what it finds is jumped to, tracks are shown and become current.
import type { SearchAnswer } from "../api/types.ts";
import { numberOf } from "../core/time.ts";
import type { App } from "./app.ts";

/** Rows that are looked through at once. */
const MOST_TRACKS = 1000;

/** A match: a track, and a moment in it if the match is one. */
interface Match {
  readonly track: number;
  readonly ts: string | undefined;
  readonly dur: number;
}

export class Finder {
  private text = "";
  private matches: readonly Match[] = [];
  private at = -1;
  /** The interval that was gone to last. */
  private found: { ts: number } | undefined;

  constructor(private readonly app: App) {}

  /** Goes to the next match of a text; a new text begins at its first. */
  async next(text: string): Promise<void> {
    const words = text.trim();
    if (words === "") return;
    if (words !== this.app.state.filterText.trim()) this.app.setFilter(text);
    if (this.app.state.keyFilter) {
      await this.nextInterval(words);
      return;
    }
    if (words !== this.text) {
      this.matches = await this.find(words);
      this.text = words;
      this.at = -1;
    }
    if (this.matches.length === 0) {
      this.app.say(`no match for “${words}”`);
      return;
    }
    this.at = (this.at + 1) % this.matches.length;
    const match = this.matches[this.at]!;
    if (match.ts !== undefined) this.app.jump(match.track, this.app.model.rel(match.ts), match.dur);
    else {
      this.app.state.current = match.track;
      this.app.showTrack(match.track);
      this.app.redraw();
    }
  }

  /** With words about states: from interval to interval that has such a state, on the rows that there are. */
  private async nextInterval(words: string): Promise<void> {
    const { app } = this;
    const { model, state } = app;
    const keys = model.keys.filter((key) => state.keyFilter!(key)).map(({ key }) => key);
    const rows = app.rows.rows.flatMap((row) => (row.type === "track" && row.node.track.shape !== "numbers" ? [row.node.track.track] : [])).slice(0, MOST_TRACKS);
    if (keys.length === 0 || rows.length === 0) {
      app.say(`no state matches “${words}”`);
      return;
    }
    const from = this.found && state.chosen?.ts === this.found.ts ? this.found.ts + 1 : Math.max(state.view.from, model.whole.from);
    try {
      const ask = (at: number): ReturnType<App["api"]["next"]> => app.api.next(model.abs(Math.floor(at)), rows, keys);
      let answer = await ask(from);
      if (!answer.found && answer.complete && from > model.whole.from) {
        app.say("no further match: continuing from the start");
        answer = await ask(model.whole.from);
      }
      if (!answer.found) {
        app.say(answer.complete ? `no interval on these tracks matches “${words}”` : "too many intervals to search: zoom or scroll closer to the interval");
        return;
      }
      const { track, ts, dur } = answer.found;
      this.found = { ts: model.rel(ts) };
      app.jump(track, this.found.ts, Math.min(numberOf(dur) || 0, model.whole.to - model.whole.from));
    } catch (error) {
      app.fail(`search: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** The rows that the filter leaves; words that match none are asked from the server. */
  private async find(text: string): Promise<Match[]> {
    const { app } = this;
    // The box waits a moment before it filters; Enter does not.
    app.setFilter(text);
    const shown = app.rows.rows.filter((row) => row.type === "track" && app.state.trackFilter.matches(row.node)).map((row) => ({ track: row.node.track.track, ts: undefined, dur: 0 }));
    if (app.state.trackFilter.active && shown.length > 0) return shown;
    const answer = await app.api.search(text).catch((error: unknown): SearchAnswer => {
      app.fail(`search: ${error instanceof Error ? error.message : String(error)}`);
      return {};
    });
    app.setFilter("");
    const hits = (answer.hits ?? []).map(({ track, ts, dur }) => ({ track, ts, dur: numberOf(dur) || 0 }));
    return [...hits, ...(answer.tracks ?? []).map(({ track }) => ({ track, ts: undefined, dur: 0 }))];
  }
}
