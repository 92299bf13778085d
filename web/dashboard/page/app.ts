// The page's state, and what changes it. Panels read it; every change asks for one frame.
import { make, memory, need } from "../../src/page/dom.ts";
import { Meter } from "../../src/page/meter.ts";
import { percent } from "../../src/core/format.ts";
import type { Theme } from "../../src/core/palette.ts";
import { actorOf, Machines, type Actor, type ActorId } from "../core/actors.ts";
import { clock, moment as momentText } from "../core/clock.ts";
import { Range, spanOf } from "../core/collect.ts";
import { windowsText } from "../core/damage.ts";
import type { Lanes, Rel } from "../core/lanes.ts";
import { ORDERS, SHOWN, type Order } from "../core/rows.ts";
import { lengthText } from "../core/steps.ts";
import { decode, encode, type Linked } from "../core/url.ts";
import type { MissingRow, PressureRow, WindowJson } from "../core/wire.ts";
import type { StatusJson } from "./api.ts";
import { Feed, type Hears, type Trouble } from "./feed.ts";
import type { Taken } from "../core/snapshots.ts";
import { Moments } from "./moments.ts";
import { Panels } from "./panels.ts";

/** Bins per column of the widest plot, at least one in so many CSS pixels. */
const PIXELS_PER_BIN = 2;
const FEWEST_BINS = 240;
const MOST_BINS = 900;

export class App implements Hears {
  readonly feed = new Feed(this);
  readonly meter = new Meter();
  readonly moments: Moments;
  readonly panels: Panels;
  seen: Linked;
  theme: Theme = "dark";
  rem = 13;
  status: StatusJson | undefined;
  trouble: Trouble | undefined;
  /** All bins of what is seen. */
  range: Range | undefined;
  rangeError: string | undefined;
  private loading = false;
  /** Goes up with every read of a range or of what was missed in it: only the last one's end counts. */
  private reads = 0;
  newest: WindowJson | undefined;
  machines = new Machines();
  /** Windows that came while a range was being loaded. */
  private pending: WindowJson[] = [];
  /** Numbers of the newest window, or of the chosen moment. */
  picked: Range | undefined;
  pickedWindows: readonly WindowJson[] = [];
  /** What tables are made of: the moment's windows, or sums over the range. */
  tableWindows: readonly WindowJson[] = [];
  tableState: string | undefined;
  moment: Rel | undefined;
  private frame = 0;
  private later = 0;
  /** Goes up with everything that came from the server: what was made of it before is stale. */
  changes = 0;
  private readonly colours = new Map<string, string>();

  constructor() {
    this.seen = decode(location.hash);
    this.moments = new Moments(this);
    this.retheme();
    this.panels = new Panels(this);
    this.applySeen();
  }

  // Time.

  get origin_ns(): number {
    return this.range?.origin.unix_ns ?? 0;
  }

  unixMs(at: Rel): number {
    return (at + this.origin_ns) / 1e6;
  }

  relOf(unix_ms: number): Rel {
    return unix_ms * 1e6 - this.origin_ns;
  }

  get following(): boolean {
    return this.seen.until_ms === undefined;
  }

  /** Up to when something could be known: the end of the newest window, or now if none comes any more. */
  get knownTo(): Rel {
    const newest = this.newest ? this.newest.ended_unix_ns - this.origin_ns : 0;
    return this.trouble && this.range ? Math.max(newest, this.relOf(Date.now())) : newest;
  }

  /** From when on everything there is has been loaded. */
  get loadedFrom(): Rel {
    return 0;
  }

  /** Up to when what there is has been loaded: while a range comes, as far as it has come. */
  loadedTo(lanes: Lanes): Rel {
    return this.loading && !this.range?.whole ? lanes.newest ?? 0 : this.knownTo;
  }

  get view(): { from: Rel; to: Rel } {
    const to = this.seen.until_ms === undefined ? this.knownTo : this.relOf(this.seen.until_ms);
    return { from: to - this.seen.length_ns, to };
  }

  // What comes from the server.

  window(window: WindowJson): void {
    const first = this.newest === undefined;
    this.newest = window;
    this.changes++;
    this.machines = new Machines(window.machines);
    if (first) this.reload();
    else this.take(window);
    if (this.moment === undefined) this.pick([window]);
    this.repaint();
  }

  /** Puts a window behind what is there, or keeps it while something is being read. */
  private take(window: WindowJson): void {
    if (this.loading) this.pending.push(window);
    else if (this.following) this.append(window);
  }

  private takePending(): void {
    // One of them may find that more has to be read first: then it and those behind it wait again.
    const { pending } = this;
    this.pending = [];
    for (const window of pending) this.take(window);
  }

  private append(window: WindowJson): void {
    const { range } = this;
    if (!range) return;
    const last = range.actors.newest;
    const span = spanOf(window, range.origin);
    // Windows went by while this page did not look: they are in the history.
    if (last !== undefined && span.from - last > (0.5 + (window.missed_windows ?? 0)) * window.dur) return this.catchUp(range, last, span.from, window);
    range.addFine(window);
    range.addCoarse(window);
    range.trim(this.view.from - range.coarse_ns);
  }

