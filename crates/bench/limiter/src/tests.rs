//! Limiters that cannot be made on any machine: rules on constructed samples. Those that can are in `tests/it/slow/limiter`.

use super::*;
use transect_bench_core::{
    protocol::{Exits, TracerCost},
    samples::{
        CpuTimes, CpuUse, DiskCounts, DiskUse, GroupUse, MemoryCounts, MemoryUse, NetCounts,
        NicCounts, NicUse, Pressure, Samples, Sleeps, Stall, ThreadUse, Watched,
    },
};

const SECOND: u64 = 1_000_000_000;

/// Ten seconds of a machine with two CPUs, idle.
fn idle() -> Samples {
    let times = CpuTimes { idle: 10 * SECOND, ..CpuTimes::default() };
    Samples {
        interval_ms: 100,
        taken: 101,
        wall_ns: 10 * SECOND,
        cpus: vec![CpuUse { cpu: 0, times }, CpuUse { cpu: 1, times }],
        pressure: Some(Pressure::default()),
        ..Samples::default()
    }
}

fn thread(name: &str, cpu: f64, wait: f64) -> ThreadUse {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and positive"
    )]
    let ns = |share: f64| (share * 1e10) as u64;
    let sleeps = Sleeps { running: 100, ..Sleeps::default() };
    let (cpu_ns, wait_ns) = (ns(cpu), ns(wait));
    ThreadUse {
        tid: 7,
        name: name.into(),
        cpu_ns,
        wait_ns,
        sleeps,
        cpus: vec![0],
        ..ThreadUse::default()
    }
}

fn watching(threads: Vec<ThreadUse>) -> Samples {
    let cpu_ns = threads.iter().map(|thread| thread.cpu_ns).sum();
    let wait_ns = threads.iter().map(|thread| thread.wait_ns).sum();
    let allowed_cpus = vec![0, 1];
    let watched = Watched { cpu_ns, wait_ns, threads, allowed_cpus, ..Watched::default() };
    Samples { watched: Some(watched), ..idle() }
}

/// A thread that sleeps at sockets.
fn waiting_for_peer(cpu: f64) -> ThreadUse {
    let sleeps = Sleeps { network: 90, running: 10, ..Sleeps::default() };
    ThreadUse { sleeps, ..thread("server", cpu, 0.0) }
}

fn with_cpus(mut samples: Samples, each: [CpuTimes; 2]) -> Samples {
    samples.cpus = (0..).zip(each).map(|(cpu, times)| CpuUse { cpu, times }).collect();
    samples
}

fn alone(samples: &Samples) -> Limiter {
    suspect(&Scene { machine: samples, host: None, generator: None, facts: &RunFacts::default() })
}

fn on_host(machine: &Samples, host: &Samples, accelerator: &str) -> Limiter {
    let facts = RunFacts { accelerator: accelerator.into(), ..RunFacts::default() };
    suspect(&Scene { machine, host: Some(host), generator: None, facts: &facts })
}

#[test]
fn steal_in_a_guest() {
    let times = CpuTimes { user: 6 * SECOND, steal: 4 * SECOND, ..CpuTimes::default() };
    let samples =
        with_cpus(watching(vec![thread("spin", 0.6, 0.0)]), [times, idle().cpus[1].times]);
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::Steal, "{limiter:?}");
    assert!(limiter.evidence.contains("40 %"), "{}", limiter.evidence);
    // Where the guest's clock does not know of steal its thread seems to have run all the time.
    let samples =
        with_cpus(watching(vec![thread("spin", 1.0, 0.0)]), [times, idle().cpus[1].times]);
    assert_eq!(alone(&samples).kind, LimiterKind::Steal);
}

#[test]
fn a_little_steal_is_none() {
    let times = CpuTimes { user: 9 * SECOND, steal: SECOND / 2, ..CpuTimes::default() };
    let samples =
        with_cpus(watching(vec![thread("spin", 0.95, 0.0)]), [times, idle().cpus[1].times]);
    assert_eq!(alone(&samples).kind, LimiterKind::SingleThread);
}

#[test]
fn what_is_stolen_beside_the_busy_cpu_holds_little() {
    // A fifth of what the other CPU wanted, but 6 % of the time.
    let busy = CpuTimes { user: 9 * SECOND, ..CpuTimes::default() };
    let other = CpuTimes { user: 24 * SECOND / 10, steal: 6 * SECOND / 10, ..CpuTimes::default() };
    let samples = with_cpus(watching(vec![thread("spin", 0.9, 0.0)]), [busy, other]);
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::SingleThread, "{limiter:?}");
    assert!(limiter.runners_up.is_empty(), "{limiter:?}");
}

