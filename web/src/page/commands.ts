// What each command does. The keys that give them are core/keymap.ts's.
import { fit, isSame, pan, zoomAt, type Range } from "../core/view.ts";
import type { Command } from "../core/keymap.ts";
import type { App } from "./app.ts";
import { openExport, openHelp } from "./dialogs.ts";
import { openGoTo } from "./goto.ts";
import { copyMoment, switchClock } from "./times.ts";
import { memory, need } from "./dom.ts";
import { eventsOf } from "../core/rows.ts";
import type { Place } from "../api/types.ts";

const ZOOM = 1.6;
const PAN = 0.25;

export function runCommand(app: App, command: Command): void {
  const { state, model } = app;
  const whole = model.whole;
  const actions: Readonly<Record<Command, () => void>> = {
    zoomIn: () => app.glideTo(zoomAt(app.goal, app.focusTime, 1 / ZOOM, whole), "step"),
    zoomOut: () => app.glideTo(zoomAt(app.goal, app.focusTime, ZOOM, whole), "step"),
    panLeft: () => app.glideTo(pan(app.goal, -PAN, whole), "step"),
    panRight: () => app.glideTo(pan(app.goal, PAN, whole), "step"),
    // The same key again means more: the time before the recording's start, too.
    whole: () => app.glideTo(isSame(app.goal, model.home) ? whole : model.home),
    covered: () => (model.coverage ? app.glideTo(model.opening) : app.say("No shorter range of this recording is known on all CPUs")),
    fit: () => fitWhat(app),
    goTo: () => openGoTo(app),
    undo: () => goBack(app, app.history.undo(app.goal)),
    redo: () => goBack(app, app.history.redo(app.goal)),
    trackUp: () => step(app, -1),
    trackDown: () => step(app, 1),
    fold: () => foldCurrent(app),
    foldAll: () => foldMachines(app),
    pin: () => state.current !== undefined && app.togglePin(state.current),
    facts: () => facts(app),
    previous: () => along(app, state.facts?.previous),
    next: () => along(app, state.facts?.next),
    arrowBack: () => along(app, back(app)),
    arrowOn: () => along(app, on(app)),
    flows: () => {
      state.flowsOn = !state.flowsOn;
      app.repaint();
    },
    search: () => {
      const input = need<HTMLInputElement>("#filter");
      input.focus();
      input.select();
    },
    filterClear: () => app.setFilter(""),
    why: () => app.why.start(),
    requests: () => app.requests.start(),
    range: () => selectHere(app),
    rangeLeft: () => stretch(app, -1),
    rangeRight: () => stretch(app, 1),
    mark: () => {
      app.addMark(app.focusTime);
      app.say("Marked");
    },
    markPrevious: () => toMark(app, -1),
    markNext: () => toMark(app, 1),
    measure: () => measure(app),
    copyTime: () => copyMoment(app, app.focusTime),
    events: () => listEvents(app),
    sql: () => {
      app.openDock("sql");
      app.dock.focusSql();
    },
    panel: () => app.openDock(state.dock ? undefined : state.selection ? "range" : "facts"),
    colour: () => {
      state.colour = state.colour === "who" ? "what" : "who";
      app.repaint();
    },
    theme: () => {
      state.theme = state.theme === "dark" ? "light" : "dark";
      memory.set("theme", state.theme);
      app.retheme();
    },
    clock: () => switchClock(app),
    export: () => openExport(app),
    help: () => openHelp(app),
    close: () => close(app),
  };
  actions[command]();
}

function fitWhat(app: App): void {
  const { selection, chosen } = app.state;
  if (selection) app.glideTo(fit(selection, app.model.whole));
  else if (chosen) app.glideTo(fit({ from: chosen.ts, to: chosen.ts + Math.max(chosen.dur, 1) }, app.model.whole));
}

function goBack(app: App, view: Range | undefined): void {
  if (view) app.glideTo(view, "no");
}

/** The keyboard's track, up or down by one row that can be chosen. */
function step(app: App, by: number): void {
  const rows = app.rows.rows;
  const { state } = app;
  const at = state.current === undefined ? undefined : app.rows.indexOf(state.current);
  const next = at === undefined ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1);
  let index = next;
  while (rows[index]?.type === "more" && rows[index + by]) index += by;
  const row = rows[index];
  if (!row) return;
  state.current = row.node.track.track;
  app.showTrack(state.current);
  need("#says").textContent = app.model.trackName(state.current);
  app.redraw();
}

