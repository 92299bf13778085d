//! This host by BPF programs that count in the kernel.

use crate::{
    LiveError, Source,
    assemble::{Facts, HOST, VmFacts, fill},
    cgroups::Cgroups,
    containers::{Containers, active_groups},
    missing::{Metric, Missing, everything, hidden_by, without_events},
    network,
    pressure::Pressure,
    snapshot::{Health, Snapshot},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_bpf::{
    BpfError, exit_isa,
    live::{Io, Live, LivePlan, LiveWindow, monotonic_ns},
};
use transect_guest::discover::{Roster, Vm, runs_vm};
use transect_model::{
    ids::{MachineId, MachineKind, Tid},
    table::Machine,
};
use transect_tracefs::{CpuTime, Namespaces};

/// All processes are looked at this seldom: scanning procfs costs more than everything else.
const SCAN_EVERY: Duration = Duration::from_secs(30);
/// And this seldom if no thread has come or gone meanwhile, without which nothing becomes a VM or another one.
const SCAN_ANYWAY: Duration = Duration::from_secs(300);
/// A control group that did nothing for so long may be forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// A new process is asked in its first windows whether it runs a VM: it may need a moment to become one.
const YOUNG_WINDOWS: u32 = 3;
/// So many in a window, at most.
const MAX_ASKED: usize = 16;
/// One directory for each module.
const MODULES: &str = "/sys/module";

/// This host.
pub struct HostSource {
    live: Live,
    name: String,
    roster: Roster<MachineId>,
    /// VMs that only KVM's events tell of, by process.
    inferred: BTreeMap<u32, MachineId>,
    machines: u32,
    vms: Vec<VmFacts>,
    devices: BTreeMap<u32, String>,
    /// Devices that packets passed and that are not there for this process: those of other network namespaces.
    strangers: BTreeSet<u32>,
    cgroups: Cgroups,
    containers: Containers,
    pressure: Pressure,
    /// When groups that are gone were forgotten.
    swept: Instant,
    /// Processes, with the number of windows they were seen in, up to a few.
    processes: BTreeMap<u32, u32>,
    /// The threads that there were when all processes were looked at last: see [`threads_of`].
    scanned: Option<u64>,
    cpu_ns: u64,
    missing: Vec<Missing>,
    /// Why this is the source, where that is worth telling.
    told: Option<Missing>,
    plan: LivePlan,
    modules: PathBuf,
    /// KVM was not there when counting began.
    awaits_kvm: bool,
    /// When the last window ended, and what had gone wrong by then.
    ended_ns: u64,
    so_far: Health,
    /// What had gone wrong when counting was begun anew, if the next window is the first since.
    before: Health,
    is_anew: bool,
}

impl HostSource {
    /// Begins to count on this host.
    ///
    /// # Errors
    /// [`LiveError::Nothing`] where BPF cannot run here.
    pub fn start(plan: &LivePlan) -> Result<Self, LiveError> {
        HostSource::start_among(plan, Path::new(MODULES))
    }

    /// The same, where the kernel's modules are told by another directory.
    fn start_among(plan: &LivePlan, modules: &Path) -> Result<Self, LiveError> {
        let awaits_kvm = !has_kvm(modules);
        let mut live = Live::load(plan).map_err(|error| match error {
            BpfError::CannotRun(why) => {
                let why = why.to_string();
                LiveError::Nothing { missing: everything(&why), why }
            }
            other => LiveError::Bpf(other),
        })?;
        live.start()?;
        let missing = missing_of(&live, plan);
        let mut source = HostSource {
            live,
            name: network::host_name(),
            roster: Roster::default(),
            inferred: BTreeMap::new(),
            machines: 1,
            vms: Vec::new(),
            devices: BTreeMap::new(),
            strangers: BTreeSet::new(),
            cgroups: Cgroups::default(),
            containers: Containers::default(),
            pressure: Pressure::start(monotonic_ns()),
            swept: Instant::now(),
            processes: BTreeMap::new(),
            scanned: None,
            cpu_ns: 0,
            missing,
            told: None,
            plan: plan.clone(),
            modules: modules.to_owned(),
            awaits_kvm,
            ended_ns: 0,
            so_far: Health::default(),
            before: Health::default(),
            is_anew: false,
        };
        source.scan();
        source.cpu_ns = own_cpu_ns();
        Ok(source)
    }

    /// Says this in every window, too.
    pub(crate) fn tell(&mut self, told: Option<Missing>) {
        self.told = told;
    }

    /// KVM has come: its events are counted from now on. Everything is loaded anew, which costs the windows that pass
    /// meanwhile; they are told as missed.
    fn count_kvm(&mut self) {
        self.awaits_kvm = false;
        let begun = Live::load(&self.plan).and_then(|mut live| live.start().map(|()| live));
        match begun {
            Ok(live) => {
                self.missing = missing_of(&live, &self.plan);
                self.live = live;
                self.before = self.so_far.clone();
                self.is_anew = true;
            }
            Err(error) => {
                let of_kvm = |missing: &&mut Missing| missing.why.contains("kvm:");
                for missing in self.missing.iter_mut().filter(of_kvm) {
                    missing.why = format!(
                        "KVM was loaded while transect was running, and its events cannot be counted ({error}): restart \
                         transect"
                    );
                }
            }
        }
    }

    /// Windows before this one that nobody has.
    fn missed_before(&mut self, window: &LiveWindow) -> u64 {
        let between_ns = window.from_ns.saturating_sub(self.ended_ns);
        self.ended_ns = window.to_ns;
        match std::mem::take(&mut self.is_anew) {
            true => between_ns / self.live.window_ns().max(1),
            false => window.missed_windows,
        }
    }

    fn scan(&mut self) {
        let machines = &mut self.machines;
        self.roster.scan(Namespaces::current().procfs(), |_| {
            let id = MachineId(*machines);
            *machines += 1;
            id
        });
        let facts = |(id, vm): (MachineId, &Vm)| VmFacts {
            id,
            pid: vm.pid,
            vcpus: vm.vcpus.iter().map(|vcpu| (vcpu.vcpu, vcpu.tid)).collect(),
            devices: Vec::new(),
        };
        self.vms = self.roster.vms().map(facts).collect();
        self.strangers.clear();
        self.find_devices();
    }

    fn find_devices(&mut self) {
        self.devices = network::devices();
        if self.devices.values().any(|name| network::is_tap(name)) {
            for vm in &mut self.vms {
                vm.devices = network::taps_of(vm.pid, &self.devices);
            }
        }
    }

    /// A device may come long after its VM: whose packets are its is looked for when it has some.
    fn find_new_devices(&mut self, window: &LiveWindow) {
        let packets = window.io.iter().filter(|io| matches!(io.kind, Io::Xmit | Io::Receive));
        let unknown =
            |device: &u32| !self.devices.contains_key(device) && !self.strangers.contains(device);
        let unknown: Vec<u32> = packets.map(|io| io.who).filter(unknown).collect();
        if !unknown.is_empty() {
            self.find_devices();
            let devices = &self.devices;
            self.strangers.extend(unknown.iter().filter(|device| !devices.contains_key(device)));
        }
    }

    /// Looks for VMs where there may be new ones, and tells those that only KVM's events know.
    fn find_vms(&mut self, window: &LiveWindow) {
        let is_first = self.processes.is_empty();
        let has_come = self.has_new_vm(window, is_first);
        let is_there =
            |vm: &VmFacts| u32::try_from(vm.pid).is_ok_and(|pid| self.processes.contains_key(&pid));
        let has_gone = !self.vms.iter().all(is_there);
        let known: BTreeSet<i32> = self.vms.iter().map(|vm| vm.pid).collect();
        let pid_of = |tgid: u32| i32::try_from(tgid).unwrap_or(0);
        let unknown = |window: &LiveWindow, known: &BTreeSet<i32>| -> BTreeSet<u32> {
            let vcpus = window.threads.iter().filter(|thread| thread.vcpu.is_some());
            vcpus.map(|thread| thread.tgid).filter(|tgid| !known.contains(&pid_of(*tgid))).collect()
        };
        let told = unknown(window, &known).iter().any(|tgid| !self.inferred.contains_key(tgid));
        // Its vCPUs' threads come after it.
        let is_young = |vm: &VmFacts| {
            let windows = u32::try_from(vm.pid).ok().and_then(|pid| self.processes.get(&pid));
            windows.is_some_and(|windows| *windows < YOUNG_WINDOWS)
        };
        let is_growing = self.vms.iter().any(is_young);
        let is_due = self.roster.is_due(SCAN_EVERY)
            && (self.scanned != Some(threads_of(window)) || self.roster.is_due(SCAN_ANYWAY));
        if told || has_come || has_gone || is_growing || is_due {
            self.scan();
            self.scanned = Some(threads_of(window));
        }
        let known: BTreeSet<i32> = self.roster.found().vms.iter().map(|vm| vm.pid).collect();
        self.vms.retain(|vm| known.contains(&vm.pid));
        self.find_new_devices(window);
        for tgid in unknown(window, &known) {
            let id = *self.inferred.entry(tgid).or_insert_with(|| {
                let id = MachineId(self.machines);
                self.machines += 1;
                id
            });
            self.vms.push(VmFacts { id, pid: pid_of(tgid), ..VmFacts::default() });
        }
        self.inferred.retain(|tgid, _| self.processes.contains_key(tgid));
    }

    /// Notes who is there, and asks those that are new whether they run a VM.
    fn has_new_vm(&mut self, window: &LiveWindow, is_first: bool) -> bool {
        let mut now = BTreeMap::new();
        let mut last = None;
        for thread in
            window.threads.iter().filter(|thread| last.replace(thread.tgid) != Some(thread.tgid))
        {
            let before = self.processes.get(&thread.tgid).copied();
            // Whoever was there at the start was there for the first scan.
            let first = if is_first { YOUNG_WINDOWS } else { 0 };
            now.entry(thread.tgid).or_insert(before.map_or(first, |n| (n + 1).min(YOUNG_WINDOWS)));
        }
        self.processes = now;
        let young = self.processes.iter().filter(|(_, windows)| **windows < YOUNG_WINDOWS);
        let pids = young.filter_map(|(pid, _)| i32::try_from(*pid).ok()).take(MAX_ASKED);
        let is_new = |pid: &i32| !self.vms.iter().any(|vm| vm.pid == *pid);
        let procfs = Namespaces::current().procfs();
        procfs.is_some_and(|procfs| pids.filter(is_new).any(|pid| runs_vm(procfs, pid)))
    }

    fn machine_rows(&self) -> Vec<Machine> {
        let row = |machine_id, parent_id, kind, name: &str, vmm_pid, cgroup| Machine {
            machine_id,
            parent_id,
            kind,
            name: name.to_owned(),
            domid: None,
            vmm_pid,
            cgroup,
            clock: None,
            error_bound_ns: None,
            time_unit: None,
        };
        let mut rows = vec![row(HOST, None, MachineKind::Host, &self.name, None, None)];
        rows[0].clock = Some("mono".to_owned());
        let guest = MachineKind::Guest;
        for (id, vm) in self.roster.vms() {
            let (pid, cgroup) = (Some(Tid(vm.pid)), vm.cgroup.clone());
            rows.push(row(id, Some(HOST), guest, &vm.name, pid, cgroup));
        }
        for vm in self.vms.iter().filter(|vm| self.inferred.values().any(|id| *id == vm.id)) {
            let name = format!("vm-{}", vm.pid);
            rows.push(row(vm.id, Some(HOST), guest, &name, Some(Tid(vm.pid)), None));
        }
        rows
    }

    fn look_at_pressure(&mut self, snapshot: &mut Snapshot) {
        let groups = active_groups(snapshot);
        let names = groups.iter().map(String::as_str);
        snapshot.pressure = self.pressure.look(monotonic_ns(), names);
        // A group that does something now and then is not begun anew each time.
        if self.swept.elapsed() > SWEEP_EVERY {
            self.pressure.forget_the_gone();
            self.swept = Instant::now();
        }
    }

    fn missing_now(&self) -> Vec<Missing> {
        let mut missing = self.missing.clone();
        missing.extend(self.told.clone());
        missing.extend(self.pressure.missing());
        for (id, vm) in self.roster.vms() {
            let known = self.vms.iter().find(|facts| facts.id == id);
            let threadless = known.is_some_and(|facts| facts.vcpus.values().any(Option::is_none));
            let tells = self.live.counts("kvm:kvm_entry") || self.live.counts("kvm:kvm_exit");
            if (vm.vcpus.is_empty() || threadless) && !tells {
                missing.push(Missing {
                    metric: Metric::VcpuThreads.as_str().to_owned(),
                    machine_id: Some(id),
                    why: format!(
                        "cannot determine which threads of process {} run vCPUs (start QEMU with \
                         -name {},debug-threads=on, or mount debugfs on a kernel from 6.0 on)",
                        vm.pid, vm.name
                    ),
                });
            }
        }
        missing
    }
}

/// Is a back end of KVM loaded? The generic module alone runs no guests.
fn has_kvm(modules: &Path) -> bool {
    ["kvm_amd", "kvm_intel", "kvm_pvm"].iter().any(|module| modules.join(module).exists())
}

/// A number that stands for all threads of a window: another if one has come or gone.
fn threads_of(window: &LiveWindow) -> u64 {
    let one = |tid: u32, life: u64| {
        // SplitMix64's finalizer: sums of it tell sets apart, whatever their order.
        let mut mixed = life.wrapping_add(u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let threads = window.threads.iter().map(|thread| one(thread.tid, thread.life));
    threads.fold(0, u64::wrapping_add)
}

/// CPU time of this process so far.
fn own_cpu_ns() -> u64 {
    let own = CpuTime::of_this_process();
    own.user_ns + own.sys_ns
}

fn missing_of(live: &Live, plan: &LivePlan) -> Vec<Missing> {
    let lacking = live.not_counted().iter().map(|not| (not.event, not.why.as_str()));
    let mut missing = without_events(lacking);
    missing.extend(hidden_by(Namespaces::current(), true));
    if !plan.io {
        let why = "I/O counting is disabled";
        missing.extend(
            [Metric::BlockIo, Metric::NetIo].map(|metric| Missing::everywhere(metric, why)),
        );
    }
    let why = "the kernel's network events share no field that identifies one packet across them";
    missing.push(Missing::everywhere(Metric::NetDurations, why));
    missing
}

impl Source for HostSource {
    fn window_ns(&self) -> u64 {
        self.live.window_ns()
    }

    fn next_edge_ns(&self) -> Option<u64> {
        self.live.next_edge_ns()
    }

    fn missing(&self) -> Vec<Missing> {
        self.missing_now()
    }

    fn take(&mut self) -> Result<Snapshot, LiveError> {
        let window = self.live.take()?;
        self.find_vms(&window);
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let late_ns = monotonic_ns().saturating_sub(window.to_ns);
        let cpu_ns = own_cpu_ns();
        let mut snapshot = Snapshot {
            ts: signed(window.from_ns),
            dur: signed(window.to_ns - window.from_ns),
            ended_unix_ns: unix_now_ns().saturating_sub(late_ns),
            missed_windows: self.missed_before(&window),
            machines: self.machine_rows(),
            health: Health {
                late_threads: window.late_threads,
                untracked_events: self.before.untracked_events + window.untracked_events,
                no_room: self.before.no_room + window.no_room,
                missed_events: self.before.missed_events + window.missed_events,
                own_cpu_ns: cpu_ns - self.cpu_ns,
            },
            ..Snapshot::default()
        };
        self.cpu_ns = cpu_ns;
        self.so_far = snapshot.health.clone();
        let facts = Facts { vms: &self.vms, isa: exit_isa(), devices: &self.devices };
        let (cgroups, now) = (&mut self.cgroups, Instant::now());
        fill(&mut snapshot, &window, &facts, |thread| cgroups.of(thread, now));
        cgroups.forget_the_dead();
        self.containers.fill(&mut snapshot);
        self.look_at_pressure(&mut snapshot);
        // Which control groups have PSI is known by now.
        snapshot.missing = self.missing_now();
        if self.awaits_kvm && has_kvm(&self.modules) {
            self.count_kvm();
        }
        Ok(snapshot)
    }
}

fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
    use super::*;

    fn next(source: &mut HostSource) -> Snapshot {
        while let Some(edge_ns) = source.next_edge_ns() {
            let left_ns = edge_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                break;
            }
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
        source.take().unwrap()
    }

    /// Tier `make test`: BPF needs root.
    mod host {
        use super::*;

        /// One that has come is one that is not known yet.
        #[test]
        fn the_first_packets_of_a_device_that_has_come_are_its_own() {
            let plan = LivePlan { window_ns: 100_000_000, ..LivePlan::default() };
            let Ok(mut source) = HostSource::start(&plan) else {
                println!("skipped: BPF cannot run here");
                return;
            };
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut seen = BTreeSet::new();
            // What comes before the first window is in none.
            for _ in 0..50 {
                source.devices.clear();
                socket.send_to(b"first", socket.local_addr().unwrap()).unwrap();
                let window = next(&mut source);
                for (row, _) in
                    window.io.iter().filter(|(row, _)| ["xmit", "receive"].contains(&row.kind))
                {
                    // Those of other network namespaces have none here.
                    assert!(!row.name.is_empty() || !source.strangers.is_empty(), "{row:?}");
                    seen.insert((row.kind, row.name.clone()));
                }
                if ["xmit", "receive"].iter().all(|kind| seen.contains(&(*kind, "lo".to_owned()))) {
                    return;
                }
            }
            panic!("{seen:?}");
        }

        /// KVM cannot be unloaded where tests run: a directory says that it comes. What is tried is that everything is
        /// loaded anew, and that no window is missed without being told.
        #[test]
        fn when_kvm_comes_counting_begins_anew_and_says_what_that_missed() {
            let modules = tempfile::tempdir().unwrap();
            let plan = LivePlan { window_ns: 100_000_000, ..LivePlan::default() };
            let Ok(mut source) = HostSource::start_among(&plan, modules.path()) else {
                println!("skipped: BPF cannot run here");
                return;
            };
            let mut windows = vec![next(&mut source)];
            assert!(source.awaits_kvm);
            std::fs::create_dir(modules.path().join("kvm_amd")).unwrap();
            windows.extend((0..4).map(|_| next(&mut source)));
            assert!(!source.awaits_kvm);
            for two in windows.windows(2) {
                let (before, after) = (&two[0], &two[1]);
                let missed = i64::try_from(after.missed_windows).unwrap();
                assert_eq!(before.ts + before.dur * (1 + missed), after.ts);
                assert!(after.threads.iter().any(|thread| thread.gotten_ns > 0));
            }
            assert!(!source.is_anew);
        }
    }
}