#[test]
fn what_is_stolen_from_one_that_changes_its_cpu_adds_up() {
    let half = CpuTimes { user: 4 * SECOND, steal: SECOND, ..CpuTimes::default() };
    let samples = with_cpus(watching(vec![thread("spin", 0.8, 0.0)]), [half, half]);
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::Steal, "{limiter:?}");
    assert!((limiter.held - 0.2).abs() < 1e-9, "{limiter:?}");
    assert!(limiter.evidence.contains("all vCPUs together: 20 %"), "{}", limiter.evidence);
}

#[test]
fn a_vcpu_that_waits_on_the_host() {
    let full = CpuTimes { user: 10 * SECOND, ..CpuTimes::default() };
    let vcpu = watching(vec![thread("CPU 0/KVM", 0.55, 0.4)]);
    let mut host = with_cpus(vcpu, [full, idle().cpus[1].times]);
    let other = ThreadUse { tid: 9, pid: 9, ..thread("stress", 0.45, 0.0) };
    host.others = vec![other];
    let limiter = on_host(&watching(vec![thread("spin", 0.97, 0.0)]), &host, "kvm");
    assert_eq!((limiter.kind, limiter.place), (LimiterKind::Steal, Place::Host), "{limiter:?}");
    assert!(limiter.evidence.contains("`stress`"), "{}", limiter.evidence);
}

#[test]
fn a_containers_thread_that_waits_is_no_vcpu() {
    let full = CpuTimes { user: 10 * SECOND, ..CpuTimes::default() };
    let host = with_cpus(watching(vec![thread("iperf", 0.55, 0.4)]), [full, full]);
    for accelerator in ["crun", "systemd-nspawn"] {
        let limiter = on_host(&watching(vec![thread("iperf", 0.55, 0.4)]), &host, accelerator);
        assert_eq!(limiter.name(), "host: run queue", "{limiter:?}");
        assert!(!limiter.evidence.contains("vCPU"), "{}", limiter.evidence);
    }
}

#[test]
fn threads_of_a_vmm_that_wait_for_each_other_are_not_stolen_from() {
    let busy = CpuTimes { user: 7 * SECOND, idle: 3 * SECOND, ..CpuTimes::default() };
    let threads = vec![thread("CPU 0/TCG", 0.75, 0.05), thread("qemu-system-x86", 0.62, 0.14)];
    let host = with_cpus(watching(threads), [busy, busy]);
    let machine = watching(vec![waiting_for_peer(0.1)]);
    let limiter = on_host(&machine, &host, "tcg");
    assert_eq!(limiter.kind, LimiterKind::Emulator, "{limiter:?}");
    assert!(limiter.runners_up.iter().all(|other| other.kind != LimiterKind::Steal), "{limiter:?}");
}

#[test]
fn who_floods_is_not_the_limit() {
    let machine = watching(vec![waiting_for_peer(0.1)]);
    let generator = watching(vec![ThreadUse { wait_ns: 0, ..thread("iperf", 0.98, 0.0) }]);
    let of = |udp_buffer_errors| {
        let mut host = watching(vec![waiting_for_peer(0.2)]);
        host.net = NetCounts { udp_received: 100_000, udp_buffer_errors, ..NetCounts::default() };
        let (host, facts) = (Some(&host), &RunFacts::default());
        suspect(&Scene { machine: &machine, host, generator: Some(&generator), facts })
    };
    let limiter = of(6_000_000);
    assert_eq!(
        (limiter.kind, limiter.place),
        (LimiterKind::PacketLoss, Place::Host),
        "{limiter:?}"
    );
    assert!(limiter.evidence.contains("98.4 %"), "{}", limiter.evidence);
    assert_eq!(of(0).kind, LimiterKind::Generator);
}

#[test]
fn a_full_interface() {
    let mut samples = watching(vec![waiting_for_peer(0.3)]);
    let counts =
        NicCounts { sent_bytes: 10 * 121_000_000, sent_packets: 800_000, ..NicCounts::default() };
    samples.nics =
        vec![NicUse { name: "eth0".into(), speed_bits_per_s: Some(1_000_000_000), counts }];
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::NicBandwidth, "{limiter:?}");
    assert!(limiter.evidence.contains("97 % of its 1000 Mbit/s"), "{}", limiter.evidence);
    // Without a speed there is no utilisation.
    samples.nics[0].speed_bits_per_s = None;
    assert_eq!(alone(&samples).kind, LimiterKind::Latency);
}

