//! What a sampler saw: plain numbers, differences over the measured part.

use crate::series::Series;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A struct of counters that only rise, and their difference.
///
/// Some do fall for moments (`iowait` by documentation, any when a CPU goes off-line): such a difference is 0.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name { $($(#[$field_about])* #[serde(default)] pub $field: u64,)* }
        impl $name {
            /// What was added since `earlier`; 0 for a counter that fell.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
            /// Field by field.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field.saturating_add(other.$field),)* }
            }
        }
    };
}

counters! {
    /// Times of a CPU, ns (`/proc/stat`, resolution 1/`USER_HZ`). `guest` is also in `user`, as in the kernel.
    CpuTimes {
        /// In user space, nice or not.
        user,
        /// In the kernel for threads.
        system,
        /// In interrupt handlers.
        irq,
        /// In soft interrupts.
        softirq,
        /// Idle while a thread that last ran here waits for a disk.
        iowait,
        /// Wanted to run and was not let by the hypervisor.
        steal,
        /// Ran guests (KVM); also in `user`.
        guest,
        /// Idle.
        idle,
    }
}

impl CpuTimes {
    /// Not idle and not stolen, ns.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.user + self.system + self.irq + self.softirq
    }
    /// All there was, ns.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.busy() + self.iowait + self.steal + self.idle
    }
}

/// One CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// What it did.
    pub times: CpuTimes,
}

counters! {
    /// Time in which tasks were stalled, ns (PSI, `Documentation/accounting/psi.rst`).
    Stall {
        /// At least one task waited.
        some,
        /// All that were not idle waited.
        full,
    }
}

/// PSI of a machine or control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// For a CPU.
    pub cpu: Stall,
    /// For a block device.
    pub io: Stall,
    /// For memory: reclaim, refaults, swap.
    pub memory: Stall,
}

impl Pressure {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu.since(&earlier.cpu),
            io: self.io.since(&earlier.io),
            memory: self.memory.since(&earlier.memory),
        }
    }
}

counters! {
    /// In how many samples a thread was where. Sums to the samples in which the thread was there.
    Sleeps {
        /// Running or runnable.
        running,
        /// In uninterruptible sleep at a block device, page or journal.
        disk,
        /// At a futex.
        lock,
        /// At a socket.
        network,
        /// Until a time comes.
        timer,
        /// At a pipe or eventfd.
        pipe,
        /// In poll, select or epoll.
        poll,
        /// For a child.
        child,
        /// Anywhere else.
        other,
    }
}

impl Sleeps {
    /// Samples altogether.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.running + self.asleep()
    }
    /// Samples in which it slept.
    #[must_use]
    pub fn asleep(&self) -> u64 {
        self.classes().iter().map(|(_, samples)| samples).sum()
    }
    /// The kinds of sleep by name.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 8] {
        [
            ("disk", self.disk),
            ("lock", self.lock),
            ("network", self.network),
            ("timer", self.timer),
            ("pipe", self.pipe),
            ("poll", self.poll),
            ("child", self.child),
            ("other", self.other),
        ]
    }
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Its process.
    pub pid: u32,
    /// It.
    pub tid: u32,
    /// Its name, at most 15 characters (kernel threads of workqueues more).
    pub name: String,
    /// CPU time, ns. Of watched threads from `schedstat`, of others from `stat` (resolution 1/`USER_HZ`).
    pub cpu_ns: u64,
    /// Time runnable and not running, ns; 0 for others.
    pub wait_ns: u64,
    /// Times it got a CPU; 0 for others.
    pub slices: u64,
    /// Of its CPU time, in a guest (KVM vCPU threads), ns.
    pub guest_ns: u64,
    /// Of its CPU time, in the kernel, ns.
    pub system_ns: u64,
    /// Major faults.
    pub major_faults: u64,
    /// Where samples found it.
    pub sleeps: Sleeps,
    /// CPUs on which it was seen, at most eight.
    pub cpus: Vec<u32>,
}

/// What the workload's threads did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Threads seen, those that have ended included.
    pub threads_seen: u64,
    /// CPU time of all, ns: by the processes' own accounts, so that what lived between two samples is in it.
    pub cpu_ns: u64,
    /// Run-queue wait of all that a sample saw, ns.
    pub wait_ns: u64,
    /// Where samples found them.
    pub sleeps: Sleeps,
    /// CPUs the first one may run on.
    pub allowed_cpus: Vec<u32>,
    /// The largest by CPU time and wait, at most [`Watched::KEPT`].
    pub threads: Vec<ThreadUse>,
}

impl Watched {
    /// Threads kept one by one.
    pub const KEPT: usize = 24;
}

counters! {
    /// Counts of the scheduler, whole machine.
    KernelCounts {
        /// Context switches.
        switches,
        /// Interrupts served.
        interrupts,
        /// Processes and threads created.
        forks,
    }
}

counters! {
    /// Memory events of the whole machine (`/proc/vmstat`), pages or times.
    MemoryCounts {
        /// Faults that read a disk.
        major_faults,
        /// Pages swapped in.
        swapped_in,
        /// Pages swapped out.
        swapped_out,
        /// Pages looked at by reclaim, control groups' included.
        scanned,
        /// Pages that had to be read again soon after they were dropped: the working set does not fit.
        refaulted,
    }
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// `MemTotal`, bytes.
    pub total_bytes: u64,
    /// The least `MemAvailable` that a sample saw, bytes.
    pub available_min_bytes: u64,
    /// Events.
    pub counts: MemoryCounts,
}

