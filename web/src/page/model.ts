// The recording as the page holds it: its description, tracks and keys, and the paints made of them.
import { api } from "../api/client.ts";
import type { FactsArrow, LostInfo, RecordingInfo } from "../api/types.ts";
import { coveredRange, type Coverage } from "../core/coverage.ts";
import type { Flow } from "../core/flows.ts";
import { machineHues, Paints, type Key, type Look, type Rgb, type Theme } from "../core/palette.ts";
import { absOf, numberOf, relOf, type Rel } from "../core/time.ts";
import { TrackTree, type Track } from "../core/tracks.ts";
import type { TimeUnit } from "../core/format.ts";
import { WallMap } from "../core/wall.ts";
import type { Range } from "../core/view.ts";

/** A zone in which events of a machine (or one of its CPUs) were lost. */
export interface LostZone {
  readonly from: Rel;
  readonly to: Rel;
  readonly machine_id: number | null;
  readonly cpu: number | null;
  readonly info: LostInfo;
}

export class Model {
  readonly origin: bigint;
  readonly whole: Range;
  /** What was recorded on purpose; events of before, which a kernel's buffer still had, lie outside. */
  readonly home: Range;
  /** The part of `home` in which every CPU is known, if that is less than all of it. */
  readonly coverage: Coverage | undefined;
  /** The range that the page opens on. */
  readonly opening: Range;
  readonly unit: TimeUnit;
  readonly tree: TrackTree;
  readonly lost: readonly LostZone[];
  /** The map from trace time to the host's wall clock. */
  readonly wall: WallMap;
  readonly cpuTracks: readonly number[];
  private readonly byKey: ReadonlyMap<number, Key>;
  private readonly machineNames: ReadonlyMap<number, string>;

  constructor(
    readonly info: RecordingInfo,
    readonly tracks: readonly Track[],
    readonly keys: readonly Key[],
  ) {
    this.origin = BigInt(info.origin ?? info.from);
    const from = relOf(BigInt(info.from), this.origin);
    this.whole = { from, to: Math.max(relOf(BigInt(info.to), this.origin), from + 1) };
    // Before there are tracks the tables tell of times, and where the recording begins is not known.
    const known = BigInt(info.to) > BigInt(info.from);
    const window = known && info.window ? { from: this.rel(info.window.from), to: this.rel(info.window.to) } : undefined;
    this.home = window && window.to > window.from ? window : this.whole;
    this.unit = info.unit === "ticks" ? "ticks" : "ns";
    this.wall = WallMap.from(info.wall);
    this.tree = new TrackTree(tracks);
    this.byKey = new Map(keys.map((key) => [key.key, key]));
    this.machineNames = new Map(info.machines.map((machine) => [machine.machine_id, machine.name]));
    this.lost = (known ? (info.lost ?? []) : []).map((lost) => {
      const at = relOf(BigInt(lost.ts), this.origin);
      return { from: at, to: at + Math.max(numberOf(lost.dur) || 0, 1), machine_id: lost.machine_id, cpu: lost.cpu, info: lost };
    });
    this.cpuTracks = this.minimapTracks();
    const ids = new Set(info.machines.map((machine) => machine.machine_id));
    const roots = info.machines.filter(({ parent_id }) => parent_id === null || !ids.has(parent_id)).map(({ machine_id }) => machine_id);
    this.coverage = coveredRange(this.lost, this.home, new Set(roots));
    this.opening = this.coverage?.range ?? this.home;
  }

  /** What the minimap sums up: the host's CPUs; without them any CPUs, vCPUs, or the busiest threads. */
  private minimapTracks(): number[] {
    const of = (kind: string): Track[] => this.tracks.filter((track) => track.kind === kind && track.intervals > 0);
    const host = of("cpu").filter((track) => !this.isGuest(track.machine_id));
    const busiest = of("thread").sort((a, b) => b.busy_ns - a.busy_ns).slice(0, 16);
    const found = [host, of("cpu"), of("vcpu"), busiest].find((tracks) => tracks.length > 0) ?? [];
    return found.slice(0, 64).map((track) => track.track);
  }

  /** Fetches everything but tiles. */
  static async load(): Promise<Model> {
    const info = await api.recording();
    if (info.building?.state === "failed") throw new Error(info.building.error ?? "the tables cannot be built: see the terminal output of transect view");
    // A description from before there was any track does not know when the recording begins: tracks that came since
    // are taken with the next one, or they and all that an address says would lie at times of no meaning.
    if (info.tracks === 0) return new Model(info, [], []);
    const [tracks, keys] = await Promise.all([api.tracks(), api.keys()]);
    return new Model(info, tracks, keys);
  }

  abs(rel: Rel): bigint {
    return absOf(rel, this.origin);
  }

  /** Relative time of the API's decimal string. */
  rel(ts: string | bigint): Rel {
    return relOf(BigInt(ts), this.origin);
  }

  /** An arrow of `/api/at` as one of `/api/flows`; undefined if one end has no track. */
  flowOf({ from, to, kind, evidence = null, what = null }: FactsArrow): Flow | undefined {
    if (typeof from.track !== "number" || typeof to.track !== "number" || !from.ts || !to.ts) return undefined;
    return { from_track: from.track, from_ts: this.rel(from.ts), to_track: to.track, to_ts: this.rel(to.ts), kind, evidence, what };
  }

  key(key: number): Key | undefined {
    return this.byKey.get(key);
  }

  /** Does a key mean that the state is unknown? Such time is never a wait. */
  isUnknown(key: number): boolean {
    const known = this.byKey.get(key)?.class;
    return known === "unknown" || known === "lost";
  }

  label(key: number): string {
    return this.byKey.get(key)?.label || this.byKey.get(key)?.state || `key ${key}`;
  }

  /** A key in a word, where its label has no room: whose it is, or who is waited for. */
  shortLabel(key: number): string {
    const known = this.byKey.get(key);
    if (!known) return "";
    // `nginx (812)`: the number is what can go.
    if (known.class === "thread") return known.label.replace(/ \(\d+\)$/, "");
    const named = ["vcpu", "guest", "running", "preempted", "waking"].includes(known.class) && known.machine_id !== null;
    return named ? this.machineName(known.machine_id!) : known.reason ?? known.state;
  }

  machineName(machine_id: number): string {
    return this.machineNames.get(machine_id) ?? `machine ${machine_id}`;
  }

  /** The machine a track belongs to. */
  machineOf(track: number): number {
    return this.tree.nodes.get(track)?.track.machine_id ?? 0;
  }

  trackName(track: number): string {
    return this.tree.path(track) || `track ${track}`;
  }

  /** How far stamps of a machine may be off in trace time. */
  errorOf(machine_id: number): { machine_id: number; error_ns: number } {
    const machine = this.info.machines.find((m) => m.machine_id === machine_id);
    return { machine_id, error_ns: numberOf(machine?.error_ns) || 0 };
  }

  isGuest(machine_id: number): boolean {
    const kind = this.info.machines.find((m) => m.machine_id === machine_id)?.kind;
    return kind === "guest" || kind === "container";
  }

  hues(theme: Theme): Map<number, Rgb> {
    return machineHues(this.info.machines, theme);
  }

  /** Paints for a look; keys that the filter leaves out are faded into the row. */
  paints(look: Look): Paints {
    return new Paints(this.keys, this.hues(look.theme), look);
  }
}
