// Colour and pattern of every key. The rule a reader learns once:
//
//   hue says WHO   (each VM has one; the host and the hypervisor are grey)
//   pattern says WHAT (solid = has the CPU, stripes = waits for it, faint = asleep, crosses = unknown)
//
// A wait is striped in the hue of whoever has the CPU meanwhile, so the culprit's colour shows in the
// victim's row. Hues are Okabe and Ito's, told apart with every common colour blindness; patterns
// carry the states without any hue at all. The other mode gives the hue to the state.
import type { ColourMode } from "./url.ts";

/** A key of the recording's key table. */
export interface Key {
  readonly key: number;
  readonly class: string;
  readonly state: string;
  readonly label: string;
  readonly machine_id: number | null;
  readonly vcpu: number | null;
  readonly tid: number | null;
  readonly reason: string | null;
}

/** What the palette must know of a machine. */
export interface MachineKind {
  readonly machine_id: number;
  readonly kind: string;
}

export type Theme = "dark" | "light";
export type Rgb = readonly [number, number, number];

/** Masks of 8 × 8 pixels; a set bit takes the pattern's front colour. */
export type PatternName = "solid" | "diagonal" | "bars" | "lines" | "dots" | "sparse" | "cross" | "hollow";

/** How a key is painted. */
export interface Paint {
  readonly front: Rgb;
  readonly back: Rgb;
  readonly pattern: PatternName;
  /** Order in a column, from below: who ran at the bottom, who slept on top. */
  readonly rank: number;
  /** All states of this rank together are drawn at least so many pixels high however short: what people look for must not vanish. */
  readonly least: number;
  /** What this time counts as in the summary of a row. */
  readonly counts: "ran" | "waited" | "slept" | "unknown" | "other";
}

const OKABE_ITO: Readonly<Record<Theme, readonly Rgb[]>> = {
  light: [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [170, 150, 10],
  ],
  dark: [
    [45, 140, 215],
    [232, 110, 28],
    [24, 178, 134],
    [216, 132, 180],
    [240, 176, 40],
    [110, 198, 245],
    [240, 228, 90],
  ],
};

/** Tol's muted scheme: reasons, calls and other things that are no machine. */
const MUTED: readonly Rgb[] = [
  [136, 204, 238],
  [68, 170, 153],
  [221, 204, 119],
  [204, 102, 119],
  [153, 153, 51],
  [170, 68, 153],
  [120, 110, 190],
  [80, 150, 90],
];

const GREYS: Readonly<Record<Theme, { row: Rgb; alternate: Rgb; host: Rgb; hypervisor: Rgb; quiet: Rgb; text: Rgb; loading: Rgb }>> = {
  dark: { row: [22, 25, 31], alternate: [25, 28, 35], host: [132, 142, 158], hypervisor: [110, 120, 140], quiet: [58, 64, 76], text: [222, 226, 234], loading: [34, 38, 46] },
  light: { row: [252, 252, 250], alternate: [246, 247, 246], host: [120, 128, 142], hypervisor: [92, 100, 118], quiet: [196, 200, 206], text: [28, 32, 40], loading: [232, 234, 236] },
};

/** The row's own colours. */
export function greys(theme: Theme): (typeof GREYS)["dark"] {
  return GREYS[theme];
}

/** One hue per machine: guests get the palette in order, what carries them is grey. */
export function machineHues(machines: readonly MachineKind[], theme: Theme): Map<number, Rgb> {
  const out = new Map<number, Rgb>();
  const hues = OKABE_ITO[theme];
  let next = 0;
  for (const machine of [...machines].sort((a, b) => a.machine_id - b.machine_id)) {
    if (machine.kind === "host") out.set(machine.machine_id, GREYS[theme].host);
    else if (machine.kind === "hypervisor") out.set(machine.machine_id, GREYS[theme].hypervisor);
    else {
      const round = Math.floor(next / hues.length);
      out.set(machine.machine_id, shade(hues[next % hues.length]!, round === 0 ? 0 : round % 2 === 1 ? -0.28 : 0.3));
      next++;
    }
  }
  return out;
}

