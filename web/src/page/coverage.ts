// The line above the timeline on a recording that is known in part only, and the recording's filter beside its title.
import { coverageText, filterText } from "../core/coverage.ts";
import { isSame } from "../core/view.ts";
import type { App } from "./app.ts";
import { make, need } from "./dom.ts";

/** The range that the line was written for: once dismissed, the line does not come back for the same range. */
let shown = "";

/** Writes the line on the range in which all CPUs are known, with buttons for that range and for the whole window. */
export function showCoverage(app: App): void {
  const { model } = app;
  const { coverage } = model;
  const range = coverage ? `${model.abs(coverage.range.from)}-${model.abs(coverage.range.to)}` : "";
  if (range === shown) return;
  shown = range;
  document.querySelector("#notices .coverage")?.remove();
  if (!coverage) return;
  const roots = new Set(coverage.dark.map((place) => place.machine_id));
  const nameOf = ({ machine_id, cpu }: { machine_id: number | null; cpu: number | null }): string => {
    const machine = machine_id === null ? "unnamed machine" : model.machineName(machine_id);
    if (cpu === null) return `those of ${machine}`;
    return roots.size > 1 ? `CPU ${cpu} of ${machine}` : `CPU ${cpu}`;
  };
  const text = coverageText(coverage, model.home, isSame(app.goal, model.opening), nameOf, model.unit);
  const line = app.notice(text, "coverage");
  const button = (name: string, title: string, act: () => void): HTMLElement => {
    const element = make("button", { title }, name);
    element.addEventListener("click", act);
    return element;
  };
  line.querySelector("span")!.after(
    button("Known part (O)", "Show the range in which all CPUs are known", () => app.run("covered")),
    button("Whole recording (0)", "Show the whole recording", () => app.glideTo(app.model.home)),
  );
}

/** Writes the filter of the recording beside its title; without a filter nothing. */
export function showFilter(app: App): void {
  const { filter } = app.model.info;
  const place = need("#filtered");
  place.hidden = !filter;
  place.textContent = place.title = filter ? filterText(filter) : "";
}
