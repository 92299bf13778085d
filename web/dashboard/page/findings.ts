// The findings of the range: a line with the sentence and the hint of each, and beside it a strip with the time in which it
// held. Those that hold now, or at the selected time, come first. Only the lines on the screen are drawn.
import { percent } from "../../src/core/format.ts";
import { word } from "../../src/core/palette.ts";
import { fillRect } from "../../src/core/raster.ts";
import { make, write } from "../../src/page/dom.ts";
import { clock } from "../core/clock.ts";
import { around, heldText, noneText, openedBy, type About, type FoundRow } from "../core/findings.ts";
import type { Lanes } from "../core/lanes.ts";
import { heatWords, SHADES, shareOf } from "../core/paints.ts";
import type { Range } from "../core/collect.ts";
import type { App } from "./app.ts";
import { drawAxis, spanText, TimePlot, type Hit, type Margins } from "./plot.ts";

/** Lines that are shown unless all are wanted; fewer in a low window, whose other panels need room. */
const MOST = 8;
const FEWEST = 3;
/** Parts of the window's height that the lines may have: some lines, and all of them. */
const SOME_HEIGHT = 0.17;
const ALL_HEIGHT = 0.45;
/** Windows narrower than this have the panels below each other, and those narrower than the second have long lines broken. */
const STACKED_PX = 1020;
const BROKEN_PX = 640;
/** The lines are put in order so often while the view moves. */
const REORDER_MS = 250;

interface Line {
  readonly root: HTMLElement;
  readonly likely: HTMLElement;
  readonly before: Text;
  readonly subject: HTMLElement;
  readonly after: Text;
  readonly hint: HTMLElement;
}

export class Findings extends TimePlot {
  rows: readonly FoundRow[] = [];
  /** The key of the line that the keyboard is on. */
  private current: string | undefined;
  /** The pointer is down on a line: until it is up, the lines stay as they are, or another one would be clicked. */
  private pressed = false;
  /** All lines, not only the first ones. */
  private all = false;
  private made: { range: Range | undefined; of: string; at: number } = { range: undefined, of: "", at: -Infinity };
  private values = new Float64Array(0);
  private readonly pool: Line[] = [];
  private readonly list = make("div", { class: "list", tabindex: "0", role: "listbox", "aria-label": "Findings" });
  private readonly names = make("div", { class: "names" });
  private readonly stage = make("div", { class: "stage" });
  private readonly spacer = make("div");
  private readonly foot = make("div", { class: "foot" });
  private readonly more = make("button");
  private readonly axisCanvas = make("canvas", { "aria-hidden": "true" });

  constructor(app: App, panel: HTMLElement) {
    super(app, panel, "Strips: the share of each finding over time");
    this.stage.append(this.canvas, this.line);
    this.canvas.tabIndex = -1;
    this.list.append(make("div", { class: "sheet" }, this.names, this.stage), this.spacer);
    this.foot.append(make("span", {}, this.more), this.axisCanvas);
    this.body.append(this.list, this.foot);
    this.body.hidden = true;
    this.list.addEventListener("scroll", () => app.repaint());
    this.list.addEventListener("pointerdown", () => (this.pressed = true));
    for (const end of ["pointerup", "pointercancel"]) {
      window.addEventListener(end, () => {
        if (this.pressed) app.repaint();
        this.pressed = false;
      });
    }
    this.more.addEventListener("click", () => {
      this.all = !this.all;
      this.list.scrollTop = 0;
      this.list.focus({ preventScroll: true });
      app.repaint();
    });
  }

  override get focusable(): HTMLElement {
    return this.list;
  }

  override margins(): Margins {
    return { left: 0, right: 0, top: 0, bottom: 0 };
  }

  get lanes(): Lanes | undefined {
    return this.app.range?.findings.lanes;
  }

  override measure(): void {
    this.shown = this.panel.offsetParent !== null;
    if (!this.shown || this.body.hidden) return;
    this.resize(Math.max(this.stage.getBoundingClientRect().width, 1), this.list.clientHeight);
    this.foot.style.paddingRight = `${this.list.offsetWidth - this.list.clientWidth}px`;
    const axis = this.axisCanvas.getBoundingClientRect();
    this.axisCanvas.width = Math.max(1, Math.floor(axis.width * this.ratio));
    this.axisCanvas.height = Math.max(1, Math.floor(axis.height * this.ratio));
  }

  private get isLarge(): boolean {
    return this.app.seen.large === "findings";
  }

  private get rowHeight(): number {
    return Math.floor(this.app.rem * (window.innerWidth < BROKEN_PX ? 4.9 : 2.45));
  }

  /** How many lines there are: all, or as many as leave the other panels their room. */
  private get lines(): number {
    if (this.all || this.isLarge) return this.rows.length;
    const room = window.innerWidth < STACKED_PX ? MOST : Math.floor((window.innerHeight * SOME_HEIGHT) / this.rowHeight);
    return Math.min(this.rows.length, Math.max(FEWEST, Math.min(MOST, room)));
  }

