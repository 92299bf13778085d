#![doc = include_str!("README.md")]

pub mod figures;

use super::{
    net::given::Given,
    workload::{MeasuredBy, Place, Prepared, Workload},
};
use figures::Figures;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Kind, Metric, Refusal, RunResult, Unit,
    protocol::{Param, Role},
};

/// The workload `memory-loss`.
#[derive(Debug)]
pub struct MemoryLoss;

impl Workload for MemoryLoss {
    fn about(&self) -> About {
        About {
            name: "memory-loss",
            text: "memory and CPU of the host that an idle guest takes",
            source: "Gregg, Zones, KVM and Xen (2013), rows Memory Loss; Repeated Research, Section 3",
            family: Family::Footprint,
            metric: ("memory", Unit::Bytes, Better::Less),
            caches: &[CacheState::Any],
            params: vec![
                (
                    "settle_s",
                    Param::Float(2.0),
                    "time from the last worker's Hello to the measurement",
                ),
                (
                    "seconds",
                    Param::Float(5.0),
                    "duration of each measurement, without and with the machines",
                ),
            ],
            packages: &[],
            is_distributed: false,
            expected_s: 12.0,
        }
    }

    fn measured_by(&self) -> MeasuredBy {
        MeasuredBy::Existence
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        if job.role == Role::Whole {
            return Ok(());
        }
        Err(Refusal::new(
            Kind::Senseless,
            "workload memory-loss",
            "a guest of this workload only exists and runs no job",
        ))
    }

    fn prepare<'a>(&self, place: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault> {
        self.can_run(place.job)?;
        let (settle, length) = times(place.job)?;
        // Longer than it is looked at: in a container its own threads are looked at, and must not end before.
        let length = settle + length + MARGIN;
        Ok(Box::new(Idle { length, cancelled: place.cancelled }))
    }
}

/// For how long a machine still does nothing when it has been looked at.
const MARGIN: Duration = Duration::from_secs(1);

/// Does nothing for as long as the host is looked at, and a little longer.
struct Idle<'a> {
    length: Duration,
    cancelled: &'a AtomicBool,
}

impl Prepared for Idle<'_> {
    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let end = Instant::now() + self.length;
        while Instant::now() < end && !self.cancelled.load(Ordering::Relaxed) {
            // Rarely: waking up is what an idle guest is blamed for.
            thread::sleep(
                Duration::from_secs(1).min(end.saturating_duration_since(Instant::now())),
            );
        }
        let used = figures::used_now()?;
        Ok(vec![Metric::new("guest_used", Unit::Bytes, Better::Less, used as f64)])
    }
}

/// How long to wait until it counts, and how long to look.
///
/// # Errors
/// Parameters out of their ranges.
pub fn times(job: &Job) -> Result<(Duration, Duration), Fault> {
    let given = Given(job);
    let settle_s = given.number("settle_s", 0.0..=3600.0)?;
    let seconds = given.number("seconds", 0.1..=86_400.0)?;
    Ok((Duration::from_secs_f64(settle_s), Duration::from_secs_f64(seconds)))
}

/// Looks at the host, and again after `length`. `tids` are the machines' threads.
///
/// # Errors
/// As of [`Figures::read`].
pub fn look(tids: &[u32], length: Duration) -> Result<Interval, Fault> {
    let begin = Figures::read(tids)?;
    thread::sleep(length);
    Ok(Interval { begin, end: Figures::read(tids)? })
}

/// Two looks at the host, `seconds` apart.
#[derive(Clone, Debug)]
pub struct Interval {
    /// At its begin.
    pub begin: Figures,
    /// At its end.
    pub end: Figures,
}

impl Interval {
    fn seconds(&self) -> f64 {
        self.end.at.duration_since(self.begin.at).as_secs_f64()
    }

    /// CPUs that were busy.
    fn busy(&self) -> f64 {
        self.end.busy_ns.saturating_sub(self.begin.busy_ns) as f64 / 1e9 / self.seconds()
    }

    /// CPUs that the machines' threads took.
    fn machines_cpu(&self) -> f64 {
        let cpu = self.end.machines_cpu_ns.saturating_sub(self.begin.machines_cpu_ns);
        cpu as f64 / 1e9 / self.seconds()
    }
}

/// The cell's metrics, each per machine. `without`: before they were opened; `with`: while they idle, read with all their
/// threads. `guests`: their results. Refused: no machines, or an interval without length.
pub fn metrics(
    without: &Interval,
    with: &Interval,
    guests: &[RunResult],
) -> Result<Vec<Metric>, Refusal> {
    let wrong = |why: &str| Err(Refusal::new(Kind::TooFewSamples, "workload memory-loss", why));
    if guests.is_empty() {
        return wrong("there are no machines");
    }
    if without.seconds() <= 0.0 || with.seconds() <= 0.0 {
        return wrong("the host was not measured for any time");
    }
    let machines = guests.len() as f64;
    let memory = with.end.used_bytes as f64 - without.end.used_bytes as f64;
    let cost =
        |name: &str, unit, value: f64| Metric::new(name, unit, Better::Less, value / machines);
    let mut metrics = vec![
        cost("memory", Unit::Bytes, memory),
        cost("host_cpu", Unit::Share, with.busy() - without.busy()),
    ];
    if with.end.machines_bytes > 0 {
        metrics.push(cost("machine_memory", Unit::Bytes, with.end.machines_bytes as f64));
        metrics.push(cost("machine_cpu", Unit::Share, with.machines_cpu()));
    }
    let used = guests.iter().filter_map(|guest| guest.metrics.first()).map(|metric| metric.value);
    metrics.push(cost("guest_used", Unit::Bytes, used.sum()));
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::bench_of::{job, run, value};

    #[test]
    fn a_guest_that_does_nothing_says_what_it_uses() {
        let params = [("seconds", Param::Float(0.1)), ("settle_s", Param::Float(0.0))];
        let job = job(&MemoryLoss, Role::Whole, &params);
        let (metrics, _) = run(&MemoryLoss, &job, &tempfile::tempdir().unwrap()).unwrap();
        assert!(value(&metrics, "guest_used") > 1e6);
    }

    #[test]
    fn differences_are_per_machine() {
        let at = Instant::now();
        let look = |after_s, used_bytes, busy_s: u64, machines_s: u64| Figures {
            at: at + Duration::from_secs(after_s),
            used_bytes,
            busy_ns: busy_s * 1_000_000_000,
            machines_cpu_ns: machines_s * 1_000_000_000,
            machines_bytes: if machines_s > 0 { 300 } else { 0 },
        };
        let without = Interval { begin: look(0, 900, 0, 0), end: look(10, 1000, 1, 0) };
        let with = Interval { begin: look(20, 1500, 5, 1), end: look(30, 1400, 8, 3) };
        let guest = |used| RunResult {
            metrics: vec![Metric::new("guest_used", Unit::Bytes, Better::Less, used)],
            ..RunResult::default()
        };
        let metrics = metrics(&without, &with, &[guest(10.0), guest(30.0)]).unwrap();
        assert_eq!(metrics[0].name, MemoryLoss.about().metric.0);
        let close = |name: &str, wanted: f64| {
            assert!((value(&metrics, name) - wanted).abs() < 1e-9, "{name}: {metrics:?}");
        };
        close("memory", 200.0);
        close("host_cpu", 0.1);
        close("machine_memory", 150.0);
        close("machine_cpu", 0.1);
        close("guest_used", 20.0);
        assert!(super::metrics(&without, &with, &[]).is_err());
    }
}