  private catchUp(range: Range, from: Rel, to: Rel, window: WindowJson): void {
    if (to - from > this.seen.length_ns) return this.reload();
    this.loading = true;
    const read = ++this.reads;
    const over = (): void => {
      if (read !== this.reads) return;
      this.loading = false;
      // What could not be had of it stays a gap: it is not asked for again.
      range.addFine(window);
      range.addCoarse(window);
      this.takePending();
      this.repaint();
    };
    this.feed.missed(range, from + range.origin.unix_ns, to + range.origin.unix_ns).then(over, over);
  }

  loaded(range: Range, done: boolean, error: string | undefined): void {
    this.rangeError = error;
    // What is under way replaces what is seen when it has something to show: at once if nothing is seen yet.
    if (done || this.range === undefined || this.range.focus !== range.focus) this.setRange(range);
    range.whole = done;
    this.changes++;
    if (done) {
      this.loading = false;
      this.takePending();
      if (this.moment === undefined) this.moments.refreshTables();
      else this.moments.pickAgain();
    }
    this.panels.notices();
    this.repaint();
  }

  private setRange(range: Range): void {
    const at_ms = this.seen.at_ms;
    this.changes++;
    this.range = range;
    this.moment = at_ms === undefined ? undefined : this.relOf(at_ms);
    if (this.pickedWindows.length > 0) this.pick(this.pickedWindows);
  }

  /** Reads the range anew. */
  reload(): void {
    if (!this.newest) return;
    this.loading = true;
    this.reads++;
    this.pending = [];
    this.moments.dropTables();
    const until = this.seen.until_ms === undefined ? this.newest.ended_unix_ns + 1 : this.seen.until_ms * 1e6;
    const columns = Math.min(MOST_BINS, Math.max(FEWEST_BINS, Math.floor(this.panels.widest / PIXELS_PER_BIN)));
    this.feed.load({ from_unix_ns: until - this.seen.length_ns, until_unix_ns: until, focus: this.seen.focus, columns });
    this.panels.notices();
  }

  troubled(trouble: Trouble | undefined): void {
    const back = this.trouble !== undefined && trouble === undefined;
    this.trouble = trouble;
    if (back) {
      this.reload();
      this.moments.refreshStatus();
    }
    this.panels.notices();
    this.repaint();
  }

  /** Numbers are those of these windows. */
  pick(windows: readonly WindowJson[]): void {
    this.pickedWindows = windows;
    const origin = { unix_ns: this.origin_ns };
    const picked = new Range(origin, Infinity, Infinity, this.seen.focus);
    for (const window of windows) {
      picked.addFine(window);
      picked.addCoarse(window);
    }
    this.picked = picked;
  }

  get pickedMeasured(): number {
    return this.pickedWindows.reduce((sum, window) => sum + window.dur, 0);
  }

  get tableMeasured(): number {
    return this.tableWindows.reduce((sum, window) => sum + window.dur, 0);
  }

  // Words.

  /** What the numbers are of. */
  get pickedText(): string {
    const measured = lengthText(this.pickedMeasured);
    if (this.pickedWindows.length === 0) return "";
    return this.moment === undefined ? `the last ${measured}` : `${clock(this.unixMs(this.moment))}, ${measured}`;
  }

  /** What matrices and tables are of. */
  get sumText(): string {
    if (this.moment !== undefined) return this.pickedText;
    const length = lengthText(this.seen.length_ns);
    return this.following ? `the last ${length}` : `${length} to ${momentText(this.seen.until_ms!, Date.now())}`;
  }

  /** A VM, vCPU or container as people call it. */
  actor(id: ActorId): Actor {
    return actorOf(id, this.range?.labels);
  }

  /** What a container is held back by now, if by much. */
  pressureText(id: ActorId): string {
    if (!id.startsWith("cg:")) return "";
    const row = this.pressureOf(id.slice(3));
    const throttled = row?.periods ? (row.periods_throttled ?? 0) / row.periods : 0;
    return throttled > 0 ? `throttled ${percent(throttled)}` : "";
  }

  pressureOf(cgroup: string): PressureRow | undefined {
    const last = this.pickedWindows[this.pickedWindows.length - 1];
    return last?.pressure_windows?.find((row) => row.cgroup === cgroup);
  }

  get snapshots(): readonly Taken[] {
    return this.moments.taken;
  }

  titleNote(text: string): HTMLElement {
    return make("span", { class: "note" }, text);
  }

  missing(metric: string): MissingRow | undefined {
    return this.newest?.missing?.find((row) => row.metric === metric && (row.machine_id === null || row.machine_id === undefined));
  }

  /** Why a panel is empty: it cannot be had, or there is nothing. */
  whyNo(metric: string, otherwise: string): string {
    const row = this.missing(metric);
    if (row) return `Not available on this host: ${row.why}`;
    return this.range && !this.loading ? otherwise : this.waitingText;
  }

