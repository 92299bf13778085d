// The page: holds the state, changes it on commands, and draws a frame when something changed. Drawing
// itself is stage.ts, overlay.ts and names.ts; deciding anything about time is core/.
import { api } from "../api/client.ts";
import type { BuildState } from "../api/types.ts";
import { TileCache } from "../core/cache.ts";
import { parseFilter } from "../core/filter.ts";
import { duration } from "../core/format.ts";
import { hitAt, type Hit } from "../core/hit.ts";
import { tileNs, overviewLevel } from "../core/levels.ts";
import { minimapLevel } from "../core/minimap.ts";
import { ahead, type TileRequest, type Wish } from "../core/plan.ts";
import { hex, maskOf, stackingOrder, type Paints } from "../core/palette.ts";
import type { Target } from "../core/rows.ts";
import { numberOf, type Rel } from "../core/time.ts";
import { between, clamp, fit, History, isSame, reveal, spanOf, type Range } from "../core/view.ts";
import type { Command } from "../core/keymap.ts";
import { runCommand } from "./commands.ts";
import { debounced, memory, need } from "./dom.ts";
import { Busy } from "./busy.ts";
import { Dock } from "./dock.ts";
import { pictureOf, exportPng, exportSvg } from "./exports.ts";
import { Flows } from "./flows.ts";
import { Links } from "./links.ts";
import { Loader } from "./loader.ts";
import { showMachines } from "./machines.ts";
import { Meter } from "./meter.ts";
import { MinimapView } from "./minimapview.ts";
import { Model } from "./model.ts";
import { Names } from "./names.ts";
import { Overlay } from "./overlay.ts";
import { fail, notice, say } from "./notices.ts";
import { PathView } from "./pathview.ts";
import { patternImage } from "./patterns.ts";
import { showProgress } from "./progress.ts";
import { Requests } from "./requests.ts";
import { Rows, type Placed } from "./rows.ts";
import { ROUGH_MS, Stage } from "./stage.ts";
import { State, type DockTab } from "./state.ts";
import { Tip } from "./tip.ts";
import { Why } from "./why.ts";

/** What tiles may keep alive: half of the 200 MiB the whole page is allowed. */
const CACHE_BYTES = 96 << 20;
const GLIDE_MS = 130;
/** How long after the last move a view still counts as moving. */
const MOVING_MS = 80;

export class App {
  readonly api = api;
  readonly state = new State();
  readonly history = new History();
  readonly rows = new Rows();
  readonly cache = new TileCache(CACHE_BYTES);
  readonly stage = new Stage(need<HTMLCanvasElement>("#raster"));
  readonly overlay = new Overlay(need("#overlay"), need("#ruler"), need("#viewbox"), need("#base"));
  readonly meter = new Meter();
  readonly why = new Why(this);
  readonly requests = new Requests(this);
  readonly paths = new PathView(this);
  readonly dock: Dock;
  readonly loader: Loader;
  paints!: Paints;
  private readonly names = new Names(need("#names"), (placed, pin) => this.clickName(placed, pin));
  private readonly minimap = new MinimapView(need<HTMLCanvasElement>("#minimap canvas"));
  private readonly flows = new Flows(this);
  private readonly busy = new Busy(this);
  private readonly tip = new Tip(need("#tip"));
  private readonly scroller = need("#scroll");
  private readonly stageElement = need("#stage");
  private readonly links = new Links(this);
  private readonly writeUrl = debounced(250, () => this.links.write());
  private readonly settle = debounced(90, () => this.settled());
  private frame = 0;
  private dirty = true;
  /** When the view was last moved, what the last frame's work was, and whether it was a rough one. */
  private moved_ms = -Infinity;
  private lastWork_ms = 0;
  private rough = false;
  private glide: { from: Range; to: Range; start: number } | undefined;

  constructor(public model: Model) {
    this.loader = new Loader(this.cache, () => this.model.origin, (request) => this.tilesCame(request), (line) => this.fail(line), () => this.follow());
    this.loader.setOrder(stackingOrder(model.keys));
    const theme = memory.get("theme");
    this.state.theme = theme === "light" || theme === "dark" ? theme : matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
    const width = Number(memory.get("names"));
    if (width > 100) this.setNamesWidth(width);
    this.dock = new Dock(this);
    this.state.view = clamp(model.opening, model.whole);
    this.links.read();
    this.retheme();
    this.refilter();
    this.scroller.addEventListener("scroll", () => {
      this.scrollTop = this.scroller.scrollTop;
      this.redraw();
    });
    window.addEventListener("hashchange", () => this.links.read());
    new ResizeObserver(() => this.resized()).observe(this.stageElement);
    this.resized();
  }

