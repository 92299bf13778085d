// The panel below: tabs and what the open one shows. Each panel builds its own content from the state.
import type { App } from "./app.ts";
import { make, need } from "./dom.ts";
import { factsPanel } from "./panel-facts.ts";
import { marksPanel } from "./panel-marks.ts";
import { RangePanel } from "./panel-range.ts";
import { RequestsPanel } from "./panel-requests.ts";
import { SqlPanel } from "./panel-sql.ts";
import { WhyPanel } from "./panel-why.ts";
import type { DockTab } from "./state.ts";

const TABS: readonly (readonly [DockTab, string])[] = [
  ["facts", "Interval"],
  ["range", "Range"],
  ["why", "Why"],
  ["requests", "Requests"],
  ["sql", "SQL"],
  ["marks", "Marks"],
];

export class Dock {
  private readonly root = need("#dock");
  private readonly tabs = need("#tabs");
  private readonly panel = need("#panel");
  private readonly sql: SqlPanel;
  readonly range: RangePanel;
  readonly why: WhyPanel;
  readonly requests: RequestsPanel;
  private shown: DockTab | undefined;

  constructor(private readonly app: App) {
    this.sql = new SqlPanel(app);
    this.why = new WhyPanel(app);
    this.requests = new RequestsPanel(app);
    this.range = new RangePanel(app, () => this.refresh("range"));
    for (const [tab, name] of TABS) {
      const button = make("button", { role: "tab", "data-tab": tab }, name);
      button.addEventListener("click", () => app.openDock(tab));
      this.tabs.append(button);
    }
    const close = make("button", { class: "close", title: "Close (B)", "aria-label": "Close the panel" }, "✕");
    close.addEventListener("click", () => {
      if (this.shown === "why") app.why.clear();
      else if (this.shown === "requests") app.requests.clear();
      app.openDock(undefined);
    });
    this.tabs.append(close);
    this.dragEdge();
  }

  /** Shows the tab that the state says, or nothing. */
  update(): void {
    const tab = this.app.state.dock;
    const changed = tab !== this.shown;
    this.shown = tab;
    this.root.hidden = tab === undefined;
    for (const button of this.tabs.querySelectorAll<HTMLElement>("[data-tab]")) button.setAttribute("aria-selected", String(button.dataset["tab"] === tab));
    if (changed && tab) this.refresh(tab);
    if (changed) this.app.resized();
  }

  /** Builds a tab's content anew if it is the one shown. */
  refresh(tab: DockTab): void {
    if (this.shown !== tab) return;
    if (tab === "sql") {
      if (!this.sql.root.isConnected) this.panel.replaceChildren(this.sql.root);
    } else if (tab === "why") {
      if (!this.why.root.isConnected) this.panel.replaceChildren(this.why.root);
      this.why.update();
    } else if (tab === "requests") {
      if (!this.requests.root.isConnected) this.panel.replaceChildren(this.requests.root);
      this.requests.update();
    } else if (tab === "facts") this.panel.replaceChildren(factsPanel(this.app));
    else if (tab === "range") this.panel.replaceChildren(this.range.content());
    else this.panel.replaceChildren(marksPanel(this.app));
  }

  /** Pieces of the drawn path lie on other rows. */
  pathMoved(): void {
    this.why.update();
    this.requests.updateStages();
  }

  /** Another piece of the drawn path is marked. */
  pieceMarked(): void {
    this.why.mark();
    this.requests.updateStages();
  }

  focusSql(): void {
    this.sql.focus();
  }

  /** Asks this in the panel of SQL. */
  ask(sql: string): void {
    this.sql.ask(sql);
  }

  private dragEdge(): void {
    const edge = need("#dock-edge");
    edge.addEventListener("pointerdown", (down) => {
      edge.setPointerCapture(down.pointerId);
      const height = this.root.offsetHeight;
      edge.onpointermove = (move) => {
        this.root.style.height = `${Math.max(90, height + down.clientY - move.clientY)}px`;
        this.app.resized();
      };
      edge.onpointerup = () => (edge.onpointermove = null);
    });
  }
}
