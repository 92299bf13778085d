//! Every row has exactly one entry, every entry has rows, and every word of ours exists.

use super::super::{candidates, claims, map::Relation, papers};
use std::collections::BTreeSet;
use transect_bench_platforms as platforms;
use transect_bench_report::Report;
use transect_bench_run::plan;
use transect_bench_tracers as tracers;
use transect_bench_workloads as workloads;

#[test]
fn every_row_has_exactly_one_entry() {
    for paper in papers::all().unwrap() {
        for row in paper.rows.iter().filter(|row| row.flag.is_empty()) {
            paper.map.entry(row).unwrap();
        }
    }
}

#[test]
fn every_entry_and_every_reason_is_of_use() {
    for paper in papers::all().unwrap() {
        let open: Vec<_> = paper.rows.iter().filter(|row| row.flag.is_empty()).collect();
        for entry in &paper.map.entry {
            let is_used = open.iter().any(|row| std::ptr::eq(paper.map.entry(row).unwrap(), entry));
            assert!(is_used, "{}: no row is what this is about: {entry:?}", paper.name);
            assert!(entry.why.is_some() != entry.relation.is_some(), "{}: {entry:?}", paper.name);
        }
        let given: BTreeSet<&String> =
            paper.map.entry.iter().filter_map(|entry| entry.why.as_ref()).collect();
        let known: BTreeSet<&String> = paper.map.reasons.keys().collect();
        assert_eq!(given, known, "{}: reasons", paper.name);
    }
}

#[test]
fn every_row_can_be_judged_without_a_fault() {
    let report = Report::default();
    for paper in papers::all().unwrap() {
        for row in &paper.rows {
            claims::row(&paper, row, &[&report]).unwrap();
        }
    }
}

/// Names of platforms, arms, workloads, cache states and parameters are those of the registries. A registry that is empty
/// is not asked: nobody is in it yet.
#[test]
fn every_word_of_ours_exists() {
    let platforms: BTreeSet<_> = platforms::registry().iter().map(|one| one.name()).collect();
    let arms: BTreeSet<_> = tracers::registry().iter().map(|one| one.name()).collect();
    let abouts: Vec<_> = workloads::registry().iter().map(|one| one.about()).collect();
    for paper in papers::all().unwrap() {
        for row in paper.rows.iter().filter(|row| row.flag.is_empty()) {
            let entry = paper.map.entry(row).unwrap();
            let asks_cells =
                entry.relation.is_some_and(|relation| relation != Relation::MostSpreads);
            if !asks_cells {
                continue;
            }
            let words = candidates::Words::of(&paper, row, entry).unwrap();
            for pair in candidates::pairs(&paper, &words, entry.against).concat() {
                for cell in [&pair.cell, &pair.reference] {
                    let said = format!("{} {}: {cell}", paper.name, row.table);
                    let is_known = |all: &BTreeSet<&'static str>, word: &str| {
                        all.is_empty() || all.contains(word)
                    };
                    assert!(is_known(&platforms, &cell.platform), "{said}: platform");
                    assert!(is_known(&arms, &cell.tracer), "{said}: tracer");
                    check_workload(&abouts, cell, &pair.params, &said);
                }
            }
        }
        let bare = paper.map.bare.iter().flat_map(|(name, bare)| bare.iter().chain([name]));
        for name in bare.chain(paper.map.entry.iter().flat_map(|entry| &entry.on)) {
            assert!(platforms.is_empty() || platforms.contains(name.as_str()), "{name}");
        }
    }
}

fn check_workload(
    abouts: &[transect_bench_core::About],
    cell: &plan::Cell,
    params: &plan::Params,
    said: &str,
) {
    if abouts.is_empty() {
        return;
    }
    let about = abouts.iter().find(|about| about.name == cell.group.workload);
    let about = about.unwrap_or_else(|| panic!("{said}: workload"));
    let cache = cell.group.cache;
    assert!(about.caches.contains(&cache), "{said}: cache {cache:?}, it has {:?}", about.caches);
    for name in params.keys() {
        assert!(about.params.iter().any(|(known, ..)| known == name), "{said}: parameter {name}");
    }
}

/// The plans that it takes to speak to the papers.
const PLANS: [&str; 5] = [
    "published.toml",
    "published-xen.toml",
    "published-guests.toml",
    "published-tar.toml",
    "published-network.toml",
];

/// The plans measure what they are for: each row that cells speak to, but for the numbers of threads that a plan has not (its text
/// says to change it).
#[test]
fn every_row_that_cells_speak_to_is_in_a_plan() {
    if !is_complete() {
        eprintln!("skipped: the registries are not filled yet");
        return;
    }
    let plans: Vec<(plan::Plan, Vec<plan::Cell>)> = PLANS
        .iter()
        .map(|name| {
            let plan = read(name);
            let cells = plan.cells().unwrap();
            (plan, cells)
        })
        .collect();
    let has = |pair: &candidates::Candidate| {
        plans.iter().any(|(plan, cells)| {
            let params = plan.job(&pair.cell, String::new()).params;
            cells.contains(&pair.cell)
                && cells.contains(&pair.reference)
                && pair.params.iter().all(|(name, value)| params.get(name) == Some(value))
        })
    };
    for paper in papers::all().unwrap() {
        for row in paper.rows.iter().filter(|row| row.flag.is_empty()) {
            let entry = paper.map.entry(row).unwrap();
            let asks_cells =
                entry.relation.is_some_and(|relation| relation != Relation::MostSpreads);
            if !asks_cells || row.params.starts_with("threads=") && row.params != "threads=4" {
                continue;
            }
            let words = candidates::Words::of(&paper, row, entry).unwrap();
            for pairs in candidates::pairs(&paper, &words, entry.against) {
                let said = format!("{} {}: {}", paper.name, row.table, row.label());
                assert!(pairs.iter().any(has), "{said}: no plan has one of {pairs:?}");
            }
        }
    }
}

fn is_complete() -> bool {
    !platforms::registry().is_empty()
        && !tracers::registry().is_empty()
        && !workloads::registry().is_empty()
}

fn read(name: &str) -> plan::Plan {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plans");
    plan::Plan::parse(&std::fs::read_to_string(folder.join(name)).unwrap(), name).unwrap()
}

/// The plans parse, and once there are registries, everything in them exists.
#[test]
fn the_plans_are_plans() {
    for name in PLANS {
        let plan = read(name);
        assert_eq!(format!("{}.toml", plan.name), name);
        if is_complete() {
            plan.cells().unwrap();
        }
    }
}
