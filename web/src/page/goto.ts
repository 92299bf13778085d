// The dialog that goes to a time or range. The reason why a time is refused stands below its field.
import { moment } from "../core/format.ts";
import { findMoment, MomentError, traceText } from "../core/moments.ts";
import { offsetAt, type Zone } from "../core/zone.ts";
import { spanOf } from "../core/view.ts";
import type { App } from "./app.ts";
import { make, need, write } from "./dom.ts";
import { boundsOf, wallOf, zoneOf } from "./times.ts";

const FORMS: readonly (readonly [string, string])[] = [
  ["+1.25s, +250ms", "after the start of the recording's window"],
  ["1.25s, 250ms, 12615644025829", "trace time; without a unit: a ts value of the tables"],
  ["2026-11-25T02:41:38.5Z", "wall clock with a zone (RFC 3339)"],
  ["2026-11-25 03:41:38, 03:41:38", "wall clock in the zone that the page shows"],
];

/** A field, the line below it, and the trace time that it means. */
class Field {
  readonly input: HTMLInputElement;
  private readonly line: HTMLElement;
  readonly root: HTMLElement;

  constructor(
    private readonly app: App,
    name: string,
    id: string,
    placeholder: string,
  ) {
    this.input = make("input", { id, type: "text", spellcheck: "false", autocomplete: "off", placeholder, "aria-describedby": `${id}-line` });
    this.line = make("output", { id: `${id}-line`, for: id, "aria-live": "polite" });
    this.root = make("label", {}, make("b", {}, name), this.input, this.line);
    this.input.addEventListener("input", () => void this.read());
  }

  get isEmpty(): boolean {
    return this.input.value.trim() === "";
  }

  /** Finds the moment and shows it, or the reason why there is none. */
  read(): number | undefined {
    if (this.isEmpty) return this.show("", false);
    const { model, state } = this.app;
    try {
      const at = model.rel(findMoment(this.input.value, boundsOf(model, zoneOf(state))));
      this.show([`${moment(at, model.unit)} on the time axis`, `trace time ${traceText(model.abs(at), model.unit)}`, wallOf(this.app, at)].filter(Boolean).join(" · "), false);
      return at;
    } catch (error) {
      if (!(error instanceof MomentError)) throw error;
      return this.show(error.message, true);
    }
  }

  show(text: string, bad: boolean): undefined {
    write(this.line, text);
    this.line.className = bad ? "bad" : "dim";
    this.input.setAttribute("aria-invalid", String(bad));
  }
}

/** Opens the dialog. */
export function openGoTo(app: App): void {
  const dialog = need<HTMLDialogElement>("#goto");
  const zone = zoneOf(app.state);
  const from = new Field(app, "Go to", "goto-from", "+1.25s");
  const until = new Field(app, "until (optional)", "goto-until", "");
  const go = make("button", { type: "submit" }, "Go (Enter)");
  const cancel = make("button", { type: "button" }, "Cancel (Esc)");
  cancel.addEventListener("click", () => dialog.close());
  const forms = make("table", {}, ...FORMS.slice(0, app.model.wall.isEmpty ? 2 : 4).map(([form, meaning]) => make("tr", {}, make("td", {}, form), make("td", { class: "dim" }, meaning))));
  const form = make("form", {}, from.root, until.root, forms, make("p", { class: "dim" }, zoneLine(app, zone)), make("p", {}, go, " ", cancel));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (goTo(app, from, until)) dialog.close();
  });
  dialog.replaceChildren(make("h2", {}, "Go to a time"), form);
  if (!dialog.open) dialog.showModal();
  from.input.focus();
}

/** The zone of times that are entered without one. */
function zoneLine(app: App, zone: Zone): string {
  const { wall } = app.model;
  if (wall.isEmpty) return "The wall clock of this recording is unknown.";
  return `Times without a zone are in ${zone.name} (${offsetAt(wall.pieces[0]!.unix_ns, zone)}).`;
}

/** Moves the view; false: a field is wrong, and has the focus. */
function goTo(app: App, from: Field, until: Field): boolean {
  if (from.isEmpty && until.isEmpty) from.show("enter a time", true);
  const start = from.isEmpty && !until.isEmpty ? app.model.home.from : from.read();
  if (start === undefined) return focus(from);
  const end = until.read();
  if (end === undefined && !until.isEmpty) return focus(until);
  if (end !== undefined && end <= start) {
    until.show("the range is empty: its end is not after its start", true);
    return focus(until);
  }
  const half = spanOf(app.goal) / 2;
  app.glideTo(end === undefined ? { from: start - half, to: start + half } : { from: start, to: end });
  write(need("#says"), `at ${moment(start, app.model.unit)}`);
  return true;
}

function focus(field: Field): false {
  field.input.focus();
  field.input.select();
  return false;
}
