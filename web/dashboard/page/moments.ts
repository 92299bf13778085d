// The chosen moment: its windows in full, the snapshots near it, taking one. And what is asked now and then: status,
// snapshots, the sums that tables show.
import { ApiError } from "../../src/api/call.ts";
import { make, need, write } from "../../src/page/dom.ts";
import { ago, clock, moment as momentText } from "../core/clock.ts";
import type { Rel } from "../core/lanes.ts";
import { extentText, fragmentOf, nearestTo, takenOf, type Taken, type WallRange } from "../core/snapshots.ts";
import { api, viewPath } from "./api.ts";
import type { App } from "./app.ts";

/** Seconds that a snapshot asks for; more where the moment is further back, as many as the server allows. */
const SECONDS = 10;
const MOST_SECONDS = 600;
/** What came before a moment belongs to it. */
const BEFORE_S = 5;
const STATUS_EVERY_MS = 10_000;
/** Sums over a range are asked again when a thirtieth of it is over, at most so often. */
const TABLES_EVERY_MS = 10_000;
const TABLES: readonly ("machines" | "exit_windows" | "thread_windows" | "antagonists")[] = ["machines", "exit_windows", "thread_windows", "antagonists"];

/** What a client without the scope "read" is told. */
export const LOCKED = "Snapshots are recordings of single events: reading them needs a token with the scope “read”.";

export class Moments {
  taken: readonly Taken[] = [];
  /** This client may not read snapshots. */
  locked = false;
  private asking: AbortController | undefined;
  private summing: AbortController | undefined;
  private taking = false;
  private tablesAt = 0;
  /** What the tables are sums of; undefined while they are of a moment, or empty. */
  private summed: string | undefined;
  private asked = 0;

  constructor(private readonly app: App) {}

  get busy(): boolean {
    return this.asked > 0 || this.taking;
  }

  start(): void {
    this.refreshStatus();
    setInterval(() => this.refreshStatus(), STATUS_EVERY_MS);
    setInterval(() => this.app.following && this.app.moment === undefined && this.refreshTables(), TABLES_EVERY_MS);
  }

  refreshStatus(): void {
    const read = async (): Promise<void> => {
      const status = (this.app.status = await api.status());
      this.locked = status.scopes !== undefined && !status.scopes.includes("read");
      this.taken = this.locked ? [] : (await api.snapshots()).flatMap(takenOf).sort((a, b) => a.unix_ms - b.unix_ms);
    };
    void read().then(
      () => {
        this.app.panels.notices();
        this.bar();
        this.app.repaint();
      },
      // The feed tells what is wrong with the server; this is asked again.
      () => undefined,
    );
  }

  /** Chooses a moment, or lets go of it. */
  choose(at: Rel | undefined): void {
    const { app } = this;
    const { at_ms: _, ...rest } = app.seen;
    app.seen = rest;
    app.see(at === undefined ? {} : { at_ms: app.unixMs(at) });
    this.pickAgain();
  }

  /** To the bin before or after. */
  step(by: number): void {
    const { app } = this;
    const lanes = app.range?.actors;
    if (!lanes || lanes.length === 0) return;
    const at = app.moment === undefined ? undefined : lanes.at(app.moment);
    const next = at === undefined ? lanes.length - 1 : Math.min(lanes.length - 1, Math.max(0, at + by));
    const { from, to } = lanes.bin(next);
    this.choose((from + to) / 2);
    app.say(clock(app.unixMs(from)));
  }

  /** Asks for the windows of what is chosen now. */
  pickAgain(): void {
    const { app } = this;
    this.asking?.abort();
    this.bar();
    const bin = app.moment === undefined ? undefined : app.range?.actors.at(app.moment);
    if (app.moment === undefined || !app.range) {
      app.pick(app.newest ? [app.newest] : []);
      this.refreshTables();
      return;
    }
    if (bin === undefined || !app.range.actors.covers(app.moment)) {
      app.pick([]);
      this.summed = undefined;
      app.tableWindows = [];
      app.tableState = "No data for this time.";
      app.repaint();
      return;
    }
    const { from, to } = app.range.actors.bin(bin);
    this.ask(from + app.origin_ns, to + app.origin_ns);
  }

