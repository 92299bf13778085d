// Panels of text: exits by reason with their lengths, threads, what is missing, and the server itself. Text from the server goes in
// as text nodes only.
import { count, duration, percent, thousands } from "../../src/core/format.ts";
import { make } from "../../src/page/dom.ts";
import { bytes } from "../core/bytes.ts";
import { windowsText } from "../core/damage.ts";
import { extentText } from "../core/snapshots.ts";
import { ago } from "../core/clock.ts";
import { isIn, reasonsOf, rivalsOf, threadsOf } from "../core/merge.ts";
import { orNone, type ThreadRow } from "../core/wire.ts";
import type { App } from "./app.ts";

/** Rows that a table shows; how many more there are is said. */
const MOST = 60;
/** The newest snapshots that are listed. */
const MOST_SNAPSHOTS = 5;

export abstract class TextPanel {
  constructor(
    protected readonly app: App,
    readonly panel: HTMLElement,
  ) {
    this.body.tabIndex = 0;
  }
  protected get body(): HTMLElement {
    return this.panel.querySelector<HTMLElement>(".body")!;
  }
  get shown(): boolean {
    return this.panel.offsetParent !== null;
  }
  protected title(...parts: (string | Node)[]): void {
    this.panel.querySelector("h2")!.replaceChildren(...parts);
  }
  abstract paint(): void;
}

type Cell = string | Node;

/** A table; the first column is text, the others are numbers. */
export function table(heads: readonly string[], rows: readonly (readonly Cell[])[], text_columns = 1): HTMLElement {
  const head = make("tr", {}, ...heads.map((name, i) => make("th", { class: i >= text_columns ? "n" : "", scope: "col" }, name)));
  const lines = rows.slice(0, MOST).map((cells) => make("tr", {}, ...cells.map((cell, i) => make("td", { class: i >= text_columns ? "n" : "label" }, cell))));
  const more = rows.length > MOST ? make("caption", {}, `${rows.length - MOST} more`) : undefined;
  return make("table", {}, more, make("thead", {}, head), make("tbody", {}, ...lines));
}

const time = (ns: number | undefined | null): string => (ns === undefined || ns === null ? "–" : duration(ns));

/** A VM's exits by reason. */
export class Reasons extends TextPanel {
  paint(): void {
    const { app } = this;
    const { focus } = app.seen;
    const vm = focus?.startsWith("vm:") ? focus.slice(3) : undefined;
    if (vm === undefined) return this.limits(focus?.slice(3) ?? "");
    this.title("Exits by reason", app.titleNote(app.sumText));
    const measured = app.tableMeasured;
    const rows = reasonsOf(app.tableWindows, vm).map((sum) => {
      const rate = measured > 0 ? (sum.count / measured) * 1e9 : 0;
      return [sum.reason, thousands(sum.count), `${count(Number(rate.toPrecision(3)))}/s`, time(sum.total_ns), time(sum.p50_ns), time(sum.p99_ns), time(sum.max_ns)];
    });
    if (rows.length === 0) return this.body.replaceChildren(make("p", { class: "dim" }, app.whyNo("exits", app.tableState ?? "No VM exits in this period.")));
    this.body.replaceChildren(table(["reason", "count", "rate", "total", "p50 ≤", "p99 ≤", "max"], rows));
  }

  /** A container's: its limit of CPU time, and what it was short of. */
  private limits(cgroup: string): void {
    const { app } = this;
    this.title("Limits and pressure", app.titleNote(app.pickedText));
    const row = app.pressureOf(cgroup);
    const missing = app.missing("throttling") ?? app.missing("pressure");
    if (!row) return this.body.replaceChildren(make("p", { class: "dim" }, missing ? `Not available on this host: ${missing.why}` : "No data for this control group in this period."));
    const quota = row.quota_ns && row.period_ns ? `${(row.quota_ns / row.period_ns).toFixed(2).replace(/\.?0+$/, "")} CPUs` : "no limit";
    const share = (ns: number | null | undefined): string => (ns === null || ns === undefined ? "–" : percent(ns / row.dur));
    const throttled = row.periods === null || row.periods === undefined ? "–" : `${thousands(orNone(row.periods_throttled))} of ${thousands(row.periods)} periods, ${time(row.throttled_ns)}`;
    this.body.replaceChildren(
      table(["CPU time", ""], [["limit", quota], ["throttled", throttled]]),
      table(["pressure", "some stalled", "all stalled"], PRESSURES.map(([what, some, full]) => [what, share(row[some]), share(row[full])])),
    );
  }
}

