//! What is counted, and a window's part of it.

use super::actor::{Actor, Lacking, Lengths};
use super::groups::{Container, Pressure};
use super::places::{OTHER, Places};
use crate::service::config::Limits;
use std::collections::BTreeMap;
use transect_live::{Health, Missing, Snapshot};
use transect_model::cell::{Cell, ToCell};
use transect_model::ids::MachineId;

/// The machine that all others run on, as a label.
const HOST: &str = "host";

/// Everything that is counted.
pub(crate) struct Counters {
    pub(super) vms: Places<Actor>,
    /// By VM and number.
    pub(super) vcpus: Places<Actor>,
    pub(super) cgroups: Places<Actor>,
    /// By kind, name, pod and namespace.
    pub(super) containers: Places<Container>,
    /// By control group.
    pub(super) pressure: Places<Pressure>,
    pub(super) cpus: BTreeMap<u32, [i64; 3]>,
    /// By VM and reason.
    pub(super) exits: Places<Exits>,
    /// By reason, of all VMs.
    pub(super) reasons: Places<Lengths>,
    /// By machine and direction.
    pub(super) block: Places<Io>,
    /// By machine, device and direction.
    pub(super) net: Places<Io>,
    /// By who waited and who was in the way.
    pub(super) antagonists: Places<InTheWay>,
    pub(super) windows: u64,
    pub(super) missed_windows: u64,
    pub(super) late_threads: u64,
    pub(super) own_cpu_ns: u64,
    pub(super) health: Health,
    pub(super) missing: Vec<(Missing, String)>,
}

#[derive(Clone, Default)]
pub(super) struct Exits {
    pub(super) count: u64,
    pub(super) total_ns: i64,
    pub(super) handling_ns: i64,
}

#[derive(Clone, Default)]
pub(super) struct Io {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) lengths: Lengths,
}

#[derive(Clone, Default)]
pub(super) struct InTheWay {
    pub(super) times: u64,
    pub(super) ns: i64,
}

impl Counters {
    pub(crate) fn new(limits: &Limits) -> Self {
        Counters {
            vms: Places::new(limits.vms),
            vcpus: Places::new(limits.vcpus),
            cgroups: Places::new(limits.cgroups),
            containers: Places::new(limits.cgroups),
            pressure: Places::new(limits.cgroups),
            cpus: BTreeMap::new(),
            exits: Places::new(limits.vms.saturating_mul(limits.reasons).min(10_000)),
            reasons: Places::new(limits.reasons),
            block: Places::new(limits.vms.saturating_mul(2) + 2),
            net: Places::new(limits.devices.saturating_mul(2)),
            antagonists: Places::new(limits.antagonists),
            windows: 0,
            missed_windows: 0,
            late_threads: 0,
            own_cpu_ns: 0,
            health: Health::default(),
            missing: Vec::new(),
        }
    }

    /// Adds a window.
    pub(crate) fn add(&mut self, window: &Snapshot) {
        let now = window.ended_unix_ns;
        let names: BTreeMap<MachineId, &str> =
            window.machines.iter().map(|machine| (machine.machine_id, &*machine.name)).collect();
        // VMs of the same name are one series.
        let name = |id: MachineId| match id {
            MachineId(0) => HOST,
            _ => names.get(&id).copied().unwrap_or(OTHER),
        };
        let lacking = Lacking::in_window(window);
        self.windows += 1;
        self.missed_windows += window.missed_windows;
        self.late_threads += window.health.late_threads;
        self.own_cpu_ns += window.health.own_cpu_ns;
        self.health = window.health.clone();
        let of =
            |missing: &Missing| missing.machine_id.map_or(String::new(), |id| name(id).to_owned());
        self.missing =
            window.missing.iter().map(|missing| (missing.clone(), of(missing))).collect();
        for row in &window.actors {
            let w = &row.window;
            let place = match (&w.cgroup, w.vcpu) {
                (Some(path), _) => self.cgroups.of(&[path], now),
                (None, Some(vcpu)) => {
                    self.vcpus.of(&[name(w.machine_id), &vcpu.0.to_string()], now)
                }
                (None, None) => self.vms.of(&[name(w.machine_id)], now),
            };
            place.add(row, &lacking);
        }
        for (row, lengths) in &window.containers {
            let (pod, namespace) = (row.pod.as_deref(), row.namespace.as_deref());
            let names =
                [&row.kind, &row.name, pod.unwrap_or_default(), namespace.unwrap_or_default()];
            self.containers.of(&names, now).add(row, lengths);
        }
        for row in &window.pressure {
            self.pressure.of(&[row.cgroup.as_deref().unwrap_or(HOST)], now).add(row);
        }
        for row in &window.cpus {
            let sums = self.cpus.entry(row.cpu.0).or_default();
            for (sum, ns) in sums.iter_mut().zip([row.busy_ns, row.idle_ns, row.unknown_ns]) {
                *sum += ns;
            }
        }
        for (row, lengths) in &window.exits {
            let Cell::Str(reason) = row.reason.to_cell() else { continue };
            let place = self.exits.of(&[name(row.machine_id), &reason], now);
            place.count += row.count;
            place.total_ns += row.total_ns;
            place.handling_ns += row.handling_ns;
            self.reasons.of(&[&reason], now).add(lengths, row.total_ns);
        }
        for (row, lengths) in &window.io {
            let machine = name(row.machine_id);
            let place = match row.kind {
                "read" | "write" => self.block.of(&[machine, row.kind], now),
                _ => self.net.of(&[machine, &row.name, row.kind], now),
            };
            place.count += row.count;
            place.bytes += row.bytes;
            place.lengths.add(lengths, row.total_ns.unwrap_or(0));
        }
        for row in &window.antagonists {
            let place = self.antagonists.of(&[name(row.machine_id), name(row.by_machine_id)], now);
            place.times += row.times;
            place.ns += row.ns;
        }
        self.forget(now);
    }

    /// Lets places go whose owners were not seen for long.
    fn forget(&mut self, now: u64) {
        self.vms.forget(now);
        self.vcpus.forget(now);
        self.cgroups.forget(now);
        self.containers.forget(now);
        self.pressure.forget(now);
        self.exits.forget(now);
        self.reasons.forget(now);
        self.block.forget(now);
        self.net.forget(now);
        self.antagonists.forget(now);
    }
}
