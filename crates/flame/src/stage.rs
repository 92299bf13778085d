//! One stage of a group: its time by stack.

use crate::frame::NO_STACK;
use crate::samples::{Samples, StackKey};
use std::collections::{BTreeMap, HashMap};

/// The lengths of a stage are not those of a recording that transect wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lengths of the stage {stage} are negative, or their sum is no 64-bit time in ns: the tables are damaged"
)]
pub struct FlameError {
    /// The stage, as `issue..kick`.
    pub stage: String,
}

/// A stage of all rows of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFlame {
    /// The two events, as the columns of the table without `_ts`: `issue..kick`.
    pub name: String,
    /// The event with which the stage begins: `issue`.
    pub begin: &'static str,
    /// Number of rows that have the stage.
    pub rows: u64,
    /// Its length in all rows, ns.
    pub total_ns: i64,
    /// `None` if no stacks are taken at the event with which it begins.
    pub stacks: Option<StageStacks>,
}

/// The time of a stage by stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageStacks {
    /// Part of the stage's time in rows whose stack is known, ns.
    pub found_ns: i64,
    /// Each stack with its time, in the order of the text. The times add up to that of the stage.
    pub folded: Vec<FoldedStack>,
}

/// One stack with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedStack {
    /// Thread and frames, the outermost first, with a semicolon between them. The last frame is that of a kernel
    /// function, `[stack not kept]` or `[no stack]`.
    pub frames: String,
    /// Time, ns.
    pub ns: i64,
}

/// The sums of a stage while rows are added.
#[derive(Default)]
pub(crate) struct StageSums {
    rows: u64,
    total_ns: i64,
    /// By stack; `None` for rows without a sample.
    by_stack: HashMap<Option<StackKey>, i64>,
    has_event: bool,
}

impl StageSums {
    /// Adds the stage of one row. `stack` is `None` if no stacks are taken at its first event, and `Some(None)` if there is
    /// no sample of the event. Returns `None` if the length is negative or the sum overflows.
    pub(crate) fn add(&mut self, ns: i64, stack: Option<Option<StackKey>>) -> Option<()> {
        self.rows += 1;
        self.total_ns = self.total_ns.checked_add(ns).filter(|_| ns >= 0)?;
        if let Some(stack) = stack {
            self.has_event = true;
            // No part of a sum that did not overflow does.
            *self.by_stack.entry(stack).or_default() += ns;
        }
        Some(())
    }

    pub(crate) fn finish(
        self,
        name: String,
        begin: &'static str,
        samples: &Samples<'_>,
    ) -> StageFlame {
        let StageSums { rows, total_ns, by_stack, has_event } = self;
        let stacks = has_event.then(|| stacks_by_text(by_stack, samples));
        StageFlame { name, begin, rows, total_ns, stacks }
    }
}

/// Stacks with one text are one: threads of one name, or equal stacks with two numbers.
fn stacks_by_text(by_stack: HashMap<Option<StackKey>, i64>, samples: &Samples<'_>) -> StageStacks {
    let mut found_ns = 0;
    let mut by_text: BTreeMap<String, i64> = BTreeMap::new();
    for (stack, ns) in by_stack {
        let text = match stack {
            Some(key) => {
                found_ns += if samples.is_kept(key) { ns } else { 0 };
                samples.folded(key)
            }
            None => NO_STACK.to_owned(),
        };
        *by_text.entry(text).or_default() += ns;
    }
    let folded = by_text.into_iter().map(|(frames, ns)| FoldedStack { frames, ns }).collect();
    StageStacks { found_ns, folded }
}