const PRESSURES = [["CPU", "cpu_some_ns", "cpu_full_ns"], ["I/O", "io_some_ns", "io_full_ns"], ["memory", "memory_some_ns", "memory_full_ns"]] as const;

/** Threads of a VM or container, and who was in whose way, thread by thread. */
export class Threads extends TextPanel {
  paint(): void {
    const { app } = this;
    const { focus } = app.seen;
    if (focus === undefined) return;
    this.title("Threads and their antagonists", app.titleNote(app.sumText));
    const { kind, name } = app.actor(focus);
    const group = focus.slice(3);
    const threads = threadsOf(app.tableWindows, (row, machines) => (kind === "vm" ? row.vm_machine_id !== null && row.vm_machine_id !== undefined && machines.name(row.vm_machine_id) === name : isIn(group, row.cgroup)));
    const tids = new Set(threads.map((row) => row.tid));
    const rivals = rivalsOf(app.tableWindows, (row) => tids.has(row.tid));
    if (threads.length === 0) return this.body.replaceChildren(make("p", { class: "dim" }, app.tableState ?? "No data for its threads in this period."));
    const measured = app.tableMeasured;
    this.body.replaceChildren(
      table(["antagonist", "waiter", "time", "share", "count"], rivals.slice(0, 8).map((sum) => [sum.by, sum.who, duration(sum.ns), percent(sum.ns / measured), thousands(sum.times)]), 2),
      table(["thread", "role", "last state", "CPU", "gotten", "waited", "switched in", "p99 wait ≤", "max wait"], threads.map(threadCells), 3),
    );
  }
}

function threadCells(row: ThreadRow): Cell[] {
  const share = (ns: number | null | undefined): string => (ns === null || ns === undefined || row.dur <= 0 ? "–" : percent(ns / row.dur));
  return [`${row.name} ${row.tid}`, row.vcpu === null || row.vcpu === undefined ? row.role : `vCPU ${row.vcpu}`, row.state, String(row.cpu), share(row.gotten_ns), share(row.waited_ns), thousands(orNone(row.executions)), time(row.wait_p99_ns), time(row.wait_max_ns)];
}

/** What is missing, what was not caught, what it costs, how far the history reaches. */
export class Server extends TextPanel {
  private readonly above = make("div");
  private readonly below = make("div");
  private readonly list = make("ul", { class: "snapshots" });
  private listed = "";

  paint(): void {
    const { app } = this;
    const { status } = app;
    this.title("Server", app.titleNote(status?.version ? `transect ${status.version}` : ""));
    this.above.replaceChildren(this.history(), this.recorder());
    this.below.replaceChildren(this.cost(), ...this.missing());
    this.listSnapshots();
    if (!this.list.isConnected) this.body.replaceChildren(this.above, this.list, this.below);
  }

  /** The newest snapshots, as links to the timeline. They stay as they are until they change: a link that is made anew loses focus. */
  private listSnapshots(): void {
    const { app } = this;
    const newest = [...app.snapshots].reverse().slice(0, MOST_SNAPSHOTS).map((taken) => ({ taken, text: extentText(taken, Date.now()), address: app.moments.addressOf(taken) }));
    const listed = JSON.stringify(newest.map(({ taken, text, address }) => [text, address, taken.reason]));
    if (listed === this.listed) return;
    this.listed = listed;
    this.list.replaceChildren(...newest.map(({ taken, text, address }) => make("li", {}, make("a", { href: address, target: "_blank", rel: "noopener", class: "jump", title: "Open it in the timeline" }, text), taken.reason && ` ${taken.reason}`)));
  }

