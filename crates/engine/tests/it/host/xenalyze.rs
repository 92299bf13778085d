//! Recordings of Xen: every record is read, and vCPUs' runstates are those that xenalyze's summary
//! beside each recording tells, in number and time.
//!
//! `TRANSECT_XENTRACE_FILES` (paths, with `TRANSECT_XENTRACE_HZ`) adds recordings of one's own;
//! what xenalyze says of them is asked on the spot.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "test code"
)]

use crate::xen_runs::{Run, Sum};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use transect_xentrace::{Totals, XenTrace, XenVersion};

/// Of the machine the recordings in `xentrace` and in `xentrace/live` were made on.
const HZ: u64 = 2_596_139_000;
const LIVE_HZ: u64 = 999_999_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/xentrace")
}

/// What xenalyze says of a vCPU: how often, and between which numbers of ns in all, for it prints
/// the average in whole ticks.
type Theirs = BTreeMap<(String, String), (u64, f64, f64)>;

fn parse(summary: &str, hz: u64) -> Theirs {
    let (mut domain, mut vcpu) = (String::new(), None);
    let mut all = Theirs::new();
    for line in summary.lines() {
        if let Some(rest) = line.strip_prefix("|-- Domain ") {
            (domain, vcpu) = (rest.trim_end_matches(" --|").to_owned(), None);
        } else if let Some(rest) = line.strip_prefix("-- v") {
            vcpu = Some(rest.trim_end_matches(" --").to_owned());
        } else if let (Some(vcpu), Some((word, rest))) = (&vcpu, line.trim().split_once(':')) {
            if !["running", "wake", "preempt", "blocked", "offline", "lost"].contains(&word) {
                continue;
            }
            // `393  1.11s 7350741 {2720484|34444904|195810862}`
            let columns: Vec<&str> = rest.split_whitespace().collect();
            let (count, ticks): (u64, u64) = match columns[..] {
                [count, _, ticks, ..] => (count.parse().unwrap(), ticks.parse().unwrap()),
                _ => panic!("{line}"),
            };
            let ns = |ticks: u64| (count * ticks) as f64 * 1e9 / hz as f64;
            let sums = (count, ns(ticks), ns(ticks + 1));
            all.insert((format!("d{domain}v{vcpu}"), word.to_owned()), sums);
        }
    }
    // Idle vCPUs are pCPUs' time.
    all.retain(|(name, _), _| !name.starts_with("d32767"));
    all
}

/// How far our time is from what theirs can be, in ns.
fn off(ours: Sum, theirs: (u64, f64, f64)) -> f64 {
    let ns = ours.ns as f64;
    // Stamps are rounded to ns one by one.
    (theirs.1 - ns).max(ns - theirs.2).max(0.0) - 1.0
}

fn compare(name: &str, file: &[u8], hz: u64, theirs: &Theirs) {
    let run = crate::xen_runs::run(file, hz);
    every_record_is_read(name, file, &run);
    let ours = crate::xen_runs::vcpus(&run);
    let span = run.summary.span.unwrap().dur_ns() as f64;
    let ours: BTreeMap<(String, String), Sum> = ours
        .iter()
        .flat_map(|(vcpu, sums)| {
            sums.iter().map(move |(word, sum)| ((vcpu.clone(), (*word).to_owned()), *sum))
        })
        .collect();
    let loses = run.summary.holes > 0;
    for key in theirs.keys().chain(ours.keys()) {
        let (sum, theirs) = (ours.get(key).copied().unwrap_or_default(), theirs.get(key));
        let theirs = theirs.copied().unwrap_or_default();
        if loses && key.1 != "running" {
            continue;
        }
        assert_eq!(sum.count, theirs.0, "{name}: {key:?}: {sum:?}, xenalyze {theirs:?}");
        assert!(off(sum, theirs) <= span * 1e-6, "{name}: {key:?}: {sum:?}, xenalyze {theirs:?}");
    }
    if loses {
        more_is_known_after_a_loss(name, &ours, theirs, span);
    }
    println!("{name}: {} events, {} runstates as xenalyze's", run.summary.events, theirs.len());
}

