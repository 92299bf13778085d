// The header: the recording's name, and its machines with their hues.
import { greys, hex } from "../core/palette.ts";
import type { App } from "./app.ts";
import { make, need } from "./dom.ts";

/** Machines that are named in the header. */
const MOST_MACHINES = 24;

export function showMachines(app: App): void {
  const { model, state } = app;
  const hues = model.hues(state.theme);
  need("#title").textContent = model.info.name;
  document.title = `${model.info.name} – transect`;
  const items = model.info.machines.slice(0, MOST_MACHINES).map((machine) => {
    const square = make("span", { class: "chip" });
    square.style.background = hex(hues.get(machine.machine_id) ?? greys(state.theme).host);
    const item = make("span", { title: `${machine.kind}; click to show only its tracks` }, square, machine.name);
    item.addEventListener("click", () => app.setFilter(state.filterText === `vm:${machine.name}` ? "" : `vm:${machine.name}`));
    return item;
  });
  need("#machines").replaceChildren(...items);
}
