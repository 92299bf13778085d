// The panels: where they are, which of them are shown, what is written above them, and pointer and keys inside them.
import { make, need, write } from "../../src/page/dom.ts";
import { LOCAL } from "../../src/core/zone.ts";
import { clock, offsetsText } from "../core/clock.ts";
import { lengthText, RANGES } from "../core/steps.ts";
import { api } from "./api.ts";
import type { App } from "./app.ts";
import { Findings } from "./findings.ts";
import { Fleet } from "./fleet.ts";
import { ExitGrid, RivalGrid } from "./grid.ts";
import { CpuHeat, ExitHeat, WaitHeat } from "./heats.ts";
import { IoPlot } from "./io.ts";
import type { Hit, Plot } from "./plot.ts";
import { Reasons, Server, Threads } from "./tables.ts";
import { Tip } from "./tip.ts";

/** Text is written so often at most. */
const WRITE_MS = 120;
/** Remarks that are kept. */
const MOST_NOTES = 4;

const panelOf = (name: string): HTMLElement => need(`#p-${name}`);

export class Panels {
  readonly fleet: Fleet;
  private readonly plots: readonly Plot[];
  private readonly exits: { readonly time: ExitHeat; readonly who: ExitGrid };
  private readonly texts: readonly (Reasons | Threads | Server)[];
  private readonly tip = new Tip();
  /** All of this host, and on which VM or container one is. They stay: a button that is made anew loses focus and click. */
  private readonly home = make("button", { class: "crumb", title: "The whole host (Esc)" });
  private readonly here = { mark: make("span", { class: "dim" }, "›"), name: make("b") };
  private readonly turn = { note: make("span", { class: "note" }), button: make("button", { class: "turn", title: "Switch between exits over time and by VM (E)" }) };
  /** Remarks that stay until they are put away, the newest first, below lines of how it stands. */
  private readonly notes: HTMLElement[] = [];
  private lines: readonly HTMLElement[] = [];
  /** A token is asked for this reason; then the page at this address is opened, if any. */
  private wanted: { readonly why: string; readonly next?: string | undefined } | undefined;
  private said = "";
  private stale = true;
  private written = -Infinity;

  constructor(private readonly app: App) {
    this.fleet = new Fleet(app, panelOf("fleet"));
    this.exits = { time: new ExitHeat(app, panelOf("exits"), "VM exits by reason over time"), who: new ExitGrid(app, panelOf("exits"), "VM exits by VM and reason") };
    const alone = [new CpuHeat(app, panelOf("cpus"), "Busy share of each CPU over time"), new WaitHeat(app, panelOf("waits"), "Waits for a CPU: length over time"), new RivalGrid(app, panelOf("rivals"), "CPU contention: waiting time by waiter and antagonist"), new IoPlot(app, panelOf("io"), "I/O over time")];
    this.plots = [new Findings(app, panelOf("findings")), this.fleet, ...alone, this.exits.time, this.exits.who];
    this.texts = [new Reasons(app, panelOf("reasons")), new Threads(app, panelOf("threads")), new Server(app, panelOf("server"))];
    for (const plot of [...alone, this.exits.time, this.exits.who]) plot.body.append(this.holder(plot));
    for (const plot of this.plots) this.listen(plot);
    this.exits.time.setTitle("Exits", this.turn.note, this.turn.button);
    this.button(this.turn.button, () => app.see({ exits: app.seen.exits === "time" ? "who" : "time" }));
    need("#crumbs").replaceChildren(make("b", { class: "brand" }, "transect"), this.home, this.here.mark, this.here.name);
    this.button(this.home, () => app.back());
    new ResizeObserver(() => this.resized()).observe(need("#grid"));
    window.addEventListener("resize", () => this.resized());
  }

  /** As all buttons: keys go to the rows again. */
  private button(button: HTMLElement, act: () => void): void {
    button.addEventListener("click", () => {
      act();
      this.fleet.focusable.focus({ preventScroll: true });
    });
  }

  private holder(plot: Plot): HTMLElement {
    return make("div", { class: "holder" }, plot.canvas, ...plot.marks);
  }

  /** CSS pixels of the widest plot. */
  get widest(): number {
    return Math.max(...this.plots.map((plot) => plot.width), 300) * Math.min(2, window.devicePixelRatio || 1);
  }

  /** Measures the panels anew before the next frame. */
  resized(): void {
    this.stale = true;
    this.app.repaint();
  }

  /** Which panels there are now. */
  arrange(): void {
    const { seen } = this.app;
    const grid = need("#grid");
    grid.dataset["view"] = seen.focus === undefined ? "host" : "actor";
    grid.classList.toggle("one", seen.large !== undefined);
    for (const panel of grid.querySelectorAll<HTMLElement>(".panel")) panel.classList.toggle("large", panel.dataset["panel"] === seen.large);
    this.exits.time.canvas.parentElement!.hidden = seen.exits !== "time";
    this.exits.who.canvas.parentElement!.hidden = seen.exits === "time";
    this.header();
    this.resized();
  }