#[test]
fn soft_interrupts_of_small_packets() {
    let times = CpuTimes { softirq: 9 * SECOND, idle: SECOND, ..CpuTimes::default() };
    let mut samples =
        with_cpus(watching(vec![waiting_for_peer(0.2)]), [times, idle().cpus[1].times]);
    let counts = NicCounts {
        received_packets: 2_000_000,
        received_bytes: 120_000_000,
        ..NicCounts::default()
    };
    samples.nics = vec![NicUse { name: "eth0".into(), speed_bits_per_s: None, counts }];
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::PacketRate, "{limiter:?}");
    // The same CPU time for large packets is no matter of their rate.
    samples.nics[0].counts.received_bytes = 2_000_000 * 1500;
    assert_ne!(alone(&samples).kind, LimiterKind::PacketRate);
}

#[test]
fn lost_segments() {
    let mut samples = watching(vec![waiting_for_peer(0.1)]);
    samples.net = NetCounts { tcp_sent: 100_000, tcp_retransmitted: 3000, ..NetCounts::default() };
    assert_eq!(alone(&samples).kind, LimiterKind::PacketLoss);
    samples.net.tcp_retransmitted = 10;
    assert_eq!(alone(&samples).kind, LimiterKind::Latency);
}

#[test]
fn swapping_is_before_its_disk() {
    let sleeps = Sleeps { disk: 80, running: 20, ..Sleeps::default() };
    let mut samples = watching(vec![ThreadUse { sleeps, ..thread("big", 0.1, 0.0) }]);
    samples.pressure = Some(Pressure {
        memory: Stall { some: 6 * SECOND, full: 5 * SECOND },
        io: Stall { some: 7 * SECOND, full: 0 },
        ..Pressure::default()
    });
    let counts =
        MemoryCounts { swapped_in: 200_000, swapped_out: 200_000, ..MemoryCounts::default() };
    samples.memory = MemoryUse { total_bytes: 1 << 30, available_min_bytes: 1 << 20, counts };
    let counts = DiskCounts {
        reads: 200_000,
        read_bytes: 800_000_000,
        busy_ns: 9 * SECOND,
        queue_ns: 20 * SECOND,
        ..DiskCounts::default()
    };
    samples.disks = vec![DiskUse { name: "vda".into(), counts, in_flight_max: 9 }];
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::Swap, "{limiter:?}");
    assert!(limiter.runners_up.iter().any(|other| other.kind == LimiterKind::DiskLatency));
}

#[test]
fn others_refaults_are_not_what_a_writer_waits_for() {
    let sleeps = Sleeps { disk: 64, running: 36, ..Sleeps::default() };
    let mut samples = watching(vec![ThreadUse { sleeps, ..thread("fsync", 0.1, 0.0) }]);
    samples.memory.counts = MemoryCounts { refaulted: 8000, scanned: 0, ..MemoryCounts::default() };
    let counts = DiskCounts {
        reads: 8000,
        read_bytes: 8000 * 4096,
        read_ns: SECOND / 2,
        writes: 20_000,
        written_bytes: 20_000 * 4096,
        write_ns: 4 * SECOND,
        flush_ns: 2 * SECOND,
        busy_ns: 6 * SECOND,
        queue_ns: 7 * SECOND,
        ..DiskCounts::default()
    };
    samples.disks = vec![DiskUse { name: "vda".into(), counts, in_flight_max: 1 }];
    assert_eq!(alone(&samples).kind, LimiterKind::DiskLatency);
    // Reclaim or not: it waits for writes.
    samples.memory.counts.scanned = 9000;
    assert_eq!(alone(&samples).kind, LimiterKind::DiskLatency);
    samples.disks[0].counts.read_ns = 60 * SECOND;
    assert_eq!(alone(&samples).kind, LimiterKind::Memory);
}

#[test]
fn a_deep_asynchronous_queue_is_seen_without_sleeping_at_the_disk() {
    let sleeps = Sleeps { other: 90, running: 10, ..Sleeps::default() };
    let mut samples = watching(vec![ThreadUse { sleeps, ..thread("fio", 0.1, 0.0) }]);
    let io = Stall { some: 9 * SECOND, full: 0 };
    samples.pressure = Some(Pressure { io, ..Pressure::default() });
    let counts = DiskCounts {
        reads: 100_000,
        read_bytes: 409_600_000,
        busy_ns: 97 * SECOND / 10,
        queue_ns: 310 * SECOND,
        ..DiskCounts::default()
    };
    samples.disks = vec![DiskUse { name: "vda".into(), counts, in_flight_max: 32 }];
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::DiskBandwidth, "{limiter:?}");
    assert!(limiter.evidence.contains("disk vda busy 97 % of the time, queue 31"), "{limiter:?}");
}