  private ask(from_unix_ns: number, until_unix_ns: number): void {
    const { app } = this;
    this.summed = undefined;
    const { signal } = (this.asking = new AbortController());
    this.asked++;
    app.tableState = "Loading …";
    app.feed
      .moment(from_unix_ns, until_unix_ns, signal)
      .then(
        (windows) => {
          app.tableState = windows.length === 0 ? "No data for this time." : undefined;
          app.pick(windows);
          app.tableWindows = windows;
        },
        (error: unknown) => {
          if (signal.aborted) return;
          // What was there before is of another time.
          app.tableWindows = [];
          app.tableState = error instanceof Error ? error.message : String(error);
        },
      )
      .finally(() => {
        this.asked--;
        this.bar();
        app.repaint();
      });
  }

  /** Sums of another range, VM or container than what is seen now go: they would stand under its title. */
  dropTables(): void {
    const { app } = this;
    if (app.moment !== undefined || this.summed === summedOf(app)) return;
    this.summing?.abort();
    this.summed = undefined;
    app.tableWindows = [];
    app.tableState = "Loading …";
  }

  /** The sums that the tables of a VM or container show. */
  refreshTables(): void {
    const { app } = this;
    if (app.seen.focus === undefined || app.moment !== undefined || !app.range) return;
    this.dropTables();
    const { from, to } = app.view;
    // Those that go on are nearly the same a moment later; longer ranges change slowly, and cost the server more.
    if (app.following && Date.now() - this.tablesAt < Math.max(TABLES_EVERY_MS * 0.9, (to - from) / 1e6 / 30) && app.tableWindows.length > 0) return;
    this.tablesAt = Date.now();
    this.summed = summedOf(app);
    this.summing?.abort();
    const { signal } = (this.summing = new AbortController());
    const { focus } = app.seen;
    this.asked++;
    if (app.tableWindows.length === 0) app.tableState = "Loading …";
    app.feed
      .stretch(from + app.origin_ns, to + app.origin_ns, TABLES, signal)
      .then(
        (windows) => {
          if (app.seen.focus !== focus || app.moment !== undefined) return;
          app.tableWindows = windows;
          app.tableState = undefined;
        },
        (error: unknown) => {
          if (!signal.aborted) app.tableState = error instanceof Error ? error.message : String(error);
        },
      )
      .finally(() => {
        this.asked--;
        app.repaint();
      });
  }

  /** The snapshot that is nearest to the moment (or to now). */
  nearest(): Taken | undefined {
    const { app } = this;
    return nearestTo(this.taken, app.moment === undefined ? Date.now() : app.unixMs(app.moment));
  }

  /** The range that was selected: the window of the selected time, or the range that is shown while it stands still. */
  private selected(): WallRange | undefined {
    const { app } = this;
    const bin = app.moment === undefined ? undefined : app.range?.actors.at(app.moment);
    if (app.moment !== undefined && bin === undefined) return undefined;
    if (bin === undefined && (app.following || !app.range)) return undefined;
    const { from, to } = bin === undefined ? app.view : app.range!.actors.bin(bin);
    return { from_ms: app.unixMs(from), until_ms: app.unixMs(to) };
  }

  /** The address of a snapshot in the timeline, at the range that was selected. */
  addressOf(taken: Taken): string {
    return viewPath(taken.id) + fragmentOf(taken, this.selected());
  }

  open(): void {
    if (this.locked) return this.app.panels.askToken(LOCKED);
    const nearest = this.nearest();
    if (!nearest) return this.app.panels.note("No snapshot yet. Press S to take one.", "");
    window.open(this.addressOf(nearest), "_blank", "noopener");
  }

