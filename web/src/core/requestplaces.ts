// The row of each stage of a request: that of the thread, vCPU or device that has the request at that time. A stage
// becomes a piece for the layer that draws critical paths.
import type { Piece, PathMachine, Places } from "./path.ts";
import type { Request, Stage } from "./request.ts";
import type { Rel } from "./time.ts";
import type { Track } from "./tracks.ts";

/** What may have a request. `cpu` is null if it is unknown. */
export type Holder =
  | { readonly kind: "thread"; readonly machine_id: number; readonly tid: number }
  | { readonly kind: "device"; readonly machine_id: number; readonly device: string }
  | { readonly kind: "vcpu" | "handler"; readonly machine_id: number; readonly cpu: number | null };

export interface StagePiece extends Piece {
  readonly stage: Stage;
  /** What may have the request, the most probable row first. Empty: unknown. */
  readonly holders: readonly Holder[];
}

/** A machine, with what it runs on. */
interface Host extends PathMachine {
  readonly kind: string;
}

/** The stages of a request as pieces, which tile its time. */
export function stagePieces(request: Request, machines: readonly Host[]): StagePiece[] {
  const holdersOf = request.kind === "block" ? blockHolders(request, machines) : packetHolders(request, machines);
  return request.stages.map((stage) => {
    const holders = holdersOf(stage).filter((holder) => holder !== undefined);
    const { evidence, error_ns } = request;
    const none = { reason: null, by_machine_id: null, by_tid: null, by_vcpu: null, why: null, cause: null };
    return { ...none, ...pieceOf(holders[0], request.machine_id), from: stage.from, to: stage.to, depth: 0, layer: "", evidence: evidence ?? "id", error_ns, stage, holders };
  });
}

/** The place of a piece, and the state by which `Places` finds its tracks. */
function pieceOf(holder: Holder | undefined, machine: number): Pick<Piece, "machine_id" | "tid" | "vcpu" | "cpu" | "state"> {
  const nowhere = { machine_id: holder?.machine_id ?? machine, tid: null, vcpu: null, cpu: null };
  if (holder?.kind === "thread") return { ...nowhere, tid: holder.tid, state: "running" };
  if (holder?.kind === "vcpu" || holder?.kind === "handler") return { ...nowhere, cpu: holder.cpu, state: holder.kind === "vcpu" ? "delivery" : "handler" };
  return { ...nowhere, state: holder ? "device" : "unknown" };
}

type HoldersOf = (stage: Stage) => (Holder | undefined)[];

/** The machine that has a machine's back ends: its host; under Xen, dom0. */
function hostOf(machine: number | null, dom0: number | null, machines: readonly Host[]): number | undefined {
  const parent = machines.find(({ machine_id }) => machine_id === machine)?.parent_id ?? undefined;
  const isXen = machines.some(({ machine_id, kind }) => machine_id === parent && kind === "hypervisor");
  if (!isXen) return parent;
  return dom0 === null || dom0 === machine ? undefined : dom0;
}

function threadOf(machine: number | null | undefined, tid: number | null): Holder | undefined {
  return typeof machine === "number" && tid !== null ? { kind: "thread", machine_id: machine, tid } : undefined;
}

function deviceOf(machine: number | null | undefined, device: string | null): Holder | undefined {
  return typeof machine === "number" && device !== null ? { kind: "device", machine_id: machine, device } : undefined;
}

function blockHolders(request: Request, machines: readonly Host[]): HoldersOf {
  const { machine_id, tid, device, backend_tid, host_device, wake_tid, evidence } = request;
  const host = hostOf(machine_id, request.dom0, machines);
  const [submitter, waiter, backend] = [threadOf(machine_id, tid), threadOf(machine_id, wake_tid), threadOf(host, backend_tid)];
  const [own, hosts] = [deviceOf(machine_id, device), deviceOf(host, host_device)];
  // By order alone, the interrupt may be another CPU's than the completion.
  const cpu = evidence === "order" ? null : request.complete_cpu;
  const [vcpu, handler]: Holder[] = [{ kind: "vcpu", machine_id, cpu }, { kind: "handler", machine_id, cpu: request.complete_cpu }];
  return ({ begin, end }) => {
    switch (begin) {
      case "submit":
        return [submitter, own];
      case "issue":
        return end === "kick" ? [submitter, own] : [own, submitter];
      case "host_submit":
      case "host_issue":
        return [hosts, backend, own];
      case "signal":
      case "inject":
        return [vcpu, waiter, own];
      case "guest_irq":
      case "complete":
        return [handler, waiter, own];
      case "wake":
        return [waiter];
      default:
        return [backend, own];
    }
  };
}