function foldCurrent(app: App): void {
  const { current } = app.state;
  const index = current === undefined ? undefined : app.rows.indexOf(current);
  const row = index === undefined ? undefined : app.rows.rows[index];
  if (!row) return;
  if (row.foldable) app.toggleFold(row.node.track.track, row.folded);
  else if (row.node.parent) {
    app.state.current = row.node.parent.track.track;
    app.toggleFold(row.node.parent.track.track, false);
  }
}

function foldMachines(app: App): void {
  const { tree } = app.model;
  // What machines run on stays open, or nothing would be left to see.
  const machines = [...tree.nodes.values()].filter(({ track, children }) => track.kind === "machine" && !children.some((child) => child.track.kind === "machine"));
  const anyOpen = machines.some((machine) => tree.open(machine, { ...app.state, filter: app.state.trackFilter }));
  for (const { track } of machines) {
    app.state[anyOpen ? "folded" : "opened"].add(track.track);
    app.state[anyOpen ? "opened" : "folded"].delete(track.track);
  }
  app.relayout();
}

/** Chooses what is under the pointer, or in the middle of the keyboard's track. */
function facts(app: App): void {
  const { current, pointer } = app.state;
  if (current !== undefined) app.jump(current, app.focusTime);
  else if (pointer) app.click(pointer.x, pointer.y);
}

function along(app: App, place: Place | null | undefined): void {
  const { chosen } = app.state;
  if (!place?.ts || !chosen) return;
  app.jump(place.track ?? chosen.track, app.model.rel(place.ts));
}

function back(app: App): Place | null | undefined {
  const { facts: known, chosen } = app.state;
  if (chosen && app.model.isUnknown(chosen.key)) return undefined;
  const arriving = known?.arrows?.find((arrow) => arrow.to.track === chosen?.track);
  return known?.preemptor ?? known?.waker ?? arriving?.from;
}

function on(app: App): Place | null | undefined {
  const { facts: known, chosen } = app.state;
  return known?.arrows?.find((arrow) => arrow.from.track === chosen?.track && arrow.to.track !== chosen?.track)?.to ?? known?.exit;
}

function selectHere(app: App): void {
  const { chosen, view } = app.state;
  const range = chosen ? { from: chosen.ts, to: chosen.ts + Math.max(chosen.dur, 1) } : view;
  app.select(range.from, range.to, undefined);
  app.selected();
}

function stretch(app: App, by: number): void {
  const { selection, view } = app.state;
  const move = ((view.to - view.from) / 40) * by;
  if (!selection) app.select(app.focusTime, app.focusTime + Math.abs(move), undefined);
  else app.select(selection.from, Math.max(selection.to + move, selection.from + 1), selection.tracks);
  app.selected();
}

function toMark(app: App, by: number): void {
  const middle = (app.goal.from + app.goal.to) / 2;
  const slack = (app.goal.to - app.goal.from) / 1000;
  const marks = app.state.marks;
  const mark = by > 0 ? marks.find((m) => m.at > middle + slack) : marks.findLast((m) => m.at < middle - slack);
  if (!mark) return;
  const half = (app.goal.to - app.goal.from) / 2;
  app.glideTo({ from: mark.at - half, to: mark.at + half });
}

function measure(app: App): void {
  const { state } = app;
  const placed = state.pointer && app.rows.at(state.pointer.y, app.scrollTop);
  const track = placed?.row.node.track.track ?? state.current;
  const spot = { at: Math.round(app.focusTime), track };
  if (!state.measureFrom || state.measureTo) {
    state.measureFrom = spot;
    state.measureTo = undefined;
  } else {
    state.measureTo = spot;
    app.openDock("marks");
    app.dock.refresh("marks");
  }
  app.redraw();
}

/** Every decoded event of the selection and its machines, or of all that is in the view; a row jumps to its moment. */
function listEvents(app: App): void {
  const { model, state } = app;
  const { from, to } = state.selection ?? state.view;
  const tracks = state.selection?.tracks;
  const machines = new Set(tracks?.map((track) => model.tracks.find((t) => t.track === track)?.machine_id).filter((id) => id !== undefined));
  app.openDock("sql");
  app.dock.ask(eventsOf(model.abs(Math.floor(from)), model.abs(Math.ceil(to)), [...machines]));
}

function close(app: App): void {
  const { state } = app;
  if (state.measureFrom) state.measureFrom = state.measureTo = undefined;
  else if (app.why.clear()) {
    if (state.dock === "why") app.openDock(undefined);
  }
  else if (app.requests.clear()) {
    if (state.dock === "requests") app.openDock(undefined);
  }
  else if (state.selection) app.clearSelection();
  else if (state.chosen || app.asking) app.choose(undefined);
  else if (state.dock) app.openDock(undefined);
  else if (state.filterText) app.setFilter("");
  app.redraw();
}