  // ---- the recording

  /** The recording's description was read again. */
  renewed: () => void = () => undefined;

  /** Hears how far the building of tiles is, until it is over. */
  follow: () => void = () => undefined;

  /** Is the recording's description being read again? */
  renewing: () => boolean = () => false;

  /** More of the recording has been built: its description and tracks are read again. */
  renew(model: Model): void {
    const first = this.model.tracks.length === 0;
    const opening = first || isSame(this.state.view, clamp(this.model.opening, this.model.whole));
    const whole = this.state.view.from <= this.model.home.from && this.state.view.to >= this.model.home.to;
    const sameOrigin = this.model.origin === model.origin && this.model.tracks.length === model.tracks.length;
    this.model = model;
    this.loader.setOrder(stackingOrder(model.keys));
    this.busy.forget();
    if (!sameOrigin) this.cache.clear();
    if (opening || whole) this.state.view = clamp(opening ? model.opening : model.home, model.whole);
    if (first) this.links.read();
    this.retheme();
    this.refilter();
    this.loader.retry();
    this.why.renew();
    this.requests.renew();
    this.renewed();
  }

  private tilesCame(request?: TileRequest): void {
    const own = request && request.level === minimapLevel(this.model.home, Math.max(this.width, 1)) && request.tracks.some((track) => this.model.cpuTracks.includes(track));
    if (own) this.minimap.stale = true;
    this.redraw();
  }

  // ---- drawing

  /** The stage's size in CSS pixels. Kept, because asking the browser makes it lay out the page. */
  width = 0;
  height = 0;

  /** How far the rows are scrolled; kept for the same reason. */
  scrollTop = 0;

  /** Sizes changed. */
  resized(): void {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = this.stageElement.clientWidth;
    this.height = this.stageElement.clientHeight;
    if (this.width < 1 || this.height < 1) return;
    this.stage.resize(this.width, this.height, ratio);
    this.overlay.resize(this.width, this.height, ratio);
    this.minimap.resize(this.width, 34, ratio);
    need("#time").style.setProperty("--bar-width", `${this.scroller.offsetWidth - this.scroller.clientWidth}px`);
    this.redraw();
  }

  /** Asks for a frame. */
  redraw(): void {
    this.dirty = true;
    this.schedule();
  }

