// The names at the left: as many elements as rows fit on the screen, reused while scrolling.
import { count } from "../core/format.ts";
import { hex, type Rgb } from "../core/palette.ts";
import { summaryText, type Summary } from "../core/summary.ts";
import { make } from "./dom.ts";
import type { Placed } from "./rows.ts";

interface Line {
  readonly element: HTMLElement;
  readonly fold: HTMLElement;
  readonly text: HTMLElement;
  readonly detail: HTMLElement;
  readonly ran: HTMLElement;
  readonly waits: HTMLElement;
  readonly unknown: HTMLElement;
  readonly pin: HTMLElement;
  shows: string;
  sum: string;
}

export class Names {
  private readonly lines: Line[] = [];

  constructor(
    private readonly root: HTMLElement,
    private readonly clicked: (placed: Placed, pin: boolean) => void,
  ) {}

  private placed: readonly Placed[] = [];

  /** Shows these rows. Only what changed touches the page. */
  update(placed: readonly Placed[], hues: ReadonlyMap<number, Rgb>, current: number | undefined, pinned: readonly number[]): void {
    this.placed = placed;
    while (this.lines.length < placed.length) this.lines.push(this.line(this.lines.length));
    this.lines.forEach((line, i) => {
      const row = placed[i];
      if (row) this.show(line, row, i, placed, hues, current, pinned);
      else if (line.shows !== "") {
        line.element.style.display = "none";
        line.shows = "";
      }
    });
  }

  /** Writes the shares beside the names. */
  summarise(summaries: ReadonlyMap<number, Summary>): void {
    this.placed.forEach((placed, i) => {
      const line = this.lines[i]!;
      const summary = placed.row.type === "track" ? summaries.get(placed.row.node.track.track) : undefined;
      const { ran, waited, unknown } = summary && summary.known > 0.5 && showsShares(placed) ? summaryText(summary) : { ran: "", waited: "", unknown: "" };
      const sum = `${ran}/${waited}/${unknown}`;
      if (line.sum === sum) return;
      line.sum = sum;
      line.ran.textContent = ran;
      line.waits.textContent = waited === "" ? "" : `waits ${waited}`;
      line.unknown.textContent = unknown === "" ? "" : `? ${unknown}`;
      line.unknown.title = unknown === "" ? "" : `unknown for ${unknown} of the visible range`;
    });
  }

  private show(line: Line, placed: Placed, index: number, all: readonly Placed[], hues: ReadonlyMap<number, Rgb>, current: number | undefined, pinned: readonly number[]): void {
    const { row } = placed;
    const { track } = row.node;
    line.element.style.transform = `translateY(${placed.y}px)`;
    const isCurrent = track.track === current && row.type !== "more";
    const isPinned = pinned.includes(track.track);
    const last = placed.pinned && all[index + 1] === undefined;
    const shows = `${row.type}/${track.track}/${row.folded}/${row.depth}/${row.hidden}/${isCurrent}/${isPinned}/${placed.pinned}/${last}/${hues.get(track.machine_id)?.join()}`;
    if (line.shows === shows) return;
    line.shows = shows;
    const hue = hues.get(track.machine_id);
    line.element.className = ["name", row.type, track.kind === "machine" && "machine", row.node.lane && "lane", isCurrent && "current", isPinned && "pinned", placed.pinned && "pinrow", last && "last"].filter(Boolean).join(" ");
    line.element.style.cssText = `transform:translateY(${placed.y}px);height:${row.height}px;padding-left:${4 + row.depth * 9}px;--hue:${hue ? hex(hue) : "transparent"}`;
    line.element.setAttribute("aria-level", String(row.depth + 1));
    line.element.setAttribute("aria-selected", String(isCurrent));
    if (row.foldable) line.element.setAttribute("aria-expanded", String(!row.folded));
    else line.element.removeAttribute("aria-expanded");
    line.fold.textContent = row.foldable ? (row.folded ? "▸" : "▾") : "";
    line.text.textContent = row.type === "more" ? `${row.hidden} more …` : placed.pinned ? pathOf(row.node) : track.name;
    line.detail.textContent = row.type === "group" && row.hidden > 0 ? count(row.hidden) : track.kind === "machine" ? track.detail : "";
    line.element.title = [track.name, track.detail].filter(Boolean).join(" · ");
    line.pin.textContent = isPinned ? "unpin" : "pin";
    line.pin.style.display = row.type === "more" ? "none" : "";
    line.sum = "?";
    line.ran.textContent = line.waits.textContent = line.unknown.textContent = "";
  }

  private line(index: number): Line {
    const [fold, text, detail, ran, waits, unknown] = ["fold", "text", "detail", "ran", "waits", "unknown"].map((name) => make("span", { class: name })) as [HTMLElement, HTMLElement, HTMLElement, HTMLElement, HTMLElement, HTMLElement];
    const pin = make("button", { class: "pin", tabindex: "-1" }, "pin");
    const element = make("div", { class: "name", role: "treeitem" }, fold, text, detail, make("span", { class: "sum" }, ran, waits, unknown), pin);
    element.addEventListener("click", (event) => {
      const placed = this.placed[index];
      if (placed) this.clicked(placed, event.target === pin);
    });
    this.root.append(element);
    return { element, fold, text, detail, ran, waits, unknown, pin, shows: "", sum: "" };
  }
}

/** A pinned row stands alone: its own machine is named with it. */
function pathOf(node: Placed["row"]["node"]): string {
  const names = [node.track.name];
  for (let up = node.parent; up; up = up.parent) {
    if (!up.group || up.track.kind === "machine") names.unshift(up.track.name);
    if (up.track.kind === "machine") break;
  }
  return names.join(" › ");
}

/** Rows for which "ran" and "waited" mean something. */
function showsShares({ row }: Placed): boolean {
  return ["cpu", "vcpu", "thread", "domain"].includes(row.node.track.kind);
}