  paint(): void {
    this.rows = this.ordered();
    this.title();
    const { lines, rowHeight } = this;
    this.layOut(lines, rowHeight);
    if (lines === 0) return;
    const first = Math.max(0, Math.floor(this.list.scrollTop / rowHeight));
    const last = Math.min(lines, Math.ceil((this.list.scrollTop + this.height) / rowHeight));
    this.clear();
    const gaps = this.gaps();
    const shades = heatWords(this.theme);
    for (let at = first; at < last; at++) {
      const top = Math.round((at * rowHeight - this.list.scrollTop + rowHeight * 0.2) * this.ratio);
      const height = Math.round(rowHeight * 0.6 * this.ratio);
      this.paintStrip(this.rows[at]!, top, height, shades);
      this.hatchGaps(gaps, Math.max(top, 0), height + Math.min(top, 0));
    }
    this.put();
    this.write(first, last, rowHeight);
    this.paintAxis();
    this.moveLine();
  }

  /** The rows in order; while the view moves it is that of a moment ago. */
  private ordered(): readonly FoundRow[] {
    const { app } = this;
    const { range, moment } = app;
    const of = [app.changes, moment, app.following, app.seen.focus, app.pickedWindows[0]?.ts].join("\n");
    const now = performance.now();
    if (this.pressed && this.made.range === range) return this.rows;
    if (this.made.range === range && this.made.of === of && now - this.made.at < REORDER_MS) {
      app.repaintLater(REORDER_MS);
      return this.rows;
    }
    this.made = { range, of, at: now };
    const { from, to } = app.view;
    return range?.findings.rows(from, to, this.about, app.picked?.findings) ?? [];
  }

  private get about(): About {
    return this.app.moment !== undefined ? "moment" : this.app.following ? "now" : "range";
  }

  /** The list is as high as its lines: the other panels have the rest. */
  private layOut(lines: number, row_height: number): void {
    const most = Math.max(row_height * FEWEST, this.all ? Math.floor(window.innerHeight * ALL_HEIGHT) : Infinity);
    const height = this.isLarge ? "" : `${Math.min(lines * row_height, most)}px`;
    const isHidden = lines === 0;
    this.spacer.style.height = `${Math.max(0, lines * row_height - this.height)}px`;
    const rest = this.rows.length - lines;
    write(this.more, rest > 0 ? `and ${rest} more` : "show fewer");
    this.more.hidden = rest <= 0 && !this.all;
    if (this.list.style.height === height && this.body.hidden === isHidden) return;
    this.list.style.height = height;
    this.body.hidden = isHidden;
    this.app.panels.resized();
  }

  private title(): void {
    this.setTitle("Findings", this.app.titleNote(this.rows.length > 0 ? this.countText() : this.whyNone()));
  }

  private countText(): string {
    const { app, rows, about } = this;
    const holding = rows.filter(({ holds }) => holds).length;
    if (about === "range") return `${rows.length} in ${app.sumText}`;
    const here = about === "now" ? `${holding} now` : `${holding} at ${clock(app.unixMs(app.moment!))}`;
    return [here, `${rows.length - holding} ${about === "now" ? "earlier" : "at other times"}`].join(", ");
  }

  private whyNone(): string {
    const { app } = this;
    const { from, to } = app.view;
    const [known, all] = [this.lanes?.measured(from, to) ?? 0, app.range?.actors.measured(from, to) ?? 0];
    return all > 0 ? app.whyNo("scheduling", noneText(known, all, app.newest?.dur ?? Infinity)) : app.waitingText;
  }

  /** The strip of a finding: lightness shows its share. */
  private paintStrip({ kind }: FoundRow, top: number, height: number, shades: Uint32Array): void {
    const view = this.view();
    if (this.values.length < view.width) this.values = new Float64Array(view.width);
    this.app.range!.findings.fill(this.values, kind.key, view);
    let start = 0;
    const shadeAt = (x: number): number => (Number.isNaN(this.values[x]!) ? -1 : Math.round(shareOf(this.values[x]!, 1, "root") * (SHADES - 1)));
    for (let x = 1; x <= view.width; x++) {
      const shade = shadeAt(start);
      if (x < view.width && shadeAt(x) === shade) continue;
      if (shade >= 0) fillRect(this.pixels, start, top, x - start, height, shades[shade] ?? word([0, 0, 0]));
      start = x;
    }
  }

