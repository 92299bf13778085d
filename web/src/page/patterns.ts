// A key's colour and pattern as a CSS background, for chips and the legend.
import { maskOf, type Paint } from "../core/palette.ts";

const made = new Map<string, string>();

/** An 8 × 8 image of a paint as a data URL. */
export function patternImage(paint: Paint): string {
  const name = `${paint.pattern}/${paint.front.join()}/${paint.back.join()}`;
  const known = made.get(name);
  if (known) return known;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const context = canvas.getContext("2d")!;
  const mask = maskOf(paint.pattern);
  for (let i = 0; i < 64; i++) {
    const set = mask === null || ((mask[i >> 3]! >> (7 - (i & 7))) & 1) === 1;
    context.fillStyle = `rgb(${(set ? paint.front : paint.back).join()})`;
    context.fillRect(i & 7, i >> 3, 1, 1);
  }
  const url = canvas.toDataURL();
  made.set(name, url);
  return url;
}
