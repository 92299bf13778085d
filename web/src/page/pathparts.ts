// The parts that the panels of a critical path and of a request share: the heading with its buttons, and the rows
// that are not shown.
import { duration, percent, thousands } from "../core/format.ts";
import { spanOf } from "../core/view.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import { MOST_PINNED } from "./pathview.ts";
import type { DrawnPath } from "./state.ts";

/** The title, and buttons that zoom to the path, pin its rows and remove it. `what` names it in their titles. */
export function pathHead(app: App, title: string, path: DrawnPath["path"], what: string, remove: () => void): HTMLElement {
  const button = (text: string, words: string, act: () => void): HTMLElement => {
    const made = make("button", { title: words }, text);
    made.addEventListener("click", act);
    return made;
  };
  const many = path?.tracks.length ?? 0;
  const rows = app.paths.pins ? "Unpin its rows" : many > MOST_PINNED ? `Show its ${MOST_PINNED} longest rows` : "Show its rows";
  return make(
    "h3",
    {},
    make("span", { class: "label", title }, title),
    button("Zoom", `Show the whole time of the ${what}`, () => app.paths.fit()),
    many > 0 && button(rows, `Pin the rows of the ${what} to the top, those with the most time first`, () => app.paths.togglePins()),
    button("Remove (Esc)", `Remove the ${what}`, remove),
  );
}

/** Time that no row shows. */
export function hiddenLines(app: App, path: NonNullable<DrawnPath["path"]>, what: string): HTMLElement[] {
  const { ns, tracks, trackless_ns } = path.hidden;
  const time = (part: number): string => `${duration(part, app.model.unit)} (${percent(part / spanOf(path.range))})`;
  const lines: string[] = [];
  if (tracks.length > 0) lines.push(`${tracks.length === 1 ? "One row" : `${thousands(tracks.length)} rows`} of the ${what} ${tracks.length === 1 ? "is" : "are"} not shown: ${time(ns - trackless_ns)}.`);
  if (trackless_ns > 0) lines.push(`${time(trackless_ns)} of the ${what} has no row in this recording.`);
  return lines.map((line) => make("p", { class: "dim" }, line));
}
