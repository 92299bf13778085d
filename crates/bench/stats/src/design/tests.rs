use super::{
    compare::{Basis, ResultSet, Terms, compare},
    gate::{Gate, Outcome},
    *,
};
use crate::statistics::random::Random;
use std::collections::BTreeMap;
use transect_bench_core::{Better, CacheState, Family, Kind};

fn cell(platform: &str, workload: &str, arm: &str) -> Cell {
    Cell {
        platform: platform.into(),
        workload: workload.into(),
        ..Cell::new(format!("{platform}/{workload}/{arm}"), arm, Family::Cpu, Better::Less)
    }
}

fn reference() -> Reference {
    Reference { arm: "none".into(), platform: Some("native".into()) }
}

fn layout() -> Layout {
    let mut cells = Vec::new();
    for platform in ["native", "tcg"] {
        for arm in ["none", "perf"] {
            cells.push(cell(platform, "tar", arm));
        }
    }
    Layout::new(cells, &reference()).unwrap()
}

/// Each block another level; every cell its cost in it, and a little noise.
fn fill(
    ledger: &mut Ledger,
    blocks: std::ops::Range<u32>,
    noise: f64,
    cost: impl Fn(&Cell) -> f64,
) {
    let cells = ledger.layout().cells().to_vec();
    for block in blocks {
        let mut random = Random::stream(5, u64::from(block));
        let level = (0.3 * random.normal()).exp();
        for cell in &cells {
            let costs = level * cost(cell) * (noise * random.normal()).exp();
            let value = if cell.better == Better::Less { costs } else { 1.0 / costs };
            ledger.record(block, &cell.id, value).unwrap();
        }
    }
}

fn cost(cell: &Cell) -> f64 {
    let platform = if cell.platform == "tcg" { 8.0 } else { 1.0 };
    platform * if cell.arm == "perf" { 1.1 } else { 1.0 }
}

fn filled(blocks: u32) -> Ledger {
    let mut ledger = Ledger::new(layout());
    fill(&mut ledger, 0..blocks, 0.003, cost);
    ledger
}

