// The help: how to read the bars, and every key. Built from the tables that do the work.
import { keyName } from "../../src/core/keymap.ts";
import { hex } from "../../src/core/palette.ts";
import { make, need } from "../../src/page/dom.ts";
import { chipOf } from "./chips.ts";
import { BINDINGS } from "../core/keys.ts";
import { heatRgb, KEY, STATE_WORDS, type StateName } from "../core/paints.ts";
import type { App } from "./app.ts";

export function openHelp(app: App): void {
  const dialog = need<HTMLDialogElement>("#help");
  const groups = new Map<string, HTMLElement>();
  for (const binding of BINDINGS) {
    let section = groups.get(binding.group);
    if (!section) groups.set(binding.group, (section = make("section", {}, make("h3", {}, binding.group))));
    const keys = make("span", {}, ...binding.keys.slice(0, 2).flatMap((key) => [make("kbd", {}, keyName(key)), " "]));
    section.append(make("p", {}, keys, make("span", {}, binding.help)));
  }
  const inside = make("section", {}, make("h3", {}, "In a panel"));
  for (const [keys, does] of [["Tab", "next panel"], ["↑ ↓", "select a row and show its value"], ["← → in a matrix", "select a column"], ["click a name", "open that VM or container"], ["click a plot", "select that time"]] as const) inside.append(make("p", {}, make("span", {}, keys), make("span", {}, does)));
  const close = make("button", { autofocus: "" }, "Close (Esc)");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(make("h2", {}, "Reading the dashboard"), legend(app), make("div", { class: "help" }, ...groups.values(), inside), make("p", {}, close));
  if (!dialog.open) dialog.showModal();
}

function legend(app: App): HTMLElement {
  const items = (Object.keys(KEY) as StateName[]).map((state) => make("span", {}, chipOf(state, app.theme), STATE_WORDS[state]));
  const gap = make("span", { class: "chip hatched" });
  const scale = make("span", { class: "scale" });
  scale.style.background = `linear-gradient(to right, ${[0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => hex(heatRgb(share, app.theme))).join()})`;
  return make(
    "div",
    {},
    make("div", { class: "legend" }, ...items, make("span", {}, gap, "no data"), make("span", {}, scale, "heat map: low to high")),
    make("p", { class: "dim" }, "The full height of a row is all its time: half the height is half the time. For a container it is the time of the largest number of whole CPUs that it wanted. Nothing is sampled, and nothing is drawn across a gap. Unavailable values are shown as –; the Server panel lists the reasons."),
  );
}
