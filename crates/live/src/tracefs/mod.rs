//! This host by its kernel's trace buffers: where BPF cannot run.
//!
//! An instance of our own is written by the kernel and read ten times a second; the engine makes states of its
//! events, as of a recording's. That costs more than sums in the kernel do – every event is written, copied
//! and decoded – but needs nothing that a kernel of ten years ago does not have.

mod buffers;

use crate::{
    LiveError, Source,
    containers::{Containers, active_groups},
    missing::{Metric, Missing, hidden_by, without_events},
    network,
    pressure::Pressure,
    snapshot::Snapshot,
    stream::{STEP_NS, Scene, Stream},
};
use buffers::Buffers;
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_bpf::live::{LivePlan, monotonic_ns};
use transect_engine::{
    StreamKey, ToTrace, Topology,
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
};
use transect_guest::discover::{Roster, Vm};
use transect_model::{
    ids::{CpuId, MachineId, Tid, VcpuId},
    setting::ThreadSettings,
    time::{Source as Stamped, Timestamp, Trace},
};
use transect_tracefs::{CpuTime, Namespaces, threads};

const HOST: MachineId = MachineId(0);
/// Events that began before a window's end are in the buffers by then.
const SETTLE_NS: i64 = 10_000_000;
/// When a look found much, the next one comes sooner.
const SOON_NS: i64 = 20_000_000;
/// No event is from so far in the future.
const AHEAD_NS: i64 = 1_000_000_000;
/// The buffers hold what nobody asked for yet; windows older than this (or than one window) are left out.
const LATE_NS: i64 = 2_000_000_000;
/// All processes are looked at this seldom.
const SCAN_EVERY: Duration = Duration::from_secs(30);
/// A process's control group is looked up this often.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Threads that appeared are looked up in procfs, so many in a window.
const MOST_LOOKED_UP: usize = 1024;
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Stamps that are trace time.
struct Monotonic;

impl ToTrace for Monotonic {
    fn to_trace(&self, ts: Timestamp<Stamped>) -> Option<Timestamp<Trace>> {
        i64::try_from(ts.get()).ok().map(Timestamp::new)
    }
}

/// This host, by its kernel's trace buffers.
pub struct TracefsSource {
    buffers: Buffers,
    stream: Stream,
    window_ns: i64,
    name: String,
    roster: Roster<()>,
    devices: HashMap<String, MachineId>,
    containers: Containers,
    pressure: Pressure,
    swept: Instant,
    /// Processes, with their control groups.
    processes: BTreeMap<i32, Option<String>>,
    looked: Instant,
    missing: Vec<Missing>,
    cpu_ns: u64,
    /// Read so far of what the kernel wrote.
    read_ns: i64,
}

fn now_ns() -> i64 {
    i64::try_from(monotonic_ns()).unwrap_or(i64::MAX)
}

impl TracefsSource {
    /// Has the kernel write its events. `why` is told: why not BPF.
    ///
    /// # Errors
    /// No tracefs, no permission, or the kernel refuses.
    pub fn start(plan: &LivePlan, why: Option<&str>) -> Result<Self, LiveError> {
        plan.check()?;
        let buffers = Buffers::start(plan.io)?;
        let window_ns = i64::try_from(plan.window_ns).unwrap_or(i64::MAX);
        let name = network::host_name();
        let missing = missing_of(&buffers, plan, why);
        let mut source = TracefsSource {
            buffers,
            stream: Stream::new(topology(&name), window_ns),
            window_ns,
            name,
            roster: Roster::default(),
            devices: HashMap::new(),
            containers: Containers::default(),
            pressure: Pressure::start(monotonic_ns()),
            swept: Instant::now(),
            processes: BTreeMap::new(),
            looked: Instant::now(),
            missing,
            cpu_ns: 0,
            read_ns: 0,
        };
        source.begin();
        source.cpu_ns = own_cpu_ns();
        Ok(source)
    }

    /// Says this in every window, too.
    pub(crate) fn tell(&mut self, told: Option<Missing>) {
        self.missing.extend(told);
    }

    /// What is known beforehand.
    fn begin(&mut self) {
        for cpu in transect_tracefs::cpus::online().unwrap_or_default() {
            self.stream.feed.add_stream(StreamKey { machine: HOST, cpu });
        }
        self.scan();
        for thread in threads::all() {
            self.processes.insert(thread.pid, thread.cgroup.clone());
            self.learn(thread.tid, thread.pid, thread.comm, thread.cgroup);
        }
        self.stream.begin(now_ns());
    }

    fn learn(&mut self, tid: i32, pid: i32, name: String, cgroup: Option<String>) {
        let (tid, pid) = (Tid(tid), Some(Tid(pid)));
        self.stream.feed.learn_thread(ThreadInfo {
            machine: HOST,
            tid,
            pid,
            name,
            cgroup,
            born: None,
            settings: ThreadSettings::default(),
        });
    }

