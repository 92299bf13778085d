// Marks: moments worth coming back to, with a word each. They are in the URL.
import { duration, moment } from "../core/format.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import { measureText } from "./overlay.ts";
import { copyButton, wallOf } from "./times.ts";

export function marksPanel(app: App): HTMLElement {
  const { model, state } = app;
  const root = make("div", {}, make("h3", {}, "Marks"));
  if (state.marks.length === 0) root.append(make("p", { class: "dim" }, "Press M to mark the time under the pointer. Press [ or ] to jump to the previous or next mark."));
  const table = make("table");
  state.marks.forEach((mark, i) => {
    const link = make("a", { class: "jump", href: "#" }, moment(mark.at, model.unit));
    link.addEventListener("click", (event) => {
      event.preventDefault();
      app.goTo(mark.at);
    });
    const note = make("input", { value: mark.note, "aria-label": `Note for mark ${i + 1}`, placeholder: "note" });
    note.addEventListener("change", () => app.noteMark(i, note.value));
    const remove = make("button", { "aria-label": `Remove mark ${i + 1}` }, "✕");
    remove.addEventListener("click", () => app.removeMark(i));
    const before = state.marks[i - 1];
    table.append(make("tr", {}, make("td", {}, String(i + 1)), make("td", {}, link), make("td", { class: "dim" }, wallOf(app, mark.at)), make("td", { class: "n dim" }, before ? `+${duration(mark.at - before.at, model.unit)}` : ""), make("td", {}, note), make("td", {}, copyButton(app, mark.at, `time of mark ${i + 1}`), " ", remove)));
  });
  root.append(table);
  if (state.measureFrom && state.measureTo) {
    root.append(make("h3", {}, "Measurement"), make("p", {}, measureText(model, state.measureFrom, state.measureTo)));
  }
  return root;
}
