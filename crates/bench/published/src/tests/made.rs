//! Reports made up for the tests.

use std::collections::BTreeMap;
use transect_bench_core::{Better, CacheState, Unit};
use transect_bench_report::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Verdict,
};
use transect_bench_run::plan::{Cell, Group, Label};

pub(super) fn cell(workload: &str, cache: CacheState, platform: &str, tracer: &str) -> Cell {
    let group = Group { workload: workload.to_owned(), cache, guests: 1 };
    Cell { group, platform: platform.to_owned(), tracer: tracer.to_owned() }
}

pub(super) fn of_guests(cell: Cell, guests: u32) -> Cell {
    Cell { group: Group { guests, ..cell.group }, ..cell }
}

/// A comparison of times: ratio, half-width, over ten blocks.
pub(super) fn compared(cell: &Cell, reference: &Cell, ratio: f64, half: f64) -> Comparison {
    let estimate = Estimate {
        ratio,
        low: ratio / (1.0 + half),
        high: ratio * (1.0 + half),
        confidence: 0.97,
        blocks: 10,
    };
    Comparison {
        contrast: Contrast::Tracer,
        cell: cell.clone(),
        reference: reference.clone(),
        family: "cpu".to_owned(),
        better: Better::Less,
        ratios: (0..10).map(|block| (block, ratio)).collect(),
        estimate: Some(estimate),
        floor: Some(0.001),
        verdict: Verdict::Worse,
        p_corrected: Some(0.01),
    }
}

/// A cell with these values.
pub(super) fn measured(cell: &Cell, values: &[f64]) -> ReportedCell {
    let point = |(block, value): (u32, &f64)| Point {
        block,
        label: Label::First,
        value: *value,
        unix_ns: 0,
        excluded: Vec::new(),
    };
    ReportedCell {
        distributions: std::collections::BTreeMap::new(),
        cell: cell.clone(),
        family: "disk".to_owned(),
        metric: "time".to_owned(),
        unit: Unit::Seconds,
        better: Better::Less,
        points: (0..).zip(values).map(point).collect(),
        median: None,
        quartiles: None,
        others: BTreeMap::new(),
        limiter: None,
        tracer: None,
        lossy_runs: 0,
    }
}

pub(super) fn platform(name: &str, emulated: &[&str]) -> ReportedPlatform {
    ReportedPlatform {
        name: name.to_owned(),
        emulated: emulated.iter().map(|&what| what.to_owned()).collect(),
        ..ReportedPlatform::default()
    }
}

pub(super) fn report(comparisons: Vec<Comparison>) -> Report {
    Report { comparisons, ..Report::default() }
}
