//! From what was measured to metrics, or to the refusal that the generator was the limit.

use super::{
    answer::Wrong,
    generator::{Measured, Tally},
};
use transect_bench_core::{Better, Distribution, Fault, Kind, Metric, Refusal, Unit};

/// A request taken in hand later than this has been sent late, ns: much more than a thread's wakeup takes on an idle CPU.
const LATE_NS: u64 = 1_000_000;

/// What all threads of the generator measured at one rate.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Requests a second that were asked for, all servers together.
    pub(super) rate: f64,
    /// Length of what counts, s.
    pub(super) seconds: f64,
    /// By server.
    pub(super) tallies: Vec<Tally>,
    pub(super) lateness_ns: Vec<u64>,
    pub(super) repeated: u64,
    pub(super) received_bytes: u64,
    pub(super) has_given_up: bool,
}

/// When a step's figures hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Criterion {
    /// Share of the requests that must be answered right and within the deadline.
    pub(super) share: f64,
    /// The 99th percentile of the generator's lateness must not be above this, ns.
    pub(super) late_ns: u64,
}

impl Step {
    pub(super) fn of(rate: f64, seconds: f64, threads: Vec<Measured>) -> Self {
        let servers = threads.first().map_or(0, |first| first.tallies.len());
        let mut step = Self {
            rate,
            seconds,
            tallies: vec![Tally::default(); servers],
            lateness_ns: Vec::new(),
            repeated: 0,
            received_bytes: 0,
            has_given_up: false,
        };
        for thread in threads {
            for (sum, tally) in step.tallies.iter_mut().zip(&thread.tallies) {
                sum.add(tally);
            }
            step.lateness_ns.extend(thread.lateness_ns);
            step.repeated += thread.repeated;
            step.received_bytes += thread.received_bytes;
            step.has_given_up |= thread.has_given_up;
        }
        step.lateness_ns.sort_unstable();
        step
    }

    pub(super) fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.tallies.iter().for_each(|tally| total.add(tally));
        total
    }

    /// 99th percentile by nearest rank; 0 if nothing was due.
    pub(super) fn late_p99_ns(&self) -> u64 {
        let index = (self.lateness_ns.len() * 99).div_ceil(100).saturating_sub(1);
        self.lateness_ns.get(index).copied().unwrap_or(0)
    }

    /// Refuses figures that are the generator's own.
    pub(super) fn check_generator(&self, criterion: Criterion) -> Result<(), Refusal> {
        let p99 = self.late_p99_ns();
        if !self.has_given_up && p99 <= criterion.late_ns {
            return Ok(());
        }
        let (rate, limit) = (self.rate, criterion.late_ns as f64 / 1e6);
        let late = self.lateness_ns.last().copied().unwrap_or(0) as f64 / 1e6;
        let end = if self.has_given_up { ", and it stopped early" } else { "" };
        let p99 = p99 as f64 / 1e6;
        let why = format!(
            "at {rate:.0} requests a second the generator was late by {p99:.2} ms (99th percentile; limit {limit} ms), at worst {late:.1} ms{end}"
        );
        Err(Refusal::new(Kind::GeneratorLimited, "workload web", why)
            .mend("lower rate or rate_max, raise generator_threads, or give the generator a separate machine"))
    }

    /// Does every server conform? One that does not is not made up for by the others.
    pub(super) fn holds(&self, criterion: Criterion) -> bool {
        self.tallies.iter().all(|tally| {
            tally.offered == 0 || tally.conforming as f64 >= criterion.share * tally.offered as f64
        })
    }

    /// The metrics, the primary one first.
    pub(super) fn metrics(&self) -> Result<Vec<Metric>, Fault> {
        let total = self.total();
        if total.latencies_ns.is_empty() {
            return Err(Fault::failed(format!("web: no correct answer: {}", self.wrongs())));
        }
        let share = total.conforming as f64 / total.offered as f64;
        let conforming = total.conforming as f64 / self.seconds;
        let mut metrics = vec![
            Metric::per_second("conforming_throughput", conforming),
            Metric::new("conforming_share", Unit::Share, Better::More, share),
            Metric::new("conforming_share_of", Unit::Count, Better::More, total.offered as f64),
        ];
        metrics.extend(latency("latency", &total.latencies_ns, total.failed()));
        metrics.extend(latency("generator_late", &self.lateness_ns, 0));
        let late = self.lateness_ns.partition_point(|&ns| ns <= LATE_NS);
        let late = 1.0 - late as f64 / self.lateness_ns.len().max(1) as f64;
        metrics.push(Metric::new("generator_late_share", Unit::Share, Better::Less, late));
        metrics.push(Metric::per_second("offered_rate", total.offered as f64 / self.seconds));
        let failed = total.failed() as f64;
        metrics.push(Metric::new("failed_requests", Unit::Count, Better::Less, failed));
        Ok(metrics)
    }

    /// What people should know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.total().failed() > 0 {
            notes.push(format!("requests without a correct answer: {}", self.wrongs()));
        }
        if self.repeated > 0 {
            let repeated = self.repeated;
            notes.push(format!(
                "{repeated} requests repeated: the server had closed an idle connection"
            ));
        }
        if self.tallies.len() > 1 {
            let each = |tally: &Tally| format!("{:.0}", tally.conforming as f64 / self.seconds);
            let all: Vec<String> = self.tallies.iter().map(each).collect();
            notes.push(format!("conforming requests a second by server: {}", all.join(", ")));
        }
        notes
    }

    fn wrongs(&self) -> String {
        let total = self.total();
        let some = Wrong::ALL.iter().zip(total.wrong).filter(|&(_, count)| count > 0);
        some.map(|(wrong, count)| format!("{count} × {}", wrong.text()))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A mean with its distribution, and the percentiles that the samples suffice for.
fn latency(name: &str, values_ns: &[u64], failed: u64) -> Vec<Metric> {
    let values = values_ns.iter().map(|&ns| ns as f64).collect();
    let Some(distribution) = Distribution::of(values, failed) else { return Vec::new() };
    let percentile = |(suffix, q): (&str, f64)| {
        Some(Metric::nanoseconds(format!("{name}_{suffix}"), distribution.at(q)?))
    };
    let percentiles: Vec<Metric> =
        [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(percentile).collect();
    let mut metrics = vec![Metric::nanoseconds(name, distribution.mean).with(distribution.clone())];
    metrics.extend(percentiles);
    metrics
}
