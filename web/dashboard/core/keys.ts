// Every command, its keys and its words: the dispatcher and the help read the same table.
import { lookup } from "../../src/core/keymap.ts";

export type Command =
  | "range1" | "range2" | "range3" | "range4" | "rangeOwn" | "zoomIn" | "zoomOut" | "pause" | "earlier" | "later" | "now"
  | "momentLeft" | "momentRight" | "momentLeftFar" | "momentRightFar" | "snapshot" | "openSnapshot"
  | "up" | "down" | "open" | "order" | "shown" | "filter" | "exits" | "large" | "theme" | "help" | "close";

export interface Binding {
  readonly command: Command;
  readonly keys: readonly string[];
  readonly group: string;
  readonly help: string;
}

export const BINDINGS: readonly Binding[] = [
  { command: "range1", keys: ["1"], group: "Time", help: "the last 15 minutes" },
  { command: "range2", keys: ["2"], group: "Time", help: "the last hour" },
  { command: "range3", keys: ["3"], group: "Time", help: "the last 6 hours" },
  { command: "range4", keys: ["4"], group: "Time", help: "the last 24 hours" },
  { command: "rangeOwn", keys: ["0"], group: "Time", help: "custom length" },
  { command: "zoomIn", keys: ["w", "+", "="], group: "Time", help: "half the range, around the selected time" },
  { command: "zoomOut", keys: ["z", "-"], group: "Time", help: "twice the range" },
  { command: "pause", keys: [" "], group: "Time", help: "pause or follow" },
  { command: "earlier", keys: ["a"], group: "Time", help: "move earlier" },
  { command: "later", keys: ["d"], group: "Time", help: "move later" },
  { command: "now", keys: ["n", "end"], group: "Time", help: "back to now" },
  { command: "momentLeft", keys: ["arrowleft"], group: "Selected time", help: "select a time; previous window" },
  { command: "momentRight", keys: ["arrowright"], group: "Selected time", help: "next window" },
  { command: "momentLeftFar", keys: ["shift+arrowleft"], group: "Selected time", help: "ten windows back" },
  { command: "momentRightFar", keys: ["shift+arrowright"], group: "Selected time", help: "ten windows forward" },
  { command: "snapshot", keys: ["s"], group: "Selected time", help: "take a snapshot now" },
  { command: "openSnapshot", keys: ["v"], group: "Selected time", help: "open the nearest snapshot in the timeline" },
  { command: "up", keys: ["arrowup", "k"], group: "Rows and panels", help: "select the row above" },
  { command: "down", keys: ["arrowdown", "j"], group: "Rows and panels", help: "select the row below" },
  { command: "open", keys: ["enter"], group: "Rows and panels", help: "open the selected VM or container" },
  { command: "order", keys: ["o"], group: "Rows and panels", help: "sort by waited, gotten, blocked or name" },
  { command: "shown", keys: ["c"], group: "Rows and panels", help: "show all, VMs only or containers only" },
  { command: "filter", keys: ["/", "ctrl+k"], group: "Rows and panels", help: "filter by name" },
  { command: "exits", keys: ["e"], group: "Rows and panels", help: "show exits over time or by VM" },
  { command: "large", keys: ["f"], group: "Rows and panels", help: "maximize or restore the panel" },
  { command: "theme", keys: ["l"], group: "Page", help: "light or dark theme" },
  { command: "help", keys: ["?", "shift+?", "f1"], group: "Page", help: "this help" },
  { command: "close", keys: ["escape"], group: "Page", help: "close; clear the time; back to the host" },
];

/** The command of a key press. */
export const commandOf = lookup(BINDINGS);
