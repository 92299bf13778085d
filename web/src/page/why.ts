// "Why slow here": asks SQL for the critical path of a thread or vCPU, and keeps it.
import { CriticalPath, piecesOf, Places, type Piece } from "../core/path.ts";
import { blameOf, explainSql, findingsOf, sentencesOf, subjectOf, type Subject } from "../core/pathwords.ts";
import type { Track } from "../core/tracks.ts";
import type { Range } from "../core/view.ts";
import type { App } from "./app.ts";
import { need } from "./dom.ts";
import type { Explained } from "./state.ts";

/** Pieces of a path that are fetched; a longer path is cut, and the panel states it. */
export const MOST_PIECES = 100_000;
/** Other lines that are fetched: antagonists, findings. */
const MOST_LINES = 1000;

/** A thread or vCPU that can be explained, and its range. */
export interface Choice extends Range {
  readonly track: number;
}

export class Why {
  /** Threads and vCPUs of the selection, when there are several: the panel lists them. */
  choices: readonly Choice[] = [];
  private abort: AbortController | undefined;

  constructor(private readonly app: App) {}

  /** Explains the selected range, the selected interval, or the view of the current row. */
  start(): void {
    const choices = this.candidates();
    const current = choices.find(({ track }) => track === this.explainable(this.app.state.current));
    const only = choices.length === 1 ? choices[0] : current;
    if (only) return this.explain(only);
    this.clear();
    this.choices = choices;
    this.app.openDock("why");
    this.app.dock.refresh("why");
  }

  private candidates(): Choice[] {
    const { app } = this;
    const { selection, chosen, current, view } = app.state;
    const range = selection ?? (chosen ? { from: chosen.ts, to: chosen.ts + Math.max(chosen.dur, 1) } : view);
    const pointed = chosen?.track ?? current;
    const tracks = selection ? (selection.tracks ?? (this.explainable(pointed) === undefined ? app.tracksOnScreen() : [pointed!])) : pointed === undefined ? [] : [pointed];
    const found = new Set(tracks.map((track) => this.explainable(track)).filter((track) => track !== undefined));
    const whole = app.model.whole;
    return [...found].map((track) => ({ track, from: Math.max(Math.floor(range.from), whole.from), to: Math.min(Math.ceil(range.to), whole.to) }));
  }

  /** The thread or vCPU that a track belongs to: itself, or the track whose lane it is. */
  explainable(track: number | undefined): number | undefined {
    for (let node = track === undefined ? undefined : this.app.model.tree.nodes.get(track); node && !node.group; node = node.parent) {
      if (this.subject(node.track) !== undefined) return node.track.track;
    }
    return undefined;
  }

  private subject(track: Track): Subject | undefined {
    return track.shape === "numbers" ? undefined : subjectOf(track);
  }

  explain({ track, from, to }: Choice): void {
    const { app } = this;
    const node = app.model.tree.nodes.get(track);
    const subject = node && this.subject(node.track);
    if (!node || subject === undefined || to <= from) return;
    app.requests.drop();
    this.drop();
    const why: Explained = { track, from, to, errors: [] };
    app.state.why = why;
    app.state.current = track;
    app.openDock("why");
    app.dock.refresh("why");
    // The panel takes room, and an idle thread gets a row.
    app.relayout();
    if (!app.paths.isPinned(track)) app.showTrack(track);
    app.redraw();
    void this.fetch(why, node.track.machine_id, subject);
  }

  private async fetch(why: Explained, machine: number, subject: Subject): Promise<void> {
    const { app } = this;
    const { model } = app;
    const abort = (this.abort = new AbortController());
    const sql = explainSql(machine, subject, model.abs(why.from), model.abs(why.to));
    const ask = async (query: string, limit: number, take: (answer: Awaited<ReturnType<App["api"]["sql"]>>) => void): Promise<boolean> => {
      try {
        const answer = await app.api.sql(query, limit, abort.signal);
        if (!abort.signal.aborted) take(answer);
      } catch (error) {
        if (abort.signal.aborted) return false;
        const line = error instanceof Error ? error.message : String(error);
        if (!why.errors.includes(line)) why.errors.push(line);
      }
      if (abort.signal.aborted) return false;
      app.dock.why.update();
      app.redraw();
      return why.errors.length === 0;
    };
    const path = await ask(sql.path, MOST_PIECES, ({ table, truncated }) => this.take(why, piecesOf(table, (at) => model.rel(at)), truncated));
    if (!path) return;
    await ask(sql.sentences, MOST_LINES, ({ table }) => {
      why.sentences = sentencesOf(table);
      need("#says").textContent = why.sentences[0] ?? "";
    });
    await ask(sql.blame, MOST_LINES, ({ table }) => (why.blame = blameOf(table)));
    await ask(sql.findings, MOST_LINES, ({ table }) => (why.findings = findingsOf(table)));
  }

  private take(why: Explained, pieces: readonly Piece[], truncated: boolean): void {
    const { model } = this.app;
    why.places = new Places(model.tracks, model.info.machines);
    why.path = new CriticalPath(pieces, why.places, why.track);
    if (truncated) why.cut = pieces.at(-1)?.to ?? why.from;
    this.app.relayout();
  }

  /** More of the recording has been built: there are more tracks, and queries that failed may succeed. */
  renew(): void {
    const { why } = this.app.state;
    if (why && why.errors.length > 0) this.explain(why);
    else if (why?.path) this.take(why, why.path.pieces, why.cut !== undefined);
  }

  /** Removes the path. Returns whether there was one. */
  clear(): boolean {
    const { app } = this;
    const was = app.state.why !== undefined || this.choices.length > 0;
    this.drop();
    if (was) {
      app.relayout();
      app.dock.refresh("why");
    }
    return was;
  }

  /** Removes the path without a redraw. */
  drop(): void {
    this.abort?.abort();
    if (this.app.state.why) this.app.paths.unpin();
    this.choices = [];
    this.app.state.why = undefined;
  }
}