  noExits(): string {
    if (this.seen.focus?.startsWith("cg:")) return "A container has no VM exits of its own.";
    return this.whyNo("exits", "No VM exits in this range.");
  }

  get waitingText(): string {
    if (this.rangeError) return this.rangeError;
    if (this.trouble) return this.trouble.text;
    return this.range && !this.loading ? "No data for this range." : "Loading …";
  }

  /** What is wrong with the history, and what to do. */
  get historyTrouble(): string | undefined {
    const history = this.status?.history;
    const why = history?.why ? ` (${history.why})` : "";
    if (history?.state === "full") return `The history is full${why}: live windows continue, but new windows are not stored. Free space or lower the limit in the configuration.`;
    if (history?.state === "failed") return `The history cannot be written${why}: live windows continue, but new windows are not stored.`;
    return undefined;
  }

  /** How much of the range is damaged in the history. */
  get damageText(): string | undefined {
    const { from, to } = this.view;
    const windows = this.range?.damage.windows(from, to) ?? 0;
    return windows > 0 ? `${windowsText(windows)} of this range ${windows === 1 ? "is" : "are"} damaged and left out.` : undefined;
  }

  knows(id: ActorId): boolean {
    return this.range?.actors.lane(id) !== undefined;
  }

  say(text: string): void {
    need("#says").textContent = text;
  }

  css(name: string): string {
    let value = this.colours.get(name);
    if (value === undefined) this.colours.set(name, (value = getComputedStyle(document.documentElement).getPropertyValue(name).trim()));
    return value;
  }

  // What the user changes.

  /** Changes what is seen; `reload`: other windows are needed. */
  see(change: Partial<Linked>, reload = false): void {
    this.seen = { ...this.seen, ...change };
    this.applySeen();
    if (reload) this.reload();
    this.link();
    this.repaint();
  }

  private link(): void {
    const fragment = encode(this.seen);
    history.replaceState(null, "", location.pathname + (fragment ? `#${fragment}` : ""));
  }

  /** Somebody changed the address. */
  readAddress(): void {
    if (location.hash.slice(1) === encode(this.seen)) return;
    this.seen = decode(location.hash);
    this.applySeen();
    this.reload();
    this.moments.pickAgain();
    this.repaint();
  }

  private applySeen(): void {
    this.moment = this.seen.at_ms === undefined || !this.range ? undefined : this.relOf(this.seen.at_ms);
    this.panels.arrange();
  }

  open(id: ActorId): void {
    const { kind } = actorOf(id);
    if (kind === "vcpu" || id === this.seen.focus) return;
    this.tableWindows = [];
    this.see({ focus: id }, true);
    this.say(this.actor(id).name);
  }

  back(): void {
    const { focus: _, ...rest } = this.seen;
    this.tableWindows = [];
    this.seen = rest;
    this.see({}, true);
  }

  setLength(length_ns: number): void {
    this.see({ length_ns }, true);
  }

  /** Shows up to this moment, or follows (undefined). */
  showUntil(until_ms: number | undefined): void {
    const { until_ms: _, ...rest } = this.seen;
    this.seen = rest;
    // What is now or later is what follows.
    const live = until_ms === undefined;
    this.see(live ? {} : { until_ms: Math.min(until_ms, this.unixMs(this.knownTo)) }, true);
  }

  pause(): void {
    if (!this.following) return this.showUntil(undefined);
    const to = this.unixMs(this.view.to);
    // What is seen stays as it is: nothing has to be read again.
    this.see({ until_ms: to });
  }

  setOrder(order: Order): void {
    this.see({ order });
    this.say(`sorted by ${order}`);
  }

  nextOrder(): void {
    this.setOrder(ORDERS[(ORDERS.indexOf(this.seen.order) + 1) % ORDERS.length]!);
  }

  nextShown(): void {
    this.see({ shown: SHOWN[(SHOWN.indexOf(this.seen.shown) + 1) % SHOWN.length]! });
  }

  // Drawing.

  retheme(theme?: Theme): void {
    const remembered = memory.get("theme");
    const preferred = window.matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
    this.theme = theme ?? (remembered === "light" || remembered === "dark" ? remembered : preferred);
    document.documentElement.dataset["theme"] = this.theme;
    this.colours.clear();
    this.repaint();
  }

  repaint(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paintNow();
    });
  }

  /** Draws again when nothing has moved for a while, for what is not made anew in every frame. */
  repaintLater(ms: number): void {
    clearTimeout(this.later);
    this.later = window.setTimeout(() => {
      this.later = 0;
      this.repaint();
    }, ms);
  }

  /** Draws everything that is shown, and notes how long that took. */
  paintNow(): void {
    const began = performance.now();
    this.panels.paint();
    this.meter.frame(performance.now() - began);
  }

  /** For tests: nothing is being loaded, everything is drawn. */
  get idle(): boolean {
    return !this.loading && this.frame === 0 && this.later === 0 && this.range !== undefined && !this.moments.busy;
  }
}