interface Style {
  readonly pattern: PatternName;
  readonly rank: number;
  readonly counts: Paint["counts"];
  /** Hue in the mode in which the state has the hue. */
  readonly hue: Rgb;
  readonly rare?: boolean;
  /** Hue of its own in both modes (reasons, calls, requests). */
  readonly muted?: boolean;
  /** Darker or lighter than the machine's own hue. */
  readonly shade?: number;
}

const GREEN: Rgb = [0, 158, 115];
const BLUE: Rgb = [60, 135, 200];
const RED: Rgb = [220, 80, 40];
const AMBER: Rgb = [230, 159, 0];
const PURPLE: Rgb = [180, 110, 160];
const GREY: Rgb = [128, 136, 150];

/** Every class of the format. Ranks order a column from the bottom. */
const STYLES: Readonly<Record<string, Style>> = {
  guest: { pattern: "solid", rank: 0, counts: "ran", hue: GREEN },
  vcpu: { pattern: "solid", rank: 0, counts: "ran", hue: GREEN },
  running: { pattern: "solid", rank: 0, counts: "ran", hue: GREEN },
  thread: { pattern: "solid", rank: 1, counts: "ran", hue: BLUE },
  exit: { pattern: "dots", rank: 2, counts: "ran", hue: PURPLE, shade: -0.3 },
  hypercall: { pattern: "dots", rank: 2, counts: "ran", hue: PURPLE, muted: true },
  trap: { pattern: "dots", rank: 3, counts: "ran", hue: PURPLE, muted: true },
  user: { pattern: "lines", rank: 4, counts: "ran", hue: BLUE, shade: -0.2 },
  halt_poll: { pattern: "dots", rank: 5, counts: "ran", hue: GREY, shade: -0.45 },
  irq: { pattern: "solid", rank: 6, counts: "ran", hue: AMBER, muted: true },
  softirq: { pattern: "dots", rank: 7, counts: "ran", hue: AMBER, muted: true },
  syscall: { pattern: "solid", rank: 8, counts: "other", hue: BLUE, muted: true },
  block: { pattern: "solid", rank: 8, counts: "other", hue: AMBER, muted: true },
  net: { pattern: "solid", rank: 8, counts: "other", hue: PURPLE, muted: true },
  preempted: { pattern: "diagonal", rank: 10, counts: "waited", hue: RED, rare: true },
  waking: { pattern: "bars", rank: 11, counts: "waited", hue: AMBER, rare: true },
  runnable: { pattern: "bars", rank: 12, counts: "waited", hue: AMBER, rare: true },
  io_wait: { pattern: "lines", rank: 13, counts: "slept", hue: AMBER },
  unknown: { pattern: "cross", rank: 14, counts: "unknown", hue: GREY, rare: true },
  lost: { pattern: "cross", rank: 14, counts: "unknown", hue: GREY, rare: true },
  others: { pattern: "solid", rank: 9, counts: "other", hue: GREY },
  blocked: { pattern: "sparse", rank: 20, counts: "slept", hue: GREY },
  sleeping: { pattern: "sparse", rank: 20, counts: "slept", hue: GREY },
  halted: { pattern: "hollow", rank: 21, counts: "slept", hue: GREY },
  idle: { pattern: "hollow", rank: 22, counts: "slept", hue: GREY },
  offline: { pattern: "hollow", rank: 23, counts: "slept", hue: GREY },
};

const QUIET = new Set(["blocked", "sleeping", "halted", "idle", "offline"]);

/** The paint of one key. Classes we do not know look like "others", not like nothing. */
export function paintOf(key: Key, hues: ReadonlyMap<number, Rgb>, mode: ColourMode, theme: Theme): Paint {
  const style = STYLES[key.class] ?? STYLES["others"]!;
  const grey = GREYS[theme];
  const own = key.machine_id === null ? undefined : hues.get(key.machine_id);
  const front = frontOf(key, style, own, mode, theme);
  const base = { pattern: style.pattern, rank: style.rank, least: style.rare ? 1 : style.muted ? 3 : 0, counts: style.counts };
  if (QUIET.has(key.class)) return { ...base, front: mix(grey.row, grey.quiet, 0.9), back: mix(grey.row, grey.quiet, 0.28) };
  if (style.pattern === "cross") return { ...base, front: theme === "dark" ? [150, 150, 158] : [120, 120, 128], back: mix(grey.row, grey.quiet, 0.5) };
  if (style.pattern === "dots" || style.pattern === "lines") return { ...base, front: shade(front, theme === "dark" ? 0.45 : 0.55), back: front };
  if (style.counts === "waited") return { ...base, front, back: mix(grey.row, front, theme === "dark" ? 0.16 : 0.14) };
  return { ...base, front, back: front };
}

