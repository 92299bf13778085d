// Starts the dashboard: the state from the address, the feed, keys and buttons.
import { debounced, need } from "../../src/page/dom.ts";
import { nextOf } from "../core/url.ts";
import { commandOf, type Command } from "../core/keys.ts";
import { parseLength } from "../core/steps.ts";
import { App } from "./app.ts";
import { runCommand } from "./commands.ts";
import { LOCKED } from "./moments.ts";

declare global {
  interface Window {
    /** The running page, for scripts in the console and for the browser tests. */
    dashboard?: App;
  }
}

function start(): void {
  // A timeline that needs a token led here. Its own fragment is none of the dashboard's.
  const next = nextOf(location.search);
  const there = next === undefined ? undefined : next + location.hash;
  // A token came with the first request and is a cookie now: it stays out of the address and of links.
  if (location.search) history.replaceState(null, "", location.pathname + (next === undefined ? location.hash : ""));
  const app = new App();
  window.dashboard = app;
  for (const button of document.querySelectorAll<HTMLElement>("[data-command]")) {
    button.addEventListener("click", () => {
      runCommand(app, button.dataset["command"] as Command);
      // Keys go to the rows again, not to the button.
      if (button.dataset["command"] !== "rangeOwn") app.panels.fleet.focusable.focus({ preventScroll: true });
    });
  }
  inputs(app);
  document.addEventListener("keydown", (event) => key(app, event));
  window.addEventListener("hashchange", () => app.readAddress());
  window.addEventListener("online", () => app.feed.retry());
  // While the server is gone time goes on: the gap grows.
  setInterval(() => app.trouble && app.repaint(), 1000);
  app.panels.fleet.focusable.focus({ preventScroll: true });
  app.moments.start();
  void app.feed.follow();
  if (there !== undefined) app.panels.askToken(`${LOCKED} The timeline opens then.`, there);
}

function key(app: App, event: KeyboardEvent): void {
  if (event.defaultPrevented || document.querySelector("dialog[open]") || event.target instanceof HTMLInputElement) return;
  // Enter and Space do what a button says.
  if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === " ")) return;
  const command = commandOf(event);
  if (command === undefined) return;
  event.preventDefault();
  runCommand(app, command);
}

function inputs(app: App): void {
  const filter = need<HTMLInputElement>("#filter");
  const refilter = (): void => app.see({ filter: filter.value.trim() });
  filter.addEventListener("input", debounced(80, refilter));
  const own = need<HTMLInputElement>("#own");
  const back = (): void => app.panels.fleet.focusable.focus({ preventScroll: true });
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Escape") filter.value = "";
    // At once: who is that quick is not kept waiting for what was typed last.
    if (event.key === "Escape" || event.key === "Enter") refilter();
    if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") back();
  });
  own.addEventListener("keydown", (event) => {
    if (event.key === "Escape") back();
    if (event.key !== "Enter") return;
    const length_ns = parseLength(own.value);
    own.setAttribute("aria-invalid", String(length_ns === undefined));
    if (length_ns === undefined) return app.say("Invalid length: use 90s, 40m, 1.5h or 3d, from 10 s to 31 days");
    back();
    app.setLength(length_ns);
  });
}

start();
