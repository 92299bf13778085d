// Times in words: the wall clock beside trace time, and moments that are copied for the command line.
import { duration } from "../core/format.ts";
import { copyText, type Bounds } from "../core/moments.ts";
import type { Rel } from "../core/time.ts";
import type { Range } from "../core/view.ts";
import type { WallTime } from "../core/wall.ts";
import { LOCAL, UTC, wallRangeText, wallText, type Zone } from "../core/zone.ts";
import type { App } from "./app.ts";
import { make, memory } from "./dom.ts";
import type { Model } from "./model.ts";
import type { ClockRow, State } from "./state.ts";

const NEXT: Readonly<Record<ClockRow, ClockRow>> = { local: "utc", utc: "off", off: "local" };
const WORDS: Readonly<Record<ClockRow, string>> = { local: "Wall clock in local time", utc: "Wall clock in UTC", off: "Wall clock hidden" };

/** The zone in which the page shows wall-clock times. */
export function zoneOf(state: State): Zone {
  return state.clock === "utc" ? UTC : LOCAL;
}

/** The recording as moments are looked for in it. Times without a zone are those of `zone`. */
export function boundsOf(model: Model, zone: Zone): Bounds {
  const { home, whole, unit, wall } = model;
  return { unit, wall, zone, start: model.abs(home.from), end: model.abs(home.to), first: model.abs(whole.from), last: model.abs(whole.to) };
}

/** Shows the wall clock in local time, in UTC, or not at all. */
export function switchClock(app: App): void {
  const { state, model } = app;
  if (model.wall.isEmpty) return app.say("The wall clock of this recording is unknown");
  state.clock = NEXT[state.clock];
  memory.set("clock", state.clock);
  app.say(WORDS[state.clock]);
  for (const tab of ["facts", "range", "marks"] as const) app.dock.refresh(tab);
  app.redraw();
}

/** The wall-clock time at a moment, to the nanosecond, with its bound; empty if the recording has none. */
export function wallOf(app: App, at: Rel): string {
  const { wall } = app.model;
  if (wall.isEmpty) return "";
  const time = wall.wallOf(app.model.abs(at));
  return time ? `${wallText(time.unixNs, zoneOf(app.state), 9)}${bound(time)}` : "wall clock unknown";
}

/** The wall-clock times of a range with their bound; undefined if the recording has none. */
export function wallSpan(app: App, from: Rel, to: Rel): string | undefined {
  const { wall } = app.model;
  if (wall.isEmpty) return undefined;
  const zone = zoneOf(app.state);
  const [a, b] = [wall.wallOf(app.model.abs(from)), wall.wallOf(app.model.abs(Math.ceil(to)))];
  // The clock was set in between: two times whose distance is not that of the range.
  const steps = wall.steps.some((step) => step.after > app.model.abs(from) && step.before < app.model.abs(Math.ceil(to))) ? "; the clock was set in between" : "";
  if (a && b) return `${wallRangeText(a.unixNs, b.unixNs, zone, 9)}${bound(a, b)}${steps}`;
  const one = (time: WallTime | null): string => (time ? `${wallText(time.unixNs, zone, 9)}${bound(time)}` : "unknown");
  return a || b ? `${one(a)} to ${one(b)}${steps}` : `unknown${steps}`;
}

function bound(...times: readonly WallTime[]): string {
  return ` ± ${duration(Math.max(...times.map(({ errorNs }) => errorNs)))}`;
}

/** Copies a moment as text that `--from` accepts. */
export function copyMoment(app: App, at: Rel): void {
  copy(app, copyText(app.model.abs(at), app.model));
}

/** Copies a range as the options `--from` and `--until`. */
export function copyRange(app: App, range: Range): void {
  const { model } = app;
  copy(app, `--from ${copyText(model.abs(range.from), model)} --until ${copyText(model.abs(Math.ceil(range.to)), model)}`);
}

/** A button that copies a moment. `name` names it: `start`. */
export function copyButton(app: App, at: Rel, name: string): HTMLElement {
  const button = make("button", { class: "copy", "aria-label": `Copy the ${name}`, title: `Copy the ${name} as text for --from and --until` }, "Copy");
  button.addEventListener("click", () => copyMoment(app, at));
  return button;
}

function copy(app: App, text: string): void {
  const denied = (): void => {
    app.notice(`The browser denied access to the clipboard. Copy it here: ${text}`, "");
  };
  // Pages that do not come from this machine or over HTTPS have no clipboard.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (!clipboard) return denied();
  clipboard.writeText(text).then(() => app.say(`Copied ${text}`), denied);
}
