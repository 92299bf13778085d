//! The demo's scene, recorded: a starved guest, and the report that names who starved it.

#![allow(clippy::print_stdout, reason = "what happened belongs in the log of a test run")]

use anyhow::{Context, Result};
use transect_e2e::{agent, number, report, rows, transect};
use transect_testbed::demo::{self, Plan, Seen};

fn play(recording: &std::path::Path) -> Result<Seen> {
    let plan = Plan {
        agent: Some((agent()?, vec!["--vsock".to_owned()])),
        programs: vec![transect()?],
        record: "./transect record -o scene.transect --guest name=web,vsock:{web} \
                 --guest name=batch,vsock:{batch} -- {scene}"
            .to_owned(),
        seconds: 5,
        then: Vec::new(),
        bring: vec![("scene.transect".to_owned(), recording.to_owned())],
    };
    demo::run(&plan, &mut |step| println!("{step}"))
}

#[test]
fn the_hog_is_named_as_the_antagonist_of_the_starved_vcpu() {
    let here = tempfile::tempdir().unwrap();
    let recording = here.path().join("scene.transect");
    let seen = play(&recording).unwrap();
    assert!(seen.is_starved(), "web was not starved by its own account: {seen:?}");

    let report = report(&recording).unwrap();
    let of_web = |section: &str| -> Vec<serde_json::Value> {
        let all = rows(&report, section).unwrap().iter();
        all.filter(|row| row["machine"] == "web").cloned().collect()
    };
    let waited: i64 = of_web("vcpus").iter().map(|v| number(v, "waited_ns").unwrap()).sum();
    let worst = of_web("antagonists")
        .into_iter()
        .max_by_key(|row| number(row, "waited_ns").unwrap())
        .context("nobody is named")
        .unwrap();
    assert_eq!(worst["by_machine"], "batch", "{worst}");
    assert!(number(&worst, "waited_ns").unwrap() * 2 > waited, "{worst} of {waited} ns");

    // The periodic thread believed it ran; most of that its vCPU had no CPU.
    let periodic = of_web("threads").into_iter().find(|t| t["name"] == "periodic").unwrap();
    let stolen = number(&periodic, "vcpu_preempted_ns").unwrap();
    assert!(stolen > number(&periodic, "effective_running_ns").unwrap(), "{periodic}");
    let summary = report["summary"].to_string();
    assert!(
        summary.contains("web vcpu0") && summary.contains("because batch held the CPU"),
        "{summary}"
    );
}
