// The panel of block requests and packets: the stages of the drawn one on the left, the slowest of a range on the right.
import { duration, moment, percent, thousands } from "../core/format.ts";
import { longestStage, type Request } from "../core/request.ts";
import type { StagePiece } from "../core/requestplaces.ts";
import { aboutWords, explainNumbers, machineWords, requestTitle } from "../core/requestwords.ts";
import { spanOf } from "../core/view.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import { hiddenLines, pathHead } from "./pathparts.ts";
import { MOST_REQUESTS, type Listed } from "./requests.ts";
import type { DrawnRequest } from "./state.ts";

const STAGES = ["stage", "start", "length", "share", "where"] as const;
const COLUMNS = ["N", "kind", "machine", "request", "start", "length", "longest stage", "missing", "joined by"] as const;
/** Columns of numbers, which are at the right. */
const NUMBERS: ReadonlySet<string> = new Set(["N", "start", "length", "share"]);
const KIND_WORDS = { block: "block", packet: "packet" } as const;

/** A request of the list, with its number of `transect explain`. */
interface Entry {
  readonly request: Request;
  readonly number: number | undefined;
}

export class RequestsPanel {
  private readonly left = make("div", { class: "left", tabindex: "0", "aria-label": "Stages of the request" });
  private readonly status = make("span", { class: "dim" });
  private readonly list = make("div", { class: "list", tabindex: "0", role: "grid", "aria-label": "Slowest requests" });
  private readonly orders: HTMLButtonElement[];
  private readonly right: HTMLElement;
  readonly root: HTMLElement;
  private byLength = true;
  private entries: readonly Entry[] = [];

  constructor(private readonly app: App) {
    this.orders = (["By time", "By length"] as const).map((name, i) => {
      const button = make("button", { "aria-pressed": String(i === 1) }, name);
      button.addEventListener("click", () => this.sort(i === 1));
      return button;
    });
    this.left.addEventListener("keydown", (event) => this.stageKey(event));
    this.list.addEventListener("keydown", (event) => this.listKey(event));
    const again = make("button", { title: "List the slowest requests of the selected range or the view (Shift+R)" }, "List again");
    again.addEventListener("click", () => app.requests.list());
    this.right = make("div", { class: "right" }, make("div", { class: "row" }, ...this.orders, again, this.status), this.list);
    this.root = make("div", { class: "why requests" }, this.left, this.right);
  }

  /** Builds the panel anew. Does nothing while it is not shown. */
  update(): void {
    if (!this.root.isConnected) return;
    const { listed } = this.app.requests;
    this.updateStages();
    this.right.hidden = !listed;
    if (listed) this.fill(listed);
  }

  /** Builds the left side anew. */
  updateStages(): void {
    if (!this.root.isConnected) return;
    const { request } = this.app.state;
    const top = this.left.scrollTop;
    this.left.replaceChildren(...(request ? this.drawn(request) : this.help()));
    this.left.scrollTop = top;
  }

  // ---- the drawn request

  private help(): Node[] {
    const { listed } = this.app.requests;
    const lines = (listed?.errors ?? []).map((line) => make("p", { class: "bad" }, line));
    const words = isEmpty(listed)
      ? "No block requests or packets were recorded in this range."
      : "Click a request to draw its stages over the rows. Press Shift + R to list the slowest requests of the selected range or of the view; on an interval of a block device's row, to draw its request.";
    return [...lines, make("p", { class: "dim" }, words)];
  }

  private drawn(drawn: DrawnRequest): Node[] {
    const { app } = this;
    const { unit } = app.model;
    const { request, path } = drawn;
    const title = request ? requestTitle(request, (id) => app.model.machineName(id)) : "Request";
    const out: Node[] = [pathHead(app, title, path, "request", () => void app.requests.clear())];
    for (const line of drawn.errors) out.push(make("p", { class: "bad" }, line));
    if (!request) return drawn.errors.length > 0 ? out : [...out, make("p", { class: "dim" }, "…")];
    const { from, to } = path?.range ?? drawn;
    const evidence = [request.evidence !== null && `joined by ${request.evidence}`, request.error_ns && `± ${duration(request.error_ns, unit)}`].filter(Boolean);
    out.push(make("p", { class: "dim times", title: "± is the error bound of lengths between machines" }, [`${duration(to - from, unit)}   ${moment(from, unit)} – ${moment(to, unit)}`, ...evidence].join("   ")));
    if (request.missing.length > 0) out.push(make("p", { class: "missing" }, `missing: ${request.missing.join(", ")}`));
    if (path) out.push(...hiddenLines(app, path, "request"), this.stages(drawn, path));
    else out.push(make("p", { class: "dim" }, "Only one event of this request is known: it has no stages."));
    return out;
  }

  private stages(drawn: DrawnRequest, path: NonNullable<DrawnRequest["path"]>): HTMLElement {
    const table = make("table", { class: "stages" }, make("tr", {}, ...STAGES.map((name) => make("th", { class: NUMBERS.has(name) ? "n" : "" }, name))));
    const longest = path.pieces[path.longest]!;
    path.pieces.forEach((piece, i) => {
      const row = this.stage(piece, drawn, spanOf(path.range), (piece.to - piece.from) / Math.max(longest.to - longest.from, 1));
      row.classList.toggle("longest", i === path.longest);
      row.classList.toggle("picked", i === drawn.picked);
      row.classList.toggle("hidden-row", path.trackOf(i) === undefined);
      row.dataset["piece"] = String(i);
      row.addEventListener("click", () => this.app.paths.pick(i));
      table.append(row);
    });
    return table;
  }

