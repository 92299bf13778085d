// What the development server answers, from the made-up recording, in the shapes of the real API.
import { columnFromArray, float64, int32, int64, tableFromColumns, tableToIPC, uint16, uint32, utf8, type Column, type DataType } from "@uwdata/flechette";
import type { TileRequest } from "../src/core/plan.ts";
import { firstAfter, firstFrom, makeTile, type Made } from "./tiles.ts";
import { ORIGIN, type Intervals, type Recording } from "./simulate.ts";
import { simulateWall } from "./wall.ts";

const absolute = (rel: number): bigint => ORIGIN + BigInt(Math.round(rel));

function ipc(columns: Record<string, readonly [DataType, unknown[]]>): Uint8Array {
  const made = Object.entries(columns).map(([name, [type, values]]): [string, Column<unknown>] => [name, columnFromArray(values, type)]);
  const bytes = tableToIPC(tableFromColumns(made), { format: "stream" });
  if (!bytes) throw new Error("flechette gave no bytes");
  return bytes;
}

export class Answers {
  private readonly tiles = new Map<string, Made | undefined>();

  constructor(readonly recording: Recording) {}

  info(building: { done: number; total: number; state: string }): unknown {
    const { recording } = this;
    return {
      name: recording.name,
      unit: "ns",
      origin: String(ORIGIN),
      from: String(ORIGIN),
      to: String(absolute(recording.length)),
      window: null,
      machines: recording.machines,
      lost: recording.lost.map((lost) => ({ ...lost, ts: String(absolute(lost.ts)), dur: String(lost.dur) })),
      problems: ["made-up recording of the development server: no real machine was traced"],
      tracks: recording.tracks.length,
      keys: recording.keys.length,
      filter: recording.filter || null,
      wall: simulateWall(recording.wall, recording.length),
      building,
    };
  }

  tracks(): Uint8Array {
    const rows = this.recording.tracks;
    return ipc({
      track: [uint32(), rows.map((r) => r.track)],
      parent: [uint32(), rows.map((r) => r.parent)],
      machine_id: [uint32(), rows.map((r) => r.machine_id)],
      layer: [utf8(), rows.map((r) => r.layer)],
      kind: [utf8(), rows.map((r) => r.kind)],
      name: [utf8(), rows.map((r) => r.name)],
      detail: [utf8(), rows.map((r) => r.detail)],
      sort: [int64(), rows.map((r) => BigInt(r.sort))],
      cpu: [uint32(), rows.map((r) => r.cpu)],
      vcpu: [uint32(), rows.map((r) => r.vcpu)],
      tid: [int32(), rows.map((r) => r.tid)],
      intervals: [int64(), rows.map((r) => BigInt(r.intervals))],
      busy_ns: [int64(), rows.map((r) => BigInt(Math.round(r.busy_ns)))],
      shape: [utf8(), rows.map((r) => r.shape)],
    });
  }

  keys(): Uint8Array {
    const rows = this.recording.keys;
    return ipc({
      key: [uint32(), rows.map((r) => r.key)],
      class: [utf8(), rows.map((r) => r.class)],
      state: [utf8(), rows.map((r) => r.state)],
      label: [utf8(), rows.map((r) => r.label)],
      machine_id: [uint32(), rows.map((r) => r.machine_id)],
      vcpu: [uint32(), rows.map((r) => r.vcpu)],
      tid: [int32(), rows.map((r) => r.tid)],
      reason: [utf8(), rows.map((r) => r.reason)],
    });
  }

  tile(track: number, level: number, index: number): Made | undefined {
    const name = `${track}/${level}/${index}`;
    if (!this.tiles.has(name)) {
      if (this.tiles.size > 20_000) this.tiles.clear();
      const own = this.recording.intervals.get(track);
      this.tiles.set(name, own ? makeTile(own, level, index) : undefined);
    }
    return this.tiles.get(name);
  }

