//! Block requests by stage.

use super::{names::Names, selection::Selection};
use crate::lines::{RequestLine, StageLine};
use crate::stats::Durations;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use transect_model::cause::Evidence;
use transect_model::event::BlockOp;
use transect_model::ids::{BlockDevice, MachineId};
use transect_model::stage::{Stage as Stretch, Staged as _};
use transect_model::table::IoRequest;

/// Two cuts, as places in the table's list of them.
type Stage = (usize, usize);

#[derive(Default)]
struct Group {
    /// Of each request that ended: how long it took, and where its stages are in `parts`.
    ended: Vec<(i64, usize)>,
    /// The stages of one request after another.
    parts: Vec<(Stage, i64)>,
    unfinished: u64,
    whole: u64,
    evidence: BTreeMap<Evidence, u64>,
    missing: BTreeMap<String, u64>,
}

type Key = (MachineId, BlockDevice, &'static str);

/// The requests to each device so far: the stages of each are kept, about 150 bytes a request, because order
/// statistics are exact.
#[derive(Default)]
pub(crate) struct RequestSums {
    groups: BTreeMap<Key, Group>,
}

impl RequestSums {
    /// Adds a request.
    pub(crate) fn request(&mut self, row: &IoRequest) {
        let group = self.groups.entry((row.machine_id, row.device, word(row.op))).or_default();
        let Some(dur) = row.dur else {
            group.unfinished += 1;
            return;
        };
        group.ended.push((dur, group.parts.len()));
        let parts = row.stages().map(|Stretch { from, to, ns, .. }| ((from, to), ns));
        group.parts.extend(parts);
        group.whole += u64::from(row.missing.is_empty());
        for name in row.missing.split(',').filter(|name| !name.is_empty()) {
            match group.missing.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(group.missing.insert(name.to_owned(), 1)),
            }
        }
        if let Some(evidence) = row.evidence {
            *group.evidence.entry(evidence).or_default() += 1;
        }
    }

    /// One line per machine, device and operation, and one for each stage of their requests.
    pub(crate) fn lines(
        self,
        names: &Names<'_>,
        selection: &Selection,
    ) -> (Vec<RequestLine>, Vec<StageLine>) {
        let (mut lines, mut stages) = (Vec::new(), Vec::new());
        for (key, group) in self.groups.into_iter().filter(|((id, ..), _)| selection.machine(*id)) {
            let of = group.stages();
            let slowest =
                of.iter().max_by_key(|(stage, sums)| (sums.of_slowest_ns, Reverse(**stage)));
            let tail_stage = slowest
                .filter(|(_, sums)| sums.of_slowest_ns > 0)
                .map(|((from, to), _)| IoRequest::stage_name(*from, *to));
            for (stage, sums) in &of {
                stages.push(stage_line(key, *stage, sums, names));
            }
            lines.push(group.line(key, tail_stage, names));
        }
        (lines, stages)
    }
}

fn word(op: BlockOp) -> &'static str {
    op.as_str()
}

/// One stage of the requests of a group.
#[derive(Default)]
struct StageSums {
    ns: Vec<i64>,
    of_slowest_ns: i64,
}

impl Group {
    /// How many are the slowest hundredth.
    fn slowest(&self) -> usize {
        self.ended.len().div_ceil(100)
    }

    fn stages(&self) -> BTreeMap<Stage, StageSums> {
        let mut order: Vec<usize> = (0..self.ended.len()).collect();
        order.sort_by_key(|at| (Reverse(self.ended[*at].0), *at));
        let slowest = self.slowest();
        let mut stages: BTreeMap<Stage, StageSums> = BTreeMap::new();
        for (rank, at) in order.into_iter().enumerate() {
            let begin = self.ended[at].1;
            let end = self.ended.get(at + 1).map_or(self.parts.len(), |next| next.1);
            for (stage, ns) in &self.parts[begin..end] {
                let sums = stages.entry(*stage).or_default();
                sums.ns.push(*ns);
                if rank < slowest {
                    sums.of_slowest_ns += ns;
                }
            }
        }
        stages
    }

    fn line(
        self,
        (machine_id, device, op): Key,
        tail_stage: Option<String>,
        names: &Names<'_>,
    ) -> RequestLine {
        let slowest = self.slowest() as u64;
        let by = |evidence| self.evidence.get(&evidence).copied().unwrap_or(0);
        let missing: Vec<String> =
            self.missing.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let whole = Durations::new(self.ended.iter().map(|(dur, _)| *dur).collect());
        let slowest_ns = whole.longest(self.slowest());
        RequestLine {
            machine_id,
            machine: names.machine(machine_id),
            device: device.to_string(),
            op: op.to_owned(),
            count: self.ended.len() as u64 + self.unfinished,
            unfinished: self.unfinished,
            with_all_stages: self.whole,
            missing: missing.join(", "),
            by_id: by(Evidence::Id),
            by_context: by(Evidence::Context),
            by_order: by(Evidence::Order),
            total_ns: whole.total(),
            p50_ns: whole.quantile(50),
            p90_ns: whole.quantile(90),
            p99_ns: whole.quantile(99),
            p999_ns: whole.quantile_of_1000(999),
            max_ns: whole.max(),
            slowest,
            slowest_ns,
            tail_stage,
        }
    }
}

fn stage_line(
    (machine_id, device, op): Key,
    (from, to): Stage,
    sums: &StageSums,
    names: &Names<'_>,
) -> StageLine {
    let ns = Durations::new(sums.ns.clone());
    StageLine {
        machine_id,
        machine: names.machine(machine_id),
        device: device.to_string(),
        op: op.to_owned(),
        stage: IoRequest::stage_name(from, to),
        count: sums.ns.len() as u64,
        total_ns: ns.total(),
        p50_ns: ns.quantile(50),
        p90_ns: ns.quantile(90),
        p99_ns: ns.quantile(99),
        p999_ns: ns.quantile_of_1000(999),
        max_ns: ns.max(),
        of_slowest_ns: sums.of_slowest_ns,
    }
}
