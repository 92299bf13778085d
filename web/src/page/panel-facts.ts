// The facts of the chosen interval, and links along its arrows.
import type { FactsArrow, Place, Waker } from "../api/types.ts";
import { filterText } from "../core/coverage.ts";
import { evidenceWords, flowColour, flowWords } from "../core/flows.ts";
import { exactDuration, moment } from "../core/format.ts";
import { numberOf } from "../core/time.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import { copyButton, wallSpan } from "./times.ts";

/** The panel's content for what is chosen now. */
export function factsPanel(app: App): HTMLElement {
  const { model, state } = app;
  const chosen = state.chosen;
  if (!chosen && state.factsError) return make("p", { class: "bad" }, state.factsError);
  if (!chosen && app.asking) return make("p", { class: "dim" }, "…");
  if (!chosen) return make("div", {}, make("p", { class: "dim" }, "Click an interval or press Enter to show its details, its waker and its preemptor."), filterLine(app));
  const facts = state.facts;
  const label = facts?.label || model.label(chosen.key);
  const table = make("table");
  const line = (name: string, ...value: (Node | string)[]): void => void table.append(make("tr", {}, make("th", {}, name), make("td", {}, ...value)));
  line("track", model.trackName(chosen.track));
  const end = chosen.ts + chosen.dur;
  line("start", moment(chosen.ts, model.unit), make("span", { class: "dim" }, `   trace time ${model.abs(chosen.ts)} `), copyButton(app, chosen.ts, "start"));
  line("end", moment(end, model.unit), " ", copyButton(app, end, "end"));
  const wall = wallSpan(app, chosen.ts, end);
  if (wall) line("wall clock", wall);
  line("duration", make("b", {}, exactDuration(chosen.dur, model.unit)));
  // An unknown interval is no wait: neither waker nor preemptor explains it.
  const unknown = model.isUnknown(chosen.key);
  if (unknown) line("state", "unknown: no event in the recording determines it");
  const places: [string, Place | null | undefined][] = [
    ...(unknown ? [] : ([["preempted by", facts?.preemptor], ["woken by", facts?.waker], ["exit", facts?.exit]] as [string, Place | null | undefined][])),
    ["previous", facts?.previous],
    ["next", facts?.next],
  ];
  for (const [name, place] of places) if (place) line(name, placeLink(app, name.endsWith(" by") ? who(app, place) : place, chosen.track));
  const left = make("div", {}, make("h3", {}, chip(app, chosen.key, chosen.track), label, app.why.explainable(chosen.track) !== undefined && make("span", { class: "beside" }, whyButton(app)), app.requests.isRequest(chosen.track) && make("span", { class: "beside" }, requestsButton(app, "Stages"))), table, filterLine(app));
  if (state.factsError) left.append(make("p", { class: "bad" }, state.factsError));
  else if (!facts) left.append(make("p", { class: "dim" }, "…"));
  const root = make("div", { class: "columns" }, left);
  const arrows = facts?.arrows ?? [];
  if (arrows.length > 0) root.append(arrowsTable(app, arrows));
  for (const row of facts?.rows ?? []) root.append(valuesTable(row.table, row.values));
  return root;
}

/** The filter of the recording, which limits everything that the panel lists. */
function filterLine(app: App): HTMLElement | false {
  const { filter } = app.model.info;
  return filter ? make("p", { class: "bad" }, `Recording ${filterText(filter)}`) : false;
}

/** A small square in a key's own colour and pattern. */
export function chip(app: App, key: number, track: number): HTMLElement {
  const element = make("span", { class: "chip" });
  element.style.background = app.chipOf(key, track);
  return element;
}

/** Explains the selected range or interval by its critical path. */
export function whyButton(app: App): HTMLElement {
  const button = make("button", { title: "Critical path of this time through all layers (Shift+W)" }, "Why slow?");
  button.addEventListener("click", () => app.run("why"));
  return button;
}

/** Lists the slowest requests of the selected range, or draws the request of the selected interval. */
export function requestsButton(app: App, name: "Requests" | "Stages"): HTMLElement {
  const title = name === "Stages" ? "Draw the stages of this request over the rows (Shift+R)" : "List the slowest requests and packets of this range (Shift+R)";
  const button = make("button", { title }, name);
  button.addEventListener("click", () => app.run("requests"));
  return button;
}

/** Somebody, by the name of their track where they have one. */
function who(app: App, place: Waker): Place {
  // What an interrupt was about, its label says; the track is but that of its CPU.
  if (place.interrupt) return place;
  if (typeof place.track === "number") return { ...place, label: app.model.trackName(place.track) };
  // The line says already what was done.
  return place.label ? { ...place, label: place.label.replace(/^(preempted|waking) by /, "") } : place;
}

function placeLink(app: App, place: Place, otherwise: number): Node {
  const dur = numberOf(place.dur);
  const text = [place.label ?? place.reason ?? (typeof place.key === "number" ? app.model.label(place.key) : ""), Number.isFinite(dur) ? exactDuration(dur, app.model.unit) : ""].filter(Boolean).join(" · ");
  if (!place.ts) return document.createTextNode(text || "–");
  const link = make("a", { class: "jump", href: "#", role: "button" }, text || "jump");
  link.addEventListener("click", (event) => {
    event.preventDefault();
    app.jump(place.track ?? otherwise, app.model.rel(place.ts!));
  });
  return link;
}

/** A short line in the colour of a kind of arrows. */
export function arrowChip(colour: string): HTMLElement {
  const element = make("span", { class: "arrow" });
  element.style.background = colour;
  return element;
}

function arrowsTable(app: App, arrows: readonly FactsArrow[]): HTMLElement {
  const table = make("table");
  for (const { from, to, kind, evidence = null, what = null } of arrows) {
    const name = (place: Place): Place => ({ label: "?", ...who(app, place) });
    table.append(make("tr", { title: evidenceWords({ evidence }) }, make("th", {}, arrowChip(flowColour(kind, "currentColor")), flowWords({ kind, what })), make("td", {}, placeLink(app, name(from), -1)), make("td", { class: "dim" }, "→"), make("td", {}, placeLink(app, name(to), -1))));
  }
  return make("div", {}, make("h3", {}, "Arrows"), table);
}

function valuesTable(name: string, values: Readonly<Record<string, unknown>>): HTMLElement {
  const table = make("table");
  for (const [column, value] of Object.entries(values)) {
    if (value === null || value === undefined) continue;
    table.append(make("tr", {}, make("th", {}, column), make("td", { class: "label" }, String(value))));
  }
  return make("div", {}, make("h3", { class: "dim" }, name), table);
}
