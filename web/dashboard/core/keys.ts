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
  { command: "rangeOwn", keys: ["0"], group: "Time", help: "any other length" },
  { command: "zoomIn", keys: ["w", "+", "="], group: "Time", help: "half the range, around the moment" },
  { command: "zoomOut", keys: ["z", "-"], group: "Time", help: "twice the range" },
  { command: "pause", keys: [" "], group: "Time", help: "pause, or follow again" },
  { command: "earlier", keys: ["a"], group: "Time", help: "earlier" },
  { command: "later", keys: ["d"], group: "Time", help: "later" },
  { command: "now", keys: ["n", "end"], group: "Time", help: "back to now" },
  { command: "momentLeft", keys: ["arrowleft"], group: "A moment", help: "choose a moment; the one before" },
  { command: "momentRight", keys: ["arrowright"], group: "A moment", help: "the one after" },
  { command: "momentLeftFar", keys: ["shift+arrowleft"], group: "A moment", help: "ten before" },
  { command: "momentRightFar", keys: ["shift+arrowright"], group: "A moment", help: "ten after" },
  { command: "snapshot", keys: ["s"], group: "A moment", help: "take a snapshot now" },
  { command: "openSnapshot", keys: ["v"], group: "A moment", help: "open the nearest snapshot in the timeline" },
  { command: "up", keys: ["arrowup", "k"], group: "Rows and panels", help: "row above" },
  { command: "down", keys: ["arrowdown", "j"], group: "Rows and panels", help: "row below" },
  { command: "open", keys: ["enter"], group: "Rows and panels", help: "open this VM or container" },
  { command: "order", keys: ["o"], group: "Rows and panels", help: "order by waited, gotten, blocked, name" },
  { command: "shown", keys: ["c"], group: "Rows and panels", help: "all, VMs only, containers only" },
  { command: "filter", keys: ["/", "ctrl+k"], group: "Rows and panels", help: "filter by name" },
  { command: "exits", keys: ["e"], group: "Rows and panels", help: "exits by time, or by VM" },
  { command: "large", keys: ["f"], group: "Rows and panels", help: "make the panel as large as the window; back" },
  { command: "theme", keys: ["l"], group: "Page", help: "light or dark" },
  { command: "help", keys: ["?", "shift+?", "f1"], group: "Page", help: "this help" },
  { command: "close", keys: ["escape"], group: "Page", help: "close; let go of the moment; back to the host" },
];

/** The command of a key press. */
export const commandOf = lookup(BINDINGS);
