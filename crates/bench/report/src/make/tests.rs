use super::*;
use transect_bench_core::{
    RunResult,
    protocol::Role,
    samples::{CpuTimes, CpuUse, Samples, ThreadUse, Watched},
};
use transect_bench_limiter::{Limiter, LimiterKind};
use transect_bench_run::{
    environment::Environment,
    journal::{Ended, PartResult, RunKey, Started},
    plan::Group,
};

const PLAN: &str = r#"
name = "layers"
seed = 1

[machine]
memory_mib = 512
disk_mib = 64

[procedure]
looks = [6]

[[matrix]]
platforms = ["native", "nested-l1", "nested-kvm"]
workloads = ["micro/syscall"]
"#;

/// Six blocks of a host that is twice as slow as this one, and of its guest that is three times as slow as it.
fn results(folder: &std::path::Path) -> Results {
    let results = Results::at(folder);
    let mut journal = results.begin(PLAN, &Environment::default()).unwrap();
    let begun = Entry::Begun {
        format: journal::FORMAT,
        plan_sha256: String::new(),
        version: "0".into(),
        unix_ns: 0,
        refused: Vec::new(),
    };
    journal.write(&begun).unwrap();
    for block in 0..6 {
        for (platform, times) in [("native", 1.0), ("nested-l1", 2.0), ("nested-kvm", 6.0)] {
            for label in [Label::First, Label::Again] {
                let group = Group {
                    workload: "micro/syscall".into(),
                    cache: transect_bench_core::CacheState::Any,
                    guests: 1,
                };
                let cell = Cell { group, platform: platform.into(), tracer: "none".into() };
                let key = RunKey { block, cell, label };
                let id = format!("{block}-{platform}-{label:?}");
                let (attempt, unix_ns) = (1, u64::from(block));
                let started = Started { id: id.clone(), key: key.clone(), attempt, unix_ns };
                journal.write(&Entry::Started(started)).unwrap();
                let value = times * (100.0 + f64::from(block));
                let metric = Metric::new("time", Unit::Nanoseconds, Better::Less, value);
                let result = CellResult { metrics: vec![metric], ..spinning(platform) };
                let outcome = Outcome::Measured(result);
                journal.write(&Entry::Ended(Box::new(Ended { id, key, outcome }))).unwrap();
            }
        }
    }
    results
}

/// One thread that had its CPU all the time, and what a program of long ago made of it.
fn spinning(place: &str) -> CellResult {
    const ALL_NS: u64 = 10_000_000_000;
    let times = CpuTimes { user: ALL_NS, ..CpuTimes::default() };
    let thread = ThreadUse { cpu_ns: ALL_NS, ..ThreadUse::default() };
    let watched = Watched { cpu_ns: ALL_NS, threads: vec![thread], ..Watched::default() };
    let samples = Samples {
        taken: 101,
        wall_ns: ALL_NS,
        cpus: vec![CpuUse { cpu: 0, times }],
        watched: Some(watched),
        ..Samples::default()
    };
    let result = RunResult { samples, ..RunResult::default() };
    let part = PartResult { place: place.into(), index: 0, role: Role::Whole, result };
    let limiter = Limiter { kind: LimiterKind::Lock, ..Limiter::default() };
    CellResult { parts: vec![part], limiter: Some(limiter), ..CellResult::default() }
}

fn platforms(report: &Report) -> Vec<(String, String, f64)> {
    let of_platforms = report.comparisons.iter().filter(|one| one.contrast == Contrast::Platform);
    let found = of_platforms.map(|one| {
        let ratio = one.estimate.as_ref().unwrap().ratio;
        let rounded = (ratio * 1e9).round() / 1e9;
        (one.cell.platform.clone(), one.reference.platform.clone(), rounded)
    });
    found.collect()
}

#[test]
fn a_guest_is_compared_with_its_host_if_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let of = |cell: &str, reference: &str, ratio| (cell.to_owned(), reference.to_owned(), ratio);
    let planned = platforms(&super::of(&results).unwrap());
    assert_eq!(planned, [of("nested-kvm", "native", 6.0), of("nested-l1", "native", 2.0)]);
    let against = |platform| Asked { against: Some(platform), ..Asked::default() };
    let asked = platforms(&of_asked(&results, against("nested-l1")).unwrap());
    assert_eq!(asked, [of("native", "nested-l1", 0.5), of("nested-kvm", "nested-l1", 3.0)]);
    let unknown = of_asked(&results, against("kvm")).unwrap_err().to_string();
    assert!(unknown.contains("native, nested-kvm, nested-l1"), "{unknown}");
}

#[test]
fn limiters_are_named_anew_if_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let named = |asked| {
        let report = of_asked(&results, asked).unwrap();
        let cells = report.cells.into_iter().map(|cell| cell.limiter.unwrap());
        cells.map(|limiter| limiter.name).collect::<BTreeSet<_>>()
    };
    let then = named(Asked::default());
    let now = named(Asked { judges_again: true, ..Asked::default() });
    assert_eq!(then, BTreeSet::from(["lock".to_owned()]));
    assert_eq!(now, BTreeSet::from(["CPU, one thread".to_owned()]));
}
