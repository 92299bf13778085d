//! The parts of a simulated system: kernels, CPUs, threads, VMs, and their true states.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use transect_engine::{
    StreamItem, StreamKey, Topology,
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
};
use transect_model::{
    event::{BlockRequest, CoreEvent},
    exit::ExitReason,
    ids::{CpuId, MachineId, Tid, VcpuId},
    setting::ThreadSettings,
    time::Timestamp,
};

pub const HOST: usize = 0;
pub const CGROUP: &str = "/vm";

/// The size of a simulated system and the kinds of events that its collectors record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub host_cpus: usize,
    pub vms: usize,
    pub vcpus: usize,
    /// Threads of each kernel at the start, without vCPU threads.
    pub threads: usize,
    /// The guests' own kernels are recorded, too.
    pub guests: bool,
    /// As the full collector records: `sched_wakeup`, events of other kinds, no processes of
    /// children.
    pub full: bool,
    /// `sched_migrate_task` is recorded.
    pub migrations: bool,
    /// The topology has the births of the threads that live at the start.
    pub births: bool,
}

/// One choice of the simulator. Any sequence of steps makes a consistent recording, so that a
/// failing case shrinks by the removal of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub cpu: u8,
    pub action: u16,
    pub detail: u16,
    pub after_ns: u8,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {}, {}, {})", self.cpu, self.action, self.detail, self.after_ns)
    }
}

/// True state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrueState {
    Running(usize),
    Runnable,
    Blocked(char),
    Gone,
}

/// True state of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrueVcpuState {
    Guest,
    /// Guest mode has ended, `kvm_exit` is not recorded yet.
    Left,
    Exit,
    User,
    Runnable,
    Halted,
    Blocked,
}

/// Phase of a thread in its kernel's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    OnCpu,
    Queued(usize),
    Sleeping,
    /// `sched_waking` is recorded; the thread is not on a run queue yet.
    Waking,
    /// Forked, without `sched_wakeup_new` yet.
    New,
    Dead,
}

/// What a vCPU thread does in KVM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kvm {
    User,
    Guest,
    /// Guest mode has ended; `kvm_exit` is recorded later (SVM).
    Left,
    Exit {
        reason: ExitReason,
        at: i64,
        slept: bool,
        woke: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub tid: Tid,
    pub pid: Tid,
    pub cgroup: bool,
    pub phase: Phase,
    pub last_cpu: usize,
    /// Indexes of the VM's kernel and of the vCPU.
    pub vcpu: Option<(usize, usize)>,
    pub kvm: Kvm,
    /// A waking came after the thread's last event and before its switch-out.
    pub woken_on_way_out: bool,
    pub child: Option<usize>,
    pub exiting: bool,
    pub syscall: Option<i64>,
    pub work: Option<u64>,
}

/// The thread has given up its CPU; the switch is the CPU's next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    Asleep(char),
    Dead,
}

/// An interrupt handler on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    Hard(i32),
    /// The CPU's own timer.
    Timer,
    Soft(u32),
}

/// The rest of a wakeup, which the waker's CPU does with interrupts off.
#[derive(Clone, Copy, Debug)]
pub enum Rest {
    Migrate { thread: usize, to: usize, remote: bool },
    Wakeup { thread: usize, to: usize },
}

#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pub current: Option<usize>,
    pub queue: VecDeque<usize>,
    pub handlers: Vec<Handler>,
    pub leaving: Option<Leaving>,
    pub rest: VecDeque<Rest>,
    /// Threads that another CPU woke; this CPU records `sched_wakeup` for them.
    pub arrivals: VecDeque<usize>,
    /// The buffer of the packet that its network driver is getting.
    pub sending: Option<u64>,
    /// The packet that its network driver has given, and whose number is not told yet.
    pub receiving: Option<u32>,
    /// The packet that it has received and sends on.
    pub forwarding: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub struct Kernel {
    pub cpus: Vec<Cpu>,
    pub threads: Vec<Thread>,
    /// Open block requests, and whether the driver has them.
    pub requests: Vec<(BlockRequest, bool)>,
    /// Work items that are queued and have not begun.
    pub queued: BTreeSet<u64>,
    pub next_tid: i32,
}

/// One life of a thread number.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub machine: MachineId,
    pub tid: Tid,
    pub pid: Tid,
    pub cgroup: bool,
    pub from: i64,
}

/// One recorded event; none is an event of a kind that moves no state machine.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    pub key: StreamKey,
    pub ts: i64,
    pub tid: Tid,
    pub event: Option<CoreEvent>,
}

/// The events of a simulated system in order of time, with the truth about it.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub topology: Topology,
    pub events: Vec<Recorded>,
    pub lives: Vec<Life>,
    /// Each thread's states: from this time on.
    pub truth: BTreeMap<(MachineId, Tid), Vec<(i64, TrueState)>>,
    /// Each vCPU's states: from this time on.
    pub vcpu_truth: BTreeMap<(MachineId, VcpuId), Vec<(i64, TrueVcpuState)>>,
    /// CPUs with a stream, also those without an event.
    pub keys: Vec<StreamKey>,
}