/// Small synchronous writes to a fast disk, whose completion woke the sampler too: of 62 samples 44 found the thread
/// running, which had a CPU 30 % of the time.
#[test]
fn samples_that_come_with_the_disks_interrupts_do_not_hide_it() {
    let sleeps = Sleeps { disk: 29, running: 71, ..Sleeps::default() };
    let mut samples = watching(vec![ThreadUse { sleeps, ..thread("writer", 0.30, 0.03) }]);
    let counts = DiskCounts {
        writes: 140_000,
        written_bytes: 292_000_000,
        flushes: 69_000,
        busy_ns: 78 * SECOND / 10,
        queue_ns: 12 * SECOND,
        ..DiskCounts::default()
    };
    samples.disks = vec![DiskUse { name: "vda".into(), counts, in_flight_max: 1 }];
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::DiskLatency, "{limiter:?}");
    assert!(limiter.evidence.contains("waited for 67 %"), "{limiter:?}");
}

#[test]
fn exits_by_trace_and_by_the_hosts_clocks() {
    let machine = watching(vec![thread("pipe", 0.9, 0.0)]);
    let exits = Exits { count: 1_000_000, handled_ns: 6 * SECOND, vcpus: 1, over_ns: 10 * SECOND };
    let facts = RunFacts { exits: Some(exits), ..RunFacts::default() };
    let scene = Scene { machine: &machine, host: None, generator: None, facts: &facts };
    let limiter = suspect(&scene);
    assert_eq!(limiter.kind, LimiterKind::ExitHandling, "{limiter:?}");
    assert!(limiter.evidence.contains("100000 exits/s of 6.0 µs"), "{}", limiter.evidence);
    let vcpu = ThreadUse { guest_ns: 4 * SECOND, ..thread("CPU 0/KVM", 0.95, 0.0) };
    let limiter = on_host(&machine, &watching(vec![vcpu.clone()]), "kvm");
    assert_eq!((limiter.kind, limiter.place), (LimiterKind::ExitHandling, Place::Host));
    let vcpu = ThreadUse { guest_ns: 9 * SECOND, ..vcpu };
    let limiter = on_host(&machine, &watching(vec![vcpu]), "kvm");
    assert_eq!(limiter.kind, LimiterKind::SingleThread);
}

#[test]
fn an_emulators_thread() {
    let machine = watching(vec![thread("bzip2", 0.99, 0.0)]);
    let host = watching(vec![thread("CPU 0/TCG", 0.98, 0.0)]);
    assert_eq!(on_host(&machine, &host, "tcg").kind, LimiterKind::Emulator);
    assert_eq!(on_host(&machine, &host, "kvm under tcg").kind, LimiterKind::Emulator);
    assert_eq!(on_host(&machine, &host, "kvm").kind, LimiterKind::SingleThread);
}

#[test]
fn a_tracers_consumer() {
    let machine = watching(vec![waiting_for_peer(0.3)]);
    let cost = |consumer_cpu_ns, lost_events| TracerCost {
        consumer_cpu_ns: Some(consumer_cpu_ns),
        lost_events: Some(lost_events),
        ..TracerCost::default()
    };
    let of = |cost| {
        let facts = RunFacts { tracer: Some(cost), ..RunFacts::default() };
        suspect(&Scene { machine: &machine, host: None, generator: None, facts: &facts }).kind
    };
    assert_eq!(of(cost(95 * SECOND / 10, 0)), LimiterKind::TracerConsumer);
    assert_eq!(of(cost(6 * SECOND, 1000)), LimiterKind::TracerConsumer);
    assert_eq!(of(cost(6 * SECOND, 0)), LimiterKind::Latency);
}

#[test]
fn a_generator_that_is_late() {
    let machine = watching(vec![thread("nginx", 0.9, 0.0)]);
    let of = |due_per_s, sent_per_s, late_share| {
        let offered = Some(Offered { due_per_s, sent_per_s, late_share, is_most: false });
        let facts = RunFacts { offered, ..RunFacts::default() };
        suspect(&Scene { machine: &machine, host: None, generator: None, facts: &facts })
    };
    let limiter = of(1000.0, 1000.0, 0.3);
    assert_eq!((limiter.kind, limiter.place), (LimiterKind::Generator, Place::Generator));
    assert_eq!(of(1000.0, 700.0, 0.0).kind, LimiterKind::Generator);
    assert_eq!(of(1000.0, 999.0, 0.01).kind, LimiterKind::SingleThread);
}

