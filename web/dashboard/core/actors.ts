// Whose row a row is: one string per VM, vCPU and control group, the same after the server was started anew.
import type { ActorKey, ContainerRow, MachineRow } from "./wire.ts";

/** `vm:web1`, `vcpu:web1:0`, `cg:/system.slice/cron.service`. */
export type ActorId = string;

export type ActorKind = "vm" | "vcpu" | "group";

export interface Actor {
  readonly id: ActorId;
  readonly kind: ActorKind;
  /** As people say it. */
  readonly name: string;
  /** What stands behind the name, small. */
  readonly detail: string;
}

/** The machines of a window by number. VMs are known by name: numbers are given anew when the server starts. */
export class Machines {
  private readonly names = new Map<number, string>();
  private readonly groups = new Map<number, string>();
  private host = "host";

  constructor(rows: readonly MachineRow[] = []) {
    const seen = new Set<string>();
    for (const row of rows) {
      if (row.kind === "host") this.host = row.name;
      // Two VMs of one name stay two.
      const name = seen.has(row.name) ? `${row.name}#${row.machine_id}` : row.name;
      seen.add(name);
      this.names.set(row.machine_id, name);
      if (row.cgroup !== null && row.cgroup !== undefined) this.groups.set(row.machine_id, row.cgroup);
    }
  }

  get hostName(): string {
    return this.host;
  }

  name(machine_id: number): string {
    return this.names.get(machine_id) ?? `machine ${machine_id}`;
  }

  /** The control group that a VM's VMM is in, if that is known. */
  groupOf(machine_id: number): string | undefined {
    return this.groups.get(machine_id);
  }

  idOf(name: string): number | undefined {
    for (const [id, known] of this.names) if (known === name) return id;
    return undefined;
  }

  /** Whose row this is; undefined for rows of a kind that is not known here. */
  actorOf(row: ActorKey): ActorId | undefined {
    if (row.cgroup !== null && row.cgroup !== undefined && row.machine_id === 0) return `cg:${row.cgroup}`;
    if (row.machine_id === 0) return undefined;
    const name = this.name(row.machine_id);
    return row.vcpu === null || row.vcpu === undefined ? `vm:${name}` : `vcpu:${name}:${row.vcpu}`;
  }
}

/** What is known of a container beside its path. */
export interface Label {
  readonly name: string;
  readonly detail: string;
}

/** A container as its manager calls it: `web`, `docker`; `nginx`, `containerd in pod default/web-7f`. */
export function labelOf(row: ContainerRow, machines: Machines): Label {
  const pod = row.pod && row.kind !== "pod" ? ` in pod ${row.namespace ? `${row.namespace}/` : ""}${row.pod}` : row.namespace ? ` in ${row.namespace}` : "";
  const vm = row.vm_machine_id === null || row.vm_machine_id === undefined ? "" : ` · VM ${machines.name(row.vm_machine_id)}`;
  return { name: row.name, detail: `${row.kind}${pod}${vm}` };
}

/** What the parts of an id are; containers have the names that `labels` knows. */
export function actorOf(id: ActorId, labels?: ReadonlyMap<ActorId, Label>): Actor {
  const label = labels?.get(id);
  if (label) return { id, kind: "group", ...label };
  if (id.startsWith("vm:")) return { id, kind: "vm", name: id.slice(3), detail: "VM" };
  if (id.startsWith("vcpu:")) {
    const at = id.lastIndexOf(":");
    return { id, kind: "vcpu", name: `vCPU ${id.slice(at + 1)}`, detail: "" };
  }
  const path = id.replace(/^cg:/, "");
  return { id, kind: "group", ...groupName(path) };
}

/** The last part of a control group's path that says something, and the path. */
export function groupName(path: string): { name: string; detail: string } {
  const parts = path.split("/").filter(Boolean);
  const name = parts[parts.length - 1] ?? "/";
  return { name: name === "/" ? "(root group)" : name.replace(/\.(service|scope)$/, ""), detail: parts.length > 1 ? path : parts.length === 0 ? "/" : "group" };
}

/** The VM of a vCPU's id, or the id itself. */
export function ownerOf(id: ActorId): ActorId {
  if (!id.startsWith("vcpu:")) return id;
  return `vm:${id.slice(5, id.lastIndexOf(":"))}`;
}

/**
 * A thread of the host as one word: workers of one kind are one antagonist. Threads of VMs go under the VM's name,
 * thread 0 is the CPU that was still leaving its idle state.
 */
export function partyOf(machine_id: number, tid: number, name: string, machines: Machines): string {
  if (tid === 0 && machine_id === 0) return "leaving idle";
  if (machine_id !== 0) return machines.name(machine_id);
  const kind = name.replace(/^(kworker|ksoftirqd|migration|rcu[a-z_]*|cpuhp|kswapd|irq|watchdog|idle_inject)[/:-].*$/, "$1").replace(/[-_:/#]?\d+$/, "");
  return kind === "" ? name || `thread ${tid}` : kind;
}
