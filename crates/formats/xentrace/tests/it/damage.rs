//! Ranges that checksums call damaged: no record is made up, and none is missing without a hole.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::single_range_in_vec_init,
    reason = "test code over small files"
)]

use proptest::prelude::*;
use std::ops::Range;
use transect_xentrace::{
    Record, XenTrace, XenVersion,
    synthetic::{self, Spec},
};

fn small() -> Vec<u8> {
    let spec = Spec { records: 600, cpus: 3, domains: 4, window_bytes: 500, ..Spec::default() };
    synthetic::write(Vec::new(), &spec).unwrap().0
}

/// What a record is, without a stamp that it only inherits.
fn known(record: &Record<'_>) -> (u64, u32, Option<u64>, Vec<u8>) {
    let tsc = record.stamped.then_some(record.tsc);
    (record.at_bytes, record.event, tsc, record.extra.to_vec())
}

fn check(whole: &[u8], damaged: &[u8], damage: &[Range<u64>]) -> Result<(), TestCaseError> {
    let expected = XenTrace::parse(whole, XenVersion::Unknown).unwrap();
    let trace = XenTrace::parse_around(damaged, XenVersion::Unknown, damage).unwrap();
    for cpu in trace.cpus() {
        let written: Vec<_> = expected.stream(cpu).map(|record| known(&record)).collect();
        let mut left = written.into_iter();
        let stretches = trace.stretches(cpu);
        prop_assert!(!stretches.is_empty());
        for (number, windows) in stretches.into_iter().enumerate() {
            let mut in_hole = number > 0;
            for record in trace.stream_of_stretch(cpu, windows) {
                let given = known(&record);
                let skipped = left.by_ref().take_while(|record| *record != given).count();
                prop_assert!(skipped == 0 || in_hole, "{skipped} records missing before {given:?}");
                in_hole = false;
            }
        }
    }
    // Each CPU that has lost records ends with a stretch of its own, if they are its last.
    for cpu in trace.cpus() {
        let last = expected.stream(cpu).last().map(|record| known(&record));
        let stretches = trace.stretches(cpu);
        let end = stretches.last().cloned().unwrap();
        let given = trace.stream_of_stretch(cpu, end.clone()).last().map(|record| known(&record));
        prop_assert!(given == last || end.is_empty() && stretches.len() > 1, "CPU {cpu:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damage_is_a_hole(
        blocks in prop::collection::btree_set(0..40_u64, 1..4), garbage in any::<u8>(), bytes in 64..900_u64,
    ) {
        let whole = small();
        let (end, mut damaged) = (whole.len() as u64, whole.clone());
        let mut damage: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            let range = block * bytes..((block + 1) * bytes).min(end);
            if range.start >= end {
                continue;
            }
            damaged[range.start as usize..range.end as usize].fill(garbage);
            match damage.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => damage.push(range),
            }
        }
        check(&whole, &damaged, &damage)?;
    }

    #[test]
    fn a_cut_is_a_hole(part in 0..1000_u64) {
        let whole = small();
        let end = whole.len() as u64;
        let at = end * part / 1000;
        check(&whole, &whole[..at as usize], &[at..end])?;
    }
}
