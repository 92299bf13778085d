// Starts the page: loads the recording's description, follows the building of tiles, opens the view.
import { ApiError } from "../api/client.ts";
import type { BuildState, RecordingInfo } from "../api/types.ts";
import { thousands } from "../core/format.ts";
import type { Command } from "../core/keymap.ts";
import { App } from "./app.ts";
import { debounced, make, need } from "./dom.ts";
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
  showProblems(app);
  follow(app);
}

/** How many remarks are listed; all of them are in the table import_log. */
const LISTED = 200;

/** What is missing or broken in the recording: one line, which opens to all, losses first. */
function showProblems(app: App): void {
  const loses = (problem: Problem): boolean => typeof problem !== "string" && problem["data_loss"] === true;
  const problems = [...(app.model.info.problems ?? [])].sort((a, b) => Number(loses(b)) - Number(loses(a)));
  const lines = problems.map((problem) => (typeof problem === "string" ? problem : problemLine(problem)));
  if (lines.length === 0) return;
  const losses = problems.filter(loses).length;
  const line = app.notice(lines[0]!, losses > 0 ? "bad" : "");
  if (lines.length === 1) return;
  const more = lines.length > LISTED ? [make("li", {}, `… and ${lines.length - LISTED} more: SELECT * FROM import_log`)] : [];
  const summary = `${thousands(lines.length)} remarks about this recording${losses > 0 ? `, ${thousands(losses)} of them mean lost data` : ""}: ${lines[0]!}`;
  const list = make("ul", {}, ...lines.slice(0, LISTED).map((text) => make("li", {}, text)), ...more);
  line.querySelector("span")!.replaceChildren(make("details", {}, make("summary", {}, summary), list));
}

type Problem = NonNullable<RecordingInfo["problems"]>[number];

function problemLine(problem: Readonly<Record<string, unknown>>): string {
  const where = [problem["source"], problem["offset"] ?? undefined].filter((part) => part !== undefined && part !== null && part !== "").join(" at byte ");
  return [where, String(problem["message"] ?? JSON.stringify(problem))].filter(Boolean).join(": ");
}

/** Follows the building of tables and tiles; the page is usable meanwhile. */
function follow(app: App): void {
  const building = app.model.info.building;
  if (!building || building.state === "ready") return;
  app.progress(building);
  const events = new EventSource("/api/progress");
  let stage = building.stage;
  // While tiles are being made there are the tracks made so far: read again every few seconds, and at the end.
  const renew = (): void => void Model.load().then((model) => app.renew(model), (error: unknown) => app.fail(error instanceof Error ? error.message : String(error)));
  const often = setInterval(renew, 3000);
  const retry = debounced(300, () => app.loader.retry());
  events.onmessage = (event: MessageEvent<string>) => {
    const now = JSON.parse(event.data) as BuildState;
    app.progress(now);
    const last = now.state === "ready" || now.state === "failed";
    if (last || now.stage !== stage) renew();
    else retry();
    stage = now.stage;
    if (!last) return;
    clearInterval(often);
    events.close();
  };
}

start().catch((error: unknown) => {
  const line = error instanceof Error ? error.message : String(error);
  const hint = error instanceof ApiError && (error.status === 401 || error.status === 403) ? " Open the address that `transect view` printed: it carries the key." : "";
  need("#notices").append(make("p", { class: "bad" }, make("span", {}, `The recording cannot be shown: ${line}${hint}`)));
});
