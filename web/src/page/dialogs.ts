// The help overlay and the export dialog.
import { FILTER_WORDS } from "../core/filter.ts";
import { FLOW_KINDS } from "../core/flows.ts";
import { duration } from "../core/format.ts";
import { BINDINGS, keyName } from "../core/keymap.ts";
import { hex, machineHues, maskOf, paintOf, type Key } from "../core/palette.ts";
import type { App } from "./app.ts";
import { make, need } from "./dom.ts";
import { exportRange, type RangeFormat } from "./exports.ts";
import { arrowChip } from "./panel-facts.ts";
import { patternImage } from "./patterns.ts";

/** Opens the help: legend, keys, pointer, filter words. Built from the tables that do the work. */
export function openHelp(app: App): void {
  const dialog = need<HTMLDialogElement>("#help");
  const groups = new Map<string, HTMLElement>();
  for (const binding of BINDINGS) {
    let section = groups.get(binding.group);
    if (!section) groups.set(binding.group, (section = make("section", {}, make("h3", {}, binding.group))));
    const keys = make("span", {}, ...binding.keys.slice(0, 2).flatMap((key) => [make("kbd", {}, keyName(key)), " "]));
    section.append(make("p", {}, keys, make("span", {}, binding.help)));
  }
  const pointer = make("section", {}, make("h3", {}, "Pointer"));
  for (const [what, does] of [
    ["wheel, pinch", "zoom at the pointer"],
    ["horizontal wheel, Shift + wheel", "move in time"],
    ["wheel over names, Alt + wheel", "scroll tracks"],
    ["drag", "select a time range on some tracks"],
    ["Shift + drag, middle drag", "move in time and tracks"],
    ["drag on the ruler", "zoom into that range"],
    ["drag on the overview", "move the view"],
    ["click", "show the details of an interval"],
    ["double click", "zoom to an interval"],
  ]) pointer.append(make("p", {}, make("span", {}, what!), make("span", {}, does!)));
  const filter = make("section", {}, make("h3", {}, "Filter"));
  for (const [word, does] of FILTER_WORDS) filter.append(make("p", {}, make("kbd", {}, word), make("span", {}, does)));
  const close = make("button", { autofocus: "" }, "Close (Esc)");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(make("h2", {}, "Reading the timeline"), legend(app), make("div", { class: "help" }, ...groups.values(), pointer, filter), make("p", {}, close));
  if (!dialog.open) dialog.showModal();
  // The focus is at the end, the legend at the start.
  dialog.scrollTop = 0;
}

function legend(app: App): HTMLElement {
  const theme = app.state.theme;
  const machines = [{ machine_id: 1, kind: "guest" }, { machine_id: 2, kind: "guest" }];
  const hues = machineHues(machines, theme);
  const of = (klass: string, machine_id: number): Key => ({ key: 0, class: klass, state: klass, label: klass, machine_id, vcpu: 0, tid: null, reason: null });
  const entries: [string, Key][] = [
    ["on a CPU (hue: its machine)", of("guest", 1)],
    ["exit handling in the hypervisor", of("exit", 1)],
    ["exit handling in the VMM", of("user", 1)],
    ["preempted (hue: the antagonist)", of("preempted", 2)],
    ["woken or runnable, waiting for a CPU", of("waking", 2)],
    ["blocked, asleep", of("blocked", 1)],
    ["halted, idle", of("halted", 1)],
    ["unknown: events lost", of("unknown", 1)],
  ];
  const items = entries.map(([text, key]) => {
    const paint = paintOf(key, hues, "who", theme);
    const square = make("span", { class: "chip" });
    square.style.background = maskOf(paint.pattern) === null ? hex(paint.front) : `url(${patternImage(paint)})`;
    return make("span", {}, square, text);
  });
  const arrows = Object.values(FLOW_KINDS).map(({ colour, words }) => make("span", {}, arrowChip(colour), words));
  const arrowLegend = make("div", { class: "legend" }, make("b", {}, "Arrows"), ...arrows);
  return make("div", {}, make("div", { class: "legend" }, ...items), arrowLegend, make("p", { class: "dim" }, "Each pixel column is divided by share of time: half the height is half the time of that column. Nothing is sampled."));
}

/** Opens the export dialog. */
export function openExport(app: App): void {
  const dialog = need<HTMLDialogElement>("#export");
  const { model, state } = app;
  const range = state.selection ?? state.view;
  const what = state.selection ? "the selected range" : "the visible range";
  const choice = (title: string, detail: string, act: () => Promise<void> | void): HTMLElement => {
    const button = make("button", {}, title, make("small", {}, detail));
    button.addEventListener("click", () => {
      dialog.close();
      void Promise.resolve(act()).catch((error: unknown) => app.fail(error instanceof Error ? error.message : String(error)));
    });
    return button;
  };
  const fromServer = (format: RangeFormat) => (): Promise<void> => {
    app.say(`Exporting ${what} …`);
    return exportRange(app, range, format);
  };
  const close = make("button", {}, "Cancel (Esc)");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(
    make("h2", {}, "Export"),
    make(
      "div",
      { class: "choices" },
      choice("PNG", "the visible part as a bitmap", () => app.exportPng()),
      choice("SVG", "the visible part as vector shapes, for editing and print", () => app.exportSvg()),
      choice("Perfetto trace", `${what}, ${duration(range.to - range.from, model.unit)}: open it in ui.perfetto.dev`, fromServer("perfetto")),
      choice("Smaller recording", `${what}, ${duration(range.to - range.from, model.unit)}: for transect report, sql and view`, fromServer("recording")),
      choice("Flame graphs", `${what}, ${duration(range.to - range.from, model.unit)}: the stacks of packets and block requests by stage, if it was recorded with --stacks`, fromServer("flame")),
      close,
    ),
  );
  if (!dialog.open) dialog.showModal();
}
