//! Whether there are enough blocks.

use super::{cell::Cell, estimate::half_width, ledger::Ledger};
use crate::statistics::looks::Looks;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use transect_bench_core::Family;

/// How precise it is to be, and when that is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// When there is a look, and with which confidence.
    pub looks: Looks,
    /// Half-width of every interval that is enough, by family (0.01: 1 %). A family without one has enough at the last
    /// look.
    pub half_width: BTreeMap<Family, f64>,
}

impl Goal {
    /// Looks at 10, 14, 20, 28 and 40 blocks with 97 %, until all intervals are within 1 % (micro, CPU), 2 % (disk) or
    /// 5 % (network, latency, footprint).
    #[must_use]
    pub fn precise() -> Self {
        let half_width = [
            (Family::Micro, 0.01),
            (Family::Cpu, 0.01),
            (Family::Disk, 0.02),
            (Family::Network, 0.05),
            (Family::Latency, 0.05),
            (Family::Footprint, 0.05),
        ];
        Self { looks: Looks::standard(), half_width: half_width.into() }
    }

    /// So many blocks and one look with 95 %, however wide the intervals.
    #[must_use]
    pub fn fixed(blocks: usize) -> Self {
        Self { looks: Looks::once(blocks), half_width: BTreeMap::new() }
    }

    /// The level that probabilities are held against.
    #[must_use]
    pub fn level(&self) -> f64 {
        1.0 - self.looks.confidence
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Every interval is narrow enough, or the number of blocks was fixed.
    Enough,
    /// The last look is over, and some intervals are wider than was asked.
    GaveUp,
    /// Run another block.
    Continue,
}

/// How far a workload is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What to do about it.
    pub step: Step,
    /// Blocks in which all its cells have a value that counts.
    pub complete: usize,
    /// Blocks in which any of its cells was run.
    pub tried: usize,
    /// The look at which it ended, or the next one.
    pub look: usize,
    /// The widest half-width at the latest look, and whose it is (`cell / base`); `None` before the first, or where
    /// there was no interval.
    pub widest: Option<(String, f64)>,
    /// The half-width that is enough.
    pub goal: Option<f64>,
}

/// What to do, in all and by workload. A workload that is not to be continued may leave the next blocks: nothing is
/// ever compared across workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// [`Step::Continue`] if any workload is to be continued, else [`Step::GaveUp`] if any was given up.
    pub step: Step,
    /// By workload.
    pub workloads: BTreeMap<String, Progress>,
}

/// Says whether to run another block. It depends on the blocks at the looks alone, so it may be asked at any time and
/// after any interruption, and never takes back an [`Step::Enough`].
#[must_use]
pub fn decide(ledger: &Ledger, goal: &Goal) -> Decision {
    let names: BTreeSet<&str> =
        ledger.layout().cells().iter().map(|cell| cell.workload.as_str()).collect();
    let workloads: BTreeMap<String, Progress> =
        names.into_iter().map(|name| (name.to_owned(), progress(ledger, goal, name))).collect();
    let step = workloads.values().map(|progress| progress.step).max().unwrap_or(Step::Enough);
    Decision { step, workloads }
}

fn progress(ledger: &Ledger, goal: &Goal, workload: &str) -> Progress {
    let cells: Vec<&Cell> =
        ledger.layout().cells().iter().filter(|cell| cell.workload == workload).collect();
    let width = cells.iter().filter_map(|cell| goal.half_width.get(&cell.family)).copied();
    let width = width.min_by(f64::total_cmp);
    let (complete, tried) = blocks_of(ledger, &cells);
    let mut progress = Progress {
        step: Step::Continue,
        complete: complete.len(),
        tried,
        look: goal.looks.after(complete.len()).unwrap_or(goal.looks.last()),
        widest: None,
        goal: width,
    };
    for look in goal.looks.at.iter().copied().filter(|look| (1..=complete.len()).contains(look)) {
        let seen = look_at(ledger, goal, workload, complete[look - 1]);
        let is_precise = width.is_none_or(|goal| seen.as_ref().is_some_and(|(_, w)| *w <= goal));
        progress.widest = seen;
        let is_last = look == goal.looks.last();
        if is_last || (is_precise && width.is_some()) {
            progress.step = if is_precise { Step::Enough } else { Step::GaveUp };
            progress.look = look;
            return progress;
        }
    }
    // Exclusions can keep a look from ever coming.
    if tried >= 2 * goal.looks.last() {
        progress.step = Step::GaveUp;
    }
    progress
}

/// The blocks in which all the cells have a value that counts, and the number of those in which any was run.
fn blocks_of(ledger: &Ledger, cells: &[&Cell]) -> (Vec<u32>, usize) {
    let (mut complete, mut tried) = (Vec::new(), 0);
    for (at, block) in ledger.blocks() {
        let entries: Vec<_> = cells.iter().filter_map(|cell| block.entries.get(&cell.id)).collect();
        tried += usize::from(!entries.is_empty());
        let counted = entries.iter().filter(|entry| entry.counted().is_some()).count();
        if counted == cells.len() {
            complete.push(*at);
        }
    }
    (complete, tried)
}

/// The widest interval of a workload's contrasts up to a block. `None` if one of them has no interval.
fn look_at(ledger: &Ledger, goal: &Goal, workload: &str, up_to: u32) -> Option<(String, f64)> {
    let layout = ledger.layout();
    let mut widest = None;
    for contrast in layout.contrasts() {
        if layout.cell(&contrast.cell).is_none_or(|cell| cell.workload != workload) {
            continue;
        }
        let ratios = ledger.log_ratios(&contrast.cell, &contrast.base, up_to);
        let width = half_width(&ratios, goal.looks.confidence)?;
        if widest.as_ref().is_none_or(|(_, known)| width > *known) {
            widest = Some((format!("{} / {}", contrast.cell, contrast.base), width));
        }
    }
    widest
}