pub type Streams = BTreeMap<StreamKey, Vec<StreamItem>>;

impl Recording {
    /// Did two threads have the same number, one after the other?
    pub fn has_reused_tids(&self) -> bool {
        let mut seen = std::collections::BTreeSet::new();
        !self.lives.iter().all(|life| seen.insert((life.machine, life.tid)))
    }

    pub fn streams(&self) -> Streams {
        let mut streams: Streams = self.keys.iter().map(|key| (*key, Vec::new())).collect();
        for recorded in &self.events {
            streams.entry(recorded.key).or_default().push(recorded.item());
        }
        streams
    }

    /// The thread's life at this time.
    pub fn life(&self, machine: MachineId, tid: Tid, ts: i64) -> Option<&Life> {
        let mut lives = self.lives.iter().rev();
        lives.find(|life| (life.machine, life.tid) == (machine, tid) && life.from <= ts)
    }
}

impl Recorded {
    pub fn item(&self) -> StreamItem {
        let ts = Timestamp::new(self.ts as u64);
        match self.event {
            Some(event) => StreamItem::Event { ts, tid: self.tid, quiet: 0, event },
            None => StreamItem::Other { ts, tid: self.tid, quiet: 0 },
        }
    }
}

pub fn key(machine: usize, cpu: usize) -> StreamKey {
    StreamKey { machine: MachineId(machine as u32), cpu: CpuId(cpu as u32) }
}

impl Thread {
    pub fn new(tid: i32, pid: i32, cgroup: bool, last_cpu: usize) -> Self {
        Thread {
            tid: Tid(tid),
            pid: Tid(pid),
            cgroup,
            phase: Phase::Sleeping,
            last_cpu,
            vcpu: None,
            kvm: Kvm::User,
            woken_on_way_out: false,
            child: None,
            exiting: false,
            syscall: None,
            work: None,
        }
    }
}

impl Plan {
    /// The kernels before the first event: every CPU is idle, threads sleep or wait.
    pub fn kernels(&self) -> Vec<Kernel> {
        let mut kernels = vec![self.kernel(self.host_cpus, 100)];
        for vm in 0..self.vms {
            let host = &mut kernels[HOST];
            let vmm = 200 + 10 * vm as i32;
            for vcpu in 0..self.vcpus {
                let at = host.threads.len();
                let cpu = at % self.host_cpus;
                let mut thread = Thread::new(vmm + vcpu as i32, vmm, vm == 0, cpu);
                thread.vcpu = Some((vm + 1, vcpu));
                thread.phase = Phase::Queued(cpu);
                host.cpus[cpu].queue.push_back(at);
                host.threads.push(thread);
            }
            let threads = if self.guests { self.vcpus } else { 0 };
            kernels.push(self.kernel(threads, 10));
        }
        kernels
    }

    fn kernel(&self, cpus: usize, first_tid: i32) -> Kernel {
        let mut kernel = Kernel {
            cpus: vec![Cpu::default(); cpus],
            next_tid: first_tid + self.threads as i32,
            ..Kernel::default()
        };
        for at in 0..self.threads {
            if cpus == 0 {
                break;
            }
            let tid = first_tid + at as i32;
            // The second thread belongs to the first one's process.
            let pid = if at == 1 { first_tid } else { tid };
            let mut thread = Thread::new(tid, pid, at == 0, at % cpus);
            if at % 2 == 0 {
                thread.phase = Phase::Queued(at % cpus);
                kernel.cpus[at % cpus].queue.push_back(at);
            }
            kernel.threads.push(thread);
        }
        kernel
    }

    pub fn topology(&self, kernels: &[Kernel]) -> Topology {
        let mut topology = Topology::default();
        topology.machines.push(MachineInfo::host(MachineId(0), "host"));
        for vm in 1..=self.vms {
            let vmm_pid = Some(Tid(190 + 10 * vm as i32));
            let guest = MachineInfo::guest(MachineId(vm as u32), MachineId(0), format!("vm{vm}"));
            topology.machines.push(MachineInfo { vmm_pid, ..guest });
        }
        for (machine, kernel) in kernels.iter().enumerate() {
            for thread in &kernel.threads {
                topology.threads.push(ThreadInfo {
                    machine: MachineId(machine as u32),
                    tid: thread.tid,
                    pid: Some(thread.pid),
                    name: format!("thread-{}", thread.tid),
                    cgroup: thread.cgroup.then(|| CGROUP.into()),
                    born: self.births.then_some(1),
                    settings: ThreadSettings::default(),
                });
                if let Some((vm, vcpu)) = thread.vcpu {
                    topology.vcpus.push(VcpuInfo {
                        machine: MachineId(vm as u32),
                        vcpu: VcpuId(vcpu as u32),
                        vmm_tid: Some(thread.tid),
                        guest_cpu: CpuId(vcpu as u32),
                    });
                }
            }
        }
        topology
    }
}
