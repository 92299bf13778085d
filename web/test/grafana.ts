// The Grafana dashboard and the list of metrics, as tests read them.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

interface Target {
  readonly expr: string;
  readonly legendFormat?: string;
}

interface Panel {
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly Target[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly definition?: string }[] };
}

const dashboard = (): Dashboard => JSON.parse(readFileSync(resolve("../dist/grafana/transect.json"), "utf8")) as Dashboard;

export const panels = (): readonly Panel[] => dashboard().panels;

/** Every expression: of panels, and of variables. */
export function exprs(): string[] {
  const { panels, templating } = dashboard();
  return [...panels.flatMap((panel) => (panel.targets ?? []).map(({ expr }) => expr)), ...templating.list.flatMap(({ definition }) => definition ?? [])];
}

/** The metrics of an expression. */
export function namesOf(expr: string): string[] {
  // Not what is a label's name or value.
  return [...new Set([...expr.matchAll(/(?<![\w{,"])\btransect_\w+(?!\s*=)/g)].map(([name]) => name))];
}

/** The labels that each metric of an expression is chosen by. */
export function selectors(expr: string): { name: string; label: string }[] {
  return [...expr.matchAll(/\b(transect_\w+)\{([^}]*)\}/g)].flatMap(([, name, inside]) => [...inside!.matchAll(/(\w+)\s*=~?/g)].map(([, label]) => ({ name: name!, label: label! })));
}

/** docs/reference/metrics.md: each series with its labels. */
export function documented(): Map<string, Set<string>> {
  const out = new Map<string, Set<string>>();
  let before: Set<string> = new Set();
  for (const line of readFileSync(resolve("../docs/reference/metrics.md"), "utf8").split("\n")) {
    const [, first, second] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const names = [...(first ?? "").matchAll(/`(transect_\w+)`/g)].map(([, name]) => name!);
    if (names.length === 0 || !line.startsWith("|")) continue;
    const labels = second === "the same" ? before : new Set([...(second ?? "").matchAll(/`(\w+)`/g)].map(([, label]) => label!));
    before = labels;
    for (const name of names) for (const series of line.includes("histogram:") ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]) out.set(series, labels);
  }
  return out;
}
