//! Several machines in one cell: who does what, and what their results are together. No I/O.
//!
//! # Roles
//! ```text
//! distributed, N guests               not distributed, N guests
//! guest 0 … N-1   Server              guest 0 … N-1   Whole
//! outside         Generator           between         Bystander (the machine between, traced)
//! between         Bystander           below           Bystander (the host, sampled and traced)
//! below           Bystander
//! ```
//! The generator runs on this host or on one machine more, as the plan says; bystanders only where the guests are
//! machines of their own: on this host, and where it is another, on the machine between it and them (a nested host, dom0).
//!
//! # Order
//! 1. `Prepare` to all servers, wholes and bystanders. When all have said `Prepared`, their ports are known.
//! 2. `Prepare` to the generator, its peers ([`Part::Generator`]) in the order of the guests.
//! 3. `Go` to all bystanders, servers and wholes, then to the generator.
//! 4. When the generator, or every whole, has said `Done`: `Cancel` to all others, whose `Done` follows.
//!
//! A fault of any part is the cell's: the other parts are cancelled, and nothing is combined from what is left.
//!
//! # Together
//! What a metric of N machines is together follows from its unit, see [`Rule::of`]. Metrics that only servers have
//! (what arrived, of what was sent) are put beside the generator's.

use crate::{
    About, Distribution, Job, Kind, Metric, Refusal, RunResult, Unit,
    protocol::{Param, Role},
};
use std::collections::{BTreeMap, BTreeSet};

/// Who does one part of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Seat {
    /// One of the cell's machines, from 0.
    Guest(u32),
    /// What loads them: this host, or one machine more.
    Outside,
    /// The host that the machines run on.
    Below,
    /// The machine between that host and them: the nested host of its guests, dom0 of its domains.
    Between,
}

/// One part of a cell: a seat, and what is different in its job.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Who.
    pub seat: Seat,
    /// What.
    pub role: Role,
    /// Its share of the parameters that are shared out among the guests: they replace the cell's own.
    pub params: BTreeMap<String, Param>,
}

/// A parameter of this name is for all guests together, and each gets its share.
///
/// It is what load distribution is about: 4 tasks in 1 guest against 1 task in each of 4.
pub const SHARED_OUT: &str = "tasks";

/// The parts of a cell, guests first and in order, the generator last but for the bystanders.
///
/// `params` are the cell's, defaults filled in. There is a bystander at each of `bystanders`. Refused: no guests, or tasks
/// that cannot be shared out evenly.
pub fn roles(
    about: &About,
    params: &BTreeMap<String, Param>,
    guests: u32,
    bystanders: &[Seat],
) -> Result<Vec<Part>, Refusal> {
    if guests == 0 {
        return Err(wrong(about, "a cell needs at least one machine"));
    }
    let shares = share_out(about, params, guests)?;
    let role = if about.is_distributed { Role::Server } else { Role::Whole };
    let part = |seat, role, params| Part { seat, role, params };
    let mut parts: Vec<Part> =
        (0..guests).map(|guest| part(Seat::Guest(guest), role, shares.clone())).collect();
    if about.is_distributed {
        parts.push(part(Seat::Outside, Role::Generator, BTreeMap::new()));
    }
    let of_bystander = |&seat| part(seat, Role::Bystander, BTreeMap::new());
    parts.extend(bystanders.iter().map(of_bystander));
    Ok(parts)
}

fn share_out(
    about: &About,
    params: &BTreeMap<String, Param>,
    guests: u32,
) -> Result<BTreeMap<String, Param>, Refusal> {
    let is_known = about.params.iter().any(|(name, ..)| *name == SHARED_OUT);
    let Some(Param::Int(tasks)) = params.get(SHARED_OUT).filter(|_| is_known) else {
        return Ok(BTreeMap::new());
    };
    let guests = i64::from(guests);
    if *tasks < guests || tasks % guests != 0 {
        let why = format!("{tasks} tasks cannot be divided evenly among {guests} guests");
        return Err(wrong(about, &why));
    }
    Ok(BTreeMap::from([(SHARED_OUT.to_owned(), Param::Int(tasks / guests))]))
}