#[test]
fn an_offer_that_was_met() {
    let machine = watching(vec![waiting_for_peer(0.6)]);
    let of = |is_most| {
        let (due_per_s, late_share) = (1e5, 0.0);
        let offered = Some(Offered { due_per_s, sent_per_s: due_per_s, late_share, is_most });
        let facts = RunFacts { offered, ..RunFacts::default() };
        suspect(&Scene { machine: &machine, host: None, generator: None, facts: &facts })
    };
    let limiter = of(true);
    assert_eq!((limiter.kind, limiter.place), (LimiterKind::Generator, Place::Generator));
    assert!(limiter.evidence.contains("all of 100000 requests/s"), "{}", limiter.evidence);
    assert_eq!(of(false).kind, LimiterKind::Latency);
}

#[test]
fn waiting_at_a_lock_for_who_computes_is_no_lock() {
    let waiter = |tid| {
        let sleeps = Sleeps { lock: 95, running: 5, ..Sleeps::default() };
        ThreadUse { tid, slices: 4000, sleeps, ..thread("zstd", 0.01, 0.01) }
    };
    // zstd: one thread compresses, two hand it its blocks.
    let limiter = alone(&watching(vec![thread("zstd", 0.93, 0.02), waiter(8), waiter(9)]));
    assert_eq!(limiter.kind, LimiterKind::SingleThread, "{limiter:?}");
    // The same threads when nobody computes.
    let limiter = alone(&watching(vec![thread("zstd", 0.3, 0.02), waiter(8), waiter(9)]));
    assert_eq!(limiter.kind, LimiterKind::Lock, "{limiter:?}");
}

#[test]
fn a_quota_is_before_what_it_looks_like() {
    let mut samples = watching(vec![thread("java", 0.5, 0.45)]);
    samples.groups = vec![GroupUse {
        path: "/sys/fs/cgroup/x".into(),
        quota_cpus: Some(0.5),
        periods: 100,
        throttled_periods: 97,
        throttled_ns: 5 * SECOND,
        ..GroupUse::default()
    }];
    let limiter = alone(&samples);
    assert_eq!(limiter.kind, LimiterKind::CpuQuota, "{limiter:?}");
    assert_eq!(limiter.confidence, Confidence::Strong);
}

#[test]
fn idle_says_unknown_and_what_was_looked_at() {
    let limiter = alone(&idle());
    assert_eq!(limiter.kind, LimiterKind::Unknown);
    assert!(limiter.evidence.contains("CPUs busy 0 %"), "{}", limiter.evidence);
    assert!(!limiter.evidence.contains("short"), "{}", limiter.evidence);
    let short = alone(&Samples { taken: 3, ..idle() });
    assert!(short.evidence.contains("3 samples of so short a run"), "{}", short.evidence);
    let mut blind = idle();
    blind.missing.insert("/proc/pressure".into(), "not supported".into());
    assert_eq!(alone(&blind).blind, ["machine: /proc/pressure: not supported"]);
}

#[test]
fn no_samples_say_so() {
    let limiter = alone(&Samples::default());
    assert_eq!(limiter.kind, LimiterKind::Unknown);
    assert_eq!(limiter.blind, ["machine: not sampled"]);
}

#[test]
fn few_samples_are_believed_less() {
    let mut samples = watching(vec![thread("spin", 0.97, 0.0)]);
    assert_eq!(alone(&samples).confidence, Confidence::Strong);
    samples.taken = 3;
    assert_eq!(alone(&samples).confidence, Confidence::Likely);
}

#[test]
fn busy_cpus_of_unknown_owners_are_only_likely() {
    let times = CpuTimes { user: 10 * SECOND, ..CpuTimes::default() };
    let limiter = alone(&with_cpus(idle(), [times, times]));
    assert_eq!((limiter.kind, limiter.confidence), (LimiterKind::AllCpus, Confidence::Likely));
}

#[test]
fn nonsense_is_survived() {
    let huge = CpuTimes {
        user: u64::MAX / 8,
        steal: u64::MAX / 8,
        softirq: u64::MAX / 8,
        ..CpuTimes::default()
    };
    let mut samples = with_cpus(watching(vec![thread("x", 1e6, 1e6)]), [huge, huge]);
    samples.memory.counts.refaulted = u64::MAX;
    samples.disks = vec![DiskUse::default()];
    samples.nics = vec![NicUse { speed_bits_per_s: Some(0), ..NicUse::default() }];
    let limiter = alone(&samples);
    assert!((0.0..=1.0).contains(&limiter.held));
    assert!(limiter.runners_up.iter().all(|other| (0.0..=1.0).contains(&other.held)));
}
