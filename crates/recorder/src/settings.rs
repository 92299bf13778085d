//! What the scheduler and the interrupts of this host are set to, as it was when each thread and group was seen first.

use std::collections::BTreeMap;
use transect_model::{
    ids::MachineId,
    setting::{CgroupSettings, MAX_CGROUPS, ThreadSettings},
};
use transect_store::manifest::{CgroupEntry, IrqLineEntry};
use transect_tracefs::{
    cgroups,
    irq_lines::{self, IrqLine},
    threads::{SettingsReader, ThreadFacts},
};

/// The settings of this host.
pub(super) struct HostSettings {
    reader: SettingsReader,
    /// By thread and process.
    threads: BTreeMap<(i32, i32), ThreadSettings>,
    irq_lines: Vec<IrqLine>,
    /// By path.
    cgroups: BTreeMap<String, CgroupSettings>,
    /// Groups that were not read because there are too many.
    cgroups_left_out: usize,
}

impl HostSettings {
    /// With the interrupt lines of now.
    pub(super) fn new() -> Self {
        HostSettings {
            reader: SettingsReader::new(),
            threads: BTreeMap::new(),
            irq_lines: irq_lines::all(),
            cgroups: BTreeMap::new(),
            cgroups_left_out: 0,
        }
    }

    /// Forgets everything, so that the next threads are read anew: for a snapshot, whose settings are those of its time.
    pub(super) fn renew(&mut self) {
        self.threads.clear();
        self.cgroups.clear();
        self.irq_lines = irq_lines::all();
    }

    /// Adds the threads alive now and their control groups. What is known of a thread or a group stays.
    pub(super) fn add(&mut self, now: &[ThreadFacts]) {
        for facts in now {
            let HostSettings { threads, reader, .. } = self;
            threads.entry((facts.tid, facts.pid)).or_insert_with(|| reader.read(facts.tid));
        }
        let paths = now.iter().filter_map(|facts| facts.cgroup.as_deref());
        let read = cgroups::read(paths.filter(|path| !self.cgroups.contains_key(*path)));
        self.cgroups_left_out = read.left_out;
        for group in read.groups {
            if self.cgroups.len() >= MAX_CGROUPS {
                self.cgroups_left_out += 1;
                continue;
            }
            self.cgroups.entry(group.path).or_insert(group.settings);
        }
    }

    /// Keeps the threads for which this holds: a flight recorder runs for months.
    pub(super) fn retain_threads(&mut self, is_kept: impl Fn(i32) -> bool) {
        self.threads.retain(|(tid, _), _| is_kept(*tid));
    }

    /// How a thread is scheduled, if it was added.
    pub(super) fn of_thread(&self, facts: &ThreadFacts) -> Option<&ThreadSettings> {
        self.threads.get(&(facts.tid, facts.pid))
    }

    /// The interrupt lines, for the manifest.
    pub(super) fn irq_line_entries(
        &self,
        host: MachineId,
    ) -> impl Iterator<Item = IrqLineEntry> + '_ {
        self.irq_lines.iter().map(move |line| IrqLineEntry {
            machine_id: host,
            irq: line.irq,
            name: line.name.clone(),
        })
    }

    /// The control groups, for the manifest.
    pub(super) fn cgroup_entries(&self, host: MachineId) -> impl Iterator<Item = CgroupEntry> + '_ {
        self.cgroups.iter().map(move |(path, settings)| CgroupEntry {
            machine_id: host,
            cgroup: path.clone(),
            settings: settings.clone(),
        })
    }

    /// What is missing; none if nothing is.
    pub(super) fn note(&self) -> Option<String> {
        let count = self.cgroups_left_out;
        (count > 0).then(|| {
            format!("the limits of {count} control groups are not recorded, because the host has more than {MAX_CGROUPS}")
        })
    }
}
