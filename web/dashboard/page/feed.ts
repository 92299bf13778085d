// What comes from the server, when: the newest window by long polling, the range's windows when the range changes, and
// what is missed in between. Comes back by itself after whatever went wrong.
import { ApiError } from "../../src/api/call.ts";
import { Range } from "../core/collect.ts";
import { stepsFor } from "../core/steps.ts";
import type { HistoryJson, Table, WindowJson } from "../core/wire.ts";
import type { ActorId } from "../core/actors.ts";
import { api } from "./api.ts";

export const FINE: readonly Table[] = ["machines", "windows", "window_details", "cpu_windows", "io_windows", "container_windows", "findings", "health"];
export const COARSE: readonly Table[] = ["machines", "exit_windows", "antagonists"];
const LIVE: readonly Table[] = [...FINE, "exit_windows", "antagonists", "pressure_windows", "missing"];
const DETAIL: readonly Table[] = [...LIVE, "thread_windows"];

/** What went wrong, and since when. */
export interface Trouble {
  readonly kind: "gone" | "denied" | "other";
  readonly text: string;
  readonly since_ms: number;
}

/** Waits between attempts, ms; the last one goes on. */
const AGAIN_MS = [1000, 1000, 2000, 4000, 8000, 15_000];
/** The server answers a waiting client after 30 s at the latest. */
const PATIENCE_MS = 45_000;
/** Answers of history in pieces: the page draws in between. */
const PIECES = 4;

export interface Hears {
  /** A new window. */
  window(window: WindowJson): void;
  /** What is wrong; undefined: nothing any more. */
  troubled(trouble: Trouble | undefined): void;
  /** Something of a range came. */
  loaded(range: Range, done: boolean, error: string | undefined): void;
}

export interface Wish {
  readonly from_unix_ns: number;
  readonly until_unix_ns: number;
  readonly focus: ActorId | undefined;
  /** Columns that the widest plot has. */
  readonly columns: number;
}

/** More windows than these are asked for in one sum. */
const MOST_SINGLE = 10;

export class Feed {
  private polling: AbortController | undefined;
  private loading: AbortController | undefined;
  private failed = 0;
  private troubled: Trouble | undefined;
  private wake: (() => void) | undefined;
  /** Somebody wanted another attempt while one was under way. */
  private again = false;
  newest: WindowJson | undefined;
  private tables: ReadonlySet<string> | undefined;

  constructor(private readonly hears: Hears) {}

  /** Follows until the page ends. */
  async follow(): Promise<never> {
    for (;;) {
      this.again = false;
      try {
        await this.poll();
        this.failed = 0;
        this.tell(undefined);
      } catch (error) {
        this.tell(troubleOf(error));
        const wait = AGAIN_MS[Math.min(this.failed++, AGAIN_MS.length - 1)]!;
        if (this.again) continue;
        await new Promise<void>((done) => {
          this.wake = done;
          setTimeout(done, wait);
        });
        this.wake = undefined;
      }
    }
  }

  /** Tries again at once, or after the attempt that is under way: somebody gave a token, or the machine woke up. */
  retry(): void {
    this.again = true;
    this.wake?.();
  }

  private async poll(): Promise<void> {
    this.polling = new AbortController();
    const timer = setTimeout(() => this.polling?.abort(new DOMException("no response in time", "TimeoutError")), PATIENCE_MS);
    // After a failure the server may be another one, whose trace time began anew: what it has is asked for without a condition.
    const after = this.failed > 0 || !this.newest ? undefined : this.newest.ts;
    try {
      // The first answer has all tables that this server knows; older ones know fewer.
      const window = await api.now(this.newest ? this.known(LIVE) : [], after, this.polling.signal);
      // Nothing newer in 30 s: windows may be that long.
      if (window === undefined) return;
      if (this.newest && window.ended_unix_ns <= this.newest.ended_unix_ns) {
        // It came at once: this is no answer that was waited for.
        await new Promise((done) => setTimeout(done, 500));
        return;
      }
      if (!this.newest) this.tables = new Set(Object.keys(window));
      this.newest = window;
      this.hears.window(window);
    } finally {
      clearTimeout(timer);
    }
  }

  private known(tables: readonly Table[]): readonly Table[] {
    return this.tables ? tables.filter((table) => this.tables!.has(table)) : tables;
  }

  private tell(trouble: Trouble | undefined): void {
    const same = trouble?.kind === this.troubled?.kind && trouble?.text === this.troubled?.text;
    if (same) return;
    this.troubled = trouble && this.troubled ? { ...trouble, since_ms: this.troubled.since_ms } : trouble;
    this.hears.troubled(this.troubled);
  }

