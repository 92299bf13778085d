//! The rules, one function each. Utilisation, saturation, errors of every resource, as in Gregg's USE method
//! (<https://www.brendangregg.com/usemethod.html>, Linux checklist), and who waited for whom.

mod cpu;
mod disk;
mod memory;
mod network;
mod others;
mod virt;
mod waiting;

use super::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
};

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// What it suspects.
    pub kind: LimiterKind,
    /// When it fires.
    pub threshold: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// It.
    pub check: fn(&Scene<'_>) -> Vec<Suspect>,
}

/// Every rule there is. Thresholds are shares of the measured time unless said otherwise.
pub const RULES: &[Rule] = &[
    Rule {
        kind: LimiterKind::SingleThread,
        threshold: "one thread ran ≥ 80 % of the time (or ≥ 50 %, and never slept); or all threads together used ≥ 70 % of one CPU, one after the other, with a demand of 80–130 % of one; and they did not fill all CPUs",
        source: "Gregg 2013, throughput, 1 thread: “client iperf @80% CPU”",
        check: cpu::single_thread,
    },
    Rule {
        kind: LimiterKind::AllCpus,
        threshold: "the workload used ≥ 85 % of the CPUs it may use (or ≥ 60 %, with a demand ≥ 95 %, and all were busy); without samples of its threads: the CPUs were busy ≥ 95 %",
        source: "Gregg 2013, packets, 32 threads: “CPU (dest >90% of the 1 VCPU)”; USE, CPU utilisation",
        check: cpu::all_cpus,
    },
    Rule {
        kind: LimiterKind::CpuQuota,
        threshold: "throttled in ≥ 10 % of periods and for ≥ 5 % of the time",
        source: "Gregg 2013, throughput, 4 and 8 threads: “hitting CPU caps”; sched-bwc.rst",
        check: cpu::quota,
    },
    Rule {
        kind: LimiterKind::Steal,
        threshold: "≥ 10 % of the measured time was stolen from one vCPU, or ≥ 10 % of the demand of all vCPUs together (of the measured time if the demand is below one CPU); or on the host a VMM thread (not a container's) waited ≥ 10 %, and other processes used as much",
        source: "USE, CPU saturation of the tenant; XenMon's “waited”",
        check: cpu::steal,
    },
    Rule {
        kind: LimiterKind::RunQueue,
        threshold: "a thread waited for a CPU ≥ 10 % of the time and ≥ 15 % of its demand, and other processes used as much CPU time as it waited; not if the workload used ≥ 85 % of its CPUs, or if its demand exceeded all CPUs while others used less than half of its CPU time",
        source: "Gregg 2013: “LAT” (run-queue latency) of client and destination; USE, CPU saturation",
        check: cpu::run_queue,
    },
    Rule {
        kind: LimiterKind::DiskBandwidth,
        threshold: "waited for disks ≥ 30 %, the disk busy ≥ 70 % with requests ≥ 64 KiB or a queue ≥ 4; or busy and stalled ≥ 90/50 %",
        source: "USE, storage utilisation and saturation",
        check: disk::bandwidth,
    },
    Rule {
        kind: LimiterKind::DiskLatency,
        threshold: "waited for disks ≥ 30 %, and large requests did not saturate the disk",
        source: "USE, storage; synchronous writes have utilisation without saturation",
        check: disk::latency,
    },
    Rule {
        kind: LimiterKind::IoThrottled,
        threshold: "waited for disks ≥ 30 % in a group with an I/O limit, at 70–130 % of it",
        source: "USE, resource controls; blkio-controller.rst, cgroup-v2.rst io.max",
        check: disk::throttled,
    },
    Rule {
        kind: LimiterKind::Memory,
        threshold: "stalled for memory (PSI) ≥ 10 %, or waited ≥ 10 % for reads that were refaults (≥ 30 % of all reads, while reclaim scanned)",
        source: "USE, memory saturation; psi.rst",
        check: memory::memory,
    },
    Rule {
        kind: LimiterKind::Swap,
        threshold: "≥ 1 MB/s swapped, and stalled for memory ≥ 5 %",
        source: "USE, memory saturation",
        check: memory::swap,
    },
    Rule {
        kind: LimiterKind::NicBandwidth,
        threshold: "≥ 70 % of the speed the driver states, in one direction",
        source: "USE, network interface utilisation",
        check: network::bandwidth,
    },
    Rule {
        kind: LimiterKind::PacketRate,
        threshold: "≥ 2000 packets/s of ≤ 400 bytes, and a thread that ran ≥ 70 %, mostly in the kernel, or soft interrupts ≥ 40 % of a CPU",
        source: "Gregg 2013, packets, 16 threads: “both client & dest CPU cap”",
        check: network::packets,
    },
    Rule {
        kind: LimiterKind::ListenQueue,
        threshold: "overflows ≥ 1 % of accepted connections, and ≥ 5/s or ≥ 10 in all",
        source: "USE, errors of a software queue; a dropped SYN costs a second (RFC 6298)",
        check: network::listen_queue,
    },
    Rule {
        kind: LimiterKind::PacketLoss,
        threshold: "≥ 1 % (on the host: 10 %) of TCP segments retransmitted, of datagrams dropped at a socket, or of packets dropped at a backlog",
        source: "USE, network errors; Gregg 2013: “CPU scheduler latency causing TCP breakdown”",
        check: network::loss,
    },
    Rule {
        kind: LimiterKind::Lock,
        threshold: "≥ 2 active threads, asleep on a futex ≥ 25 % on average, none running ≥ 80 %, and CPUs idle",
        source: "USE, software resources: mutex saturation",
        check: waiting::lock,
    },
    Rule {
        kind: LimiterKind::Latency,
        threshold: "the busiest thread asleep ≥ 30 %, the workload on < 70 % of its CPUs",
        source: "Gregg 2013, packets: “network/KVM latency, thread count (client thread about 10% CPU)”",
        check: waiting::latency,
    },
    Rule {
        kind: LimiterKind::Generator,
        threshold: "≥ 5 % of requests late, or < 95 % of the due ones sent; or all conformed and the plan allows no higher rate; or its CPU rules fire at ≥ 80 % (quota, steal, run queue ≥ 30 %) while < 20 % of datagrams are dropped at sockets",
        source: "Gregg 2013: “client iperf @80% CPU”; active benchmarking",
        check: others::generator,
    },
    Rule {
        kind: LimiterKind::ExitHandling,
        threshold: "≥ 20 % of a vCPU's time spent in exits (trace), or ≥ 30 % of its thread's CPU time spent outside the guest",
        source: "Gregg 2013, I/O path: KVM exits and QEMU glue",
        check: virt::exits,
    },
    Rule {
        kind: LimiterKind::Emulator,
        threshold: "the accelerator is TCG, and a VMM thread ran ≥ 50 %",
        source: "Gregg 2013, I/O path: “glue” threads; QEMU executes a vCPU in one thread (docs/devel/multi-thread-tcg.rst)",
        check: virt::emulator,
    },
    Rule {
        kind: LimiterKind::TracerConsumer,
        threshold: "the consumer used ≥ 80 % of a CPU, ≥ 50 % while events were lost, or ≥ 15 % while all CPUs were busy",
        source: "LTTng-Xen, tracing to disk; design section 10",
        check: others::tracer,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_rule() {
        let mut kinds: Vec<_> = RULES.iter().map(|rule| rule.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), RULES.len());
        assert!(!kinds.contains(&LimiterKind::Unknown));
    }
}
