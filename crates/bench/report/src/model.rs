//! The report: everything a face shows. Plain data; `transect bench report --json` is this, as it stands.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_bench_core::{Better, Distribution, Fault, Unit, protocol::TracerCost};
use transect_bench_run::plan::{Cell, Label, RefusedCell};

/// Everything there is to show of one folder of results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The plan's name.
    pub name: String,
    /// What the plan is for.
    pub about: String,
    /// The plan, as it is written.
    pub plan: String,
    /// The program's version.
    pub version: String,
    /// Wall clock of the first run, ns since 1970.
    pub began_unix_ns: u64,
    /// Wall clock of the last thing that happened, ns since 1970.
    pub last_unix_ns: u64,
    /// Why it ended; `None`: it has not.
    pub finished: Option<String>,
    /// Blocks of which every run has come to an end.
    pub blocks: u32,
    /// How often it was cut off and went on.
    pub resumes: u32,
    /// What this machine is: name to value, sorted.
    pub environment: BTreeMap<String, String>,
    /// Every platform that was opened.
    pub platforms: Vec<ReportedPlatform>,
    /// Every cell that was measured, in order of name.
    pub cells: Vec<ReportedCell>,
    /// Cells compared with their references.
    pub comparisons: Vec<Comparison>,
    /// Cells that were not measured at all.
    pub refused: Vec<RefusedCell>,
    /// Cells of which runs failed: how often, and the last cause.
    pub failed: Vec<(Cell, u32, Fault)>,
    /// Sentences about what must be known before a figure is used (no A/A, drift of the sentinel, few blocks).
    pub warnings: Vec<String>,
}

/// A kind of machine, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedPlatform {
    /// Its name.
    pub name: String,
    /// The accelerator that was really used.
    pub accelerator: String,
    /// What is emulated and therefore transfers to no other machine.
    pub emulated: Vec<String>,
    /// `uname -srvm`.
    pub kernel: String,
    /// CPUs.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Machines opened.
    pub opened: u32,
    /// Median time to open one, seconds.
    pub opening_s: f64,
    /// Anything else.
    pub notes: BTreeMap<String, String>,
}

/// What was measured of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportedCell {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// The family of its workload.
    pub family: String,
    /// The primary metric's name.
    pub metric: String,
    /// What it counts.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// Every run that has a result, in order of time.
    pub points: Vec<Point>,
    /// Median of the points that count; `None` of none.
    pub median: Option<f64>,
    /// Half of the points that count lie within.
    pub quartiles: Option<[f64; 2]>,
    /// Medians of the other metrics, by name, with their units and the side that is better.
    pub others: BTreeMap<String, (f64, Unit, Better)>,
    /// How single operations were distributed, by the metric's name: samples and failures are sums over the runs that
    /// count, everything else is the median over them, quantile by quantile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, (Unit, Distribution)>,
    /// What held it back.
    pub limiter: Option<Suspect>,
    /// Of the tracer: medians over the runs; `None` for nobody. In JSON it is `tracer_cost`: `tracer` is the arm's name.
    #[serde(rename = "tracer_cost")]
    pub tracer: Option<TracerCost>,
    /// Runs in which the tracer lost events: these are another arm than one that loses nothing.
    pub lossy_runs: u32,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Block, from 0.
    pub block: u32,
    /// Which of two measurements of the reference.
    pub label: Label,
    /// The primary metric's value.
    pub value: f64,
    /// Wall clock of its start, ns since 1970.
    pub unix_ns: u64,
    /// Recorded causes for which it does not count; empty: it counts.
    pub excluded: Vec<String>,
}

/// What is suspected to have held a workload back, over all of its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// A short name: `single CPU`, `disk`, `network`, `unknown`.
    pub name: String,
    /// The evidence of the median run, a sentence.
    pub evidence: String,
    /// In how many of the runs it was suspected.
    pub runs: u32,
    /// Of how many.
    pub of_runs: u32,
    /// Elasticity when it was halved, and its interval (estimate, low, high), where that was asked for: 1: the result
    /// follows in full, 0: not at all.
    pub elasticity: Option<[f64; 3]>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contrast {
    /// A tracer arm with nobody, on the same platform.
    Tracer,
    /// A platform with the reference platform, under the same tracer arm.
    Platform,
    /// Several machines with one, on the same platform.
    Guests,
    /// The reference with itself (A/A): the noise.
    Noise,
}

/// A cell compared with its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What kind of comparison it is.
    pub contrast: Contrast,
    /// Which.
    pub cell: Cell,
    /// With which.
    pub reference: Cell,
    /// The family within which it was corrected for the number of comparisons.
    pub family: String,
    /// Which way is good, of the metric.
    pub better: Better,
    /// Value over the reference's, per block in which both count: block and ratio.
    pub ratios: Vec<(u32, f64)>,
    /// The ratio and its interval; `None` below 6 blocks.
    pub estimate: Option<Estimate>,
    /// Relative effects below this cannot be told from noise here (from A/A); `None`: there was no A/A.
    pub floor: Option<f64>,
    /// What is to be thought of it.
    pub verdict: Verdict,
    /// Probability of such blocks without an effect, corrected within its family (Holm).
    pub p_corrected: Option<f64>,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Hodges–Lehmann estimate of value over reference.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What the interval covers at least, 0 to 1.
    pub confidence: f64,
    /// Blocks.
    pub blocks: u32,
}

/// What is to be thought of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Worse than the reference, beyond noise.
    Worse,
    /// Better than the reference, beyond noise.
    Better,
    /// The interval holds 1, or lies within the noise.
    NotResolved,
    /// Fewer than 6 blocks, or so few that nothing could be resolved among as many questions as the family asks.
    TooFew,
}

impl Comparison {
    /// The change that the LTTng-Xen papers print for times: `100·(2 − value/reference)`, of 100 %. For a rate
    /// it is `100·value/reference`. `None` where there is no such finite number.
    #[must_use]
    pub fn percent_of_reference(&self) -> Option<f64> {
        let ratio = self.estimate?.ratio;
        let percent = match self.better {
            Better::Less => 100.0 * (2.0 - ratio),
            Better::More => 100.0 * ratio,
        };
        percent.is_finite().then_some(percent)
    }

    /// Speed relative to the reference: `reference/value` of times, `value/reference` of rates. `None` where there is no
    /// such finite number.
    #[must_use]
    pub fn speed(&self) -> Option<f64> {
        let ratio = self.estimate?.ratio;
        let speed = match self.better {
            Better::Less => 1.0 / ratio,
            Better::More => ratio,
        };
        speed.is_finite().then_some(speed)
    }
}
