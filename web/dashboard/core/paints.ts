// How the dashboard looks: the timeline's paints for states, so that a pattern means the same in both, and one scale from
// little to much for heat maps, whose lightness alone orders it.
import { mix, paintOf, PaintTable, word, type Key, type Paint, type Rgb, type Theme } from "../../src/core/palette.ts";

/** Keys of state columns. 0 and 1 are the raster's own (nothing, others). */
export const KEY = { gotten: 2, guest: 3, host: 4, preempted: 5, waking: 6, halted: 7, blocked: 8, offline: 9, unknown: 10 } as const;
export type StateName = keyof typeof KEY;

/** The timeline's class of each. */
const CLASSES: Readonly<Record<StateName, string>> = {
  gotten: "running",
  guest: "guest",
  host: "exit",
  preempted: "preempted",
  waking: "waking",
  halted: "halted",
  blocked: "blocked",
  offline: "offline",
  unknown: "unknown",
};

export const STATE_WORDS: Readonly<Record<StateName, string>> = {
  gotten: "gotten: on a CPU",
  guest: "on a CPU, in guest mode",
  host: "on a CPU, in the host (exits, VMM)",
  preempted: "waited: preempted",
  waking: "waited: runnable after a wakeup",
  halted: "halted",
  blocked: "blocked: asleep",
  offline: "offline: before its start or after its end",
  unknown: "unknown",
};

export function paintOfState(name: StateName, theme: Theme): Paint {
  const klass = CLASSES[name];
  const key: Key = { key: 0, class: klass, state: klass, label: klass, machine_id: null, vcpu: null, tid: null, reason: null };
  return paintOf(key, new Map(), "what", theme);
}

/** All paints, by key. */
export function statePaints(theme: Theme): PaintTable {
  const paints: Paint[] = [];
  const nothing = paintOfState("blocked", theme);
  for (let at = 0; at <= KEY.unknown; at++) paints.push(nothing);
  for (const [name, key] of Object.entries(KEY)) paints[key] = paintOfState(name as StateName, theme);
  return new PaintTable(paints, theme);
}

/** From nothing to most. Lightness rises (dark page) or falls (light page) all the way: no hue has to be told apart. */
const STOPS: Readonly<Record<Theme, readonly Rgb[]>> = {
  dark: [[30, 36, 50], [38, 62, 112], [46, 112, 140], [98, 164, 118], [196, 206, 88], [255, 240, 150]],
  light: [[244, 240, 226], [250, 218, 140], [236, 158, 84], [196, 84, 84], [120, 36, 96], [48, 8, 66]],
};

export const SHADES = 256;

/** A colour for a share of the scale, 0 to 1. */
export function heatRgb(share: number, theme: Theme): Rgb {
  const stops = STOPS[theme];
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(at), stops.length - 2);
  return mix(stops[below]!, stops[below + 1]!, at - below);
}

/** The scale as pixels. */
export function heatWords(theme: Theme): Uint32Array {
  return Uint32Array.from({ length: SHADES }, (_, i) => word(heatRgb(i / (SHADES - 1), theme)));
}

/** How values become shares of the scale: linear (of a known whole), by their root (so that little is seen beside much), or by orders of magnitude. */
export type Scale = "linear" | "root" | "log";

/** Orders of magnitude that a logarithmic scale tells apart below the largest value. */
const DECADES = 3.5;

/** What share of the scale a value has; 0 only for 0: what is little must not look like nothing. */
export function shareOf(value: number, most: number, scale: Scale): number {
  if (!(value > 0) || !(most > 0)) return 0;
  const share = scale === "linear" ? value / most : scale === "root" ? Math.sqrt(value / most) : 1 + Math.log10(value / most) / DECADES;
  return Math.min(1, Math.max(0.08, share));
}
