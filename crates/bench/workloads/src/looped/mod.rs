//! Workloads that repeat one operation: how often, how long, and what comes out.
//!
//! # What
//! 1. On one CPU: the first of those that the job may use, unless `one_cpu` is false.
//! 2. Warm-up and calibration in one: the number of repetitions grows until a batch takes its share of `seconds`.
//!    These batches are not counted.
//! 3. `batches` batches of that many repetitions. Each gives one value: its time divided by its operations.
//! 4. The result is the **median** batch (as LMbench 3 reports; McVoy and Staelin, lmbench, USENIX 1996, took the
//!    least), with the distribution of all batches beside it, and their mean as a metric of its own.
//!
//! # Why batches
//! One operation is shorter than reading the clock is exact. So the distribution is that of batches, not of operations:
//! a spike of one operation is divided by all the others of its batch.
//!
//! # Constraints
//! - A batch allocates nothing and reads the clock twice.
//! - `operations` counts warm-up too: a tracer saw it all, and its events per operation come out right.

use super::{
    support::asked,
    support::spread,
    workload::{Place, Prepared, Workload},
};
use std::{io, path::PathBuf, time::Duration, time::Instant};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
    this_machine,
};

/// How much longer than the one before a batch of the calibration may become.
const MOST_GROWTH: u64 = 16;

/// Something to repeat.
pub(crate) trait Operation {
    /// Does it so many times. Gives what that took, of what is to be measured.
    fn batch(&mut self, times: u64) -> io::Result<Duration>;
    /// Operations, or bytes, in one time.
    fn weight(&self) -> u64 {
        1
    }
    /// What it depends on, measured separately: further metrics, after all batches.
    fn besides(&mut self, _per_operation_ns: f64) -> io::Result<Vec<Metric>> {
        Ok(Vec::new())
    }
    /// Files whose cache state matters.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Programs that it runs.
    fn programs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Does something so many times, and says how long that took.
pub(crate) fn timed(times: u64, mut one: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let from = Instant::now();
    for _ in 0..times {
        one()?;
    }
    Ok(from.elapsed())
}

/// What an operation's weight counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Operations: the result is `time`, nanoseconds for one.
    Operations,
    /// Bytes: the result is `throughput`.
    Bytes,
}

/// A workload of this kind; one `static` each.
pub(crate) struct Looped {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) source: &'static str,
    pub(crate) counts: Counts,
    pub(crate) caches: &'static [CacheState],
    /// Besides `seconds`, `batches`, `one_cpu`.
    pub(crate) params: fn() -> Vec<(&'static str, Param, &'static str)>,
    pub(crate) can_run: fn(&Job) -> Result<(), Refusal>,
    pub(crate) make: fn(&Place<'_>) -> Result<Box<dyn Operation>, Fault>,
}

/// For [`Looped::params`].
pub(crate) fn no_params() -> Vec<(&'static str, Param, &'static str)> {
    Vec::new()
}

/// For [`Looped::can_run`].
#[allow(clippy::unnecessary_wraps, reason = "a kind of function")]
pub(crate) fn everywhere(_: &Job) -> Result<(), Refusal> {
    Ok(())
}

impl Workload for Looped {
    fn about(&self) -> About {
        let mut params = (self.params)();
        params.extend([
            ("seconds", Param::Float(0.3), "approximate duration of all batches together"),
            ("batches", Param::Int(50), "number of batches, whose median is the result"),
            ("one_cpu", Param::Bool(true), "pin all its processes to the first of the job's CPUs"),
        ]);
        About {
            name: self.name,
            text: self.text,
            source: self.source,
            family: Family::Micro,
            metric: match self.counts {
                Counts::Operations => ("time", Unit::Nanoseconds, Better::Less),
                Counts::Bytes => ("throughput", Unit::BytesPerSecond, Better::More),
            },
            caches: self.caches,
            params,
            packages: &[],
            is_distributed: false,
            expected_s: 0.4,
        }
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        (self.can_run)(job)
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let job = place.job;
        let seconds = asked::seconds(job, "seconds")?;
        let batches = asked::number(job, "batches", 1..=100_000)?;
        // Before anything is forked, which then is on that CPU too.
        if asked::switch(job, "one_cpu")? {
            this_machine::pin_to_first()?;
        }
        let operation = (self.make)(place)?;
        Ok(Box::new(Run { operation, counts: self.counts, seconds, batches }))
    }
}

struct Run {
    operation: Box<dyn Operation>,
    counts: Counts,
    seconds: Duration,
    batches: u64,
}

impl Prepared for Run {
    fn files(&self) -> Vec<PathBuf> {
        self.operation.files()
    }

