//! Threads for which the kernel reclaims memory, while they wait for it to allocate.

use super::{
    cpu::subject,
    finding::{Confidence, Detail, Detector, Finding, Range},
    rules,
};
use crate::{blame::Party, piece::Actor, rows::Rows};
use std::collections::BTreeMap;

#[derive(Default)]
struct Sums {
    count: u64,
    held: i64,
    lived: i64,
}

pub(super) fn find(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<Party, Sums> = BTreeMap::new();
    for (thread, count, held) in rows.reclaimers(range.from, range.until) {
        let sums = all.entry(subject(rows, thread)).or_default();
        sums.count += count;
        sums.held += held;
        let span = rows.span(Actor::Thread(thread));
        sums.lived += span.map_or(held, |span| range.of(span)).max(held);
    }
    let worth = all.into_iter().filter(|(_, s)| rules::is_reclaiming(s.held, s.lived));
    let finding = |(subject, sums): (Party, Sums)| Finding {
        detector: Detector::Reclaim,
        subject,
        held_ns: sums.held,
        of_ns: sums.lived,
        count: sums.count,
        confidence: Confidence::Certain,
        detail: Detail::None,
    };
    worth.map(finding).collect()
}