  private history(): HTMLElement {
    const { app } = this;
    const history = app.status?.history;
    if (!history) return make("p", { class: "dim" }, "History: no status received yet.");
    if (history.state === "off") return make("p", {}, make("b", {}, "History "), "is off: only the last minutes are kept, in memory.");
    const now_ms = Date.now();
    const oldest = history.oldest_unix_ns ? `reaches back ${ago(history.oldest_unix_ns / 1e6, now_ms).replace(" ago", "")}` : "is empty";
    const used = history.bytes ?? 0;
    const limit = history.bytes_limit ?? 0;
    const size = limit > 0 ? `${bytes(used)} of ${bytes(limit)} (${percent(used / limit)})` : bytes(used);
    const bad = app.historyTrouble;
    const gone = history.windows_gone ? `, ${windowsText(history.windows_gone)} damaged` : "";
    const line = make("p", {}, make("b", {}, "History "), `${oldest}, ${size}${gone}`);
    return bad === undefined ? line : make("div", {}, line, make("p", { class: "bad" }, bad));
  }

  private recorder(): HTMLElement {
    const { app } = this;
    const snapshots = app.status?.snapshots;
    const { locked } = app.moments;
    const many = locked ? `${snapshots?.kept ?? "–"} kept, readable with a token` : `${app.snapshots.length} kept`;
    if (snapshots?.state === "off") return make("p", {}, make("b", {}, "Snapshots "), `cannot be taken: ${snapshots.why ?? "the flight recorder is off"} (${many})`);
    const back = app.moments.reachText();
    return make("p", {}, make("b", {}, "Snapshots "), back ? `${many}; one taken now reaches back ${back}` : many);
  }

  private cost(): HTMLElement {
    const { app } = this;
    const own = app.picked?.own;
    const measured = app.pickedMeasured;
    const health = app.newest?.health;
    const missed = app.range ? app.range.own.sum("own", 2, app.view.from, app.view.to) : 0;
    const cpu = own && measured > 0 && health?.own_cpu_ns !== undefined ? percent(own.sum("own", 0, -Infinity, Infinity) / measured) : "–";
    const lost: (readonly [string, number, string])[] = [
      [missed === 1 ? "window missed" : "windows missed", missed, "in this range"],
      ["threads read too late", orNone(health?.late_threads), "in the newest window"],
      ["events dropped: thread table full", orNone(health?.untracked_events), "since the start"],
      ["exits and requests dropped: table full", orNone(health?.no_room), "since the start"],
      ["events not delivered by the kernel or Xen", orNone(health?.missed_events), "since the start"],
    ];
    const some = lost.filter(([, many]) => many > 0);
    const lines = some.map(([what, many, when]) => make("p", { class: "bad" }, `${thousands(many)} ${what}, ${when}`));
    return make("div", {}, make("p", {}, make("b", {}, "Cost "), `${cpu} of one CPU`, make("span", { class: "dim" }, some.length === 0 ? " · no missed windows, no lost events" : "")), ...lines);
  }

  private missing(): HTMLElement[] {
    const { app } = this;
    const rows = app.newest?.missing ?? [];
    if (!app.newest) return [make("p", { class: "dim" }, "Missing metrics: no window received yet.")];
    if (rows.length === 0) return [make("p", {}, make("b", {}, "Missing metrics "), "none")];
    const names = app.machines;
    const lines = rows.map((row) => {
      const of = row.machine_id === null || row.machine_id === undefined ? "" : ` of ${names.name(row.machine_id)}`;
      return make("li", {}, make("b", {}, `${row.metric.replaceAll("_", " ")}${of}`), `: ${row.why}`);
    });
    return [make("p", {}, make("b", {}, `Missing metrics: ${rows.length}`)), make("ul", {}, ...lines)];
  }
}
