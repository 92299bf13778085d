// The rows of the overview: who is shown, in which order, with which numbers.
import { actorOf, type Actor, type ActorId, type Label } from "./actors.ts";
import { ACTOR_FIELDS, FIELD } from "./collect.ts";
import type { Lanes, Rel } from "./lanes.ts";

export const ORDERS = ["waited", "gotten", "blocked", "name"] as const;
export type Order = (typeof ORDERS)[number];

export const SHOWN = ["all", "vm", "group"] as const;
export type Shown = (typeof SHOWN)[number];

/** A share of the range, and of a CPU, below which nothing is left to see. */
const LITTLE = 0.0005;

/** Shares of an actor's time; of a group, shares of one CPU's time (so more than 1 is possible). */
export interface Shares {
  readonly gotten: number;
  readonly waited: number;
  readonly blocked: number;
  readonly unknown: number;
  /** Nothing was measured. */
  readonly empty: boolean;
}

export interface ActorRow {
  readonly actor: Actor;
  readonly shares: Shares;
}

/** What an actor did in `[from, to)`. */
export function sharesOf(lanes: Lanes, actor: Actor, from: Rel, to: Rel): Shares {
  const [first, end] = lanes.between(from, to);
  return sharesOfBins(lanes, actor, first, end);
}

/** What an actor did in bins `[first, end)`. */
export function sharesOfBins(lanes: Lanes, actor: Actor, first: number, end: number): Shares {
  const lane = lanes.lane(actor.id);
  const sums = { gotten: 0, waited: 0, blocked: 0, rest: 0, measured: 0 };
  const { dur } = lanes.edges;
  for (let bin = first; lane && bin < end; bin++) {
    const at = bin * ACTOR_FIELDS;
    sums.gotten += lane[at + FIELD.guest]! + lane[at + FIELD.gotten]!;
    sums.waited += lane[at + FIELD.preempted]! + lane[at + FIELD.waking]!;
    sums.blocked += lane[at + FIELD.halted]! + lane[at + FIELD.blocked]!;
    sums.rest += lane[at + FIELD.offline]! + lane[at + FIELD.unknown]!;
    sums.measured += dur[bin]!;
  }
  const total = actor.kind === "group" ? sums.measured : sums.gotten + sums.waited + sums.blocked + sums.rest;
  if (!(total > 0)) return { gotten: 0, waited: 0, blocked: 0, unknown: 0, empty: true };
  return { gotten: sums.gotten / total, waited: sums.waited / total, blocked: sums.blocked / total, unknown: sums.rest / total, empty: false };
}

/** Rows in order. Who never had anything in the range is left out. */
export function rowsOf(lanes: Lanes, from: Rel, to: Rel, order: Order, shown: Shown, filter: string, labels?: ReadonlyMap<ActorId, Label>, here?: (id: ActorId) => boolean): ActorRow[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const rows: ActorRow[] = [];
  for (const id of lanes.names) {
    const actor = actorOf(id, labels);
    if ((shown !== "all" && actor.kind !== "vcpu" && actor.kind !== shown)) continue;
    if (!words.every((word) => `${id} ${actor.name} ${actor.detail}`.toLowerCase().includes(word))) continue;
    const shares = sharesOf(lanes, actor, from, to);
    // Who is gone and did next to nothing is not worth a row, unless somebody looks for it.
    if (here && words.length === 0 && shares.gotten + shares.waited < LITTLE && !here(id)) continue;
    if (!shares.empty) rows.push({ actor, shares });
  }
  return rows.sort((a, b) => compare(a, b, order));
}

function compare(a: ActorRow, b: ActorRow, order: Order): number {
  const byName = (): number => a.actor.name.localeCompare(b.actor.name, undefined, { numeric: true }) || (a.actor.id < b.actor.id ? -1 : 1);
  if (order === "name") return byName();
  // Thousandths: rows that differ by less keep their places.
  const by = Math.round(b.shares[order] * 1000) - Math.round(a.shares[order] * 1000);
  return by || byName();
}