  /** Takes a snapshot of the last seconds; then it can be opened. */
  async take(): Promise<void> {
    const { app } = this;
    if (this.taking) return;
    this.taking = true;
    this.bar();
    try {
      const at = app.moment === undefined ? "" : `, selected time ${clock(app.unixMs(app.moment))}`;
      const made = await api.take(this.seconds(), `dashboard${at}`);
      const taken = takenOf(made)[0] ?? { id: made.id, unix_ms: Date.now(), reason: "" };
      this.taken = [...this.taken.filter(({ id }) => id !== taken.id), taken];
      const link = make("a", { href: this.addressOf(taken), target: "_blank", rel: "noopener", class: "jump" }, "open it in the timeline");
      const extent = taken.extent ? ` (${extentText(taken, Date.now())})` : "";
      app.panels.note(`Snapshot ${taken.id}${extent} taken:`, "", link);
      app.say("Snapshot taken");
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) app.panels.askToken("Taking a snapshot needs a token with the scope “control”.");
      else app.panels.note(takeError(error), "bad");
    } finally {
      this.taking = false;
      this.bar();
      app.repaint();
    }
  }

  /** Since when the flight recorder has all events, ms since 1970. */
  private get reach_ms(): number | undefined {
    const snapshots = this.app.status?.snapshots;
    const ns = snapshots?.state === "off" ? undefined : snapshots?.reach_back_to_unix_ns;
    return typeof ns === "number" ? ns / 1e6 : undefined;
  }

  /** How far a snapshot that is taken now reaches back. */
  reachText(): string | undefined {
    return this.reach_ms === undefined ? undefined : ago(this.reach_ms, Date.now()).replace(" ago", "");
  }

  /** How much of the past a snapshot needs to have the moment. */
  private seconds(): number {
    const { app } = this;
    const since_s = app.moment === undefined ? 0 : (Date.now() - app.unixMs(app.moment)) / 1000 + BEFORE_S;
    return Math.max(SECONDS, Math.min(MOST_SECONDS, Math.ceil(since_s)));
  }

  /** The line under the header. */
  bar(): void {
    const { app } = this;
    const when = need("#when");
    const nearest = this.nearest();
    const open = need<HTMLButtonElement>("#b-open");
    open.disabled = nearest === undefined && !this.locked;
    write(open, nearest ? `Open snapshot of ${extentText(nearest, Date.now())}` : this.locked ? "Snapshots need a token" : "No snapshot yet");
    if (this.locked) open.title = LOCKED;
    if (nearest) open.title = `${nearest.reason || "snapshot"}: open it in the timeline (V)`;
    const snap = need<HTMLButtonElement>("#b-snap");
    snap.disabled = this.taking;
    const reach = this.reachText();
    if (reach !== undefined) snap.title = `Record the last ${this.seconds()} s in full (S). The flight recorder reaches back ${reach}`;
    write(snap, this.taking ? "Taking a snapshot …" : "Take a snapshot now");
    need("#b-let").hidden = app.moment === undefined;
    when.replaceChildren(...this.words());
  }

  private words(): (string | HTMLElement)[] {
    const { app } = this;
    const bin = app.range ? ` · windows of ${stepText(app)}` : "";
    if (app.moment === undefined) return [make("b", {}, app.following ? "Now" : "Range"), make("span", { class: "dim" }, `values for ${app.pickedText || "…"}${bin} · click a plot or press ← → to select a time`)];
    const at_ms = app.unixMs(app.moment);
    const reach = this.reachText();
    const isIn = this.reach_ms !== undefined && this.reach_ms <= at_ms;
    const back = reach === undefined ? "" : isIn ? ` · still in the flight recorder, which reaches back ${reach}` : ` · too old for a snapshot: the flight recorder reaches back ${reach}`;
    return [make("b", {}, `◈ ${momentText(at_ms, Date.now())}`), make("span", { class: "dim" }, `values, matrix and tables for this window${bin}${back}`)];
  }
}

/** A VM or container and a range of it: the same as long as it follows, or stands still. */
function summedOf({ seen: { focus, length_ns, until_ms } }: App): string {
  return JSON.stringify([focus, length_ns, until_ms]);
}

function stepText(app: App): string {
  const ns = app.range!.step_ns;
  return ns >= 60e9 ? `${Math.round(ns / 6e9) / 10} min` : `${Math.round(ns / 1e8) / 10} s`;
}

function takeError(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ApiError)) return text;
  if (error.status === 403) return `No snapshot: this token lacks the scope “control” (${text}). Use a control token.`;
  return `No snapshot: ${text}`;
}