counters! {
    /// One block device (`Documentation/admin-guide/iostats.rst`).
    DiskCounts {
        /// Reads completed.
        reads,
        /// Bytes read.
        read_bytes,
        /// Time of all reads together, ns.
        read_ns,
        /// Writes completed.
        writes,
        /// Bytes written.
        written_bytes,
        /// Time of all writes together, ns.
        write_ns,
        /// Flushes completed (Linux 5.5).
        flushes,
        /// Time of all flushes together, ns.
        flush_ns,
        /// Time in which anything was in flight, ns (`io_ticks`).
        busy_ns,
        /// Requests in flight, summed over time, ns: divided by the wall time it is the mean queue.
        queue_ns,
    }
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// `vda`.
    pub name: String,
    /// What it did.
    pub counts: DiskCounts,
    /// The most that a sample saw in flight.
    pub in_flight_max: u64,
}

counters! {
    /// One interface (`/proc/net/dev`).
    NicCounts {
        /// Bytes received.
        received_bytes,
        /// Packets received.
        received_packets,
        /// Bytes sent.
        sent_bytes,
        /// Packets sent.
        sent_packets,
        /// Packets dropped, both ways.
        dropped,
    }
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicUse {
    /// `eth0`.
    pub name: String,
    /// Its speed, bit/s each way; `None` where the driver does not say (virtio, veth, loopback).
    pub speed_bits_per_s: Option<u64>,
    /// What went through.
    pub counts: NicCounts,
}

counters! {
    /// The network stack of the watched process's network namespace; softnet is the whole machine's.
    NetCounts {
        /// TCP segments sent.
        tcp_sent,
        /// TCP segments sent again.
        tcp_retransmitted,
        /// Connections accepted by the stack.
        tcp_passive_opens,
        /// Connections or their last acknowledgement dropped because a listen queue was full.
        listen_overflows,
        /// All drops at listening sockets, overflows included.
        listen_drops,
        /// UDP datagrams delivered.
        udp_received,
        /// UDP datagrams sent.
        udp_sent,
        /// UDP datagrams dropped because a receive buffer was full.
        udp_buffer_errors,
        /// Packets handled in soft interrupts.
        softnet_processed,
        /// Packets dropped because a CPU's backlog was full.
        softnet_dropped,
        /// Times that soft interrupts ended with work left.
        softnet_squeezed,
    }
}

/// A control group of the workload, or one above it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupUse {
    /// Its folder.
    pub path: String,
    /// CPUs' worth of quota; `None`: no limit.
    pub quota_cpus: Option<f64>,
    /// Enforcement periods.
    pub periods: u64,
    /// Those in which it was throttled.
    pub throttled_periods: u64,
    /// Time throttled, ns, summed over CPUs.
    pub throttled_ns: u64,
    /// Memory limit, bytes; `None`: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Memory used at the end, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Times that the memory limit was hit.
    pub memory_limit_hits: u64,
    /// Block I/O of the group and those below it, all devices: `busy_ns` and the like are not known of groups.
    pub io: DiskCounts,
    /// Lines of I/O limits as the kernel has them: `254:0 1048576` (v1), `254:0 rbps=1048576 …` (v2).
    pub io_limits: Vec<String>,
}

/// CPU frequency, if there is cpufreq.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// The governor of CPU 0.
    pub governor: String,
    /// The least that a sample saw on any CPU, kHz.
    pub min_khz: u64,
    /// The most.
    pub max_khz: u64,
}

/// What sampling itself cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// CPU time of the sampler's thread in the measured part, ns.
    pub cpu_ns: u64,
    /// Files read in the measured part.
    pub reads: u64,
}

/// What the sampler saw: differences over the measured part, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Time between two samples as asked for, ms.
    #[serde(default)]
    pub interval_ms: u64,
    /// Samples taken, the first and last included. 0: nothing was sampled, and nothing below means anything.
    #[serde(default)]
    pub taken: u64,
    /// From the first to the last, `CLOCK_MONOTONIC`, ns.
    #[serde(default)]
    pub wall_ns: u64,
    /// Every CPU on line at the end.
    #[serde(default)]
    pub cpus: Vec<CpuUse>,
    /// PSI of the machine.
    #[serde(default)]
    pub pressure: Option<Pressure>,
    /// The workload's threads; `None` if no process was named.
    #[serde(default)]
    pub watched: Option<Watched>,
    /// The ten other threads that used most CPU.
    #[serde(default)]
    pub others: Vec<ThreadUse>,
    /// Scheduler.
    #[serde(default)]
    pub kernel: KernelCounts,
    /// Runnable tasks, mean over samples; the sampler itself included.
    #[serde(default)]
    pub runnable: f64,
    /// Control groups of the workload that limit anything or were throttled, the innermost first.
    #[serde(default)]
    pub groups: Vec<GroupUse>,
    /// Memory.
    #[serde(default)]
    pub memory: MemoryUse,
    /// Disks that did anything.
    #[serde(default)]
    pub disks: Vec<DiskUse>,
    /// Interfaces that did anything.
    #[serde(default)]
    pub nics: Vec<NicUse>,
    /// Network stack.
    #[serde(default)]
    pub net: NetCounts,
    /// `None` where there is no cpufreq.
    #[serde(default)]
    pub frequency: Option<Frequency>,
    /// Exits of all KVM guests of this machine (debugfs); `None` where that is not shown.
    #[serde(default)]
    pub kvm_exits: Option<u64>,
    /// Course of the main shares.
    #[serde(default)]
    pub series: Series,
    /// What sampling cost.
    #[serde(default)]
    pub own: OwnCost,
    /// What could not be read, and why.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
}