  private paintAxis(): void {
    const context = this.axisCanvas.getContext("2d");
    if (!context) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.axisCanvas.width, this.axisCanvas.height);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    drawAxis(context, this.app, { left: 0, y: 0, width: this.width, height: this.axisCanvas.height / this.ratio });
  }

  /** The sentences of the lines on the screen. They stay the same elements: a click or a selection is not lost to the next window. */
  private write(first: number, last: number, height: number): void {
    while (this.pool.length < last - first) this.pool.push(this.makeLine());
    this.pool.forEach((line, at) => {
      const row = first + at < last ? this.rows[first + at] : undefined;
      line.root.hidden = row === undefined;
      if (row === undefined) return;
      const { kind, words } = row;
      const isOther = !row.holds && this.about !== "range";
      const [before, subject, after] = around(words.sentence, kind.subject);
      const hint = words.hint === "" ? "" : `try: ${words.hint}`;
      const open = this.opens(row);
      line.root.dataset["finding"] = kind.key;
      line.root.style.transform = `translateY(${(first + at) * height - this.list.scrollTop}px)`;
      line.root.style.height = `${height - 1}px`;
      line.root.classList.toggle("other", isOther);
      line.root.classList.toggle("current", kind.key === this.current);
      line.root.setAttribute("aria-selected", String(kind.key === this.current));
      line.likely.hidden = !words.isLikely;
      line.before.data = before;
      write(line.subject, subject);
      line.after.data = after;
      line.subject.classList.toggle("opens", open !== undefined);
      line.subject.title = open === undefined ? "" : `Open ${this.app.actor(open).name}`;
      write(line.hint, [row.holds ? "" : this.heldText(row), hint].filter(Boolean).join(" · "));
      line.root.title = [words.sentence, hint, this.heldText(row)].filter(Boolean).join("\n");
    });
  }

  private makeLine(): Line {
    const [before, after] = [document.createTextNode(""), document.createTextNode("")];
    const [subject, hint] = [make("b"), make("small")];
    const likely = make("span", { class: "likely", title: "Inferred, not recorded" }, "likely");
    const root = make("div", { class: "row", role: "option" }, make("span", { class: "sentence" }, likely), hint);
    root.firstElementChild!.append(before, subject, after);
    subject.addEventListener("click", () => {
      const row = this.rows.find(({ kind }) => kind.key === root.dataset["finding"]);
      const open = row && this.opens(row);
      if (open !== undefined) this.app.open(open);
    });
    this.names.append(root);
    return { root, likely, before, subject, after, hint };
  }

  /** Length of the range in which it held. */
  private heldText(row: FoundRow): string {
    const { from, to } = this.app.view;
    return heldText(row.present_ns, this.lanes?.measured(from, to) ?? 0);
  }

  /** The VM or group that a row opens: none if it is the one that is shown. */
  private opens({ kind }: FoundRow): string | undefined {
    const { app } = this;
    const open = openedBy(kind.actor, (id) => id.startsWith("vm:") || app.knows(id) || app.range?.labels.has(id) === true);
    return open === app.seen.focus ? undefined : open;
  }

  hit(x: number, y: number): Hit | undefined {
    const row = this.rows[Math.floor((y + this.list.scrollTop) / this.rowHeight)];
    const at = this.timeAt(x);
    if (at === undefined) return undefined;
    return row ? this.hitAt(row, at) : { title: "", lines: [], at };
  }

  /** A finding at a time: its share in that bin, and its sentence. */
  private hitAt({ kind }: FoundRow, at: number): Hit {
    const { app, lanes } = this;
    const title = `${kind.subject} · ${kind.detector.replaceAll("_", " ")}`;
    const gap = this.gapAt(at);
    const bin = lanes?.at(at);
    if (gap !== undefined || bin === undefined) return { title, lines: [gap ?? "no data"], at };
    const { findings } = app.range!;
    const { from, to, dur } = lanes!.bin(bin);
    const words = findings.wordsAt(kind.key, bin);
    const { share, present_ns } = findings.shareAt(kind.key, bin);
    if (present_ns <= 0) return { title, lines: [[spanText(app, from, to), at >= app.knownTo ? "no data" : "not found"]], at };
    const part = present_ns < 0.95 * dur ? [heldText(present_ns, dur)] : [];
    const sentence = words ? [...(words.rows > 1 ? ["most in one window:"] : []), words.sentence] : [];
    return { title: words?.isLikely ? `${title} · likely` : title, lines: [[spanText(app, from, to), percent(share)], ...part, ...sentence], at };
  }

  protected override gapAt(at: number): string | undefined {
    const { lanes, app } = this;
    if (lanes && !lanes.covers(at) && app.range!.actors.covers(at)) return "not known: this window does not contain findings";
    return super.gapAt(at);
  }

  override step(rows: number): boolean {
    const { lines } = this;
    if (lines === 0 || rows === 0) return false;
    const at = this.rows.slice(0, lines).findIndex(({ kind }) => kind.key === this.current);
    const next = Math.min(lines - 1, Math.max(0, at < 0 ? (rows > 0 ? 0 : lines - 1) : at + rows));
    this.current = this.rows[next]!.kind.key;
    const [top, height] = [next * this.rowHeight, this.rowHeight];
    const { scrollTop } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + height > scrollTop + this.height) this.list.scrollTop = top + height - this.height;
    return true;
  }

  override chosen(): Hit | undefined {
    const row = this.rows.find(({ kind }) => kind.key === this.current);
    if (!row) return undefined;
    const { words } = row;
    const lines = [words.isLikely ? "likely" : "", words.sentence, words.hint && `try: ${words.hint}`, this.heldText(row)].filter(Boolean);
    return { title: row.kind.detector.replaceAll("_", " "), lines, open: this.opens(row) };
  }
}