function packetHolders(request: Request, machines: readonly Host[]): HoldersOf {
  const { machine_id, tid, device, to_machine_id: to, to_device, backend_tid, to_backend_tid, wake_tid, dom0 } = request;
  const [sender, waiter] = [threadOf(machine_id, tid), threadOf(to, wake_tid)];
  const [backend, toBackend] = [threadOf(hostOf(machine_id, dom0, machines), backend_tid), threadOf(hostOf(to, dom0, machines), to_backend_tid)];
  const [own, last] = [deviceOf(machine_id, device), deviceOf(to, to_device)];
  const on = (kind: "vcpu" | "handler"): Holder | undefined => (to === null ? undefined : { kind, machine_id: to, cpu: null });
  return ({ begin }) => {
    switch (begin) {
      case "send":
        return [sender, own];
      case "host_send":
      case "fetch":
        return [toBackend, last];
      case "signal":
      case "inject":
        return [on("vcpu"), waiter, last];
      case "guest_irq":
      case "receive":
        return [on("handler"), waiter, last];
      case "wake":
        return [waiter];
      default:
        return [backend, own];
    }
  };
}

/** A device's interval: the lane of its row that has it is not in the tables. */
export interface LaneWish {
  readonly machine_id: number;
  readonly device: string;
  /** The beginning of the interval. */
  readonly at: Rel;
}

/** The intervals of a request on rows of devices. */
export function laneWishes({ kind, machine_id, ts, device, host_device, stages, dom0 }: Request, machines: readonly Host[]): LaneWish[] {
  if (kind !== "block") return [];
  const host = hostOf(machine_id, dom0, machines);
  const submitted = stages.find(({ begin }) => begin === "host_submit")?.from;
  return [
    ...(device === null ? [] : [{ machine_id, device, at: ts }]),
    ...(host === undefined || host_device === null || submitted === undefined ? [] : [{ machine_id: host, device: host_device, at: submitted }]),
  ];
}

export class RequestPlaces {
  private readonly devices = new Map<string, number[]>();
  private readonly vcpus = new Map<number, number[]>();
  /** The lanes that were found. */
  private readonly chosen = new Map<string, number>();

  constructor(
    tracks: readonly Track[],
    private readonly places: Places,
  ) {
    const add = <K>(lists: Map<K, number[]>, name: K, track: number): void => void lists.set(name, [...(lists.get(name) ?? []), track]);
    for (const { track, kind, machine_id, name } of tracks) {
      // `254:0 · 2` is the second lane of a device.
      if (kind === "block" || kind === "net") add(this.devices, `${machine_id}/${name.replace(/ · \d+$/, "")}`, track);
      else if (kind === "vcpu") add(this.vcpus, machine_id, track);
    }
  }

  /** The tracks of a device's lanes. */
  lanesOf({ machine_id, device }: Pick<LaneWish, "machine_id" | "device">): readonly number[] {
    return this.devices.get(`${machine_id}/${device}`) ?? [];
  }

  /** The lane that has the request. */
  choose({ machine_id, device }: Pick<LaneWish, "machine_id" | "device">, track: number): void {
    this.chosen.set(`${machine_id}/${device}`, track);
  }

  tracksOf(piece: StagePiece): number[] {
    const found = piece.holders.flatMap((holder) => {
      if (holder.kind === "device") return [this.chosen.get(`${holder.machine_id}/${holder.device}`) ?? this.lanesOf(holder)[0]];
      const tracks = this.places.tracksOf({ ...piece, ...pieceOf(holder, holder.machine_id) });
      return holder.kind === "thread" || holder.cpu !== null ? tracks : [...tracks, this.onlyVcpu(holder.machine_id)];
    });
    return [...new Set(found)].filter((track) => track !== undefined);
  }

  /** The track of the vCPU of a machine that has one. */
  private onlyVcpu(machine: number): number | undefined {
    const tracks = this.vcpus.get(machine) ?? [];
    return tracks.length === 1 ? tracks[0] : undefined;
  }

  /** `nginx (42) in web`, `device 254:0 of web`, `web vcpu0`, `handler on web CPU 0`. */
  nameOf(piece: StagePiece): string {
    const holder = piece.holders[0];
    if (!holder) return "unknown";
    const { machine_id } = holder;
    if (holder.kind === "thread") return this.places.nameOf({ machine_id, tid: holder.tid, vcpu: null, cpu: null });
    const machine = this.places.machineName(machine_id);
    if (holder.kind === "device") return `device ${holder.device} of ${machine}`;
    if (holder.kind === "vcpu") return holder.cpu === null ? `vCPU of ${machine}` : `${machine} vcpu${holder.cpu}`;
    return holder.cpu === null ? `interrupt handler in ${machine}` : `interrupt handler on ${machine} CPU ${holder.cpu}`;
  }
}
