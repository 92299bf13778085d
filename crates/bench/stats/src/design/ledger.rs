//! What was measured, block by block.

use super::{layout::Layout, warm_up::warm_up};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};
use transect_bench_core::{Kind, Refusal};

/// Why a value does not count. There is no cause that speaks of the value itself: a slow run is a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The machine died or could not be started.
    MachineDied,
    /// The workload or the tracer failed: there is no value.
    Failed,
    /// It was ended at its time limit.
    TimedOut,
    /// The procedure itself was killed, or the host went down, while it ran.
    Interrupted,
    /// The load generator was the limit, not what it loads.
    GeneratorLimited,
    /// The cache was not in the state that was asked for.
    CacheUnverified,
    /// The tracer lost events: it did less than the arm says.
    LostEvents,
    /// The clock was stepped, or its source changed.
    ClockChanged,
    /// The machine was throttled (temperature, power, a control group's quota), as a counter says.
    Throttled,
    /// More CPU time was stolen than the plan allows, as the kernel counts it.
    Stolen,
    /// The machine was not what it was before: memory, CPUs, binaries, accelerator.
    Different,
    /// The sentinel says that the machine was not yet in its steady state.
    WarmUp,
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::MachineDied => "the machine died",
            Self::Failed => "it failed",
            Self::TimedOut => "it exceeded its time limit",
            Self::Interrupted => "it was interrupted",
            Self::GeneratorLimited => "the load generator was the limiter",
            Self::CacheUnverified => "the cache state was not the requested one",
            Self::LostEvents => "events were lost",
            Self::ClockChanged => "the clock was set during the run",
            Self::Throttled => "the CPU was throttled",
            Self::Stolen => "CPU time was stolen",
            Self::Different => "the machine differed",
            Self::WarmUp => "the machine was warming up",
        })
    }
}

/// Why a value does not count, as recorded when it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// As a word.
    pub cause: Cause,
    /// The evidence: which counter said what.
    pub evidence: String,
}

/// What became of one cell in one block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The metric's value; stays when it is excluded, for people to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusion: Option<Exclusion>,
}

impl Entry {
    /// The value, if it counts.
    #[must_use]
    pub fn counted(&self) -> Option<f64> {
        self.value.filter(|_| self.exclusion.is_none())
    }
}

/// One block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// By cell.
    pub entries: BTreeMap<String, Entry>,
    /// What a small fixed piece of work took, in the order it was run; any unit, the same in all blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentinels: Vec<f64>,
}

/// Everything measured of one metric per cell. (A second metric of the same runs is a second ledger with the same
/// layout.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    layout: Layout,
    blocks: BTreeMap<u32, Block>,
}

impl Ledger {
    /// Nothing yet.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, blocks: BTreeMap::new() }
    }

    /// The plan's cells and contrasts.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The blocks by number.
    #[must_use]
    pub fn blocks(&self) -> &BTreeMap<u32, Block> {
        &self.blocks
    }

    /// Takes a value in.
    ///
    /// # Errors
    /// An unknown cell; a cell that has a value in this block; a value of which no ratio can be formed (zero,
    /// negative, not finite).
    pub fn record(&mut self, block: u32, cell: &str, value: f64) -> Result<(), Refusal> {
        self.layout.find(cell)?;
        let what = || format!("value of {cell} in block {block}");
        if !(value.is_finite() && value > 0.0) {
            let why = format!("{value} cannot be part of a ratio");
            return Err(Refusal::new(Kind::Senseless, what(), why));
        }
        let entry = self.entry(block, cell);
        if let Some(known) = entry.value {
            return Err(Refusal::new(
                Kind::Plan,
                what(),
                format!("the cell already has a value: {known}"),
            ));
        }
        entry.value = Some(value);
        Ok(())
    }

    /// Says why a cell's value in a block does not count. The first cause stays.
    ///
    /// # Errors
    /// An unknown cell.
    pub fn exclude(&mut self, block: u32, cell: &str, exclusion: Exclusion) -> Result<(), Refusal> {
        self.layout.find(cell)?;
        self.entry(block, cell).exclusion.get_or_insert(exclusion);
        Ok(())
    }

    /// Takes in what the sentinel took, before, between or behind the cells of a block.
    ///
    /// # Errors
    /// As of [`Ledger::record`].
    pub fn sentinel(&mut self, block: u32, value: f64) -> Result<(), Refusal> {
        if !(value.is_finite() && value > 0.0) {
            let what = format!("sentinel of block {block}");
            return Err(Refusal::new(
                Kind::Senseless,
                what,
                format!("{value} cannot be part of a ratio"),
            ));
        }
        self.blocks.entry(block).or_default().sentinels.push(value);
        Ok(())
    }

    /// Has the cell a value or a reason for having none?
    #[must_use]
    pub fn is_done(&self, block: u32, cell: &str) -> bool {
        self.blocks.get(&block).is_some_and(|block| block.entries.contains_key(cell))
    }

    /// The sentinels of all blocks in their order, each with its block's number.
    pub fn sentinels(&self) -> impl Iterator<Item = (u32, f64)> {
        self.blocks.iter().flat_map(|(at, block)| block.sentinels.iter().map(|value| (*at, *value)))
    }

    /// Excludes the blocks in which the machine was warming up, as far as the sentinels say so (see
    /// [`warm_up`]), and says how many these are. To be called when all blocks are run: it is asked of the
    /// whole sequence.
    pub fn exclude_warm_up(&mut self) -> usize {
        let sentinels: Vec<(u32, f64)> = self.sentinels().collect();
        let values: Vec<f64> = sentinels.iter().map(|(_, value)| *value).collect();
        let Some(head) = warm_up(&values) else { return 0 };
        let last = sentinels[head.length - 1].0;
        let exclusion = Exclusion {
            cause: Cause::WarmUp,
            evidence: format!(
                "the first {} of {} sentinels differ (p = {})",
                head.length,
                values.len(),
                head.p
            ),
        };
        let warming = self.blocks.range_mut(..=last);
        warming
            .map(|(_, block)| {
                for entry in block.entries.values_mut() {
                    entry.exclusion.get_or_insert_with(|| exclusion.clone());
                }
            })
            .count()
    }

    /// The logarithms of `cell / base` in cost, by block, where both have a value that counts.
    pub(super) fn log_ratios(&self, cell: &str, base: &str, up_to: u32) -> Vec<(u32, f64)> {
        let (Some(over), Some(under)) = (self.layout.cell(cell), self.layout.cell(base)) else {
            return Vec::new();
        };
        self.blocks
            .range(..=up_to)
            .filter_map(|(at, block)| {
                let value = |id: &str| block.entries.get(id).and_then(Entry::counted);
                Some((*at, over.log_cost(value(cell)?) - under.log_cost(value(base)?)))
            })
            .collect()
    }

    fn entry(&mut self, block: u32, cell: &str) -> &mut Entry {
        let entries = &mut self.blocks.entry(block).or_default().entries;
        entries.entry(cell.to_owned()).or_default()
    }
}
