//! Xen's trace and its domains' kernels' own, imported together: what the README beside the files
//! says.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// As Xen measured it.
const HZ: &str = "2596139000";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(name: &str) -> String {
    root().join("testdata/succeed/xen-kernels").join(name).to_str().unwrap().to_owned()
}

fn transect(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transect")).args(words).stdin(Stdio::null()).output().unwrap()
}

fn import(files: &[&str], to: &Path) -> Output {
    let to = to.to_str().unwrap();
    transect(&[&["import"], files, &["-o", to, "--cpu-hz", HZ, "--xen-version", "4.17"]].concat())
}

fn refusal(files: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("x.transect");
    let output = import(files, &to);
    assert!(!output.status.success() && !to.exists());
    String::from_utf8(output.stderr).unwrap()
}

fn report(recording: &Path) -> Value {
    let output = transect(&["report", recording.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every event that can be tested is where its vCPU ran; the emulated clock has a bound. The rest
/// is as it was looked at once.
#[test]
fn kernels_beside_xen_are_on_its_clock() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("all.transect");
    // A domain that always runs fits anything: it has to be told; the others are found. The order
    // does not matter.
    let hog = format!("1={}", file("hog.txt"));
    let (xen, dom0, duty) = (file("xen.bin"), file("dom0.txt"), file("duty.txt"));
    let output = import(&[&hog, &duty, &xen, &dom0], &to);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.matches("clock is Xen's own TSC").count(), 2, "{said}");
    assert_eq!(said.matches("separate clock").count(), 1, "{said}");

    let report = report(&to);
    let checks = report["clock_check"].as_array().unwrap();
    assert_eq!(checks.len(), 3);
    for check in checks {
        assert!(
            check["tested"].as_i64() > Some(100) && check["inside"] == check["tested"],
            "{check}"
        );
    }
    let methods: Vec<_> = report["clock_edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| edge["method"].clone())
        .collect();
    assert_eq!(methods, ["tsc_rate", "tsc_offset", "tsc_offset", "causality"]);

    let parts = [
        "machines",
        "clock_check",
        "clock_edges",
        "vcpus",
        "domains",
        "antagonists",
        "threads",
        "lost",
    ];
    let found: serde_json::Map<String, Value> =
        parts.iter().map(|part| ((*part).to_owned(), report[part].clone())).collect();
    let found = format!("{:#}\n", json!(found));
    let golden = root().join("testdata/golden/xen-kernels.json");
    if std::env::var_os("TRANSECT_BLESS").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    assert_eq!(fs::read_to_string(golden).unwrap(), found, "TRANSECT_BLESS=1 writes it anew");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (xen, dom0, hog) = (file("xen.bin"), file("dom0.txt"), file("hog.txt"));
    let says = |files: &[&str], words: &str| {
        let said = refusal(files);
        assert!(said.contains(words), "{said}");
    };
    says(&[&xen, &xen], "both xentrace files");
    says(&[&format!("0={dom0}")], "needs an xentrace file");
    says(&[&xen, &format!("9={dom0}")], "no vCPU of domain 9 ran");
    says(&[&xen, &format!("1={hog}"), &format!("1={dom0}")], "domain 1");
    // The duty domain's events are not dom0's; and of one that always runs nobody can tell.
    says(&[&xen, &format!("0={}", file("duty.txt"))], "no offset puts");
    says(&[&xen, &hog], "name the domain");
}
