// Starts the page: loads the recording's description, follows the building of tiles, opens the view.
import { ApiError } from "../api/client.ts";
import type { BuildState } from "../api/types.ts";
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

/** What is missing or broken in the recording, one line each. */
function showProblems(app: App): void {
  const problems = app.model.info.problems ?? [];
  for (const problem of problems.slice(0, 3)) app.notice(typeof problem === "string" ? problem : problemLine(problem), "");
  if (problems.length > 3) app.notice(`${problems.length - 3} more problems: see the table import_log`, "");
}

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
