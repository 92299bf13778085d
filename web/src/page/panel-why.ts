// The panel of a critical path: sentences, findings and antagonists on the left, the pieces on the right. The pieces
// scroll virtually; a click on one moves the view to it.
import { duration, moment, percent, thousands } from "../core/format.ts";
import type { CriticalPath, Piece } from "../core/path.ts";
import { becauseWords, evidenceOf, reasonWords, stateWords, type Blame, type Finding } from "../core/pathwords.ts";
import { spanOf } from "../core/view.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import { hiddenLines, pathHead } from "./pathparts.ts";
import type { Explained } from "./state.ts";
import { MOST_PIECES } from "./why.ts";

const LINE = 20;
/** Lines of a table of antagonists before "more". */
const FIRST_BLAME = 8;
/** Threads and vCPUs of a selection that are listed to choose from. */
const MOST_CHOICES = 60;
const COLUMNS = ["start", "length", "where", "state", "because of", "evidence"] as const;
const LEVELS: Readonly<Record<string, string>> = { thread: "Waits for a CPU", cgroup: "Waits for a CPU by control group", machine: "Waits for a CPU by machine" };

export class WhyPanel {
  private readonly left = make("div", { class: "left" });
  private readonly grid = make("div", { class: "grid", tabindex: "0", role: "grid", "aria-label": "Pieces of the critical path" });
  private readonly status = make("span", { class: "dim" });
  private readonly orders: HTMLButtonElement[];
  private readonly right: HTMLElement;
  readonly root: HTMLElement;
  /** Places of the pieces in the order of the list. */
  private order: Uint32Array = new Uint32Array();
  private byLength = false;
  /** The explanation whose pieces are listed, and its marked piece. */
  private listed: Explained["path"];
  private picked: number | undefined;

  constructor(private readonly app: App) {
    this.orders = (["By time", "By length"] as const).map((name, i) => {
      const button = make("button", { "aria-pressed": String(i === 0) }, name);
      button.addEventListener("click", () => this.sort(i === 1));
      return button;
    });
    this.grid.addEventListener("scroll", () => this.lines());
    new ResizeObserver(() => this.lines()).observe(this.grid);
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.right = make("div", { class: "right" }, make("div", { class: "row" }, ...this.orders, this.status), this.grid);
    this.root = make("div", { class: "why" }, this.left, this.right);
  }

