// What is seen, in the address: a link shows a colleague the same, live or at that moment.
import { ORDERS, SHOWN, type Order, type Shown } from "./rows.ts";
import { lengthText, parseLength } from "./steps.ts";

export interface Linked {
  /** How long the range is. */
  length_ns: number;
  /** Where it ends, unix ms; undefined: now, and it follows. */
  until_ms?: number;
  /** The chosen moment, unix ms. */
  at_ms?: number;
  focus?: string;
  order: Order;
  shown: Shown;
  filter: string;
  exits: "time" | "who";
  /** The panel that fills the window. */
  large?: string;
}

export const START: Linked = { length_ns: 900e9, order: "waited", shown: "all", filter: "", exits: "time" };

/** The fragment without `#`; only what is not as at the start. */
export function encode(seen: Linked): string {
  const parts = new URLSearchParams();
  if (seen.length_ns !== START.length_ns) parts.set("range", lengthText(seen.length_ns).replace(" ", ""));
  if (seen.until_ms !== undefined) parts.set("until", stamp(seen.until_ms));
  if (seen.at_ms !== undefined) parts.set("at", stamp(seen.at_ms));
  if (seen.focus !== undefined) parts.set("of", seen.focus);
  if (seen.order !== START.order) parts.set("order", seen.order);
  if (seen.shown !== START.shown) parts.set("show", seen.shown);
  if (seen.filter !== "") parts.set("q", seen.filter);
  if (seen.exits !== START.exits) parts.set("exits", seen.exits);
  if (seen.large !== undefined) parts.set("large", seen.large);
  return parts.toString();
}

/** Reads a fragment; what does not parse is as at the start: links get cut by mail programs. */
export function decode(fragment: string): Linked {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const one = <T extends string>(name: string, known: readonly T[], start: T): T => known.find((word) => word === parts.get(name)) ?? start;
  const out: Linked = {
    length_ns: parseLength(parts.get("range") ?? "") ?? START.length_ns,
    order: one("order", ORDERS, START.order),
    shown: one("show", SHOWN, START.shown),
    filter: parts.get("q") ?? "",
    exits: one("exits", ["time", "who"] as const, START.exits),
  };
  const until = timeOf(parts.get("until"));
  if (until !== undefined) out.until_ms = until;
  const at = timeOf(parts.get("at"));
  if (at !== undefined) out.at_ms = at;
  const focus = parts.get("of");
  if (focus !== null && /^(vm|cg):/.test(focus)) out.focus = focus;
  const large = parts.get("large");
  if (large !== null && /^[a-z]+$/.test(large)) out.large = large;
  return out;
}

const stamp = (unix_ms: number): string => new Date(Math.round(unix_ms)).toISOString();

function timeOf(text: string | null): number | undefined {
  const time = text === null ? NaN : Date.parse(text);
  return Number.isFinite(time) ? time : undefined;
}

/** The page that a browser is led to once it has shown a token: a timeline of this server, nothing else. */
export function nextOf(search: string): string | undefined {
  const next = new URLSearchParams(search).get("next");
  return next !== null && /^\/view\/[A-Za-z0-9-]{1,32}\/$/.test(next) ? next : undefined;
}
