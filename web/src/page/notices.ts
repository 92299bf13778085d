// Lines above the timeline.
import { make, need } from "./dom.ts";

/** A line that goes away by itself. */
export function say(text: string): void {
  const line = notice(text, "");
  setTimeout(() => line.remove(), 4000);
}

/** A failure: stays until it is put away; the same line is shown once. */
export function fail(text: string): void {
  const known = [...need("#notices").querySelectorAll("span")].some((span) => span.textContent === text);
  if (!known) notice(text, "bad");
}

export function notice(text: string, kind: string): HTMLElement {
  const close = make("button", { "aria-label": "Dismiss" }, "✕");
  const line = make("p", { class: kind }, make("span", {}, text), close);
  close.addEventListener("click", () => line.remove());
  need("#notices").append(line);
  return line;
}