    /// Looks for VMs.
    fn scan(&mut self) {
        self.roster.scan(Namespaces::current().procfs(), |_| ());
        let devices = network::devices();
        let has_taps = devices.values().any(|name| network::is_tap(name));
        self.devices.clear();
        for vm in &self.roster.found().vms {
            let info = MachineInfo {
                vmm_pid: Some(Tid(vm.pid)),
                cgroup: vm.cgroup.clone(),
                ..MachineInfo::guest(HOST, HOST, vm.name.clone())
            };
            let vcpus: Vec<VcpuInfo> = vcpus_of(vm);
            let Some(id) = self.stream.learn_vm(&info, &vcpus) else { continue };
            self.stream.feed.name_machine(id, &vm.name);
            if has_taps {
                let taps = network::taps_of(vm.pid, &devices);
                let names = taps.iter().filter_map(|number| devices.get(number));
                self.devices.extend(names.map(|name| (name.clone(), id)));
            }
        }
    }

    fn read(&mut self) -> Result<bool, LiveError> {
        for cpu in self.buffers.follow_hotplug()? {
            self.stream.feed.add_stream(StreamKey { machine: HOST, cpu });
        }
        let begun = now_ns();
        let stream = &mut self.stream;
        let is_much = self.buffers.read(&mut |cpu: CpuId, items| {
            let key = StreamKey { machine: HOST, cpu };
            stream.push(key, items, &Monotonic, now_ns() + AHEAD_NS);
        })?;
        self.read_ns = begun;
        Ok(is_much)
    }

    /// Reads until everything before the window's end is there.
    fn wait(&mut self) -> Result<(), LiveError> {
        let edge = self.stream.edge().unwrap_or(0);
        loop {
            let is_much = self.read()?;
            if self.read_ns >= edge + SETTLE_NS {
                return Ok(());
            }
            self.stream.advance((self.read_ns - SETTLE_NS).min(edge))?;
            let pause = if is_much { SOON_NS } else { STEP_NS };
            let left = (edge + SETTLE_NS - now_ns()).clamp(0, pause);
            std::thread::sleep(Duration::from_nanos(left.unsigned_abs()));
        }
    }

    /// Looks up who appeared, and where processes are now.
    fn look_up(&mut self, snapshot: &Snapshot) {
        let is_new = |tid: Tid| !self.stream.feed.knows(HOST, tid);
        let new: Vec<i32> = snapshot
            .threads
            .iter()
            .map(|thread| thread.tid)
            .filter(|tid| is_new(*tid))
            .map(|t| t.0)
            .collect();
        for tid in new.into_iter().take(MOST_LOOKED_UP) {
            let Some(pid) = threads::process_of(tid) else { continue };
            let cgroup = threads::cgroup_of(pid);
            self.processes.insert(pid, cgroup.clone());
            let name = threads::name_of(tid).unwrap_or_default();
            self.learn(tid, pid, name.trim_end().to_owned(), cgroup);
        }
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let mut processes = BTreeMap::new();
        for thread in &snapshot.threads {
            let pid = thread.pid.0;
            let cgroup = processes.entry(pid).or_insert_with(|| threads::cgroup_of(pid)).clone();
            if cgroup.is_some() && cgroup != thread.cgroup {
                self.learn(thread.tid.0, pid, thread.name.clone(), cgroup);
            }
        }
        self.processes = processes;
    }

    /// Are there VMs that nobody has looked at, or was the last look long ago?
    fn look_for_vms(&mut self, snapshot: &Snapshot) {
        let known = |pid: i32| self.roster.found().vms.iter().any(|vm| vm.pid == pid);
        let unknown = snapshot.machines.iter().filter_map(|m| m.vmm_pid).any(|pid| !known(pid.0));
        let young = snapshot.threads.iter().any(|thread| {
            thread.role == "thread" && thread.offline_ns > 0 && thread.tid == thread.pid
        });
        let soon = self.roster.is_due(Duration::from_secs(2)) && (unknown || young);
        if soon || self.roster.is_due(SCAN_EVERY) {
            self.scan();
        }
    }

    fn look_at_pressure(&mut self, snapshot: &mut Snapshot) {
        let groups = active_groups(snapshot);
        snapshot.pressure = self.pressure.look(monotonic_ns(), groups.iter().map(String::as_str));
        if self.swept.elapsed() > SWEEP_EVERY {
            self.pressure.forget_the_gone();
            self.swept = Instant::now();
        }
    }

