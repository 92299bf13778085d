//! Confirmation: halve the suspect, and see whether the result follows.
//!
//! # What
//! [`plan`] says which lever halves the suspected limiter on this machine, or refuses with the reason. [`apply`]
//! pulls it; dropping [`Applied`] puts it back. [`elasticity`] compares the results with and without.
//!
//! # Design constraints
//! - Only the workload's own processes, groups and interfaces are touched: never the machine's.
//! - What was changed is put back when [`Applied`] is dropped, also when a run fails; [`Applied::restore`] says whether
//!   that worked.

mod elasticity;
mod groups;
mod levers;
mod refusal;
mod target;

pub use elasticity::{Elasticity, Verdict, elasticity};
pub use levers::{Applied, apply};
pub use target::Target;

use crate::limiter::{Limiter, LimiterKind};
use refusal::refuse;
use transect_bench_core::{Kind, Lever, Refusal, samples::Samples};

/// Which lever halves the suspected limiter.
///
/// # Errors
/// A refusal if it has no half (a lock, latency), or if it may or can not be halved here.
pub fn plan(limiter: &Limiter, samples: &Samples, target: &Target) -> Result<Lever, Refusal> {
    match limiter.kind {
        LimiterKind::AllCpus => affinity(samples, target).or_else(|_| quota(samples, target)),
        LimiterKind::SingleThread
        | LimiterKind::CpuQuota
        | LimiterKind::RunQueue
        | LimiterKind::PacketRate
        | LimiterKind::Emulator
        | LimiterKind::ExitHandling => quota(samples, target),
        LimiterKind::DiskBandwidth | LimiterKind::DiskLatency | LimiterKind::IoThrottled => {
            disk(limiter.kind, samples, target)
        }
        LimiterKind::Memory | LimiterKind::Swap => memory(samples, target),
        LimiterKind::NicBandwidth => network(samples, target),
        LimiterKind::Generator => generator(target),
        kind => Err(no_half(kind)),
    }
}

fn no_half(kind: LimiterKind) -> Refusal {
    let (why, mend) = match kind {
        LimiterKind::Latency => (
            "latency is not a resource that can be halved",
            "run with twice the threads: if the result doubles, latency was the limiter",
        ),
        LimiterKind::Lock => {
            ("a lock cannot be halved", "record the run and find the thread that holds the lock")
        }
        LimiterKind::Steal => (
            "this machine does not control the CPU time that the hypervisor gives it",
            "pin the vCPUs, or run on an idle host",
        ),
        LimiterKind::TracerConsumer => (
            "the tracer's consumer is the arm itself",
            "compare with the arm `none`, or pin the consumer to a separate CPU",
        ),
        LimiterKind::ListenQueue | LimiterKind::PacketLoss => {
            ("the server sets the queue's length", "double the backlog and run again")
        }
        _ => ("no limiter is suspected", "sample more often, or sample host and generator too"),
    };
    Refusal::new(Kind::Senseless, format!("halving `{}`", kind.words()), why).mend(mend)
}

fn has_pids(target: &Target) -> Result<(), Refusal> {
    match target.pids.is_empty() {
        true => Err(refuse("no process of the workload is known")),
        false => Ok(()),
    }
}

fn affinity(samples: &Samples, target: &Target) -> Result<Lever, Refusal> {
    has_pids(target)?;
    let watched = samples.watched.as_ref();
    let from = watched.map(|watched| watched.allowed_cpus.clone()).unwrap_or_default();
    if from.len() < 2 {
        return Err(refuse("it has one CPU, which cannot be halved"));
    }
    let to = from.iter().copied().take(from.len() / 2).collect();
    Ok(Lever::Affinity { from, to })
}

/// The least quota that the kernel takes is 1 ms a period (kernel/sched/core.c `min_cfs_quota_period`).
const LEAST_CPUS: f64 = 0.06;

fn quota(samples: &Samples, target: &Target) -> Result<Lever, Refusal> {
    has_pids(target)?;
    let watched = samples.watched.as_ref();
    let used = watched.map_or(0, |watched| watched.cpu_ns) as f64;
    let from = used / samples.wall_ns.max(1) as f64;
    if from / 2.0 < LEAST_CPUS {
        return Err(refuse(format!(
            "it used {from:.2} CPUs: half of that is below the smallest CPU quota"
        )));
    }
    groups::can_limit(groups::Resource::Cpu)?;
    Ok(Lever::CpuQuota { from, to: from / 2.0 })
}

