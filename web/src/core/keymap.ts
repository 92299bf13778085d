// Every command, its keys and its words: the dispatcher and the help overlay read the same table.

export type Command =
  | "zoomIn" | "zoomOut" | "panLeft" | "panRight" | "whole" | "fit" | "undo" | "redo"
  | "trackUp" | "trackDown" | "previous" | "next" | "fold" | "foldAll" | "pin" | "facts"
  | "arrowBack" | "arrowOn" | "flows" | "search" | "filterClear" | "range" | "rangeLeft" | "rangeRight"
  | "mark" | "markPrevious" | "markNext" | "measure" | "events" | "sql" | "panel" | "colour" | "theme" | "export" | "help" | "close";

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
  { command: "panLeft", keys: ["a"], group: "Move in time", help: "earlier" },
  { command: "panRight", keys: ["d"], group: "Move in time", help: "later" },
  { command: "fit", keys: ["f"], group: "Move in time", help: "zoom to the selection, or to the chosen interval" },
  { command: "whole", keys: ["0", "home"], group: "Move in time", help: "the whole recording" },
  { command: "undo", keys: ["u", "backspace", "ctrl+z"], group: "Move in time", help: "back to the view before" },
  { command: "redo", keys: ["shift+u", "ctrl+shift+z", "ctrl+y"], group: "Move in time", help: "forward again" },
  { command: "trackUp", keys: ["arrowup", "k"], group: "Tracks", help: "track above" },
  { command: "trackDown", keys: ["arrowdown", "j"], group: "Tracks", help: "track below" },
  { command: "fold", keys: [" "], group: "Tracks", help: "fold or open" },
  { command: "foldAll", keys: ["shift+ "], group: "Tracks", help: "fold or open all machines" },
  { command: "pin", keys: ["p"], group: "Tracks", help: "pin to the top, or unpin" },
  { command: "search", keys: ["/", "ctrl+k"], group: "Tracks", help: "filter: name, vm:, kind:, state:, reason:, by:" },
  { command: "filterClear", keys: ["shift+x", "ctrl+backspace"], group: "Tracks", help: "clear the filter" },
  { command: "previous", keys: ["arrowleft"], group: "Intervals", help: "interval before" },
  { command: "next", keys: ["arrowright"], group: "Intervals", help: "interval after" },
  { command: "facts", keys: ["enter"], group: "Intervals", help: "choose what is in the middle; its facts" },
  { command: "arrowBack", keys: [","], group: "Intervals", help: "along the arrow back (who woke it, who preempted it)" },
  { command: "arrowOn", keys: ["."], group: "Intervals", help: "along the arrow on" },
  { command: "flows", keys: ["e"], group: "Intervals", help: "arrows on or off" },
  { command: "range", keys: ["r"], group: "Ranges and marks", help: "select the chosen interval's time, or the view's" },
  { command: "rangeLeft", keys: ["shift+arrowleft"], group: "Ranges and marks", help: "move the range's end to the left" },
  { command: "rangeRight", keys: ["shift+arrowright"], group: "Ranges and marks", help: "move the range's end to the right" },
  { command: "mark", keys: ["m"], group: "Ranges and marks", help: "mark this moment" },
  { command: "markPrevious", keys: ["["], group: "Ranges and marks", help: "mark before" },
  { command: "markNext", keys: ["]"], group: "Ranges and marks", help: "mark after" },
  { command: "measure", keys: ["t"], group: "Ranges and marks", help: "measure from here; again: to here" },
  { command: "events", keys: ["v"], group: "Ranges and marks", help: "the events of the selection, or of the view, as a list" },
  { command: "sql", keys: ["q"], group: "Page", help: "SQL" },
  { command: "panel", keys: ["b"], group: "Page", help: "panel below: show or hide" },
  { command: "colour", keys: ["c"], group: "Page", help: "hue by who it is, or by state" },
  { command: "theme", keys: ["l"], group: "Page", help: "light or dark" },
  { command: "export", keys: ["x"], group: "Page", help: "export: PNG, SVG, Perfetto, smaller recording" },
  { command: "help", keys: ["?", "shift+?", "f1"], group: "Page", help: "this help" },
  { command: "close", keys: ["escape"], group: "Page", help: "close, or let go of selection and choice" },
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