  tilesBody(request: TileRequest): Uint8Array {
    const exact = { track: [] as number[], tile: [] as bigint[], ts: [] as bigint[], dur: [] as bigint[], key: [] as number[], value: [] as (number | null)[] };
    const sums = { track: [] as number[], tile: [] as bigint[], bucket: [] as number[], key: [] as number[], share: [] as number[], min: [] as (number | null)[], max: [] as (number | null)[], mean: [] as (number | null)[] };
    for (const track of [...request.tracks].sort((a, b) => a - b)) {
      const own = this.recording.intervals.get(track);
      for (let i = 0; i < request.count; i++) {
        const index = request.first + i;
        const made = this.tile(track, request.level, index);
        if (!made || !own) continue;
        if (made.kind === "exact") {
          for (let row = made.from; row < made.to; row++) {
            exact.track.push(track);
            exact.tile.push(BigInt(index));
            exact.ts.push(absolute(own.ts[row]!));
            exact.dur.push(BigInt(Math.round(own.dur[row]!)));
            exact.key.push(own.key[row]!);
            exact.value.push(own.value ? own.value[row]! : null);
          }
        } else {
          for (const row of made.rows) {
            sums.track.push(track);
            sums.tile.push(BigInt(index));
            sums.bucket.push(row.bucket);
            sums.key.push(row.key);
            sums.share.push(row.share);
            sums.min.push(row.min ?? null);
            sums.max.push(row.max ?? null);
            sums.mean.push(row.mean ?? null);
          }
        }
      }
    }
    const frames = [
      ipc({ track: [uint32(), exact.track], tile: [int64(), exact.tile], ts: [int64(), exact.ts], dur: [int64(), exact.dur], key: [uint32(), exact.key], value: [float64(), exact.value] }),
      ipc({ track: [uint32(), sums.track], tile: [int64(), sums.tile], bucket: [uint16(), sums.bucket], key: [uint32(), sums.key], share: [uint16(), sums.share], min: [float64(), sums.min], max: [float64(), sums.max], mean: [float64(), sums.mean] }),
    ];
    const body = new Uint8Array(frames.reduce((sum, frame) => sum + 4 + frame.length, 0));
    let at = 0;
    for (const frame of frames) {
      new DataView(body.buffer).setUint32(at, frame.length, true);
      body.set(frame, at + 4);
      at += 4 + frame.length;
    }
    return body;
  }

  flows(from: number, to: number, tracks: readonly number[], limit: number): Uint8Array {
    const wanted = new Set(tracks);
    const rows = this.recording.flows.filter((f) => f.to_ts >= from && f.from_ts < to && (wanted.size === 0 || (wanted.has(f.from_track) && wanted.has(f.to_track)))).slice(0, limit);
    return ipc({
      from_track: [uint32(), rows.map((r) => r.from_track)],
      from_ts: [int64(), rows.map((r) => absolute(r.from_ts))],
      to_track: [uint32(), rows.map((r) => r.to_track)],
      to_ts: [int64(), rows.map((r) => absolute(r.to_ts))],
      kind: [utf8(), rows.map((r) => r.kind)],
      evidence: [utf8(), rows.map((r) => r.evidence)],
      what: [utf8(), rows.map(() => null)],
    });
  }

