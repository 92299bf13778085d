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
  for (const [keys, does] of [["Tab", "from panel to panel"], ["↑ ↓", "its rows; what is there is said"], ["← → in a matrix", "its columns"], ["click a name", "open that VM or container"], ["click into time", "choose that moment"]] as const) inside.append(make("p", {}, make("span", {}, keys), make("span", {}, does)));
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
    make("div", { class: "legend" }, ...items, make("span", {}, gap, "nothing is known"), make("span", {}, scale, "heat: little to much")),
    make("p", { class: "dim" }, "A bar's height is all the time of its row: half the height is half the time. Of a container it is the time of as many CPUs as it wanted at most. Nothing is sampled, nothing is drawn across a gap. What cannot be had is – and named in the panel Server."),
  );
}
