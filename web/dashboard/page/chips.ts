// A state's colour and pattern as a small square, for legends.
import { hex, maskOf, type Theme } from "../../src/core/palette.ts";
import { make } from "../../src/page/dom.ts";
import { patternImage } from "../../src/page/patterns.ts";
import { paintOfState, type StateName } from "../core/paints.ts";

export function chipOf(state: StateName, theme: Theme): HTMLElement {
  const paint = paintOfState(state, theme);
  const square = make("span", { class: "chip" });
  square.style.background = maskOf(paint.pattern) === null ? hex(paint.front) : `url(${patternImage(paint)})`;
  return square;
}

/** The legend that is always there: one line. */
export function legendLine(theme: Theme): HTMLElement[] {
  const words: readonly (readonly [StateName, string])[] = [["gotten", "gotten"], ["host", "in the host"], ["preempted", "preempted"], ["waking", "woken"], ["blocked", "blocked"], ["unknown", "unknown"]];
  const gap = make("span", { class: "chip hatched" });
  return [...words.map(([state, word]) => make("span", {}, chipOf(state, theme), word)), make("span", {}, gap, "no data")];
}
