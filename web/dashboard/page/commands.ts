// What each command does. The keys that give them are core/keys.ts's.
import { memory, need } from "../../src/page/dom.ts";
import type { Command } from "../core/keys.ts";
import { RANGES } from "../core/steps.ts";
import type { App } from "./app.ts";
import { openHelp } from "./help.ts";

/** Ranges that zooming ends at. */
const SHORTEST_NS = 30e9;
const LONGEST_NS = 31 * 86_400e9;
/** How far earlier and later go. */
const PAN = 0.5;

export function runCommand(app: App, command: Command): void {
  const actions: Readonly<Record<Command, () => void>> = {
    range1: () => app.setLength(RANGES[0]![1]),
    range2: () => app.setLength(RANGES[1]![1]),
    range3: () => app.setLength(RANGES[2]![1]),
    range4: () => app.setLength(RANGES[3]![1]),
    rangeOwn: () => select("#own"),
    zoomIn: () => zoom(app, 0.5),
    zoomOut: () => zoom(app, 2),
    pause: () => app.pause(),
    earlier: () => pan(app, -PAN),
    later: () => pan(app, PAN),
    now: () => {
      app.moments.choose(undefined);
      app.showUntil(undefined);
    },
    momentLeft: () => sideways(app, -1),
    momentRight: () => sideways(app, 1),
    momentLeftFar: () => app.moments.step(-10),
    momentRightFar: () => app.moments.step(10),
    snapshot: () => void app.moments.take(),
    openSnapshot: () => app.moments.open(),
    up: () => void app.panels.step(-1, 0),
    down: () => void app.panels.step(1, 0),
    open: () => app.panels.openChosen(),
    order: () => app.nextOrder(),
    shown: () => app.nextShown(),
    filter: () => select("#filter"),
    exits: () => app.see({ exits: app.seen.exits === "time" ? "who" : "time" }),
    large: () => app.panels.toggleLarge(),
    theme: () => {
      const theme = app.theme === "dark" ? "light" : "dark";
      memory.set("theme", theme);
      app.retheme(theme);
    },
    help: () => openHelp(app),
    close: () => close(app),
  };
  actions[command]();
}

function select(selector: string): void {
  const input = need<HTMLInputElement>(selector);
  input.focus();
  input.select();
}

/** In a matrix sideways is a column, elsewhere a moment. */
function sideways(app: App, by: number): void {
  if (!app.panels.step(0, by)) app.moments.step(by);
}

function zoom(app: App, by: number): void {
  const length_ns = Math.min(LONGEST_NS, Math.max(SHORTEST_NS, app.seen.length_ns * by));
  if (app.following && app.moment === undefined) return app.setLength(length_ns);
  const { from, to } = app.view;
  const middle = app.moment ?? (from + to) / 2;
  // The middle stays where it is on the screen.
  const until = middle + (to - middle) * (length_ns / app.seen.length_ns);
  app.seen = { ...app.seen, length_ns };
  app.showUntil(app.unixMs(until));
}

function pan(app: App, by: number): void {
  const to = app.view.to + by * app.seen.length_ns;
  if (to >= app.knownTo) return app.following ? undefined : app.showUntil(undefined);
  app.showUntil(app.unixMs(to));
}

/** From the outermost to the innermost: what is open is closed first. */
function close(app: App): void {
  app.panels.hideTip();
  if (app.moment !== undefined) app.moments.choose(undefined);
  else if (app.seen.large !== undefined) app.panels.toggleLarge();
  else if (app.seen.filter !== "") app.see({ filter: "" });
  else if (app.seen.focus !== undefined) app.back();
}
