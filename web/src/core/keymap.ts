// Every command, its keys and its words: the dispatcher and the help overlay read the same table.

export type Command =
  | "zoomIn" | "zoomOut" | "panLeft" | "panRight" | "whole" | "covered" | "fit" | "undo" | "redo"
  | "trackUp" | "trackDown" | "previous" | "next" | "fold" | "foldAll" | "pin" | "facts"
  | "arrowBack" | "arrowOn" | "flows" | "search" | "filterClear" | "range" | "rangeLeft" | "rangeRight"
  | "why" | "requests" | "mark" | "markPrevious" | "markNext" | "measure" | "events" | "sql" | "panel" | "colour" | "theme" | "clock" | "goTo" | "copyTime" | "export" | "help" | "close";

export interface Binding {
  readonly command: Command;
  /** As `KeyboardEvent.key`, lower case, with `shift+`, `ctrl+` before it where needed. */
  readonly keys: readonly string[];
  readonly group: string;
  readonly help: string;
}

export const BINDINGS: readonly Binding[] = [
  { command: "zoomIn", keys: ["w", "+", "="], group: "Move in time", help: "zoom in at the pointer" },
  { command: "zoomOut", keys: ["s", "-"], group: "Move in time", help: "zoom out" },
  { command: "panLeft", keys: ["a"], group: "Move in time", help: "move earlier" },
  { command: "panRight", keys: ["d"], group: "Move in time", help: "move later" },
  { command: "fit", keys: ["f"], group: "Move in time", help: "zoom to the selected range or interval" },
  { command: "whole", keys: ["0", "home"], group: "Move in time", help: "whole recording; again: with the time before" },
  { command: "covered", keys: ["o"], group: "Move in time", help: "range in which all CPUs are known" },
  { command: "goTo", keys: ["g"], group: "Move in time", help: "go to a time or range" },
  { command: "undo", keys: ["u", "backspace", "ctrl+z"], group: "Move in time", help: "previous view" },
  { command: "redo", keys: ["shift+u", "ctrl+shift+z", "ctrl+y"], group: "Move in time", help: "next view" },
  { command: "trackUp", keys: ["arrowup", "k"], group: "Tracks", help: "select the track above" },
  { command: "trackDown", keys: ["arrowdown", "j"], group: "Tracks", help: "select the track below" },
  { command: "fold", keys: [" "], group: "Tracks", help: "collapse or expand" },
  { command: "foldAll", keys: ["shift+ "], group: "Tracks", help: "collapse or expand all machines" },
  { command: "pin", keys: ["p"], group: "Tracks", help: "pin to the top, or unpin" },
  { command: "search", keys: ["/", "ctrl+k"], group: "Tracks", help: "filter: name, vm:, kind:, state:, reason:, by:" },
  { command: "filterClear", keys: ["shift+x", "ctrl+backspace"], group: "Tracks", help: "clear the filter" },
  { command: "previous", keys: ["arrowleft"], group: "Intervals", help: "previous interval" },
  { command: "next", keys: ["arrowright"], group: "Intervals", help: "next interval" },
  { command: "facts", keys: ["enter"], group: "Intervals", help: "select the interval at pointer or centre" },
  { command: "arrowBack", keys: [","], group: "Intervals", help: "follow the arrow to the waker or preemptor" },
  { command: "arrowOn", keys: ["."], group: "Intervals", help: "follow the arrow forward" },
  { command: "flows", keys: ["e"], group: "Intervals", help: "show or hide arrows" },
  { command: "why", keys: ["shift+w"], group: "Intervals", help: "why slow here: the critical path" },
  { command: "requests", keys: ["shift+r"], group: "Intervals", help: "slowest requests of the range or view; of a request: its stages" },
  { command: "range", keys: ["r"], group: "Ranges and marks", help: "select the time of the interval or view" },
  { command: "rangeLeft", keys: ["shift+arrowleft"], group: "Ranges and marks", help: "move the range's end to the left" },
  { command: "rangeRight", keys: ["shift+arrowright"], group: "Ranges and marks", help: "move the range's end to the right" },
  { command: "mark", keys: ["m"], group: "Ranges and marks", help: "mark the time at pointer or centre" },
  { command: "markPrevious", keys: ["["], group: "Ranges and marks", help: "previous mark" },
  { command: "markNext", keys: ["]"], group: "Ranges and marks", help: "next mark" },
  { command: "measure", keys: ["t"], group: "Ranges and marks", help: "start a measurement; again: end it" },
  { command: "copyTime", keys: ["y"], group: "Ranges and marks", help: "copy the time at pointer or centre, for --from" },
  { command: "events", keys: ["v"], group: "Ranges and marks", help: "list the events of the range or view" },
  { command: "sql", keys: ["q"], group: "Page", help: "SQL" },
  { command: "panel", keys: ["b"], group: "Page", help: "show or hide the panel below" },
  { command: "colour", keys: ["c"], group: "Page", help: "colour by machine or by state" },
  { command: "theme", keys: ["l"], group: "Page", help: "light or dark theme" },
  { command: "clock", keys: ["z"], group: "Page", help: "wall clock: local time, UTC, hidden" },
  { command: "export", keys: ["x"], group: "Page", help: "export: PNG, SVG, Perfetto, smaller recording" },
  { command: "help", keys: ["?", "shift+?", "f1"], group: "Page", help: "this help" },
  { command: "close", keys: ["escape"], group: "Page", help: "close; clear or cancel the selection" },
];

/** What `KeyboardEvent` tells, as far as bindings care. */
export interface Pressed {
  readonly key: string;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

/** Finds the command of a key press in a table of bindings. Undefined: then the browser has the key. */
export function lookup<C extends string>(bindings: readonly { readonly command: C; readonly keys: readonly string[] }[]): (pressed: Pressed) => C | undefined {
  const byKey = new Map(bindings.flatMap((binding) => binding.keys.map((key) => [key, binding.command] as const)));
  return (pressed) => {
    if (pressed.altKey) return undefined;
    const key = pressed.key.toLowerCase();
    const ctrl = pressed.ctrlKey || pressed.metaKey ? "ctrl+" : "";
    const shifted = byKey.get(`${ctrl}${pressed.shiftKey ? "shift+" : ""}${key}`);
    if (shifted) return shifted;
    // `+`, `?` and their like need shift on some keyboards and not on others.
    return pressed.shiftKey && key.length === 1 && !/[a-z ]/.test(key) ? byKey.get(ctrl + key) : undefined;
  };
}

/** The command of a key press in the timeline. */
export const commandOf = lookup(BINDINGS);

const KEY_NAMES: Readonly<Record<string, string>> = { " ": "Space", arrowup: "↑", arrowdown: "↓", arrowleft: "←", arrowright: "→", escape: "Esc", backspace: "⌫", enter: "Enter", home: "Home", end: "End" };

/** A key of a binding as people read it: `Shift ←`. */
export function keyName(key: string): string {
  if (key === "+") return key;
  return key
    .split("+")
    .map((part) => (part === "" ? "+" : KEY_NAMES[part] ?? (part.length === 1 ? part.toUpperCase() : part[0]!.toUpperCase() + part.slice(1))))
    .join(" ")
    .replace("Shift  ", "Shift Space");
}