  /** Loads a range anew; what was under way is dropped. */
  load(wish: Wish): void {
    this.loading?.abort();
    const abort = (this.loading = new AbortController());
    void this.loadPieces(wish, abort.signal);
  }

  private async loadPieces(wish: Wish, signal: AbortSignal): Promise<void> {
    const { newest } = this;
    if (!newest) return;
    const window_ns = newest.dur;
    const length_ns = wish.until_unix_ns - wish.from_unix_ns;
    const rows = { fine: rowsOf(newest, FINE), coarse: rowsOf(newest, COARSE) };
    const { fine_ns, coarse_ns } = stepsFor(length_ns, window_ns, rows, wish.columns);
    // The server's steps begin at multiples of their length: so do the pieces, or steps would be cut.
    const first = Math.floor(wish.from_unix_ns / fine_ns) * fine_ns;
    const range = new Range({ unix_ns: first }, fine_ns, coarse_ns, wish.focus);
    try {
      const coarse = api.history(first, wish.until_unix_ns, coarse_ns, this.known(COARSE), signal);
      coarse.catch(() => undefined);
      const edges = Array.from({ length: PIECES + 1 }, (_, i) => (i === PIECES ? wish.until_unix_ns : first + Math.floor((length_ns * i) / PIECES / fine_ns) * fine_ns));
      for (let piece = 0; piece < PIECES; piece++) {
        const [from, until] = [edges[piece]!, edges[piece + 1]!];
        if (until <= from) continue;
        takeFine(range, await api.history(from, until, fine_ns, this.known(FINE), signal));
        if (signal.aborted) return;
        this.hears.loaded(range, false, undefined);
      }
      takeCoarse(range, await coarse);
      if (!signal.aborted) this.hears.loaded(range, true, undefined);
    } catch (error) {
      if (!signal.aborted) this.hears.loaded(range, true, error instanceof Error ? error.message : String(error));
    }
  }

  /** Windows that this page did not hear of, merged to the range's steps. */
  async missed(range: Range, from_unix_ns: number, until_unix_ns: number): Promise<void> {
    const [fine, coarse] = await Promise.all([api.history(from_unix_ns, until_unix_ns, range.step_ns, this.known(FINE)), api.history(from_unix_ns, until_unix_ns, range.coarse_ns, this.known(COARSE))]);
    takeFine(range, fine);
    takeCoarse(range, coarse);
  }

  /** Everything of a short stretch, merged: a moment. Or the sums of a range for its tables. */
  async stretch(from_unix_ns: number, until_unix_ns: number, tables: readonly Table[], signal: AbortSignal): Promise<readonly WindowJson[]> {
    const window_ns = this.newest?.dur ?? 1e9;
    const step_ns = Math.max(1, Math.ceil((until_unix_ns - from_unix_ns) / window_ns)) * window_ns;
    return (await api.history(from_unix_ns, until_unix_ns, step_ns, this.known(tables), signal)).windows;
  }

  /**
   * The windows of a bin, one by one where they are few: edges of windows are known to some µs of the wall clock, so that a bin of
   * one may seem longer than one, and steps begin at multiples of their length, which bins do not. A window is in the bin that
   * its middle is in.
   */
  async moment(from_unix_ns: number, until_unix_ns: number, signal: AbortSignal): Promise<readonly WindowJson[]> {
    const window_ns = this.newest?.dur ?? 1e9;
    if (until_unix_ns - from_unix_ns > MOST_SINGLE * window_ns) return this.stretch(from_unix_ns, until_unix_ns, DETAIL, signal);
    const { windows } = await api.history(from_unix_ns, until_unix_ns, window_ns, this.known(DETAIL), signal);
    return windows.filter((window) => {
      const middle = window.ended_unix_ns - window.dur / 2;
      return from_unix_ns <= middle && middle < until_unix_ns;
    });
  }
}

function takeFine(range: Range, answer: HistoryJson): void {
  for (const window of answer.windows) range.addFine(window);
  range.damage.addFine(answer.gone);
}

function takeCoarse(range: Range, answer: HistoryJson): void {
  for (const window of answer.windows) range.addCoarse(window);
  range.damage.addCoarse(answer.gone);
}

function rowsOf(window: WindowJson, tables: readonly Table[]): number {
  return tables.reduce((sum, table) => {
    const rows = window[table];
    return sum + (Array.isArray(rows) ? rows.length : 1);
  }, 0);
}

export function troubleOf(error: unknown): Trouble {
  const since_ms = Date.now();
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof ApiError && error.status === 401) return { kind: "denied", text, since_ms };
  if (error instanceof ApiError && error.status !== 0) return { kind: "other", text, since_ms };
  return { kind: "gone", text: "The server does not respond", since_ms };
}