    /// VMs that ended leave with their process.
    fn forget_vms(&self, snapshot: &mut Snapshot) {
        // Without a procfs that shows it, a process counts as alive.
        let is_there = |pid: Tid| threads::exists(pid.0) != Some(false);
        let gone: Vec<MachineId> = snapshot
            .machines
            .iter()
            .filter(|machine| machine.vmm_pid.is_some_and(|pid| !is_there(pid)))
            .map(|machine| machine.machine_id)
            .collect();
        let ran = |id: &MachineId| {
            snapshot
                .actors
                .iter()
                .any(|row| row.window.machine_id == *id && row.window.executions > 0)
        };
        let gone: Vec<MachineId> = gone.iter().filter(|id| !ran(id)).copied().collect();
        snapshot.machines.retain(|machine| !gone.contains(&machine.machine_id));
        snapshot.actors.retain(|row| !gone.contains(&row.window.machine_id));
    }
}

fn vcpus_of(vm: &Vm) -> Vec<VcpuInfo> {
    let vcpu = |number: u32, tid: Option<i32>| VcpuInfo {
        machine: HOST,
        vcpu: VcpuId(number),
        vmm_tid: tid.map(Tid),
        guest_cpu: CpuId(number),
    };
    vm.vcpus.iter().map(|known| vcpu(known.vcpu, known.tid)).collect()
}

fn topology(name: &str) -> Topology {
    let mut host = MachineInfo::host(HOST, name);
    host.clock = Some("mono".to_owned());
    Topology { machines: vec![host], ..Topology::default() }
}

fn own_cpu_ns() -> u64 {
    let own = CpuTime::of_this_process();
    own.user_ns + own.sys_ns
}

fn missing_of(buffers: &Buffers, plan: &LivePlan, why: Option<&str>) -> Vec<Missing> {
    let absent: Vec<String> = buffers.absent.iter().map(|event| event.replace('/', ":")).collect();
    let lacking = absent.iter().map(|event| (event.as_str(), "this kernel has no such event"));
    let mut missing = without_events(lacking);
    missing.extend(hidden_by(Namespaces::current(), false));
    if !plan.io {
        let why = "I/O counting is disabled";
        missing.extend(
            [Metric::BlockIo, Metric::NetIo].map(|metric| Missing::everywhere(metric, why)),
        );
    }
    let of_packets =
        "the kernel's network events share no field that identifies one packet across them";
    missing.push(Missing::everywhere(Metric::NetDurations, of_packets));
    let by_bpf = "only the bpf source counts it";
    missing.push(Missing::everywhere(Metric::Injections, by_bpf));
    missing.push(Missing::everywhere(Metric::Halts, by_bpf));
    missing.extend(why.map(|why| Missing {
        metric: "bpf".to_owned(),
        machine_id: None,
        why: format!("{why}; transect reads the kernel's trace buffers instead, which costs more"),
    }));
    missing
}

impl Source for TracefsSource {
    fn window_ns(&self) -> u64 {
        self.window_ns.unsigned_abs()
    }

    fn next_edge_ns(&self) -> Option<u64> {
        self.stream.edge().map(i64::unsigned_abs)
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = self.missing.clone();
        missing.extend(self.pressure.missing());
        missing
    }

    fn take(&mut self) -> Result<Snapshot, LiveError> {
        // Windows that are long over: their events may have been overwritten, and nobody asked for them.
        let late = now_ns() - self.window_ns.max(LATE_NS);
        let missed_windows = match self.stream.edge() {
            Some(edge) if edge < late => {
                self.read()?;
                self.stream.skip_to(late - late.rem_euclid(self.window_ns))?
            }
            _ => 0,
        };
        self.wait()?;
        let scene = Scene { vm_of_device: &self.devices, domains: None };
        let mut snapshot = self.stream.window(&scene)?;
        let late_ns = (now_ns() - snapshot.ts - snapshot.dur).max(0);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        snapshot.ended_unix_ns = unix_ns.saturating_sub(late_ns.unsigned_abs());
        snapshot.missed_windows = missed_windows;
        self.forget_vms(&mut snapshot);
        self.look_up(&snapshot);
        self.look_for_vms(&snapshot);
        self.containers.fill(&mut snapshot);
        self.look_at_pressure(&mut snapshot);
        snapshot.missing = self.missing();
        if !self.buffers.is_tracing()? {
            snapshot.missing.push(Missing::everywhere(
                Metric::Scheduling,
                "another process switched the tracing instance off (tracing_on)",
            ));
        }
        snapshot.health.missed_events = self.buffers.lost().max(self.stream.lost_events());
        snapshot.health.no_room = self.stream.no_room();
        let cpu_ns = own_cpu_ns();
        snapshot.health.own_cpu_ns = cpu_ns - self.cpu_ns;
        self.cpu_ns = cpu_ns;
        if self.stream.is_crowded() {
            self.stream.begin_anew(topology(&self.name));
            self.begin();
        }
        Ok(snapshot)
    }
}
