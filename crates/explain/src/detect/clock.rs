//! What the recording cannot tell: lost events, and clocks that do not fit.

use super::finding::{Confidence, Detail, Detector, Finding, Range, reaches};
use crate::{blame::Party, rows::is_late};
use std::collections::BTreeMap;
use transect_model::{
    ids::{CpuId, MachineId},
    table::Tables,
};

/// Holes of this share of the range are worth a word.
const LOST_PERCENT: i64 = 1;

/// The holes of one CPU, and the number of events that are counted as lost in them.
type Holes = (Vec<(i64, i64)>, u64);

pub(super) fn find(tables: &Tables, range: Range) -> Vec<Finding> {
    let mut holes: BTreeMap<MachineId, BTreeMap<Option<CpuId>, Holes>> = BTreeMap::new();
    // What was not recorded yet is not lost.
    for row in tables.lost.iter().filter(|row| !is_late(&row.cause)) {
        let (from, until) =
            (row.ts.max(range.from), row.ts.saturating_add(row.dur).min(range.until));
        if from < until {
            let cpus = holes.entry(row.machine_id).or_default();
            let (spans, count) = cpus.entry(row.cpu).or_default();
            spans.push((from, until));
            *count += row.count.unwrap_or(0);
        }
    }
    let mut found = Vec::new();
    for (machine, cpus) in holes {
        let count = cpus.values().map(|(_, count)| count).sum();
        // The CPU that misses most; what is missing of the whole machine is missing of each.
        let held = cpus.into_values().map(|(spans, _)| length(spans)).max().unwrap_or(0);
        if reaches(held, LOST_PERCENT, range.length()) {
            found.push(Finding {
                detector: Detector::Lost,
                subject: Party::Machine(machine),
                held_ns: held,
                of_ns: range.length(),
                count,
                confidence: Confidence::Certain,
                detail: Detail::None,
            });
        }
    }
    for check in tables.clock_check.iter().filter(|check| check.outside > 0) {
        found.push(Finding {
            detector: Detector::Clock,
            subject: Party::Machine(check.machine_id),
            held_ns: 0,
            of_ns: range.length(),
            count: check.outside,
            confidence: Confidence::Certain,
            detail: Detail::Distance(check.worst_ns),
        });
    }
    found
}

/// How long spans are together, each moment once.
fn length(mut spans: Vec<(i64, i64)>) -> i64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, i64::MIN);
    for (from, until) in spans {
        sum += (until - from.max(reached)).max(0);
        reached = reached.max(until);
    }
    sum
}