function frontOf(key: Key, style: Style, own: Rgb | undefined, mode: ColourMode, theme: Theme): Rgb {
  if (style.muted) return tone(MUTED[hash(key.reason ?? key.state) % MUTED.length]!, theme);
  if (mode === "what") return tone(style.hue, theme);
  // A host thread is grey; telling a few of them apart is what shades of grey are for.
  if (key.class === "thread" && own) return shade(own, ((hash(String(key.tid)) % 5) - 2) * 0.07);
  if (style.counts === "waited") return own ?? tone(style.hue, theme);
  return own ? shade(own, style.shade ?? 0) : tone(style.hue, theme);
}

function tone(colour: Rgb, theme: Theme): Rgb {
  return theme === "dark" ? shade(colour, 0.12) : shade(colour, -0.05);
}

/** Lighter (over 0) or darker (under 0), towards white or black. */
export function shade(colour: Rgb, by: number): Rgb {
  return mix(colour, by > 0 ? [255, 255, 255] : [0, 0, 0], Math.abs(by));
}

/** `share` of `b` in `a`. */
export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const at = (i: 0 | 1 | 2): number => Math.round(a[i] + (b[i] - a[i]) * share);
  return [at(0), at(1), at(2)];
}

/** Black or white, whichever reads better on `colour` (WCAG's relative luminance). */
export function inkOn(colour: Rgb): string {
  const linear = colour.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : Math.pow((c / 255 + 0.055) / 1.055, 2.4)));
  const luminance = 0.2126 * linear[0]! + 0.7152 * linear[1]! + 0.0722 * linear[2]!;
  return luminance > 0.25 ? "#10131a" : "#ffffff";
}