/// After a loss xenalyze knows nothing of a vCPU that was not running until it comes to run, we from
/// the first record about it, which says what it was: a little of what it calls lost is blocked,
/// or runnable, to us. It is the same time in all.
fn more_is_known_after_a_loss(
    name: &str,
    ours: &BTreeMap<(String, String), Sum>,
    theirs: &Theirs,
    span: f64,
) {
    let vcpus: std::collections::BTreeSet<&String> = theirs.keys().map(|(vcpu, _)| vcpu).collect();
    for vcpu in vcpus {
        let sum = |word: &str| ours.get(&(vcpu.clone(), word.to_owned())).copied();
        let their = |word: &str| theirs.get(&(vcpu.clone(), word.to_owned())).copied();
        let (mut all_ours, mut all_theirs, mut counts) = (0.0, 0.0, 0);
        for word in ["running", "wake", "preempt", "blocked", "offline", "lost"] {
            let (ours, theirs) = (sum(word).unwrap_or_default(), their(word).unwrap_or_default());
            all_ours += ours.ns as f64;
            all_theirs += f64::midpoint(theirs.1, theirs.2);
            counts += theirs.0;
            if word == "lost" {
                assert!(ours.ns as f64 <= theirs.2 + 1.0, "{name}: {vcpu} lost: {ours:?}");
            } else {
                assert!(ours.count >= theirs.0, "{name}: {vcpu} {word}: {ours:?}, {theirs:?}");
                let least = theirs.1 - span * 1e-6;
                assert!(ours.ns as f64 >= least, "{name}: {vcpu} {word}: {ours:?}, {theirs:?}");
            }
        }
        let bound = span * 1e-6 + counts as f64;
        assert!((all_ours - all_theirs).abs() <= bound, "{name}: {vcpu}: {all_ours} {all_theirs}");
    }
}

fn every_record_is_read(name: &str, file: &[u8], run: &Run) {
    let trace = XenTrace::parse(file, XenVersion::Minor(17)).unwrap();
    let mut totals = Totals::default();
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        (&mut stream).for_each(drop);
        totals.add(&stream.totals());
    }
    assert_eq!(run.summary.events, totals.records - totals.wraps, "{name}");
    assert_eq!(totals.unknown, 0, "{name}");
    assert_eq!((run.summary.holes, run.summary.lost_events), (totals.lost_records, totals.lost));
    assert_eq!(run.summary.contradictions, 0, "{name}");
}

/// Recordings with a summary beside them.
fn recordings(folder: &Path) -> Vec<(String, Vec<u8>, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let summary = path.with_extension("summary.txt");
        if path.extension().is_some_and(|ext| ext == "bin") && summary.exists() {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let summary = std::fs::read_to_string(summary).unwrap();
            found.push((name, std::fs::read(&path).unwrap(), summary));
        }
    }
    found.sort();
    found
}

#[test]
fn runstates_are_xenalyzes() {
    let mut compared = 0;
    for (folder, hz) in [(folder(), HZ), (folder().join("live"), LIVE_HZ)] {
        for (name, file, summary) in recordings(&folder) {
            let theirs = parse(&summary, hz);
            compare(&name, &file, hz, &theirs);
            compared += theirs.len();
        }
    }
    assert!(compared > 60, "only {compared} runstates compared");
}

#[test]
fn runstates_of_ones_own_recordings_are_xenalyzes() {
    let Some(paths) = std::env::var_os("TRANSECT_XENTRACE_FILES") else { return };
    let hz = std::env::var("TRANSECT_XENTRACE_HZ").map_or(HZ, |hz| hz.parse().unwrap());
    for path in std::env::split_paths(&paths) {
        // Which hardware it was, no record before Xen 4.19 says.
        let asked = [&[][..], &["--svm-mode"]].map(|mode| {
            let mut command = Command::new("xenalyze");
            command.args(mode).arg(format!("--cpu-hz={hz}")).arg("--summary").arg(&path);
            command.stderr(Stdio::null()).output()
        });
        let output = asked.into_iter().flatten().find(|output| output.status.success());
        let Some(output) = output else {
            println!("skipped: xenalyze is not installed (Debian package xen-utils-common)");
            return;
        };
        let theirs = parse(&String::from_utf8_lossy(&output.stdout), hz);
        compare(&path.display().to_string(), &std::fs::read(&path).unwrap(), hz, &theirs);
    }
}

/// A domain whose cap is 30 % has 30 % of a pCPU.
#[test]
fn a_capped_domain_has_its_share() {
    let file = std::fs::read(folder().join("live/cap.bin")).unwrap();
    let run = crate::xen_runs::run(&file, LIVE_HZ);
    let hog = run.tables.machines.iter().find(|machine| machine.domid == Some(1)).unwrap();
    let of_hog = run.tables.windows.iter();
    let of_hog =
        of_hog.filter(|w| w.machine_id == hog.machine_id && w.vcpu.is_none() && w.cpu.is_none());
    let (gotten, dur) = of_hog.fold((0, 0), |sum, w| (sum.0 + w.gotten_ns, sum.1 + w.dur));
    let share = gotten as f64 / dur as f64;
    assert!((share - 0.3).abs() < 0.003, "{share}");
}