  private header(): void {
    const { app } = this;
    const { seen } = app;
    const host = app.status?.host ?? app.machines.hostName;
    const here = seen.focus === undefined ? undefined : app.actor(seen.focus).name;
    write(this.home, host);
    write(this.here.name, here ?? "");
    this.here.mark.hidden = this.here.name.hidden = here === undefined;
    document.title = `${here ?? host} · transect`;
    RANGES.forEach(([, length_ns], i) => need(`[data-command="range${i + 1}"]`).setAttribute("aria-pressed", String(length_ns === seen.length_ns)));
    const own = need<HTMLInputElement>("#own");
    if (document.activeElement !== own) own.value = RANGES.some(([, length_ns]) => length_ns === seen.length_ns) ? "" : lengthText(seen.length_ns);
    const pause = need("#b-pause");
    pause.setAttribute("aria-pressed", String(!app.following));
    write(pause, app.following ? "Pause" : "Follow");
    const filter = need<HTMLInputElement>("#filter");
    if (document.activeElement !== filter) filter.value = seen.filter;
    this.live();
  }

  /** How live this is, in words beside a dot whose shape says it, too. */
  private live(): void {
    const { app } = this;
    const [mark, text, kind] = liveText(app);
    const live = need("#live");
    live.className = kind;
    write(live, `${mark} ${text}`);
    const zone = need("#zone");
    const { from, to } = app.view;
    write(zone, app.range ? offsetsText(app.unixMs(from), app.unixMs(to)) : offsetsText(Date.now(), Date.now()));
    zone.title = `All times are in the time zone of this browser: ${LOCAL.name}`;
  }

  paint(): void {
    const { app } = this;
    if (this.stale) {
      this.stale = false;
      app.rem = parseFloat(getComputedStyle(document.documentElement).fontSize) || 13;
      for (const plot of this.plots) plot.measure();
    }
    for (const plot of this.plots) if (plot.shown) plot.paint();
    // Text is for reading: while one moves it need not keep up with every frame.
    const now = performance.now();
    if (now - this.written < WRITE_MS) return app.repaintLater(WRITE_MS);
    this.written = now;
    for (const text of this.texts) if (text.shown) text.paint();
    this.exitsTitle();
    this.header();
    app.moments.bar();
  }

  private exitsTitle(): void {
    const { app } = this;
    const who = app.seen.focus === undefined ? "VM" : "vCPU";
    const isTime = app.seen.exits === "time";
    write(this.turn.note, isTime ? "per second, by reason" : app.sumText);
    write(this.turn.button, isTime ? `${who} × reason` : "over time");
  }

  /** The line at the moment, in all panels. */
  moveLines(): void {
    for (const plot of this.plots) plot.moveLine();
  }

  // Pointer and keys inside panels.