impl Part {
    /// The cell's job made this part's. `peers` are the servers' `host:port` in the order of the guests; only a
    /// generator gets them. A bystander is not pinned to the guests' CPUs and its caches are not touched.
    #[must_use]
    pub fn job(&self, cell: &Job, peers: &[String]) -> Job {
        let mut job = cell.clone();
        job.role = self.role;
        job.params.extend(self.params.clone());
        job.peers = if self.role == Role::Generator { peers.to_vec() } else { Vec::new() };
        if matches!(self.role, Role::Generator | Role::Bystander) {
            job.cpus = Vec::new();
            job.cache = crate::CacheState::Any;
        }
        let seat = match self.seat {
            Seat::Guest(guest) => format!("{guest}"),
            Seat::Outside => "outside".into(),
            Seat::Below => "below".into(),
            Seat::Between => "between".into(),
        };
        job.id = format!("{}.{seat}", cell.id);
        job
    }
}

/// How one metric of several machines becomes the cell's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Rates, bytes, counts: what all did together.
    Sum,
    /// Times of a whole job: all start together, and the cell is over when the last one is.
    Latest,
    /// Times of single operations: the mean over all operations, their distributions merged.
    MeanOfOperations,
    /// Shares: of all that they are shares of, which the metric `NAME_of` counts; without it each machine counts the same.
    WeightedShare,
}

impl Rule {
    /// By the unit; times by whether they have a distribution.
    #[must_use]
    pub fn of(metric: &Metric) -> Self {
        match metric.unit {
            Unit::PerSecond | Unit::BytesPerSecond | Unit::Bytes | Unit::Count => Self::Sum,
            Unit::Share => Self::WeightedShare,
            Unit::Seconds | Unit::Nanoseconds if metric.distribution.is_some() => {
                Self::MeanOfOperations
            }
            Unit::Seconds | Unit::Nanoseconds => Self::Latest,
        }
    }
}

/// The cell's metrics, the workload's primary one first, the others as the parts had them.
///
/// A percentile (`NAME_p99`) of a metric with distributions is read off the merged one where that has it, and is the
/// worst machine's otherwise. Refused: parts of one role with different metrics, a metric that both server and generator
/// have, units that differ, and results without the primary metric.
pub fn combine(about: &About, results: &[(Role, &RunResult)]) -> Result<Vec<Metric>, Refusal> {
    let mut metrics: Vec<Metric> = Vec::new();
    for role in [Role::Generator, Role::Whole, Role::Server] {
        let of_role: Vec<&RunResult> =
            results.iter().filter(|(of, _)| *of == role).map(|(_, result)| *result).collect();
        for metric in combine_role(about, &of_role)? {
            if metrics.iter().any(|known| known.name == metric.name) {
                let why = format!("metric {} comes from servers and generator", metric.name);
                return Err(different(about, why));
            }
            metrics.push(metric);
        }
    }
    let (primary, unit, _) = about.metric;
    let at = metrics.iter().position(|metric| metric.name == primary && metric.unit == unit);
    let at = at.ok_or_else(|| different(about, format!("no result has the metric {primary}")))?;
    metrics[..=at].rotate_right(1);
    Ok(metrics)
}

/// The metrics of machines that did the same.
fn combine_role(about: &About, results: &[&RunResult]) -> Result<Vec<Metric>, Refusal> {
    let Some(first) = results.first() else { return Ok(Vec::new()) };
    for result in results {
        same_names(about, first, result)?;
    }
    let mut combined = Vec::new();
    for metric in &first.metrics {
        let all: Vec<&Metric> =
            results.iter().filter_map(|result| named(result, &metric.name)).collect();
        if all.iter().any(|other| (other.unit, other.better) != (metric.unit, metric.better)) {
            return Err(different(about, format!("metric {} has several units", metric.name)));
        }
        combined.push(together(&all, results));
    }
    read_percentiles(&mut combined);
    Ok(combined)
}