    fn programs(&self) -> Vec<PathBuf> {
        self.operation.programs()
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let weight = self.operation.weight();
        let share = self.seconds.as_secs_f64() / real(self.batches);
        let failed = |error| Fault::failed(format!("an operation failed: {error}"));
        let (times, mut repetitions) = calibrate(self.operation.as_mut(), share).map_err(failed)?;
        let batches = usize::try_from(self.batches).map_err(Fault::failed)?;
        let mut took = Vec::with_capacity(batches);
        for _ in 0..batches {
            took.push(self.operation.batch(times).map_err(failed)?);
        }
        repetitions += times * self.batches;
        let values: Vec<f64> = took
            .iter()
            .map(|took| self.counts.value(took.as_secs_f64(), real(times * weight)))
            .collect();
        let operations = Metric::new(
            "operations",
            Unit::Count,
            Better::More,
            real(match self.counts {
                Counts::Operations => repetitions * weight,
                Counts::Bytes => repetitions,
            }),
        );
        let all = took.iter().map(Duration::as_secs_f64).sum::<f64>();
        let mean = self.counts.value(all, real(times * weight * self.batches));
        let mut metrics = self.counts.metrics(values, mean)?;
        metrics.push(operations);
        let median = metrics[0].value;
        metrics.extend(self.operation.besides(median).map_err(failed)?);
        Ok(metrics)
    }
}

impl Counts {
    fn value(self, seconds: f64, count: f64) -> f64 {
        match self {
            Self::Operations => seconds * 1e9 / count,
            Self::Bytes => count / seconds,
        }
    }

    fn metrics(self, values: Vec<f64>, mean: f64) -> Result<Vec<Metric>, Fault> {
        let spread = spread::of(values).ok_or_else(|| Fault::failed("no batch was measured"))?;
        let median = spread.quantiles.iter().find(|(q, _)| (*q - 0.5).abs() < 1e-9);
        let median = median.map_or(f64::NAN, |(_, value)| *value);
        Ok(match self {
            Self::Operations => vec![
                Metric::nanoseconds("time", median).with(spread),
                Metric::nanoseconds("mean_time", mean),
            ],
            Self::Bytes => vec![
                Metric::bytes_per_second("throughput", median).with(spread),
                Metric::bytes_per_second("mean_throughput", mean),
            ],
        })
    }
}

/// Repetitions that take about so many seconds, and all that were done to find that out.
fn calibrate(operation: &mut dyn Operation, share_s: f64) -> io::Result<(u64, u64)> {
    // The first time is the slowest of all: it says nothing of the others.
    operation.batch(1)?;
    let (mut times, mut done) = (1, 1);
    loop {
        let took = operation.batch(times)?.as_secs_f64();
        done += times;
        // Nearly there is there: the time is a wish, not a measurement.
        if took >= 0.8 * share_s {
            return Ok((times, done));
        }
        times = (times * growth(share_s / took.max(1e-9)).min(MOST_GROWTH)).max(times + 1);
    }
}

fn growth(ratio: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = ratio.ceil() as u64;
    whole.max(1)
}

#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes exactly so long, by its own account.
    struct Paced {
        each: Duration,
        first: Duration,
        done: u64,
    }

    impl Operation for Paced {
        fn batch(&mut self, times: u64) -> io::Result<Duration> {
            let first = if self.done == 0 { self.first } else { Duration::ZERO };
            self.done += times;
            Ok(first + self.each * u32::try_from(times).unwrap())
        }

        fn weight(&self) -> u64 {
            4
        }
    }

    fn paced(each_ns: u64, first_ns: u64) -> Run {
        let (each, first) = (Duration::from_nanos(each_ns), Duration::from_nanos(first_ns));
        Run {
            operation: Box::new(Paced { each, first, done: 0 }),
            counts: Counts::Operations,
            seconds: Duration::from_millis(10),
            batches: 20,
        }
    }

    fn value(metrics: &[Metric], name: &str) -> f64 {
        metrics.iter().find(|metric| metric.name == name).unwrap().value
    }

    #[test]
    fn a_steady_operation_comes_out_as_what_it_takes() {
        for each in [40, 4_000, 400_000, 4_000_000] {
            let metrics = paced(each, 0).run().unwrap();
            assert_eq!(metrics[0].name, "time");
            assert!((metrics[0].value - each as f64 / 4.0).abs() < 1e-6, "{each}: {metrics:?}");
            assert!((value(&metrics, "mean_time") - each as f64 / 4.0).abs() < 1e-6);
            assert_eq!(metrics[0].distribution.as_ref().unwrap().samples, 20);
            // About 10 ms, at least four fifths of it, however long one takes; each batch once at least.
            let spent = value(&metrics, "operations") / 4.0 * each as f64;
            assert!((8e6..25e6).contains(&spent) || each == 4_000_000, "{each}: {spent}");
        }
    }

    #[test]
    fn a_slow_first_time_is_warm_up() {
        let metrics = paced(1_000, 5_000_000).run().unwrap();
        assert!((metrics[0].value - 250.0).abs() < 1e-6, "{metrics:?}");
        assert!(value(&metrics, "operations") >= 4.0 * 20.0);
    }

    #[test]
    fn bytes_become_a_rate() {
        let mut run = paced(1_000, 0);
        run.counts = Counts::Bytes;
        let metrics = run.run().unwrap();
        assert_eq!(metrics[0].name, "throughput");
        assert!((metrics[0].value - 4e6).abs() < 1.0, "{metrics:?}");
    }
}