  private listen(plot: Plot): void {
    const { canvas } = plot;
    const point = (event: PointerEvent | MouseEvent): { x: number; y: number } => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    canvas.addEventListener("pointermove", (event) => {
      const { x, y } = point(event);
      this.tip.show(plot.hit(x, y), event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => this.tip.hide());
    canvas.addEventListener("click", (event) => {
      const { x, y } = point(event);
      this.act(plot.hit(x, y));
    });
    plot.focusable.addEventListener("blur", () => this.tip.hide());
  }

  private act(hit: Hit | undefined): void {
    if (hit?.at !== undefined) this.app.moments.choose(hit.at);
    else if (hit?.open !== undefined) this.app.open(hit.open);
  }

  /** The plot that has the focus; without one, the rows. */
  get focused(): Plot {
    const here = document.activeElement;
    return this.plots.find((plot) => plot.focusable === here) ?? this.fleet;
  }

  /** Moves inside the focused plot; false: there is nothing to move to there. */
  step(rows: number, columns: number): boolean {
    const plot = this.focused;
    if (!plot.step(rows, columns)) return false;
    this.app.paintNow();
    const hit = plot.chosen();
    if (!hit) return true;
    const box = plot.canvas.getBoundingClientRect();
    if (plot !== this.fleet) this.tip.show(hit, box.left + box.width / 2, box.bottom - 8);
    this.app.say([hit.title, ...hit.lines.map((line) => (typeof line === "string" ? line : line.join(": ")))].join(". "));
    return true;
  }

  openChosen(): void {
    const open = this.focused.chosen()?.open;
    if (open !== undefined) this.app.open(open);
  }

  toggleLarge(): void {
    const { app } = this;
    const { large, ...rest } = app.seen;
    const panel = document.activeElement?.closest<HTMLElement>(".panel")?.dataset["panel"] ?? "fleet";
    app.seen = rest;
    app.see(large === undefined ? { large: panel } : {});
  }

  hideTip(): void {
    this.tip.hide();
  }

  // What is said above the panels.

  /** A remark that stays until it is put away. */
  note(text: string, kind: string, more?: HTMLElement): void {
    const close = make("button", { title: "Dismiss" }, "✕");
    const line = make("p", { class: kind }, make("span", {}, text, " ", more), close);
    close.addEventListener("click", () => {
      this.notes.splice(this.notes.indexOf(line), 1);
      line.remove();
      this.resized();
    });
    const [newest] = this.notes;
    if (newest) newest.before(line);
    else need("#notices").append(line);
    this.notes.unshift(line);
    for (const old of this.notes.splice(MOST_NOTES)) old.remove();
    this.resized();
  }

  /** How it stands, above the remarks; lines that say what they said are left as they are. */
  notices(): void {
    const { app } = this;
    const place = need("#notices");
    // Somebody types a token there: it stays.
    if (place.contains(document.activeElement) && document.activeElement instanceof HTMLInputElement && (app.trouble?.kind === "denied" || this.wanted)) return;
    const lines: HTMLElement[] = [];
    if (this.wanted && app.trouble?.kind !== "denied") lines.push(this.tokenLine(`${this.wanted.why} Paste it here.`, ""));
    if (app.trouble) lines.push(this.troubleLine());
    const ended = app.status?.ended;
    if (ended) lines.push(make("p", { class: "bad" }, make("span", {}, `The server stopped recording windows: ${ended}. Existing windows remain visible; restart the server.`)));
    if (app.historyTrouble !== undefined) lines.push(make("p", { class: "bad" }, make("span", {}, app.historyTrouble)));
    if (app.damageText !== undefined) lines.push(make("p", {}, make("span", {}, app.damageText)));
    if (app.rangeError !== undefined && !app.trouble) lines.push(make("p", { class: "bad" }, make("span", {}, `This range cannot be shown: ${app.rangeError}`)));
    const said = lines.map((line) => line.textContent).join("\n");
    if (said !== this.said) {
      this.said = said;
      for (const line of this.lines) line.remove();
      this.lines = lines;
      place.prepend(...lines);
    }
    this.resized();
  }

  private troubleLine(): HTMLElement {
    const { app } = this;
    const trouble = app.trouble!;
    if (trouble.kind === "denied") return this.tokenLine(`A token is required (401): ${trouble.text}. Paste it here, or open the address that transect serve printed.`, "bad");
    const seen = app.newest ? ` The data shown was read before ${clock(trouble.since_ms)}.` : "";
    const todo = trouble.kind === "gone" ? " Is it running? systemctl status transect, or start transect serve." : "";
    const now = make("button", {}, "Retry now");
    now.addEventListener("click", () => app.feed.retry());
    return make("p", { class: "bad" }, make("span", {}, `${trouble.text}.${todo}${seen} The page retries automatically.`), now);
  }

  /** Asks for a token, and leads to the page at `next` with it. */
  askToken(why: string, next?: string): void {
    this.wanted = { why, next };
    this.notices();
    need("#notices").querySelector<HTMLInputElement>("#token")?.focus();
  }

  private tokenLine(text: string, kind: string): HTMLElement {
    const { app } = this;
    const input = make("input", { type: "password", id: "token", placeholder: "token", "aria-label": "Token", autocomplete: "current-password" });
    const form = make("form", { class: "token" }, input, make("button", { type: "submit" }, "Use token"));
    const error = make("span", { class: "dim" });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      api.login(input.value).then(
        () => {
          const next = this.wanted?.next;
          if (next !== undefined) return location.assign(next);
          this.wanted = undefined;
          input.blur();
          app.feed.retry();
          app.moments.refreshStatus();
          this.notices();
        },
        (failure: unknown) => (error.textContent = failure instanceof Error ? failure.message : String(failure)),
      );
    });
    return make("p", { class: kind }, make("span", {}, text), form, error);
  }
}

/** A mark whose shape tells it, the words, and the class for its colour. */
function liveText(app: App): readonly [string, string, string] {
  if (app.trouble?.kind === "denied") return ["✕", "token required", "bad"];
  if (app.trouble) return ["✕", `no response since ${clock(app.trouble.since_ms)}`, "bad"];
  if (!app.newest) return ["○", "connecting …", ""];
  const end = clock(app.newest.ended_unix_ns / 1e6);
  if (!app.following) return ["❚❚", "paused", "paused"];
  return ["●", `live ${end}`, "good"];
}