  private stage(piece: StagePiece, { places }: DrawnRequest, whole: number, bar: number): HTMLElement {
    const { unit } = this.app.model;
    const length = piece.to - piece.from;
    const words = [piece.stage.name, moment(piece.from, unit), duration(length, unit), percent(length / Math.max(whole, 1)), places!.nameOf(piece)];
    const row = make("tr", {}, ...words.map((text, i) => make("td", { class: NUMBERS.has(STAGES[i]!) ? "n" : "label", title: text }, text)));
    (row.children[2] as HTMLElement).style.setProperty("--share", `${Math.round(bar * 100)}%`);
    return row;
  }

  private stageKey(event: KeyboardEvent): void {
    const { request } = this.app.state;
    const by = stepOf(event);
    if (by === undefined || !request?.path || event.target !== this.left) return;
    event.preventDefault();
    event.stopPropagation();
    this.app.paths.pick(Math.min(Math.max((request.picked ?? -1) + by, 0), request.path.pieces.length - 1));
    this.left.querySelector(".picked")?.scrollIntoView({ block: "nearest" });
  }

  // ---- the list

  private fill(listed: Listed): void {
    const { unit } = this.app.model;
    this.entries = (["block", "packet"] as const).flatMap((kind) => {
      const requests = listed.found[kind] ?? [];
      const numbers = explainNumbers(requests, listed.machine_id);
      return requests.map((request, i) => ({ request, number: numbers[i] }));
    });
    const counts = ([["block", "block requests"], ["packet", "packets"]] as const).map(([kind, words]) => {
      const [all, shown] = [listed.counts[kind] ?? 0, listed.found[kind]?.length ?? 0];
      return all > shown ? `the ${MOST_REQUESTS} slowest of ${thousands(all)} ${words}` : `${thousands(all)} ${words}`;
    });
    const whose = listed.machine_id === undefined ? "" : ` of ${this.app.model.machineName(listed.machine_id)}`;
    this.status.textContent = listed.done ? `${counts.join(", ")}${whose} in ${duration(spanOf(listed), unit)} from ${moment(listed.from, unit)}` : "…";
    for (const button of this.orders) button.disabled = this.entries.length === 0;
    this.sort(this.byLength);
  }

  private sort(byLength: boolean): void {
    this.byLength = byLength;
    this.orders.forEach((button, i) => button.setAttribute("aria-pressed", String((i === 1) === byLength)));
    const length = ({ request }: Entry): number => request.dur ?? 0;
    this.entries = [...this.entries].sort((a, b) => (byLength ? length(b) - length(a) : 0) || a.request.ts - b.request.ts);
    const head = make("tr", {}, ...COLUMNS.map((name) => make("th", { class: NUMBERS.has(name) ? "n" : "", ...(name === "N" ? { title: "Number N of transect explain --request N or --packet N with this range" } : {}) }, name)));
    const empty = isEmpty(this.app.requests.listed) && this.app.state.request && make("p", { class: "dim" }, "No block requests or packets were recorded in this range.");
    this.list.replaceChildren(make("table", {}, head, ...this.entries.map((entry) => this.line(entry))), ...(empty ? [empty] : []));
    this.list.firstElementChild!.toggleAttribute("hidden", this.entries.length === 0);
  }

  private line({ request, number }: Entry): HTMLElement {
    const { app } = this;
    const { unit } = app.model;
    const longest = longestStage(request);
    const dur = request.dur ?? 0;
    const stage = longest ? `${longest.name}  ${duration(longest.to - longest.from, unit)} (${percent((longest.to - longest.from) / Math.max(dur, 1))})` : "–";
    const words = [number === undefined ? "–" : thousands(number), KIND_WORDS[request.kind], machineWords(request, (id) => app.model.machineName(id)), aboutWords(request), moment(request.ts, unit), duration(dur, unit), stage, request.missing.join(", ") || "–", request.evidence ?? "–"];
    const row = make("tr", { class: "line jumps" }, ...words.map((text, i) => make("td", { class: NUMBERS.has(COLUMNS[i]!) ? "n" : "label", title: text }, text)));
    row.classList.toggle("picked", app.requests.isDrawn(request));
    row.addEventListener("click", () => app.requests.show(request));
    return row;
  }

  private listKey(event: KeyboardEvent): void {
    const by = stepOf(event);
    if (by === undefined || this.entries.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const at = this.entries.findIndex(({ request }) => this.app.requests.isDrawn(request));
    const next = Math.min(Math.max(at + by, 0), this.entries.length - 1);
    this.app.requests.show(this.entries[next]!.request);
    this.list.querySelectorAll(".line")[next]?.scrollIntoView({ block: "nearest" });
  }
}

/** The lines by which a key moves in a list; undefined: none. */
function stepOf({ key }: KeyboardEvent): number | undefined {
  return { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[key];
}

/** Is the list answered and empty? */
function isEmpty(listed: Listed | undefined): boolean {
  return listed !== undefined && listed.done && listed.errors.length === 0 && !listed.found.block?.length && !listed.found.packet?.length;
}
