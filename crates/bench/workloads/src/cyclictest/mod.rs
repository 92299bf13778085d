//! cyclictest: how late a timer wakes a real-time thread. See README.md.

use super::{
    support::asked,
    support::programs,
    workload::{Place, Prepared, Workload},
};
use serde::Deserialize;
use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};
use transect_bench_core::{
    About, Better, CacheState, Distribution, Family, Fault, Job, Kind, Metric, Refusal, Unit,
    protocol::Param,
};

const NAME: &str = "cyclictest";
const PACKAGE: &str = "rt-tests";
/// Later wakeups than this, µs, are counted but not told apart.
const HISTOGRAM_US: u64 = 20_000;
const QUANTILES: [f64; 7] = [0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999];

/// It.
#[derive(Debug)]
pub(crate) struct Cyclictest;

impl Workload for Cyclictest {
    fn about(&self) -> About {
        About {
            name: NAME,
            text: "wakeup latency of a real-time thread that sleeps until fixed times",
            source: "the latency that tracing adds, which the papers do not measure; the tool is rt-tests' cyclictest",
            family: Family::Latency,
            metric: ("latency_median", Unit::Nanoseconds, Better::Less),
            caches: &[CacheState::Any],
            params: vec![
                ("interval_us", Param::Int(1000), "time between two wakeups, µs"),
                ("loops", Param::Int(1500), "wakeups"),
                ("priority", Param::Int(80), "SCHED_FIFO, 1 to 99"),
            ],
            packages: &[PACKAGE],
            is_distributed: false,
            expected_s: 1.6,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(NAME, NAME, PACKAGE)?;
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let why = "SCHED_FIFO requires root";
        Err(Refusal::new(Kind::NotHere, format!("workload {NAME}"), why))
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let program = programs::need(NAME, NAME, PACKAGE)?;
        let said = place.folder.join("said.json");
        let mut command = Command::new(&program);
        command.args(["--quiet", "--mlockall"]);
        command.arg(format!("--json={}", said.display()));
        command.arg(format!("--histogram={HISTOGRAM_US}"));
        for (option, name, within) in [
            ("interval", "interval_us", 50..=1_000_000),
            ("loops", "loops", 10..=10_000_000),
            ("priority", "priority", 1..=99),
        ] {
            command.arg(format!("--{option}={}", asked::number(place.job, name, within)?));
        }
        Ok(Box::new(Run { program, command, said }))
    }
}

struct Run {
    program: PathBuf,
    command: Command,
    said: PathBuf,
}

impl Prepared for Run {
    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        programs::run(&mut self.command)?;
        let text = fs::read_to_string(&self.said)
            .map_err(|error| Fault::failed(format!("cyclictest wrote no result: {error}")))?;
        metrics(&text)
    }
}

#[derive(Deserialize)]
struct Said {
    thread: BTreeMap<String, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    /// Microseconds (whole, rounded down) to wakeups.
    histogram: BTreeMap<String, u64>,
    cycles: u64,
    min: f64,
    avg: f64,
    max: f64,
}

#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 wakeups")]
fn metrics(text: &str) -> Result<Vec<Metric>, Fault> {
    let said: Said = serde_json::from_str(text)
        .map_err(|error| Fault::failed(format!("cannot parse cyclictest's output: {error}")))?;
    let thread = said.thread.into_values().next();
    let thread = thread.ok_or_else(|| Fault::failed("cyclictest reports no thread"))?;
    let pair = |(us, count): (&String, &u64)| Some((us.parse::<u64>().ok()?, *count));
    let mut bins: Vec<(u64, u64)> = thread.histogram.iter().filter_map(pair).collect();
    bins.sort_unstable();
    let inside: u64 = bins.iter().map(|(_, count)| count).sum();
    if inside == 0 {
        return Err(Fault::failed("no wakeup of cyclictest was within its histogram"));
    }
    // Later ones than the histogram reaches are worse than all that are in it.
    let failed = thread.cycles.saturating_sub(inside);
    let quantiles =
        QUANTILES.iter().filter_map(|q| Some((*q, quantile(&bins, inside + failed, *q)?)));
    let distribution = Distribution {
        samples: inside + failed,
        failed,
        min: thread.min * 1e3,
        mean: thread.avg * 1e3,
        max: thread.max * 1e3,
        quantiles: quantiles.collect(),
    };
    let (mean, max) = (distribution.mean, distribution.max);
    let median = quantile(&bins, inside + failed, 0.5).ok_or_else(|| {
        Fault::failed(format!("more than half of {} wakeups were too late", thread.cycles))
    })?;
    Ok(vec![
        Metric::nanoseconds("latency_median", median).with(distribution),
        Metric::nanoseconds("latency_mean", mean),
        Metric::nanoseconds("latency_max", max),
    ])
}

/// A quantile of whole microseconds, ns, at its place within its bin as if the bin's values were spread evenly;
/// `None` where it lies beyond the histogram.
#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 wakeups")]
fn quantile(bins: &[(u64, u64)], all: u64, q: f64) -> Option<f64> {
    let wanted = q * all as f64;
    let mut before = 0.0;
    for (us, count) in bins {
        let count = *count as f64;
        if before + count >= wanted {
            return Some((*us as f64 + (wanted - before) / count) * 1e3);
        }
        before += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_histogram_and_what_is_beyond_it() {
        let text = r#"{"thread":{"0":{"histogram":{"9":1,"10":2,"20":1},"cycles":5,
            "min":9,"avg":100.5,"max":30000,"node":0}}}"#;
        let metrics = metrics(text).unwrap();
        // Half of five is in the middle of the bin of 10 µs: 1 before, 1.5 of its 2.
        assert_eq!(metrics[0].value, 10_750.0);
        let spread = metrics[0].distribution.as_ref().unwrap();
        assert_eq!((spread.samples, spread.failed, spread.max), (5, 1, 30e6));
        // The 90th percentile lies beyond the histogram: it is not made up.
        assert!(spread.quantiles.iter().all(|(q, _)| *q <= 0.75));
        assert_eq!(spread.quantiles.last().unwrap(), &(0.75, 20_750.0));
    }
}