  /** Everything about the interval of a track at a moment; undefined if nothing is there. */
  at(track: number, at: number): unknown {
    const own = this.recording.intervals.get(track);
    const i = own ? firstAfter(own, at) : 0;
    if (!own || i >= own.ts.length || own.ts[i]! > at) return undefined;
    const info = this.recording.tracks.find((t) => t.track === track)!;
    const key = this.recording.keys[own.key[i]!]!;
    const place = (j: number): unknown => (j < 0 || j >= own.ts.length ? null : { track, ts: String(absolute(own.ts[j]!)), dur: String(own.dur[j]), key: own.key[j], label: this.recording.keys[own.key[j]!]!.label });
    const from = own.ts[i]!;
    const end = from + own.dur[i]!;
    const arrows = this.recording.flows.filter((f) => (f.from_track === track && f.from_ts >= from && f.from_ts <= end) || (f.to_track === track && f.to_ts >= from && f.to_ts <= end)).slice(0, 20);
    const flow = (f: Recording["flows"][number]): unknown => ({ from: { track: f.from_track, ts: String(absolute(f.from_ts)) }, to: { track: f.to_track, ts: String(absolute(f.to_ts)) }, kind: f.kind, evidence: f.evidence });
    const waker = arrows.find((f) => f.kind === "wakeup" && f.to_track === track);
    const culprit = key.class === "preempted" || key.class === "waking" ? this.recording.tracks.find((t) => t.kind === "vcpu" && t.machine_id === key.machine_id && t.vcpu === key.vcpu) : undefined;
    return {
      track,
      ts: String(absolute(from)),
      dur: String(own.dur[i]),
      key: own.key[i],
      label: key.label,
      rows: [{ table: info.detail.split(" ")[0] || info.kind, values: { ts: String(absolute(from)), dur: String(own.dur[i]), machine_id: info.machine_id, cpu: info.cpu, vcpu: info.vcpu, tid: info.tid, state: key.state, reason: key.reason } }],
      previous: place(i - 1),
      next: place(i + 1),
      waker: waker ? { track: waker.from_track, ts: String(absolute(waker.from_ts)), label: this.recording.tracks.find((t) => t.track === waker.from_track)!.name } : null,
      preemptor: culprit ? { track: culprit.track, ts: String(absolute(from)), label: `${this.recording.machines[culprit.machine_id]!.name} ${culprit.name}` } : null,
      arrows: arrows.map(flow),
    };
  }

  stats(from: number, to: number, tracks: readonly number[] | undefined): unknown {
    const { keys, machines } = this.recording;
    const chosen = tracks ?? [];
    const perTrack = chosen.map((track) => ({ track, states: this.states(track, from, to), numbers: this.numbers(track, from, to) }));
    const vms = machines.filter((m) => m.kind === "guest").map((machine) => {
      const sum = { gotten_ns: 0, waited_ns: 0, blocked_ns: 0, offline_ns: 0, unknown_ns: 0 };
      for (const track of this.recording.tracks.filter((t) => t.kind === "vcpu" && t.machine_id === machine.machine_id)) {
        for (const state of this.states(track.track, from, to)) {
          const klass = keys[state.key]!.class;
          if (klass === "guest" || klass === "exit") sum.gotten_ns += state.ns;
          else if (klass === "preempted" || klass === "waking") sum.waited_ns += state.ns;
          else if (klass === "unknown") sum.unknown_ns += state.ns;
          else sum.blocked_ns += state.ns;
        }
      }
      const executions = this.recording.tracks.filter((t) => t.kind === "cpu").reduce((n, t) => n + this.states(t.track, from, to).filter((s) => keys[s.key]!.machine_id === machine.machine_id).reduce((m, s) => m + s.count, 0), 0);
      return { machine_id: machine.machine_id, name: machine.name, executions, ...sum };
    });
    return { from: String(absolute(from)), to: String(absolute(to)), tracks: perTrack, vms, exits: this.exits(from, to) };
  }

  private states(track: number, from: number, to: number): { key: number; state: string; label: string; ns: number; count: number }[] {
    const own = this.recording.intervals.get(track);
    if (!own || own.value) return [];
    const out = new Map<number, { ns: number; count: number }>();
    for (let i = firstAfter(own, from); i < firstFrom(own, to); i++) {
      const sum = out.get(own.key[i]!) ?? { ns: 0, count: 0 };
      sum.ns += Math.min(own.ts[i]! + own.dur[i]!, to) - Math.max(own.ts[i]!, from);
      sum.count++;
      out.set(own.key[i]!, sum);
    }
    return [...out].map(([key, sum]) => ({ key, state: this.recording.keys[key]!.state, label: this.recording.keys[key]!.label, ...sum }));
  }