#[test]
fn every_group_has_its_reference_twice_and_every_arm_is_compared_with_it() {
    let layout = layout();
    let ids: Vec<&str> = layout.ids().collect();
    assert_eq!(ids.iter().filter(|id| id.ends_with("~again")).count(), 2);
    let relations = |relation| {
        let contrasts = layout.contrasts().iter().filter(move |c| c.relation == relation);
        contrasts.map(|c| (c.cell.as_str(), c.base.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(
        relations(Relation::Arm),
        [("native/tar/perf", "native/tar/none"), ("tcg/tar/perf", "tcg/tar/none")]
    );
    assert_eq!(relations(Relation::Platform), [("tcg/tar/none", "native/tar/none")]);
    assert_eq!(relations(Relation::Again).len(), 2);
}

#[test]
fn layouts_without_a_base_or_with_two_of_a_name_are_refused() {
    let lonely = Layout::new(vec![cell("native", "tar", "perf")], &reference()).unwrap_err();
    assert_eq!(lonely.kind, Kind::NoReference);
    let twice = vec![cell("native", "tar", "none"), cell("native", "tar", "none")];
    assert_eq!(Layout::new(twice, &reference()).unwrap_err().kind, Kind::Plan);
    let two = [cell("native", "tar", "none"), cell("native", "zstd", "none")];
    let mut layout = Layout::new(two.to_vec(), &reference()).unwrap();
    let error = layout.add("native/tar/none", "native/zstd/none").unwrap_err();
    assert_eq!(error.kind, Kind::Senseless);
    assert_eq!(layout.add("native/tar/none", "nobody").unwrap_err().kind, Kind::Plan);
}

#[test]
fn what_the_blocks_have_in_common_cancels() {
    let summary = summarise(&filled(12), &Goal::fixed(12));
    let found = |cell: &str, base: &str| {
        let all = summary.contrasts.iter();
        all.clone().find(|c| c.contrast.cell == cell && c.contrast.base == base).unwrap()
    };
    let perf = found("tcg/tar/perf", "tcg/tar/none");
    assert_eq!(perf.verdict, Verdict::Slower);
    assert!(perf.estimate.low.unwrap() < 1.1 && perf.estimate.high.unwrap() > 1.1);
    assert!(perf.estimate.half_width().unwrap() < 0.005, "the level changes by 30 %");
    assert!((perf.relative.unwrap().lttng_percent - 90.0).abs() < 0.5);
    assert!((perf.relative.unwrap().speed_percent - 90.9).abs() < 0.5);
    let (low, high) = perf.estimate.check.unwrap();
    assert!(low < 1.1 && high > 1.1);
    let platform = found("tcg/tar/none", "native/tar/none");
    assert_eq!(platform.verdict, Verdict::Slower);
    assert!(platform.floor.unwrap().ratio < 1.01);
    assert!(matches!(
        found("native/tar/none~again", "native/tar/none").verdict,
        Verdict::NotResolved(_)
    ));
    assert!(summary.refusals.is_empty());
}

#[test]
fn a_rate_is_slower_when_it_is_lower() {
    let rate = |arm| Cell { better: Better::More, ..cell("native", "pgbench", arm) };
    let mut ledger =
        Ledger::new(Layout::new(vec![rate("none"), rate("perf")], &reference()).unwrap());
    fill(&mut ledger, 0..10, 0.003, cost);
    let summary = summarise(&ledger, &Goal::fixed(10));
    let perf = summary.contrasts.iter().find(|c| c.contrast.relation == Relation::Arm).unwrap();
    assert_eq!(perf.verdict, Verdict::Slower);
    let relative = perf.relative.unwrap();
    assert_eq!(relative.lttng_percent, relative.speed_percent);
    assert!((relative.speed_percent - 90.9).abs() < 0.5);
}

#[test]
fn five_blocks_are_points() {
    let summary = summarise(&filled(5), &Goal::fixed(5));
    for found in &summary.contrasts {
        assert_eq!(found.verdict, Verdict::TooFew);
        assert_eq!(
            (found.estimate.low, found.estimate.p, found.estimate.points.len()),
            (None, None, 5)
        );
        assert!(found.estimate.ratio.is_some());
    }
    let six = summarise(&filled(6), &Goal::fixed(6));
    assert!(six.contrasts.iter().all(|found| found.estimate.low.is_some()));
}

#[test]
fn an_effect_below_the_floor_is_not_resolved() {
    // The second label is always 5 % off: whatever does that does it to the arms as well.
    let mut ledger = Ledger::new(layout());
    fill(&mut ledger, 0..12, 0.001, |cell| match (cell.label, cell.arm.as_str()) {
        (Label::Again, _) => 1.05,
        (_, "perf") => 1.03,
        _ => 1.0,
    });
    let summary = summarise(&ledger, &Goal::fixed(12));
    let perf = summary.contrasts.iter().find(|c| c.contrast.relation == Relation::Arm).unwrap();
    assert_eq!(perf.verdict, Verdict::NotResolved(Unresolved::Floor));
    assert!(!perf.floor.unwrap().is_quiet);
    assert!(perf.estimate.low.unwrap() > 1.0);
}

#[test]
fn without_its_second_label_nothing_is_said() {
    let mut ledger = Ledger::new(layout());
    let cells = ledger.layout().cells().to_vec();
    for block in 0..10 {
        for cell in cells.iter().filter(|cell| cell.label == Label::First) {
            let value = cost(cell) * (1.0 + 0.001 * f64::from(block * block % 7));
            ledger.record(block, &cell.id, value).unwrap();
        }
    }
    let summary = summarise(&ledger, &Goal::fixed(10));
    let perf = summary.contrasts.iter().find(|c| c.contrast.relation == Relation::Arm).unwrap();
    assert_eq!(perf.verdict, Verdict::NotResolved(Unresolved::NoFloor));
    assert!(summary.refusals.iter().any(|refusal| refusal.kind == Kind::NoReference));
}

#[test]
fn many_questions_need_better_answers() {
    // One borderline effect among many questions without any.
    let mut arms = vec![cell("native", "tar", "none")];
    arms.extend((0..12).map(|at| cell("native", "tar", &format!("arm{at}"))));
    let mut ledger = Ledger::new(Layout::new(arms, &reference()).unwrap());
    let cost = |cell: &Cell| if cell.arm == "arm3" { 1.0027 } else { 1.0 };
    fill(&mut ledger, 0..10, 0.002, cost);
    let summary = summarise(&ledger, &Goal::fixed(10));
    let found =
        |arm: &str| summary.contrasts.iter().find(|c| c.contrast.cell.ends_with(arm)).unwrap();
    let single = found("arm3");
    assert!(single.estimate.p.unwrap() < 0.05, "{:?}", single.estimate.p);
    assert_eq!(single.verdict, Verdict::NotResolved(Unresolved::Family));
    assert!(found("~again").p_adjusted.is_none());
}

#[test]
fn ten_blocks_are_too_few_for_thirty_questions_however_clear_the_answers() {
    let mut arms = vec![cell("native", "tar", "none")];
    arms.extend((0..30).map(|at| cell("native", "tar", &format!("arm{at}"))));
    let mut ledger = Ledger::new(Layout::new(arms, &reference()).unwrap());
    let cost = |cell: &Cell| if cell.arm == "none" { 1.0 } else { 5.0 };
    let verdicts = |ledger: &Ledger, blocks: usize| {
        let summary = summarise(ledger, &Goal::fixed(blocks));
        let arms = summary.contrasts.into_iter().filter(|c| c.contrast.relation == Relation::Arm);
        arms.map(|found| found.verdict).collect::<Vec<_>>()
    };
    fill(&mut ledger, 0..10, 0.002, cost);
    assert_eq!(verdicts(&ledger, 10), [Verdict::TooFew; 30]);
    fill(&mut ledger, 10..12, 0.002, cost);
    assert_eq!(verdicts(&ledger, 12), [Verdict::Slower; 30]);
}

#[test]
fn values_that_no_ratio_can_be_formed_of_and_second_ones_are_refused() {
    let mut ledger = Ledger::new(layout());
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = ledger.record(0, "native/tar/none", value).unwrap_err();
        assert_eq!(error.kind, Kind::Senseless);
        assert!(ledger.sentinel(0, value).is_err());
    }
    assert!(!ledger.is_done(0, "native/tar/none"));
    ledger.record(0, "native/tar/none", 1.0).unwrap();
    assert!(ledger.is_done(0, "native/tar/none"));
    assert_eq!(ledger.record(0, "native/tar/none", 1.0).unwrap_err().kind, Kind::Plan);
    assert_eq!(ledger.record(0, "nobody", 1.0).unwrap_err().kind, Kind::Plan);
}

#[test]
fn what_is_excluded_stays_to_be_seen_and_counts_no_more() {
    let mut ledger = filled(8);
    let exclusion = Exclusion { cause: Cause::LostEvents, evidence: "perf lost 12 events".into() };
    ledger.exclude(3, "native/tar/perf", exclusion.clone()).unwrap();
    let second = Exclusion { cause: Cause::Throttled, evidence: String::new() };
    ledger.exclude(3, "native/tar/perf", second).unwrap();
    let summary = summarise(&ledger, &Goal::fixed(8));
    let perf = summary.cells.iter().find(|found| found.cell.id == "native/tar/perf").unwrap();
    assert_eq!((perf.n, &perf.excluded), (7, &vec![(3, exclusion)]));
    let pair = estimate_pair(&ledger, "native/tar/perf", "native/tar/none", 0.95).unwrap();
    assert_eq!(pair.n, 7);
    assert!(ledger.blocks()[&3].entries["native/tar/perf"].value.is_some());
    assert_eq!(decide(&ledger, &Goal::fixed(8)).step, Step::Continue, "the block is not complete");
}

#[test]
fn any_two_cells_can_be_paired() {
    let pair = estimate_pair(&filled(12), "tcg/tar/perf", "native/tar/none", 0.95).unwrap();
    assert!((pair.ratio.unwrap() - 8.8).abs() < 0.05);
    assert!(estimate_pair(&filled(1), "tcg/tar/perf", "nobody", 0.95).is_err());
}

#[test]
fn looks_stop_when_it_is_precise_and_give_up_at_the_last() {
    let goal = Goal::precise();
    let steps = |noise: f64| {
        let mut ledger = Ledger::new(layout());
        (1..=40)
            .map(|block| {
                fill(&mut ledger, block - 1..block, noise, cost);
                decide(&ledger, &goal)
            })
            .collect::<Vec<_>>()
    };
    let quiet = steps(0.002);
    assert!(quiet[..9].iter().all(|decision| decision.step == Step::Continue));
    assert!(quiet[9..].iter().all(|decision| decision.step == Step::Enough));
    assert_eq!(quiet[8].workloads["tar"].look, 10);
    let noisy = steps(0.08);
    assert!(noisy[..39].iter().all(|decision| decision.step == Step::Continue));
    let last = &noisy[39].workloads["tar"];
    assert_eq!((noisy[39].step, last.look), (Step::GaveUp, 40));
    assert!(last.widest.as_ref().unwrap().1 > 0.01);
}

#[test]
fn a_workload_that_is_done_may_leave() {
    let cells = ["tar", "zstd"].map(|workload| cell("native", workload, "none")).to_vec();
    let mut ledger = Ledger::new(Layout::new(cells, &reference()).unwrap());
    let ids: Vec<String> = ledger.layout().ids().map(str::to_owned).collect();
    for block in 0..14 {
        for id in ids.iter().filter(|id| block < 10 || id.contains("zstd")) {
            let wide = if id.contains("zstd") { 0.2 } else { 0.001 };
            let noise = Random::stream(u64::from(block), id.len() as u64).normal();
            ledger.record(block, id, (wide * noise).exp()).unwrap();
        }
    }
    let decision = decide(&ledger, &Goal::precise());
    assert_eq!(decision.step, Step::Continue);
    assert_eq!(decision.workloads["tar"].step, Step::Enough);
    assert_eq!((decision.workloads["tar"].complete, decision.workloads["tar"].look), (10, 10));
    assert_eq!((decision.workloads["zstd"].complete, decision.workloads["zstd"].look), (14, 20));
}

#[test]
fn nothing_but_exclusions_ends_too() {
    let mut ledger = Ledger::new(layout());
    for block in 0..12 {
        let exclusion = Exclusion { cause: Cause::Failed, evidence: "exit status 1".into() };
        ledger.exclude(block, "native/tar/none", exclusion).unwrap();
    }
    assert_eq!(decide(&ledger, &Goal::fixed(6)).step, Step::GaveUp);
    assert_eq!(decide(&ledger, &Goal::fixed(7)).step, Step::Continue);
}

#[test]
fn a_machine_that_warms_up_is_seen_by_its_sentinel_alone() {
    let mut ledger = filled(24);
    let mut random = Random::new(3);
    for block in 0..24 {
        let warming = if block < 4 { 1.2 } else { 1.0 };
        ledger.sentinel(block, warming * (0.01 * random.normal()).exp()).unwrap();
    }
    assert_eq!(ledger.exclude_warm_up(), 4);
    let summary = summarise(&ledger, &Goal::fixed(20));
    assert!(summary.cells.iter().all(|found| found.n == 20));
    assert!(summary.cells[0].excluded.iter().all(|(_, e)| e.cause == Cause::WarmUp));
    let sentinels = summary.sentinels.unwrap();
    assert_eq!(sentinels.warm_up.unwrap().length, 4);
    assert!(sentinels.range > 1.15);
    // A cell that is slow at first is a result.
    let mut ledger = filled(24);
    (0..24).for_each(|block| ledger.sentinel(block, 1.0 + 1e-3 * random.uniform()).unwrap());
    assert_eq!(ledger.exclude_warm_up(), 0);
}

#[test]
fn a_gate_asks_the_interval() {
    let summary = summarise(&filled(12), &Goal::fixed(12));
    let arms: Vec<_> =
        summary.contrasts.iter().filter(|c| c.contrast.relation == Relation::Arm).collect();
    let outcome = |limit| Gate { limit, confidence: 0.95 }.paired(&arms).outcome;
    assert_eq!(outcome(1.2), Outcome::Passed);
    assert_eq!(outcome(1.1), Outcome::Undecided, "the effect is 1.1: no interval is on one side");
    assert_eq!(outcome(1.05), Outcome::Failed);
    assert_eq!([outcome(1.2), outcome(1.05), outcome(1.1)].map(Outcome::code), [0, 1, 2]);
    // A point far beyond the limit fails nothing.
    let few = summarise(&filled(5), &Goal::fixed(5));
    let few: Vec<_> = few.contrasts.iter().collect();
    assert_eq!(Gate { limit: 1.01, confidence: 0.95 }.paired(&few).outcome, Outcome::Undecided);
    assert_eq!(Gate { limit: 1.01, confidence: 0.95 }.paired(&[]).outcome, Outcome::Undecided);
}

fn result_set(name: &str, seed: u64, slower: f64, memory: &str) -> ResultSet {
    let mut ledger = Ledger::new(layout());
    let cells = ledger.layout().cells().to_vec();
    for block in 0..12 {
        let mut random = Random::stream(seed, u64::from(block));
        for cell in &cells {
            let worse = if cell.arm == "perf" { slower } else { 1.0 };
            let value = cost(cell) * worse * (0.005 * random.normal()).exp();
            ledger.record(block, &cell.id, value).unwrap();
        }
    }
    let summary = summarise(&ledger, &Goal::fixed(12));
    let configuration = [("memory".to_owned(), memory.to_owned())].into();
    ResultSet::of(name, configuration, &ledger, &summary)
}

fn terms(basis: Basis, may_differ: &[&str]) -> Terms {
    let may_differ = may_differ.iter().map(|name| (*name).to_owned()).collect();
    Terms { basis, confidence: 0.95, may_differ }
}

#[test]
fn two_sets_are_compared_and_only_what_changed_is_told() {
    let (before, after) =
        (result_set("before", 1, 1.0, "1 GiB"), result_set("after", 2, 1.08, "1 GiB"));
    for basis in [Basis::Costs, Basis::Ratios] {
        let comparison = compare(&before, &after, &terms(basis, &[])).unwrap();
        assert_eq!(comparison.rows.len(), if basis == Basis::Costs { 4 } else { 2 });
        for row in comparison.rows {
            let is_perf = row.cell.ends_with("perf");
            assert_eq!(row.verdict == Verdict::Slower, is_perf, "{row:?}");
            assert_eq!(row.n, (12, 12));
        }
    }
    let gate = Gate { limit: 1.05, confidence: 0.95 };
    let report = compare::gate(&gate, &before, &after, &terms(Basis::Ratios, &[])).unwrap();
    assert_eq!((report.outcome, report.checks.len()), (Outcome::Failed, 2));
}

#[test]
fn sets_of_different_configurations_are_not_compared() {
    let (small, large) = (result_set("a", 1, 1.0, "1 GiB"), result_set("b", 2, 1.0, "2 GiB"));
    let error = compare(&small, &large, &terms(Basis::Costs, &[])).unwrap_err();
    assert_eq!(error.kind, Kind::Different);
    assert!(error.why.contains("memory is 1 GiB and 2 GiB"), "{error}");
    let allowed = compare(&small, &large, &terms(Basis::Costs, &["memory"])).unwrap();
    assert_eq!(allowed.differing, [("memory".into(), "1 GiB".into(), "2 GiB".into())]);
    let forgetful = ResultSet { configuration: BTreeMap::new(), ..small.clone() };
    assert!(compare(&small, &forgetful, &terms(Basis::Costs, &[])).is_err());
    let empty = ResultSet { cells: BTreeMap::new(), ..small.clone() };
    let error = compare(&small, &empty, &terms(Basis::Costs, &[])).unwrap_err();
    assert_eq!(error.kind, Kind::NoReference);
}

#[test]
fn high_quantiles_of_few_operations_are_refused() {
    assert_eq!(check_quantile("latency", 0.99, 367).unwrap_err().kind, Kind::TooFewSamples);
    assert!(check_quantile("latency", 0.99, 368).is_ok());
    let error = check_quantile("latency", 0.999, 1000).unwrap_err();
    assert!(
        error.to_string().starts_with("p99.9 of latency: it requires 3688 operations"),
        "{error}"
    );
}

#[test]
fn everything_survives_json() {
    let mut ledger = filled(10);
    ledger.sentinel(0, 1.5).unwrap();
    let goal = Goal::precise();
    let summary = summarise(&ledger, &goal);
    fn again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }
    assert_eq!(again(&ledger).layout(), ledger.layout());
    assert_eq!(again(&goal), goal);
    assert_eq!(again(&summary).contrasts.len(), summary.contrasts.len());
    assert_eq!(decide(&again(&ledger), &goal).step, Step::Enough);
}

#[test]
fn cells_differ_in_cache_state_and_guests_too() {
    let mut cells = Vec::new();
    for (cache, guests) in [(CacheState::Cold, 1), (CacheState::Hot, 1), (CacheState::Hot, 4)] {
        for platform in ["native", "tcg"] {
            let id = format!("{platform}/{cache:?}/{guests}");
            cells.push(Cell { id, cache, guests, ..cell(platform, "tar", "none") });
        }
    }
    let layout = Layout::new(cells, &reference()).unwrap();
    let platforms: Vec<_> =
        layout.contrasts().iter().filter(|c| c.relation == Relation::Platform).collect();
    assert_eq!(platforms.len(), 3);
    for contrast in platforms {
        assert_eq!(contrast.cell.replace("tcg", ""), contrast.base.replace("native", ""));
    }
}
