// The view in the URL's fragment: a link shows a colleague the same picture of the same recording.
import type { RequestId } from "./request.ts";
import { absOf, relOf, type Rel } from "./time.ts";
import type { Range } from "./view.ts";

/** How intervals get their hue: by whose they are, or by what state they are. */
export type ColourMode = "who" | "what";

/** All that a link keeps. Absent fields are as at the start. */
export interface Linked {
  range?: Range;
  /** The range as moments in any form, where it is not in plain trace time: found with the recording (core/moments.ts). */
  moments?: { from?: string; until?: string };
  /** The chosen interval: a track and a moment in it. */
  chosen?: { track: number; ts: Rel };
  selection?: Range;
  /** The explained track and range. */
  why?: Range & { track: number };
  /** The request whose stages are drawn. */
  request?: RequestId;
  filter?: string;
  pinned?: readonly number[];
  folded?: readonly number[];
  opened?: readonly number[];
  marks?: readonly { at: Rel; note: string }[];
  colour?: ColourMode;
  flows?: boolean;
  top?: number;
}

/**
 * The fragment without `#`. Times are absolute, so that a link outlives a re-import. `from` and `until` are moments as the options
 * of the same names accept them.
 */
export function encode(view: Linked, origin: bigint): string {
  const time = (rel: Rel): string => String(absOf(rel, origin));
  const parts = new URLSearchParams();
  if (view.range) {
    parts.set("from", time(view.range.from));
    parts.set("until", time(Math.ceil(view.range.to)));
  }
  if (view.chosen) parts.set("at", `${view.chosen.track}@${time(view.chosen.ts)}`);
  if (view.selection) parts.set("sel", `${time(view.selection.from)}-${time(view.selection.to)}`);
  if (view.why) parts.set("why", `${view.why.track}@${time(view.why.from)}-${time(view.why.to)}`);
  if (view.request) {
    const { kind, machine_id, numbers, ts } = view.request;
    parts.set("request", `${[kind, machine_id, ...numbers].join("-")}@${time(ts)}`);
  }
  if (view.filter) parts.set("q", view.filter);
  if (view.pinned?.length) parts.set("pin", view.pinned.join("."));
  if (view.folded?.length) parts.set("fold", view.folded.join("."));
  if (view.opened?.length) parts.set("open", view.opened.join("."));
  for (const mark of view.marks ?? []) parts.append("m", `${time(mark.at)}:${mark.note}`);
  if (view.colour === "what") parts.set("c", "what");
  if (view.flows) parts.set("f", "1");
  if (view.top) parts.set("y", String(Math.round(view.top)));
  return parts.toString();
}

/** Reads a fragment; what does not parse is left out, never an error: links get cut by mail programs. */
export function decode(fragment: string, origin: bigint): Linked {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const out: Linked = {};
  const [from, until] = [momentOf(fragment, "from"), momentOf(fragment, "until")];
  const range = rangeOf(from !== undefined && until !== undefined ? `${from}-${until}` : parts.get("v"), origin);
  if (range) out.range = range;
  else if (from !== undefined || until !== undefined) out.moments = { ...(from === undefined ? {} : { from }), ...(until === undefined ? {} : { until }) };
  const selection = rangeOf(parts.get("sel"), origin);
  if (selection) out.selection = selection;
  const chosen = /^(\d+)@(-?\d+)$/.exec(parts.get("at") ?? "");
  const ts = chosen && timeOf(chosen[2]!, origin);
  if (chosen && ts !== undefined && ts !== null) out.chosen = { track: Number(chosen[1]), ts };
  const why = /^(\d+)@(.+)$/.exec(parts.get("why") ?? "");
  const explained = why && rangeOf(why[2]!, origin);
  if (why && explained) out.why = { track: Number(why[1]), ...explained };
  const request = requestOf(parts.get("request"), origin);
  if (request) out.request = request;
  const filter = parts.get("q");
  if (filter) out.filter = filter;
  const pinned = idsOf(parts.get("pin"));
  if (pinned) out.pinned = pinned;
  const folded = idsOf(parts.get("fold"));
  if (folded) out.folded = folded;
  const opened = idsOf(parts.get("open"));
  if (opened) out.opened = opened;
  const marks = parts.getAll("m").flatMap((text) => {
    const match = /^(-?\d+):(.*)$/s.exec(text);
    const at = match ? timeOf(match[1]!, origin) : undefined;
    return match && at !== undefined ? [{ at, note: match[2]! }] : [];
  });
  if (marks.length > 0) out.marks = marks;
  if (parts.get("c") === "what") out.colour = "what";
  if (parts.get("f") === "1") out.flows = true;
  const top = Number(parts.get("y"));
  if (top > 0) out.top = top;
  return out;
}

/** A moment of the fragment. In it `+` is a sign; only between a date and a time it stands for a space, as forms write it. */
function momentOf(fragment: string, name: string): string | undefined {
  const part = fragment.replace(/^#/, "").split("&").find((own) => own.startsWith(`${name}=`));
  if (part === undefined) return undefined;
  const raw = part.slice(name.length + 1).replace(/^(\d{4}-\d\d-\d\d)\+(?=\d)/, "$1 ");
  try {
    return decodeURIComponent(raw) || undefined;
  } catch {
    return raw;
  }
}

function timeOf(text: string, origin: bigint): Rel | undefined {
  try {
    return relOf(BigInt(text), origin);
  } catch {
    return undefined;
  }
}

function rangeOf(text: string | null, origin: bigint): Range | undefined {
  const match = /^(-?\d+)-(-?\d+)$/.exec(text ?? "");
  if (!match) return undefined;
  const from = timeOf(match[1]!, origin);
  const to = timeOf(match[2]!, origin);
  return from !== undefined && to !== undefined && to > from ? { from, to } : undefined;
}

/** `block-1-2048@1700000000`: kind, machine, numbers and time. */
function requestOf(text: string | null, origin: bigint): RequestId | undefined {
  const [, kind, machine, numbers, at] = /^(block|packet)-(\d{1,10})((?:-\d{1,20}){0,2})@(-?\d+)$/.exec(text ?? "") ?? [];
  const ts = at === undefined ? undefined : timeOf(at, origin);
  if (ts === undefined) return undefined;
  return { kind: kind === "packet" ? "packet" : "block", machine_id: Number(machine), ts, numbers: numbers!.split("-").filter(Boolean) };
}

function idsOf(text: string | null): number[] | undefined {
  if (text === null || !/^\d+(\.\d+)*$/.test(text)) return undefined;
  return text.split(".").map(Number);
}