fn same_names(about: &About, a: &RunResult, b: &RunResult) -> Result<(), Refusal> {
    let names = |result: &RunResult| -> BTreeSet<String> {
        // Percentiles depend on how many samples there were: they may be there on one machine and not on another.
        result
            .metrics
            .iter()
            .map(|m| m.name.clone())
            .filter(|name| percentile(name).is_none())
            .collect()
    };
    if names(a) == names(b) {
        return Ok(());
    }
    let (names_a, names_b) = (names(a), names(b));
    let odd: Vec<&String> = names_a.symmetric_difference(&names_b).collect();
    Err(different(about, format!("{} and {} do not both have {odd:?}", a.id, b.id)))
}

fn named<'a>(result: &'a RunResult, name: &str) -> Option<&'a Metric> {
    result.metrics.iter().find(|metric| metric.name == name)
}

/// One metric of all machines. `all` is not empty.
fn together(all: &[&Metric], results: &[&RunResult]) -> Metric {
    let mut metric = all[0].clone();
    let values = || all.iter().map(|metric| metric.value);
    let distributions: Vec<&Distribution> =
        all.iter().filter_map(|metric| metric.distribution.as_ref()).collect();
    metric.distribution =
        (distributions.len() == all.len()).then(|| Distribution::merge(&distributions)).flatten();
    metric.value = match Rule::of(&metric) {
        Rule::Sum => values().sum(),
        Rule::Latest => values().fold(f64::NEG_INFINITY, f64::max),
        Rule::MeanOfOperations => {
            let counts = distributions.iter().map(|d| d.samples as f64);
            weighted_mean(values().zip(counts))
        }
        Rule::WeightedShare => {
            let of = format!("{}_of", metric.name);
            let weights: Option<Vec<f64>> =
                results.iter().map(|result| named(result, &of).map(|of| of.value)).collect();
            let weights = weights.unwrap_or_else(|| vec![1.0; all.len()]);
            weighted_mean(values().zip(weights))
        }
    };
    metric
}

/// Never outside of the values, whatever rounding does; of weights that are all 0 the plain mean.
fn weighted_mean(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let weight: f64 = pairs.clone().map(|(_, weight)| weight).sum();
    if weight <= 0.0 {
        let count = pairs.clone().count().max(1);
        return pairs.map(|(value, _)| value).sum::<f64>() / count as f64;
    }
    let low = pairs.clone().map(|(value, _)| value).fold(f64::INFINITY, f64::min);
    let high = pairs.clone().map(|(value, _)| value).fold(f64::NEG_INFINITY, f64::max);
    (pairs.map(|(value, w)| value * w).sum::<f64>() / weight).clamp(low, high)
}

/// `latency_p99` is `latency` and 0.99, `latency_p999` 0.999.
fn percentile(name: &str) -> Option<(&str, f64)> {
    let (base, digits) = name.rsplit_once("_p")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let quantile = format!("0.{digits}").parse().ok().filter(|_| is_number)?;
    Some((base, quantile))
}

fn read_percentiles(metrics: &mut [Metric]) {
    for index in 0..metrics.len() {
        let Some((base, quantile)) = percentile(&metrics[index].name) else { continue };
        let merged = metrics.iter().find(|metric| metric.name == base);
        let value = merged.and_then(|metric| metric.distribution.as_ref()?.at(quantile));
        if let Some(value) = value {
            metrics[index].value = value;
        }
    }
}

fn wrong(about: &About, why: &str) -> Refusal {
    Refusal::new(Kind::Plan, format!("workload {}", about.name), why)
}

fn different(about: &About, why: String) -> Refusal {
    Refusal::new(Kind::Different, format!("workload {}", about.name), why)
}

#[cfg(test)]
mod tests;
