// Starts the page: loads the recording's description, follows the building of tiles, opens the view.
import { ApiError, ROOT } from "../api/call.ts";
import type { BuildState, RecordingInfo } from "../api/types.ts";
import { thousands } from "../core/format.ts";
import type { Command } from "../core/keymap.ts";
import { App } from "./app.ts";
import { showCoverage, showFilter } from "./coverage.ts";
import { debounced, make, need, throttled } from "./dom.ts";
import { Finder } from "./finder.ts";
import { Input } from "./input.ts";
import { Model } from "./model.ts";

declare global {
  interface Window {
    /** The running page, for scripts in the console and for the browser tests. */
    transect?: App;
  }
}

async function start(): Promise<void> {
  // The key came with the first request and is a cookie now: it stays out of the address and of links.
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  const app = new App(await Model.load());
  window.transect = app;
  new Input(app);
  const finder = new Finder(app);
  const filter = need<HTMLInputElement>("#filter");
  const refilter = debounced(80, () => app.setFilter(filter.value));
  filter.addEventListener("input", refilter);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Enter") void finder.next(filter.value);
    if (event.key === "Escape") {
      app.setFilter("");
      need("#scroll").focus({ preventScroll: true });
    }
  });
  for (const button of document.querySelectorAll<HTMLElement>("[data-command]")) {
    button.addEventListener("click", () => app.run(button.dataset["command"] as Command));
  }
  const showNotes = (): void => {
    showProblems(app);
    showCoverage(app);
    showFilter(app);
    sayIfEmpty(app);
  };
  showNotes();
  app.renewed = showNotes;
  const follower = new Follower(app);
  app.follow = () => follower.start();
  app.renewing = () => follower.renewing;
  const building = app.model.info.building;
  if (!building || building.state === "ready") return;
  app.progress(building);
  follower.start();
}

/** The remarks that were said last. */
let said = "";
/** How many remarks are listed; all of them are in the table import_log. */
const LISTED = 200;

/** What is missing or broken in the recording: one line, which opens to all, losses first. */
function showProblems(app: App): void {
  const loses = (problem: Problem): boolean => typeof problem !== "string" && problem["data_loss"] === true;
  const problems = [...(app.model.info.problems ?? [])].sort((a, b) => Number(loses(b)) - Number(loses(a)));
  const lines = problems.map((problem) => (typeof problem === "string" ? problem : problemLine(problem)));
  const all = lines.join("\n");
  // Said already; perhaps opened, perhaps put away.
  if (all === said) return;
  said = all;
  document.querySelector("#notices .remarks")?.remove();
  if (lines.length === 0) return;
  const losses = problems.filter(loses).length;
  const line = app.notice(lines[0]!, losses > 0 ? "bad remarks" : "remarks");
  if (lines.length === 1) return;
  const more = lines.length > LISTED ? [make("li", {}, `… and ${lines.length - LISTED} more: SELECT * FROM import_log`)] : [];
  const summary = `${thousands(lines.length)} notes on this recording${losses > 0 ? `, ${thousands(losses)} of them report lost data` : ""}: ${lines[0]!}`;
  const list = make("ul", {}, ...lines.slice(0, LISTED).map((text) => make("li", {}, text)), ...more);
  line.querySelector("span")!.replaceChildren(make("details", {}, make("summary", {}, summary), list));
}

type Problem = NonNullable<RecordingInfo["problems"]>[number];

function problemLine(problem: Readonly<Record<string, unknown>>): string {
  const where = [problem["source"], problem["offset"] ?? undefined].filter((part) => part !== undefined && part !== null && part !== "").join(" at byte ");
  return [where, String(problem["message"] ?? JSON.stringify(problem))].filter(Boolean).join(": ");
}

/** Follows the building of tables and tiles, as often as there is any; the page is usable meanwhile. */
class Follower {
  private events: EventSource | undefined;
  private often: ReturnType<typeof setInterval> | undefined;
  private stage: string | null | undefined;
  private asked = 0;
  private taken = 0;
  /** The newest renewal that is over, well or badly. */
  private ended = 0;
  /** The message after which there are no more: said once the description that goes with it is shown. */
  private last: BuildState | undefined;
  private readonly retry = throttled(300, () => this.app.loader.retry());

  constructor(private readonly app: App) {}

  start(): void {
    if (this.events) return;
    this.events = new EventSource(new URL("api/progress", ROOT));
    // While tiles are being made there are the tracks made so far: read again every few seconds, and at the end.
    this.often = setInterval(() => this.renew(), 3000);
    this.events.onmessage = (event: MessageEvent<string>) => this.hear(JSON.parse(event.data) as BuildState);
  }

  /** Is there a description under way that is newer than what is shown? */
  get renewing(): boolean {
    return this.asked > this.ended;
  }

  private hear(now: BuildState): void {
    const last = now.state === "ready" || now.state === "failed";
    this.last = last ? now : undefined;
    if (last) this.stop();
    else this.app.progress(now);
    const nothingYet = now.stage === "tiles" && this.app.model.tracks.length === 0;
    if (last || now.stage !== this.stage || nothingYet) this.renew();
    else this.retry();
    this.stage = now.stage;
  }

  private stop(): void {
    clearInterval(this.often);
    this.events?.close();
    this.events = undefined;
  }

  private renew(): void {
    const asked = ++this.asked;
    Model.load()
      .then(
        // An answer that was overtaken is dropped.
        (model) => asked > this.taken && this.take(model, asked),
        (error: unknown) => nothing(this.app, error),
      )
      .finally(() => this.end(asked));
  }

  private take(model: Model, asked: number): void {
    this.taken = asked;
    this.app.renew(model);
  }

  private end(asked: number): void {
    this.ended = Math.max(this.ended, asked);
    if (this.last && !this.renewing) this.app.progress(this.last);
  }
}

/** Nothing can be shown, and why; what was drawn before stays. */
function nothing(app: App | undefined, error: unknown): void {
  const line = error instanceof Error ? error.message : String(error);
  if (app && app.model.tracks.length > 0) {
    app.fail(line);
    return;
  }
  const denied = error instanceof ApiError && (error.status === 401 || error.status === 403);
  const hint = denied ? "Open the address that `transect view` printed: it contains the access token." : "Fix the cause, then restart transect view.";
  sayNothing("This recording cannot be shown", line, hint);
}

/** In place of the timeline. */
function sayNothing(title: string, line: string, hint: string): void {
  const place = need("#nothing");
  place.replaceChildren(make("h1", {}, title), make("p", {}, line), make("p", { class: "dim" }, hint));
  place.hidden = false;
}

/** A recording without a single row says so, as soon as it is sure. */
function sayIfEmpty(app: App): void {
  const building = app.model.info.building;
  const over = !building || building.state === "ready";
  const empty = over && app.model.tracks.every((track) => track.intervals === 0);
  if (empty) sayNothing("No usable events", "The recording is empty, or no stream could be aligned to the host clock.", "The notes above, if any, list the missing data.");
  else need("#nothing").hidden = true;
}

start().catch((error: unknown) => nothing(undefined, error));
