//! The VMs of this host over time: who is there now, under numbers that stay.

use super::{Discovery, Vm, vms_in};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

/// A VMM process: pids are used again.
type VmKey = (i32, u64);

fn key(vm: &Vm) -> VmKey {
    (vm.pid, vm.start_ticks)
}

/// Who was found, scan after scan, under numbers of the caller's kind. Scanning procfs is the costly part:
/// how often is for the caller.
#[derive(Debug)]
pub struct Roster<N> {
    found: Discovery,
    ids: BTreeMap<VmKey, N>,
    noted: BTreeSet<String>,
    scanned: Option<Instant>,
}

/// What a scan brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Notes that were not given before.
    pub notes: Vec<String>,
    /// A VM is new, or something about one has changed.
    pub changed: bool,
}

impl<N> Default for Roster<N> {
    fn default() -> Self {
        Roster {
            found: Discovery::default(),
            ids: BTreeMap::new(),
            noted: BTreeSet::new(),
            scanned: None,
        }
    }
}

impl<N: Copy> Roster<N> {
    /// Scans a procfs as [`vms_in`] does; `number` gives a VM its number when it is first seen.
    pub fn scan(&mut self, procfs: Option<&Path>, number: impl FnMut(&Vm) -> N) -> Scan {
        self.take(vms_in(procfs), number)
    }

    /// Takes what a scan found.
    fn take(&mut self, found: Discovery, mut number: impl FnMut(&Vm) -> N) -> Scan {
        self.scanned = Some(Instant::now());
        let is_new = |note: &&String| self.noted.insert((*note).clone());
        let notes = found.notes.iter().filter(is_new).cloned().collect();
        let mut changed = false;
        for vm in &found.vms {
            changed |= !self.ids.contains_key(&key(vm)) || !self.found.vms.contains(vm);
            self.ids.entry(key(vm)).or_insert_with(|| number(vm));
        }
        self.found = found;
        Scan { notes, changed }
    }

    /// Is the last scan older than this?
    pub fn is_due(&self, every: Duration) -> bool {
        self.scanned.is_none_or(|last| last.elapsed() >= every)
    }

    /// What the last scan found.
    pub fn found(&self) -> &Discovery {
        &self.found
    }

    /// The number of a VM that a scan found.
    pub fn id_of(&self, vm: &Vm) -> Option<N> {
        self.ids.get(&key(vm)).copied()
    }

    /// The VMs of the last scan with their numbers.
    pub fn vms(&self) -> impl Iterator<Item = (N, &Vm)> {
        self.found.vms.iter().filter_map(|vm| Some((self.id_of(vm)?, vm)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::VmmKind;

    fn vm(pid: i32, start_ticks: u64) -> Vm {
        Vm {
            pid,
            start_ticks,
            name: format!("vm-{pid}"),
            vmm: VmmKind::Qemu,
            uses_kvm: true,
            uuid: None,
            vsock_cid: None,
            serial_ports: Vec::new(),
            cgroup: None,
            vcpus: Vec::new(),
            vhost_workers: Vec::new(),
        }
    }

    fn found(vms: &[Vm], note: &str) -> Discovery {
        Discovery { vms: vms.to_vec(), notes: vec![note.to_owned()] }
    }

    #[test]
    fn numbers_stay_and_a_pid_used_again_is_another_vm() {
        let mut roster = Roster::default();
        let mut next = 0;
        let mut number = |_: &Vm| {
            next += 1;
            next
        };
        let scan = roster.take(found(&[vm(10, 1), vm(11, 1)], "a"), &mut number);
        assert_eq!((scan.changed, scan.notes.len()), (true, 1));
        let scan = roster.take(found(&[vm(10, 1), vm(11, 1)], "a"), &mut number);
        assert_eq!((scan.changed, scan.notes.len()), (false, 0));
        let scan = roster.take(found(&[vm(11, 1), vm(10, 7)], "b"), &mut number);
        assert_eq!((scan.changed, scan.notes.len()), (true, 1));
        assert_eq!(roster.id_of(&vm(10, 1)), Some(1));
        assert_eq!(roster.id_of(&vm(10, 7)), Some(3));
        let now: Vec<_> = roster.vms().map(|(id, vm)| (id, vm.pid)).collect();
        assert_eq!(now, [(2, 11), (3, 10)]);
    }
}