  /** Builds the left side anew, and the list if the path is another one. Does nothing while the panel is not shown. */
  update(): void {
    if (!this.root.isConnected) return;
    const { app } = this;
    const { why } = app.state;
    this.root.classList.toggle("ticks", app.model.unit === "ticks");
    const top = this.left.scrollTop;
    const opened = new Set([...this.left.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
    this.left.replaceChildren(...(why ? this.explained(why) : this.choices()));
    for (const summary of this.left.querySelectorAll("details > summary")) if (opened.has(summary.textContent)) summary.parentElement!.setAttribute("open", "");
    this.left.scrollTop = top;
    const path = why?.path;
    this.right.hidden = !path;
    if (path !== this.listed) {
      this.listed = path;
      this.picked = undefined;
      this.sort(false);
    }
    this.mark();
  }

  /** Shows which piece is marked. */
  mark(): void {
    const picked = this.app.state.why?.picked;
    if (picked !== this.picked) this.reveal((this.picked = picked));
    this.lines();
  }

  // ---- the left side

  private choices(): Node[] {
    const { app } = this;
    const { choices } = app.why;
    if (choices.length === 0) {
      return [make("p", { class: "dim" }, "Select an interval or a range on the row of a thread or vCPU, then press Shift + W. The critical path of that time is drawn over the rows and listed here.")];
    }
    const links = choices.slice(0, MOST_CHOICES).map((choice) => {
      const button = make("button", {}, app.model.trackName(choice.track));
      button.addEventListener("click", () => app.why.explain(choice));
      return button;
    });
    const more = choices.length - links.length;
    const rest = more > 0 ? [make("p", { class: "dim" }, `${thousands(more)} more not listed: select fewer rows`)] : [];
    return [make("p", {}, "The range covers several threads and vCPUs. Explain:"), make("p", { class: "choice" }, ...links), ...rest];
  }

  private explained(why: Explained): Node[] {
    const { app } = this;
    const { unit } = app.model;
    const { from, to } = why.path?.pieces.length ? why.path.range : why;
    const out: Node[] = [pathHead(app, `Why slow: ${app.model.trackName(why.track)}`, why.path, "path", () => void app.why.clear()), make("p", { class: "dim times" }, `${duration(to - from, unit)}   ${moment(from, unit)} – ${moment(to, unit)}`)];
    for (const line of why.errors) out.push(make("p", { class: "bad" }, line));
    if (!why.path && why.errors.length === 0) out.push(make("p", { class: "dim" }, "…"));
    if (why.sentences) out.push(make("div", { class: "sentences" }, ...why.sentences.map((sentence) => make("p", {}, sentence))));
    if (why.path) out.push(this.layers(why.path), ...hiddenLines(app, why.path, "path"));
    if (why.cut !== undefined) out.push(make("p", { class: "bad" }, `Only the first ${thousands(MOST_PIECES)} pieces are shown, up to ${moment(why.cut, unit)}: select a shorter range.`));
    if (why.findings?.length) out.push(findingsList(why.findings));
    if (why.blame) for (const [level, title] of Object.entries(LEVELS)) out.push(...this.blame(title, why.blame.filter((line) => line.level === level)));
    return out;
  }

  private layers(path: CriticalPath): HTMLElement {
    const length = spanOf(path.range);
    const parts = path.layers.map(({ layer, ns }) => `${layer} ${percent(ns / length)}`);
    return make("p", { class: "dim" }, `By layer: ${parts.join(" · ")}`);
  }

  private blame(title: string, lines: readonly Blame[]): HTMLElement[] {
    if (lines.length === 0) return [];
    const table = (part: readonly Blame[]): HTMLElement => make("table", {}, make("tr", {}, ...["time", "waits", "victim", "antagonist", "why", "evidence"].map((name, i) => make("th", { class: i < 2 ? "n" : "" }, name))), ...part.map((line) => this.blameRow(line)));
    const out: HTMLElement[] = [make("h3", {}, title), table(lines.slice(0, FIRST_BLAME))];
    const rest = lines.slice(FIRST_BLAME);
    if (rest.length > 0) out.push(make("details", {}, make("summary", {}, `${thousands(rest.length)} more`), table(rest)));
    return out;
  }

  private blameRow({ total_ns, count, victim, culprit, why, evidence }: Blame): HTMLElement {
    const text = (value: string): HTMLElement => make("td", { class: "label", title: value }, value);
    return make("tr", {}, make("td", { class: "n" }, duration(total_ns, this.app.model.unit)), make("td", { class: "n" }, thousands(count)), text(victim), text(culprit), text(why === "" ? "–" : reasonWords(why)), make("td", { class: "dim" }, evidence));
  }

  // ---- the list of pieces

  private sort(byLength: boolean): void {
    const pieces = this.listed?.pieces ?? [];
    this.byLength = byLength;
    this.orders.forEach((button, i) => button.setAttribute("aria-pressed", String((i === 1) === byLength)));
    this.order = Uint32Array.from(pieces, (_, i) => i);
    const length = (i: number): number => pieces[i]!.to - pieces[i]!.from;
    if (byLength) this.order.sort((a, b) => length(b) - length(a));
    const longest = this.listed && pieces[this.listed.longest];
    this.status.textContent = longest ? `${thousands(pieces.length)} pieces, the longest ${duration(longest.to - longest.from, this.app.model.unit)}` : "The path has no pieces.";
    const head = make("div", { class: "head", role: "row" }, ...COLUMNS.map((name, i) => cell(name, i, name, "columnheader")));
    const space = make("div");
    space.style.height = `${pieces.length * LINE}px`;
    this.grid.replaceChildren(head, space);
    this.grid.scrollTop = 0;
    if (this.picked !== undefined) this.reveal(this.picked);
    this.lines();
  }

  /** Makes the lines that are on the screen. */
  private lines(): void {
    const { app } = this;
    const { why } = app.state;
    for (const line of this.grid.querySelectorAll(".line")) line.remove();
    const path = this.listed;
    if (!why || !path) return;
    const first = Math.max(0, Math.floor(this.grid.scrollTop / LINE) - 3);
    const last = Math.min(this.order.length, first + Math.ceil(this.grid.clientHeight / LINE) + 6);
    const longest = path.pieces[path.longest]!;
    const made: HTMLElement[] = [];
    for (let at = first; at < last; at++) {
      const i = this.order[at]!;
      const line = this.line(path.pieces[i]!, why, (longest.to - longest.from) || 1);
      line.dataset["piece"] = String(i);
      line.classList.toggle("picked", i === why.picked);
      line.classList.toggle("longest", i === path.longest);
      line.classList.toggle("hidden-row", path.trackOf(i) === undefined);
      line.style.top = `${(at + 1) * LINE}px`;
      line.addEventListener("click", () => app.paths.pick(i));
      made.push(line);
    }
    this.grid.append(...made);
  }

  private line(piece: Piece, why: Explained, longest: number): HTMLElement {
    const { unit } = this.app.model;
    const places = why.places!;
    const bar = Math.round(((piece.to - piece.from) / longest) * 100);
    const words = [moment(piece.from, unit), duration(piece.to - piece.from, unit), places.nameOf(piece), stateWords(piece), becauseWords(piece, places) || "–", evidenceOf(piece) || "–"];
    const line = make("div", { class: "line jumps", role: "row" }, ...words.map((text, i) => cell(text, i, text, "gridcell")));
    const [, length, where] = line.children as unknown as HTMLElement[];
    length!.style.setProperty("--share", `${bar}%`);
    where!.style.textIndent = `${10 * Math.min(piece.depth, 8)}px`;
    if (piece.error_ns) line.title = `± ${duration(piece.error_ns, unit)}: error bound of the clocks`;
    return line;
  }

  /** Scrolls the list to a piece. */
  private reveal(piece: number | undefined): void {
    const at = piece === undefined ? -1 : this.byLength ? this.order.indexOf(piece) : piece;
    if (at < 0) return;
    const top = at * LINE;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + 3 * LINE > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = top + 3 * LINE - this.grid.clientHeight;
  }

  private key(event: KeyboardEvent): void {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by === undefined || this.order.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const at = this.picked === undefined ? -1 : this.order.indexOf(this.picked);
    this.app.paths.pick(this.order[Math.min(Math.max(at + by, 0), this.order.length - 1)]!);
  }
}

function cell(text: string, column: number, title: string, role: string): HTMLElement {
  return make("span", { class: `cell c${column}`, role, title }, text);
}

function findingsList(findings: readonly Finding[]): HTMLElement {
  const items = findings.map(({ sentence, detector, confidence, hint }) => make("li", {}, sentence, " ", make("span", { class: "dim" }, `${detector.replaceAll("_", " ")}, ${confidence}`), hint !== "" && make("div", { class: "dim" }, `try: ${hint}`)));
  return make("details", { class: "findings" }, make("summary", {}, `${thousands(findings.length)} ${findings.length === 1 ? "finding" : "findings"} on this path`), make("ul", {}, ...items));
}
