//! The VMs on this host while it is recorded: machines of the manifest, whether an agent is in
//! them or not, and what KVM says about their TSCs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use transect_clock::evidence::Evidence;
use transect_guest::{
    discover::{self, Roster, TscOffset, Vm},
    proto::MachineFacts,
    stamp::StampClock,
    transport::GuestSpec,
};
use transect_model::ids::{MachineId, MachineKind, Tid, VcpuId};
use transect_store::{
    Manifest, RecordingWriter, StoreError,
    manifest::{MachineEntry, VcpuEntry},
};
use transect_tracefs::Namespaces;

/// A VM that starts meanwhile is found this soon. Scanning procfs is the costly part.
const SCAN_EVERY: Duration = Duration::from_secs(3);
/// A changed TSC offset is noticed this soon (the `kvm_write_tsc_offset` event is exact).
const OFFSETS_EVERY: Duration = Duration::from_secs(1);

/// What is known of the VMs of one recording.
pub(super) struct Vms {
    writer: Arc<RecordingWriter>,
    /// The machine they run on.
    host: MachineId,
    clock: Option<StampClock>,
    /// Are there any? Under Xen what looks like a VMM only serves the devices of a domU.
    runs_vms: bool,
    state: Mutex<State>,
    /// Machines whose agents are connected.
    claimed: Mutex<BTreeSet<MachineId>>,
}

#[derive(Default)]
struct State {
    roster: Roster<MachineId>,
    offsets: BTreeMap<(MachineId, u32), TscOffset>,
    untold: Vec<String>,
    read: Option<Instant>,
}

impl Vms {
    /// Finds those that run now and puts them into the manifest.
    pub(super) fn start(
        writer: Arc<RecordingWriter>,
        host: MachineId,
        host_clock: &str,
        runs_vms: bool,
    ) -> Result<Self, StoreError> {
        let clock = StampClock::from_name(host_clock);
        let vms = Vms {
            writer,
            host,
            clock,
            runs_vms,
            state: Mutex::default(),
            claimed: Mutex::default(),
        };
        vms.look_now()?;
        Ok(vms)
    }

    /// Looks again, where it is time to. Returns what is new to tell.
    pub(super) fn look(&self) -> Result<Vec<String>, StoreError> {
        let mut state = self.lock();
        if state.roster.is_due(SCAN_EVERY) {
            self.scan(&mut state)?;
        }
        if state.read.is_none_or(|last| last.elapsed() >= OFFSETS_EVERY) {
            self.read_offsets(&mut state)?;
        }
        Ok(std::mem::take(&mut state.untold))
    }

    /// Looks now: at the start and at the end.
    pub(super) fn look_now(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        self.scan(&mut state)?;
        self.read_offsets(&mut state)
    }

    /// The VM an agent speaks from, once it is known.
    pub(super) fn machine_of(&self, spec: &GuestSpec, facts: &MachineFacts) -> Option<MachineId> {
        let mut state = self.lock();
        // It may have started after the last look.
        if state.roster.found().find(&spec.endpoint, Some(facts)).is_none() {
            let _ = self.scan(&mut state);
        }
        let found = state.roster.found();
        let vm = found.find(&spec.endpoint, Some(facts));
        let named = || found.vms.iter().find(|vm| Some(&vm.name) == spec.name.as_ref());
        state.roster.id_of(vm.or_else(named)?)
    }

    /// Claims a machine for the agent of one guest. False: another guest has it.
    pub(super) fn claim(&self, machine: MachineId) -> bool {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(machine)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scan(&self, state: &mut State) -> Result<(), StoreError> {
        if !self.runs_vms {
            return Ok(());
        }
        let State { roster, untold, .. } = state;
        let mut failed = None;
        let scan = roster.scan(Namespaces::current().procfs(), |vm| {
            let mut id = MachineId(0);
            let add = |manifest: &mut Manifest| id = manifest.add_machine(entry(vm, self.host));
            failed = self.writer.update(add).err().or(failed.take());
            id
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        // Writing the manifest each time would cost more than looking.
        if scan.changed || !scan.notes.is_empty() {
            self.writer.update(|manifest| {
                manifest.notes.extend(scan.notes.iter().cloned());
                for (id, vm) in roster.vms() {
                    learn_vcpus(manifest, id, vm);
                }
            })?;
        }
        untold.extend(scan.notes);
        Ok(())
    }

    /// Writes down offsets that are new or have changed.
    fn read_offsets(&self, state: &mut State) -> Result<(), StoreError> {
        state.read = Some(Instant::now());
        let Some(clock) = self.clock else { return Ok(()) };
        let State { roster, offsets, .. } = state;
        for (machine, vm) in roster.vms().filter(|(_, vm)| vm.uses_kvm) {
            for offset in discover::tsc_offsets(vm.pid) {
                let last = offsets.insert((machine, offset.vcpu), offset);
                let Some(at_host) = clock.now().filter(|_| last != Some(offset)) else { continue };
                self.writer.evidence(&Evidence::TscOffset {
                    machine,
                    parent: self.host,
                    vcpu: VcpuId(offset.vcpu),
                    offset: offset.offset,
                    ratio: offset.ratio,
                    frac_bits: offset.frac_bits,
                    at_host,
                })?;
            }
        }
        Ok(())
    }
}

fn entry(vm: &Vm, host: MachineId) -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: Some(host),
        kind: MachineKind::Guest,
        name: vm.name.clone(),
        vmm_pid: Some(Tid(vm.pid)),
        cgroup: vm.cgroup.clone(),
        domid: None,
        uname: None,
        cpu_count: None,
        clock: None,
        vcpus: Vec::new(),
    }
}

/// Adds vCPUs, and threads that were not known before. One that is gone stays: it did run.
fn learn_vcpus(manifest: &mut Manifest, id: MachineId, vm: &Vm) {
    let index = usize::try_from(id.0).ok();
    let Some(machine) = index.and_then(|index| manifest.machines.get_mut(index)) else { return };
    for found in &vm.vcpus {
        let (vcpu, vmm_tid) = (VcpuId(found.vcpu), found.tid.map(Tid));
        match machine.vcpus.iter_mut().find(|known| known.vcpu == vcpu) {
            Some(known) => known.vmm_tid = vmm_tid.or(known.vmm_tid),
            None => machine.vcpus.push(VcpuEntry { vcpu, vmm_tid }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest can report the UUID of another VM.
    #[test]
    fn machine_belongs_to_the_first_guest_that_claims_it() {
        let scratch = tempfile::tempdir().unwrap();
        let manifest = Manifest::new(0, Vec::new());
        let writer = RecordingWriter::create(&scratch.path().join("r.transect"), manifest).unwrap();
        let vms = Vms::start(Arc::new(writer), MachineId(0), "mono", false).unwrap();
        assert!(vms.claim(MachineId(1)) && !vms.claim(MachineId(1)));
        assert!(vms.claim(MachineId(2)));
    }
}