  private schedule(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  private draw(now: number): void {
    this.frame = 0;
    const begun = performance.now();
    this.glideStep(now);
    const { model, state } = this;
    const visible = this.rows.visible(this.scrollTop, this.height);
    if (this.dirty) {
      this.cache.nextFrame();
      // Once rough it stays so until frames have become cheap, or it would flicker.
      const dear = this.lastWork_ms > (this.rough ? ROUGH_MS / 3 : ROUGH_MS);
      const rough = dear && begun - this.moved_ms < MOVING_MS;
      this.stage.draw(model, this.cache, state.view, visible, this.paints, state.theme, state.current, rough);
      this.rough = rough;
      this.names.update(visible, model.hues(state.theme), state.current, state.pinned);
      this.minimap.draw(model, this.cache, this.paints, state.theme, this.loader.busy);
      need("#span").textContent = duration(spanOf(state.view), model.unit);
      this.loader.want(this.wishes(visible), model.whole);
      this.cache.trim();
      this.settle();
    }
    this.overlay.draw(model, state, this.rows, visible, this.scrollTop);
    this.dirty = false;
    this.lastWork_ms = performance.now() - begun;
    this.meter.frame(this.lastWork_ms);
    if (this.glide) this.redraw();
  }

  /** What to fetch: what is seen, then a coarse picture of it all, then what a pan would show. */
  private wishes(visible: readonly Placed[]): Wish[] {
    const { view } = this.state;
    const { whole } = this.model;
    const tracks = visible.flatMap(({ row }) => (row.type === "track" ? [row.node.track.track] : row.strips.map((strip) => strip.track.track)));
    const level = this.stage.level(view);
    const coarse = Math.max(overviewLevel(whole), level);
    return [
      { tracks, range: view, level },
      { tracks: this.model.cpuTracks, range: this.model.home, level: minimapLevel(this.model.home, Math.max(this.width, 1)) },
      { tracks, range: whole, level: coarse },
      ...(tileNs(level) * 4 < spanOf(whole) ? [{ tracks, range: ahead(view), level }] : []),
    ];
  }

  /** Things have been quiet: write what is too dear for every frame. */
  private settled(): void {
    if (this.rough) {
      this.moved_ms = -Infinity;
      this.redraw();
      return;
    }
    if (this.minimap.stale) setTimeout(() => this.redraw(), 300);
    this.summarise();
    this.flows.update();
    this.busy.update();
    this.writeUrl();
  }

  /** Resolves when the newest description and all tiles of the view are there and drawn. For scripts and tests. */
  async idle(): Promise<void> {
    do {
      await new Promise((done) => setTimeout(done, 40));
      this.busy.hurry();
    } while (this.renewing() || this.loader.busy || this.frame !== 0 || this.glide !== undefined || this.rough || this.minimap.stale || this.busy.waits);
    this.summarise();
  }

  private summarise(): void {
    const visible = this.rows.visible(this.scrollTop, this.height);
    this.names.summarise(this.stage.summaries(this.model, this.cache, this.state.view, visible, this.paints));
  }

  // ---- moving

  timeAt(x: number): Rel {
    return this.state.view.from + (x / Math.max(this.width, 1)) * spanOf(this.state.view);
  }

  /** Where keyboard commands act: under the pointer, else in the middle. */
  get focusTime(): Rel {
    return this.timeAt(this.state.pointer?.x ?? this.width / 2);
  }

  setView(view: Range): void {
    this.glide = undefined;
    this.moved_ms = performance.now();
    this.history.leave(this.state.view, performance.now());
    this.state.view = clamp(view, this.model.whole);
    this.redraw();
  }

  /** Moves there in an eighth of a second, so that the eye can follow. */
  glideTo(view: Range, remember: "step" | "jump" | "no" = "jump"): void {
    const target = clamp(view, this.model.whole);
    if (remember !== "no") this.history.leave(this.goal, performance.now(), remember === "jump");
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.state.view = target;
    else this.glide = { from: this.state.view, to: target, start: performance.now() };
    this.redraw();
  }

  /** Where the view is going, if it is moving. */
  get goal(): Range {
    return this.glide?.to ?? this.state.view;
  }

  private glideStep(now: number): void {
    if (!this.glide) return;
    const share = Math.min(1, Math.max(0, (now - this.glide.start) / GLIDE_MS));
    const eased = 1 - Math.pow(1 - share, 3);
    this.moved_ms = now;
    this.state.view = between(this.glide.from, this.glide.to, eased);
    if (share >= 1) this.glide = undefined;
    this.dirty = true;
  }

  goTo(at: Rel): void {
    this.glideTo(reveal(this.state.view, { from: at, to: at + 1 }, this.model.whole));
  }

  scrollTo(top: number): void {
    this.scroller.scrollTop = top;
    this.scrollTop = this.scroller.scrollTop;
    this.redraw();
  }

  setNamesWidth(width: number): void {
    const kept = Math.min(Math.max(width, 110), window.innerWidth * 0.6);
    document.documentElement.style.setProperty("--names", `${kept}px`);
    memory.set("names", String(Math.round(kept)));
  }

  // ---- pointing and choosing

  pointAt(point: { x: number; y: number } | undefined): void {
    this.state.pointer = point;
    if (point) this.tip.show(this, point, this.hit(point.x, point.y));
    else this.tip.hide();
    this.schedule();
  }

  /** What is under a point of the stage. */
  hit(x: number, y: number): { hit: Hit; placed: Placed } | undefined {
    const placed = this.rows.at(y, this.scrollTop);
    if (!placed || placed.row.type !== "track") return undefined;
    const slack = (spanOf(this.state.view) / Math.max(this.width, 1)) * 2;
    const hit = hitAt(this.cache, placed.row.node.track.track, this.stage.level(this.state.view), this.timeAt(x), slack, this.model.whole);
    return { hit, placed };
  }

  click(x: number, y: number): void {
    const placed = this.rows.at(y, this.scrollTop);
    const found = this.hit(x, y);
    this.clearSelection();
    if (placed) this.state.current = placed.row.node.track.track;
    if (!found || found.hit.kind === "nothing") this.choose(undefined);
    else if (found.hit.kind === "interval") this.choose({ track: found.placed.row.node.track.track, ...found.hit.interval });
    else this.chooseAt(found.placed.row.node.track.track, this.timeAt(x));
    this.redraw();
  }

  zoomToInterval(x: number, y: number): void {
    const found = this.hit(x, y);
    if (found?.hit.kind === "interval") this.glideTo(fit({ from: found.hit.interval.ts, to: found.hit.interval.ts + found.hit.interval.dur }, this.model.whole));
    else if (found?.hit.kind === "shares") this.glideTo(fit(found.hit, this.model.whole));
  }

  /** Chooses an interval and asks for its facts, or lets go of what is chosen or asked for. */
  choose(chosen: { track: number; ts: Rel; dur: number; key: number } | undefined): void {
    this.factsAbort?.abort();
    this.factsAbort = undefined;
    this.state.chosen = chosen;
    this.state.facts = this.state.factsError = undefined;
    if (chosen) {
      this.openDock("facts");
      void this.askFacts(chosen.track, chosen.ts);
    }
    this.dock.refresh("facts");
    this.redraw();
  }

  /** Chooses what is at a moment of a track, when only the server knows what that is. */
  chooseAt(track: number, at: Rel): void {
    this.state.chosen = undefined;
    this.state.facts = this.state.factsError = undefined;
    this.openDock("facts");
    void this.askFacts(track, at);
    // What was chosen before is not what is shown any more.
    this.dock.refresh("facts");
  }

  /** Is it being asked what is chosen, or its facts? */
  get asking(): boolean {
    return this.factsAbort !== undefined;
  }

  private async askFacts(track: number, at: Rel): Promise<void> {
    this.factsAbort?.abort();
    const abort = (this.factsAbort = new AbortController());
    try {
      const facts = await api.at(track, this.model.abs(at), abort.signal);
      if (abort.signal.aborted) return;
      const ts = this.model.rel(facts.ts);
      const dur = numberOf(facts.dur);
      this.state.facts = facts;
      this.state.chosen = { track, ts, dur: Number.isFinite(dur) ? dur : this.model.whole.to - ts, key: facts.key ?? this.state.chosen?.key ?? 0 };
      this.announce();
    } catch (error) {
      if (abort.signal.aborted) return;
      this.state.factsError = error instanceof Error ? error.message : String(error);
    }
    this.factsAbort = undefined;
    this.dock.refresh("facts");
    this.redraw();
  }
  private factsAbort: AbortController | undefined;

  private announce(): void {
    const chosen = this.state.chosen;
    if (chosen) need("#says").textContent = `${this.model.trackName(chosen.track)}: ${this.model.label(chosen.key)}, ${duration(chosen.dur, this.model.unit)}`;
  }

  /** Goes to a moment of a track and chooses what is there. */
  jump(track: number, at: Rel, dur = 0): void {
    // The panel first: it takes room, and the row must be in what is left.
    this.openDock("facts");
    this.showTrack(track);
    this.state.current = track;
    this.glideTo(reveal(this.goal, { from: at, to: at + Math.max(dur, 1) }, this.model.whole));
    this.chooseAt(track, at);
  }

  /** Goes where a row of an SQL answer points. */
  jumpTo(target: Target): void {
    const at = this.model.rel(target.ts);
    const dock = this.state.dock;
    const range = { from: at, to: at + Math.max(target.dur, 1) };
    const wide = spanOf(this.goal) > Math.max(target.dur, 1) * 60;
    this.glideTo(wide || spanOf(range) > spanOf(this.goal) ? fit({ from: range.from - spanOf(range), to: range.to + spanOf(range) }, this.model.whole) : reveal(this.goal, range, this.model.whole));
    if (target.track !== undefined) {
      this.showTrack(target.track);
      this.state.current = target.track;
      this.chooseAt(target.track, at);
    }
    if (dock) this.openDock(dock);
  }

  /** Opens what a track is folded into, and scrolls to it. */
  showTrack(track: number): void {
    const node = this.model.tree.nodes.get(track);
    if (!node) return;
    if (this.rows.indexOf(track) === undefined) {
      for (let up = node.parent; up; up = up.parent) {
        this.state.folded.delete(up.track.track);
        this.state.opened.add(up.track.track);
      }
      this.relayout();
      if (this.rows.indexOf(track) === undefined) this.setFilter("");
    }
    const index = this.rows.indexOf(track);
    if (index === undefined) return;
    const row = this.rows.rows[index]!;
    const room = this.height - this.rows.pinnedHeight;
    if (row.y < this.scrollTop) this.scrollTo(row.y - 30);
    else if (row.y + row.height > this.scrollTop + room) this.scrollTo(row.y + row.height - room + 30);
  }

  // ---- selection

  select(a: Rel, b: Rel, tracks: readonly number[] | undefined): void {
    const { whole } = this.model;
    const from = Math.max(Math.floor(Math.min(a, b)), whole.from);
    const to = Math.min(Math.ceil(Math.max(a, b)), whole.to);
    this.state.selection = to > from ? { from, to, tracks } : undefined;
    this.schedule();
  }

  /** The selection is made: its statistics are wanted. */
  selected(): void {
    if (this.state.selection) this.openDock("range");
    this.dock.range.update();
    this.writeUrl();
    this.schedule();
  }

  clearSelection(): void {
    if (!this.state.selection) return;
    this.state.selection = undefined;
    this.dock.range.update();
    this.schedule();
  }

  /** Tracks of the rows between two heights of the stage, each once: a pinned one may have two rows. */
  tracksBetween(a: number, b: number): number[] {
    const [low, high] = [Math.min(a, b), Math.max(a, b)];
    const tracks = this.rows.visible(this.scrollTop, this.height).flatMap(({ row, y }) => (row.type === "track" && y < high && y + row.height > low ? [row.node.track.track] : []));
    return [...new Set(tracks)];
  }

  tracksOnScreen(): number[] {
    return this.tracksBetween(0, this.height);
  }

  // ---- tracks

  relayout(): void {
    this.rows.update(this.model.tree, this.state, this.paths.kept);
    this.paths.place();
    need("#spacer").style.height = `${Math.max(this.rows.height - this.scroller.clientHeight, 0)}px`;
    this.minimap.stale = true;
    this.redraw();
  }

  setFilter(text: string): void {
    const input = need<HTMLInputElement>("#filter");
    if (input.value !== text) input.value = text;
    this.state.filterText = text;
    this.refilter();
  }

  private refilter(): void {
    const { tracks, keys } = parseFilter(this.state.filterText, (id) => this.model.machineName(id));
    this.state.trackFilter = tracks;
    this.state.keyFilter = keys;
    this.repaint();
    this.relayout();
    if (tracks.active && this.rows.rows.length === 0) need("#says").textContent = "no track matches";
  }

  private clickName(placed: Placed, pin: boolean): void {
    const { row } = placed;
    this.state.current = row.node.track.track;
    if (pin) this.togglePin(row.node.track.track);
    else if (row.type === "more") this.state.opened.add(row.node.track.track);
    else if (row.foldable && !placed.pinned) this.toggleFold(row.node.track.track, row.folded);
    this.relayout();
    this.writeUrl();
  }

  toggleFold(track: number, folded: boolean): void {
    this.state[folded ? "opened" : "folded"].add(track);
    this.state[folded ? "folded" : "opened"].delete(track);
    this.relayout();
  }

  togglePin(track: number): void {
    const { pinned } = this.state;
    this.state.pinned = pinned.includes(track) ? pinned.filter((id) => id !== track) : [...pinned, track];
    this.relayout();
  }

  // ---- marks

  addMark(at: Rel): void {
    this.state.marks = [...this.state.marks, { at: Math.round(at), note: "" }].sort((a, b) => a.at - b.at);
    this.marksChanged();
  }

  noteMark(index: number, note: string): void {
    this.state.marks = this.state.marks.map((mark, i) => (i === index ? { ...mark, note } : mark));
    this.marksChanged();
  }

  removeMark(index: number): void {
    this.state.marks = this.state.marks.filter((_, i) => i !== index);
    this.marksChanged();
  }

  marksChanged(): void {
    this.dock.refresh("marks");
    this.writeUrl();
    this.schedule();
  }

  // ---- looks

  retheme(): void {
    document.documentElement.dataset["theme"] = this.state.theme;
    this.overlay.retheme();
    this.repaint();
    showMachines(this);
  }

  repaint(): void {
    const { state } = this;
    this.paints = this.model.paints({ mode: state.colour, theme: state.theme, bright: state.keyFilter });
    need("#b-colour").textContent = state.colour === "who" ? "Hue: machine" : "Hue: state";
    need("#b-flows").setAttribute("aria-pressed", String(state.flowsOn));
    this.minimap.stale = true;
    this.redraw();
  }

  /** A CSS background in a key's colour and pattern, as on a track. */
  chipOf(key: number, track: number): string {
    const paint = this.paints.on(this.model.machineOf(track)).of(key);
    return maskOf(paint.pattern) === null ? hex(paint.front) : `url(${patternImage(paint)})`;
  }

  // ---- panel, messages, URL

  openDock(tab: DockTab | undefined): void {
    this.state.dock = tab;
    this.dock.update();
  }

  run(command: Command): void {
    runCommand(this, command);
  }

  readonly say = say;
  readonly fail = fail;
  readonly notice = notice;

  progress(building: BuildState): void {
    showProgress(building);
  }

  // ---- export

  async exportPng(): Promise<void> {
    await exportPng(this);
  }

  exportSvg(): void {
    exportSvg(this, pictureOf(this));
  }
}
