// Enter in the filter box: from match to match. The server searches too, for what the page does not hold
// (moments, details of tables); what it finds is jumped to, tracks are shown and become current.
import type { SearchAnswer } from "../api/types.ts";
import { numberOf } from "../core/time.ts";
import type { App } from "./app.ts";

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

  constructor(private readonly app: App) {}

  /** Goes to the next match of a text; a new text begins at its first. */
  async next(text: string): Promise<void> {
    const words = text.trim();
    if (words === "") return;
    if (words !== this.text) {
      this.matches = await this.find(words);
      this.text = words;
      this.at = -1;
    }
    if (this.matches.length === 0) {
      this.app.say(`nothing is called “${words}”`);
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