  next(from: number, tracks: readonly number[], keys: readonly number[]): unknown {
    let best: { track: number; at: number; i: number } | undefined;
    for (const track of tracks) {
      const own = this.recording.intervals.get(track);
      if (!own || own.value) continue;
      for (let i = firstAfter(own, from); i < own.ts.length; i++) {
        if (best && own.ts[i]! >= best.at) break;
        if (own.ts[i]! >= from && keys.includes(own.key[i]!)) best = { track, at: own.ts[i]!, i };
      }
    }
    const own = best && this.recording.intervals.get(best.track)!;
    return { found: best && own ? { track: best.track, ts: String(absolute(best.at)), dur: String(own.dur[best.i]), key: own.key[best.i] } : null, complete: true };
  }

  busy(from: number, to: number): unknown {
    const rest = ["sleeping", "io_wait", "blocked", "halted", "idle", "offline", "unknown"];
    const tracks = this.recording.tracks.filter((track) => track.kind === "thread").map(({ track }) => {
      const states = this.states(track, from, to).filter(({ key }) => !rest.includes(this.recording.keys[key]!.class));
      return { track, busy_ns: states.reduce((sum, { ns }) => sum + ns, 0) };
    });
    return { tracks: tracks.filter(({ busy_ns }) => busy_ns > 0) };
  }

  private numbers(track: number, from: number, to: number): { min: number; mean: number; max: number; ns: number } | undefined {
    const own = this.recording.intervals.get(track);
    if (!own?.value) return undefined;
    let [min, max, area, ns] = [Infinity, -Infinity, 0, 0];
    for (let i = firstAfter(own, from); i < firstFrom(own, to); i++) {
      const within = Math.min(own.ts[i]! + own.dur[i]!, to) - Math.max(own.ts[i]!, from);
      const value = own.value[i]!;
      [min, max, area, ns] = [Math.min(min, value), Math.max(max, value), area + value * within, ns + within];
    }
    return ns > 0 ? { min, mean: area / ns, max, ns } : undefined;
  }

  private exits(from: number, to: number): unknown[] {
    const groups = new Map<string, { machine_id: number; reason: string; durs: number[] }>();
    for (const track of this.recording.tracks.filter((t) => t.kind === "exits")) {
      const own = this.recording.intervals.get(track.track);
      if (!own) continue;
      for (let i = firstAfter(own, from); i < firstFrom(own, to); i++) {
        const reason = this.recording.keys[own.key[i]!]!.reason ?? "";
        const name = `${track.machine_id}/${reason}`;
        const group = groups.get(name) ?? { machine_id: track.machine_id, reason, durs: [] };
        group.durs.push(own.dur[i]!);
        groups.set(name, group);
      }
    }
    return [...groups.values()].map(({ machine_id, reason, durs }) => {
      durs.sort((a, b) => a - b);
      const at = (q: number): number => durs[Math.min(durs.length - 1, Math.floor(q * durs.length))]!;
      return { machine_id, reason, count: durs.length, total_ns: durs.reduce((a, b) => a + b, 0), p50_ns: at(0.5), p90_ns: at(0.9), p99_ns: at(0.99), max_ns: durs[durs.length - 1] };
    });
  }

  search(text: string): unknown {
    const word = text.toLowerCase();
    return {
      tracks: this.recording.tracks.filter((t) => t.name.toLowerCase().includes(word)).slice(0, 100).map((t) => ({ track: t.track, why: "name" })),
      keys: this.recording.keys.filter((k) => k.label.toLowerCase().includes(word)).slice(0, 100).map((k) => ({ key: k.key })),
    };
  }
}

export type { Intervals };
