//! Groups of rows with a way: what they have in common, and a line for each stage.

use super::grid::{Column, Grid, left, right};
use super::{Page, count, counted, share};
use crate::lines::{StageSums, WaySums};
use std::io;

/// The explanation behind the heading.
pub(super) const STAGE: &str = "a stage lasts from one event to the next that is known";

/// How such rows are named.
pub(super) struct Words {
    /// One of them.
    pub(super) one: &'static str,
    /// Several of them.
    pub(super) several: &'static str,
    /// What those that have no length are.
    pub(super) unfinished: &'static str,
    /// The machines whose events are joined.
    pub(super) joined: &'static str,
}

/// A group of such rows.
pub(super) struct Group<'r> {
    /// Its name.
    pub(super) of: String,
    /// How many there are.
    pub(super) count: u64,
    /// How many have no length.
    pub(super) unfinished: u64,
    /// The columns on all that have one.
    pub(super) way: &'r WaySums,
    /// The stages.
    pub(super) stages: Vec<&'r StageSums>,
}

const fn columns(several: &'static str) -> [Column; 9] {
    [
        left("stage"),
        right(several).expendable(3),
        right("of their time"),
        right("p50"),
        right("p90").expendable(4),
        right("p99"),
        right("p99.9").expendable(2),
        right("max").expendable(1),
        right("of the slowest 1 %"),
    ]
}

impl Page<'_> {
    pub(super) fn ways(&mut self, words: &Words, group: &Group<'_>) -> io::Result<()> {
        let Group { of, way, .. } = group;
        let ended = group.count - group.unfinished;
        let mut title = format!("{of}: {}", counted(group.count, words.one));
        if group.unfinished > 0 {
            title += &format!(", {} {}", count(group.unfinished), words.unfinished);
        }
        if ended > 0 {
            title += &format!(
                "; p50 {}, p99 {}, p99.9 {}, max {}",
                self.ns_or_dash(way.p50_ns),
                self.ns_or_dash(way.p99_ns),
                self.ns_or_dash(way.p999_ns),
                self.ns_or_dash(way.max_ns)
            );
        }
        self.paragraph(&title)?;
        if ended == 0 {
            return Ok(());
        }
        let joined = way.by_id + way.by_context + way.by_order;
        if joined > 0 {
            let of = |part: u64| share(part.cast_signed(), joined.cast_signed());
            let (id, context, order) = (of(way.by_id), of(way.by_context), of(way.by_order));
            self.paragraph(&format!(
                "{} joined by id in {id}, by context in {context}, by order alone in {order}",
                words.joined
            ))?;
        }
        if !way.missing.is_empty() {
            let whole = share(way.with_all_stages.cast_signed(), ended.cast_signed());
            self.paragraph(&format!(
                "all stages known in {whole}; missing ({}): {}",
                words.several, way.missing
            ))?;
        }
        let mut grid = Grid::new(&columns(words.several));
        for stage in &group.stages {
            grid.row(self.stage_cells(stage, way));
        }
        self.grid(&grid)
    }

    fn stage_cells(&self, stage: &StageSums, way: &WaySums) -> Vec<String> {
        vec![
            stage.stage.clone(),
            count(stage.count),
            share(stage.total_ns, way.total_ns),
            self.ns_or_dash(stage.p50_ns),
            self.ns_or_dash(stage.p90_ns),
            self.ns_or_dash(stage.p99_ns),
            self.ns_or_dash(stage.p999_ns),
            self.ns_or_dash(stage.max_ns),
            share(stage.of_slowest_ns, way.slowest_ns),
        ]
    }
}