/** `#rrggbb`. */
export function hex(colour: Rgb): string {
  return `#${colour.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
}

/** A pixel as ImageData keeps it, read as a little-endian word. */
export function word(colour: Rgb): number {
  return ((255 << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0]) >>> 0;
}

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return (h ^ (h >>> 15)) >>> 0;
}

/** Rows of 8 bits, leftmost pixel in the highest bit. */
const MASKS: Readonly<Record<PatternName, readonly number[] | null>> = {
  solid: null,
  diagonal: [0b11100000, 0b01110000, 0b00111000, 0b00011100, 0b00001110, 0b00000111, 0b10000011, 0b11000001],
  bars: [0b11001100, 0b11001100, 0b11001100, 0b11001100, 0b11001100, 0b11001100, 0b11001100, 0b11001100],
  lines: [0b11111111, 0, 0, 0, 0b11111111, 0, 0, 0],
  dots: [0b10001000, 0, 0b00100010, 0, 0b10001000, 0, 0b00100010, 0],
  sparse: [0b10000000, 0, 0, 0, 0b00001000, 0, 0, 0],
  cross: [0b10000001, 0b01000010, 0b00100100, 0b00011000, 0b00011000, 0b00100100, 0b01000010, 0b10000001],
  hollow: [0, 0, 0, 0, 0, 0, 0, 0],
};

/** Is the pixel at (x, y) of a pattern in its front colour? */
export function maskOf(pattern: PatternName): readonly number[] | null {
  return MASKS[pattern];
}

/** The patterns' masks, 64 bytes each, 1 where the front colour goes; `PATTERNS` is their order. */
const PATTERNS = Object.keys(MASKS) as PatternName[];
const MASK_BYTES = Uint8Array.from(PATTERNS.flatMap((name) => Array.from({ length: 64 }, (_, i) => (MASKS[name] === null || (MASKS[name]![i >> 3]! >> (7 - (i & 7))) & 1 ? 1 : 0))));

/** Paints of all keys as flat arrays, which is what the inner loop of the raster reads. */
export class PaintTable {
  readonly front: Uint32Array;
  readonly back: Uint32Array;
  readonly least: Uint8Array;
  readonly rank: Uint8Array;
  readonly plain: Uint8Array;
  /** Where a key's pattern begins in `masks`. */
  readonly maskAt: Uint16Array;
  readonly masks = MASK_BYTES;
  /** All keys in stacking order: by rank, then by number. */
  readonly keyAt: Uint32Array;
  /** A key's place in that order. */
  readonly places: Uint32Array;

  constructor(
    readonly paints: readonly Paint[],
    readonly theme: Theme,
  ) {
    this.front = Uint32Array.from(paints, (paint) => word(paint.front));
    this.back = Uint32Array.from(paints, (paint) => word(paint.back));
    this.least = Uint8Array.from(paints, (paint) => paint.least);
    this.rank = Uint8Array.from(paints, (paint) => paint.rank);
    this.plain = Uint8Array.from(paints, (paint) => (MASKS[paint.pattern] === null ? 1 : 0));
    this.maskAt = Uint16Array.from(paints, (paint) => PATTERNS.indexOf(paint.pattern) * 64);
    this.keyAt = Uint32Array.from(paints, (_, key) => key).sort((a, b) => paints[a]!.rank - paints[b]!.rank || a - b);
    this.places = new Uint32Array(paints.length);
    this.keyAt.forEach((key, at) => (this.places[key] = at));
  }

  /** The paint of a key, also of one that came after the table was made. */
  of(key: number): Paint {
    return this.paints[key] ?? this.paints[OTHERS_KEY]!;
  }
}

/** Each key's place in the stacking order, for whoever sorts before anything is painted. */
export function stackingOrder(keys: readonly Key[]): Uint32Array {
  const size = keys.reduce((most, key) => Math.max(most, key.key), OTHERS_KEY) + 1;
  const ranks = new Uint8Array(size);
  for (const key of keys) ranks[key.key] = (STYLES[key.class] ?? STYLES["others"]!).rank;
  const order = new Uint32Array(size);
  Uint32Array.from(order, (_, key) => key)
    .sort((a, b) => ranks[a]! - ranks[b]! || a - b)
    .forEach((key, place) => (order[key] = place));
  return order;
}

/** What decides how keys look. */
export interface Look {
  readonly mode: ColourMode;
  readonly theme: Theme;
  /** Keys that stay bright; null: all. */
  readonly bright: ((key: Key) => boolean) | null;
}

/**
 * Paints for the tracks of each machine. A key that says whose it is has that hue everywhere; one that does
 * not ("in guest", "running") has the hue of the machine whose track it is on. Tables are made when first needed.
 */
export class Paints {
  private readonly tables = new Map<number, PaintTable>();
  private readonly base: readonly Paint[];

  constructor(
    private readonly keys: readonly Key[],
    private readonly hues: ReadonlyMap<number, Rgb>,
    private readonly look: Look,
  ) {
    const size = keys.reduce((most, key) => Math.max(most, key.key), OTHERS_KEY) + 1;
    const base = new Array<Paint>(size).fill(this.paint(NO_KEY));
    for (const key of keys) base[key.key] = this.paint(key);
    this.base = base;
  }

  /** The paints on tracks of a machine. */
  on(machine_id: number): PaintTable {
    const known = this.tables.get(machine_id);
    if (known) return known;
    const paints = [...this.base];
    for (const key of this.keys) if (key.machine_id === null && OWN.has(key.class)) paints[key.key] = this.paint({ ...key, machine_id });
    const made = new PaintTable(paints, this.look.theme);
    this.tables.set(machine_id, made);
    return made;
  }

  private paint(key: Key): Paint {
    const paint = paintOf(key, this.hues, this.look.mode, this.look.theme);
    if (this.look.bright === null || this.look.bright(key)) return paint;
    const row = GREYS[this.look.theme].row;
    return { ...paint, front: mix(row, paint.front, 0.13), back: mix(row, paint.back, 0.13) };
  }
}

/** Classes that are the track's own machine's doing where the key names no machine. Not waits: who is waited for is not known. */
const OWN = new Set(["guest", "running", "exit", "user", "halt_poll", "vcpu", "thread"]);
const OTHERS_KEY = 1;
const NO_KEY: Key = { key: 1, class: "others", state: "others", label: "others", machine_id: null, vcpu: null, tid: null, reason: null };