fn disk(kind: LimiterKind, samples: &Samples, target: &Target) -> Result<Lever, Refusal> {
    has_pids(target)?;
    let busiest = samples.disks.iter().max_by_key(|disk| disk.counts.busy_ns);
    let disk = busiest.ok_or_else(|| refuse("no disk was used"))?;
    groups::can_limit(groups::Resource::Io)?;
    let counts = &disk.counts;
    let half = |count: u64| {
        let half = u128::from(count) * 500_000_000 / u128::from(samples.wall_ns.max(1));
        u64::try_from(half).unwrap_or(u64::MAX).max(1)
    };
    let is_per_request = kind == LimiterKind::DiskLatency;
    let bytes = half(counts.read_bytes.max(counts.written_bytes));
    let requests = half(counts.reads.max(counts.writes));
    Ok(Lever::Disk {
        name: disk.name.clone(),
        bytes_per_s: (!is_per_request).then_some(bytes),
        requests_per_s: is_per_request.then_some(requests),
    })
}

fn memory(samples: &Samples, target: &Target) -> Result<Lever, Refusal> {
    has_pids(target)?;
    let in_groups = samples.groups.iter().filter_map(|group| group.memory_limit_bytes).min();
    let from = in_groups.unwrap_or(samples.memory.total_bytes);
    if from == 0 {
        return Err(refuse("its memory limit is unknown"));
    }
    groups::can_limit(groups::Resource::Memory)?;
    Ok(Lever::Memory { from, to: from / 2 })
}

fn network(samples: &Samples, target: &Target) -> Result<Lever, Refusal> {
    let interface = target.interface.clone().ok_or_else(|| {
        refuse(
            "the workload has no interface for itself, and limiting a shared one would slow others",
        )
    })?;
    let nic = samples.nics.iter().find(|nic| nic.name == interface);
    let nic = nic.ok_or_else(|| refuse(format!("{interface} carried nothing")))?;
    levers::can_shape(&interface)?;
    let bits = u128::from(nic.counts.sent_bytes) * 4_000_000_000;
    let bits_per_s = u64::try_from(bits / u128::from(samples.wall_ns.max(1))).unwrap_or(u64::MAX);
    Ok(Lever::Network { interface, bits_per_s: bits_per_s.max(8000) })
}

fn generator(target: &Target) -> Result<Lever, Refusal> {
    match target.generator_threads {
        Some(from) if from >= 2 => Ok(Lever::GeneratorThreads { from, to: from / 2 }),
        Some(_) => Err(refuse("the generator has one thread, which cannot be halved")),
        None => Err(refuse("the number of generator threads is not configurable")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_bench_core::samples::{DiskCounts, DiskUse, Watched};

    fn limiter(kind: LimiterKind) -> Limiter {
        Limiter { kind, ..Limiter::default() }
    }

    fn samples() -> Samples {
        let counts = DiskCounts {
            reads: 2000,
            read_bytes: 200_000_000,
            busy_ns: 1,
            ..DiskCounts::default()
        };
        let watched =
            Watched { cpu_ns: 1_000_000_000, allowed_cpus: vec![3, 5], ..Watched::default() };
        Samples {
            wall_ns: 1_000_000_000,
            taken: 10,
            watched: Some(watched),
            disks: vec![DiskUse { name: "vda".into(), counts, in_flight_max: 1 }],
            ..Samples::default()
        }
    }

    #[test]
    fn all_cpus_are_halved_by_affinity() {
        let target = Target { pids: vec![1], ..Target::default() };
        let lever = plan(&limiter(LimiterKind::AllCpus), &samples(), &target).unwrap();
        assert_eq!(lever, Lever::Affinity { from: vec![3, 5], to: vec![3] });
        assert!((lever.factor() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_half_is_refused_with_a_reason() {
        let target = Target { pids: vec![1], ..Target::default() };
        for kind in [
            LimiterKind::Lock,
            LimiterKind::Latency,
            LimiterKind::Steal,
            LimiterKind::TracerConsumer,
            LimiterKind::Unknown,
            LimiterKind::ListenQueue,
        ] {
            let refusal = plan(&limiter(kind), &samples(), &target).unwrap_err();
            assert_eq!(refusal.kind, Kind::Senseless);
            assert!(!refusal.why.is_empty() && refusal.mend.is_some());
        }
        let nobody = Target::default();
        for kind in [LimiterKind::SingleThread, LimiterKind::NicBandwidth, LimiterKind::Generator] {
            assert!(plan(&limiter(kind), &samples(), &nobody).is_err());
        }
    }

    /// Tier `make test`: root, and an I/O controller.
    mod host {
        use super::*;

        #[test]
        fn a_disk_is_halved_in_what_it_is_short_of() {
            let target = Target { pids: vec![1], ..Target::default() };
            let Ok(lever) = plan(&limiter(LimiterKind::DiskLatency), &samples(), &target) else {
                println!("skipped: no I/O controller here");
                return;
            };
            let (bytes_per_s, requests_per_s) = (None, Some(1000));
            assert_eq!(lever, Lever::Disk { name: "vda".into(), bytes_per_s, requests_per_s });
            let lever = plan(&limiter(LimiterKind::DiskBandwidth), &samples(), &target).unwrap();
            let (bytes_per_s, requests_per_s) = (Some(100_000_000), None);
            assert_eq!(lever, Lever::Disk { name: "vda".into(), bytes_per_s, requests_per_s });
        }
    }
}
