//! The VMs on this host while it is recorded: machines of the manifest, whether an agent is in
//! them or not, and what KVM says about their TSCs.

use super::host::HOST;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use transect_clock::evidence::Evidence;
use transect_guest::{
    discover::{self, Discovery, TscOffset, Vm},
    proto::MachineFacts,
    stamp::StampClock,
    transport::GuestSpec,
};
use transect_model::ids::{MachineId, MachineKind, Tid, VcpuId};
use transect_store::{
    Manifest, RecordingWriter, StoreError,
    manifest::{MachineEntry, VcpuEntry},
};

/// A VM that starts meanwhile is found this soon. Scanning procfs is the costly part.
const SCAN_EVERY: Duration = Duration::from_secs(3);
/// A changed TSC offset is noticed this soon (the `kvm_write_tsc_offset` event is exact).
const OFFSETS_EVERY: Duration = Duration::from_secs(1);

/// What is known of the VMs of one recording.
pub(super) struct Vms {
    writer: Arc<RecordingWriter>,
    clock: Option<StampClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: Discovery,
    machines: BTreeMap<VmKey, MachineId>,
    offsets: BTreeMap<(MachineId, u32), TscOffset>,
    noted: BTreeSet<String>,
    untold: Vec<String>,
    scanned: Option<Instant>,
    read: Option<Instant>,
}

/// A VMM process: pids are used again.
type VmKey = (i32, u64);

fn key(vm: &Vm) -> VmKey {
    (vm.pid, vm.start_ticks)
}

impl Vms {
    /// Finds those that run now and puts them into the manifest.
    pub(super) fn start(
        writer: Arc<RecordingWriter>,
        host_clock: &str,
    ) -> Result<Self, StoreError> {
        let clock = StampClock::from_name(host_clock);
        let vms = Vms { writer, clock, state: Mutex::default() };
        vms.look_now()?;
        Ok(vms)
    }

    /// Looks again, where it is time to. Returns what is new to tell.
    pub(super) fn look(&self) -> Result<Vec<String>, StoreError> {
        let mut state = self.lock();
        let due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
        if due(state.scanned, SCAN_EVERY) {
            self.scan(&mut state)?;
        }
        if due(state.read, OFFSETS_EVERY) {
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
        if state.found.find(&spec.endpoint, Some(facts)).is_none() {
            let _ = self.scan(&mut state);
        }
        let vm = state.found.find(&spec.endpoint, Some(facts));
        let named = || state.found.vms.iter().find(|vm| Some(&vm.name) == spec.name.as_ref());
        let vm = vm.or_else(named)?;
        state.machines.get(&key(vm)).copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scan(&self, state: &mut State) -> Result<(), StoreError> {
        state.scanned = Some(Instant::now());
        let found = discover::vms();
        let is_known = |vm: &Vm| state.machines.contains_key(&key(vm));
        let notes: Vec<_> = found
            .notes
            .iter()
            .filter(|note| state.noted.insert((*note).clone()))
            .cloned()
            .collect();
        // Writing the manifest each time would cost more than looking.
        let changed = found.vms.iter().any(|vm| !is_known(vm) || !state.found.vms.contains(vm));
        if changed || !notes.is_empty() {
            let machines = &mut state.machines;
            self.writer.update(|manifest| {
                manifest.notes.extend(notes.iter().cloned());
                for vm in &found.vms {
                    let id =
                        *machines.entry(key(vm)).or_insert_with(|| manifest.add_machine(entry(vm)));
                    learn_vcpus(manifest, id, vm);
                }
            })?;
        }
        state.untold.extend(notes);
        state.found = found;
        Ok(())
    }

    /// Writes down offsets that are new or have changed.
    fn read_offsets(&self, state: &mut State) -> Result<(), StoreError> {
        state.read = Some(Instant::now());
        let Some(clock) = self.clock else { return Ok(()) };
        for vm in state.found.vms.iter().filter(|vm| vm.uses_kvm) {
            let Some(machine) = state.machines.get(&key(vm)).copied() else { continue };
            for offset in discover::tsc_offsets(vm.pid) {
                let last = state.offsets.insert((machine, offset.vcpu), offset);
                let Some(at_host) = clock.now().filter(|_| last != Some(offset)) else { continue };
                self.writer.evidence(&Evidence::TscOffset {
                    machine,
                    parent: HOST,
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

fn entry(vm: &Vm) -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: Some(HOST),
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
