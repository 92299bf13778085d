//! Rows with a way: how long each stage takes, and which is slow in the slowest rows.

use crate::lines::{StageSums, WaySums};
use crate::stats::Durations;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use transect_model::cause::Evidence;
use transect_model::stage::{Stage, Staged};

/// Two cuts, as places in the table's list of them.
type Cuts = (usize, usize);

/// One stage of one row.
#[derive(Clone, Copy)]
struct Part {
    ns: i64,
    /// The row, as a place in `ended`.
    of: usize,
}

/// The rows of a group: the stages of each are kept, about 16 bytes a stage, because order statistics
/// are exact.
pub(super) struct Ways<R> {
    /// The lengths of the ways that have an end.
    ended: Vec<i64>,
    parts: BTreeMap<Cuts, Vec<Part>>,
    unfinished: u64,
    whole: u64,
    evidence: BTreeMap<Evidence, u64>,
    missing: BTreeMap<String, u64>,
    of: PhantomData<R>,
}

impl<R> Default for Ways<R> {
    fn default() -> Self {
        Ways {
            ended: Vec::new(),
            parts: BTreeMap::new(),
            unfinished: 0,
            whole: 0,
            evidence: BTreeMap::new(),
            missing: BTreeMap::new(),
            of: PhantomData,
        }
    }
}

impl<R: Staged> Ways<R> {
    /// Adds a row, with three of its columns.
    pub(super) fn add(
        &mut self,
        row: &R,
        dur: Option<i64>,
        missing: &str,
        evidence: Option<Evidence>,
    ) {
        let Some(dur) = dur else {
            self.unfinished += 1;
            return;
        };
        let of = self.ended.len();
        self.ended.push(dur);
        for Stage { from, to, ns, .. } in row.stages() {
            self.parts.entry((from, to)).or_default().push(Part { ns, of });
        }
        self.whole += u64::from(missing.is_empty());
        for name in missing.split(',').filter(|name| !name.is_empty()) {
            match self.missing.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.missing.insert(name.to_owned(), 1)),
            }
        }
        if let Some(evidence) = evidence {
            *self.evidence.entry(evidence).or_default() += 1;
        }
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> u64 {
        self.ended.len() as u64 + self.unfinished
    }

    /// How many of them have no end.
    pub(super) fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// The columns of the group, and those of each of its stages.
    pub(super) fn sums(self) -> (WaySums, Vec<StageSums>) {
        let slowest = self.ended.len().div_ceil(100);
        let is_slow = self.find_slowest(slowest);
        let mut stages = Vec::new();
        let mut tail: Option<(i64, Cuts)> = None;
        for (cuts, parts) in &self.parts {
            let of_slowest = parts.iter().filter(|part| is_slow[part.of]);
            let of_slowest_ns = of_slowest.map(|part| part.ns).sum();
            if of_slowest_ns > tail.map_or(0, |(most, _)| most) {
                tail = Some((of_slowest_ns, *cuts));
            }
            stages.push(stage_sums::<R>(*cuts, parts, of_slowest_ns));
        }
        let by = |evidence| self.evidence.get(&evidence).copied().unwrap_or(0);
        let missing: Vec<String> =
            self.missing.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (by_id, by_context, by_order) =
            (by(Evidence::Id), by(Evidence::Context), by(Evidence::Order));
        let whole = Durations::new(self.ended);
        let sums = WaySums {
            with_all_stages: self.whole,
            missing: missing.join(", "),
            by_id,
            by_context,
            by_order,
            total_ns: whole.total(),
            p50_ns: whole.quantile(50),
            p90_ns: whole.quantile(90),
            p99_ns: whole.quantile(99),
            p999_ns: whole.quantile_of_1000(999),
            max_ns: whole.max(),
            slowest: slowest as u64,
            slowest_ns: whole.longest(slowest),
            tail_stage: tail.map(|(_, (from, to))| R::stage_name(from, to)),
        };
        (sums, stages)
    }

    /// Of each row that ended: is it one of the slowest?
    fn find_slowest(&self, slowest: usize) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.ended.len()).collect();
        order.sort_by_key(|at| (Reverse(self.ended[*at]), *at));
        let mut is_slow = vec![false; self.ended.len()];
        order.iter().take(slowest).for_each(|at| is_slow[*at] = true);
        is_slow
    }
}

fn stage_sums<R: Staged>((from, to): Cuts, parts: &[Part], of_slowest_ns: i64) -> StageSums {
    let ns = Durations::new(parts.iter().map(|part| part.ns).collect());
    StageSums {
        stage: R::stage_name(from, to),
        count: parts.len() as u64,
        total_ns: ns.total(),
        p50_ns: ns.quantile(50),
        p90_ns: ns.quantile(90),
        p99_ns: ns.quantile(99),
        p999_ns: ns.quantile_of_1000(999),
        max_ns: ns.max(),
        of_slowest_ns,
    }
}
