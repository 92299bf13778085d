//! xenalyze reads the same records from the same files, word for word, and reads what we write.
//!
//! Debian's xen-utils-common has it; without it these tests say so and pass.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use crate::common::{files, folder};
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
};
use transect_xentrace::{
    Writer, XenTrace, XenVersion,
    synthetic::{self, Spec},
    word::{CPU_CHANGE, WRAP_BUFFER},
};

/// A record as xenalyze prints it raw: CPU, event, stamp, words.
type Raw = (u32, u32, Option<u64>, Vec<u32>);

fn xenalyze(args: &[&str], file: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.bin");
    std::fs::write(&path, file).unwrap();
    let output = Command::new("xenalyze").args(args).arg(&path).stderr(Stdio::null()).output();
    let Ok(output) = output else {
        println!("skipped: xenalyze is not installed (Debian package xen-utils-common)");
        return None;
    };
    assert!(output.status.success(), "xenalyze {args:?}: {}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

/// `R p 0 o000000000000000c   201106 2   104174626210 [ 81022506 ffffffff ] | …`
fn parse(line: &str) -> Option<(u64, Raw)> {
    let rest = line.strip_prefix("R p")?;
    let (rest, words) = rest.split_once('[')?;
    let mut columns = rest.split_whitespace();
    let cpu = columns.next()?.parse().ok()?;
    let at = u64::from_str_radix(columns.next()?.strip_prefix('o')?, 16).ok()?;
    let event = u32::from_str_radix(columns.next()?, 16).ok()?;
    let count: usize = columns.next()?.parse().ok()?;
    let tsc = columns.next()?.parse().ok();
    let words = words.split(']').next()?.split_whitespace();
    let words: Vec<u32> = words.map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
    assert_eq!(words.len(), count, "{line}");
    Some((at, (cpu, event, tsc, words)))
}

fn theirs(file: &[u8]) -> Option<BTreeMap<u64, Raw>> {
    let text = xenalyze(&["--dump-raw-reads", "--dump-no-processing"], file)?;
    // A CPU_CHANGE is read once for every CPU that looks for its next window.
    let records = text.lines().filter_map(parse);
    Some(records.filter(|(_, (_, event, ..))| *event != CPU_CHANGE).collect())
}

fn ours(file: &[u8]) -> BTreeMap<u64, Raw> {
    let trace = XenTrace::parse(file, XenVersion::Unknown).unwrap();
    let mut records = BTreeMap::new();
    for cpu in trace.cpus() {
        for record in trace.stream(cpu) {
            let word = |word: &[u8]| u32::from_le_bytes(word.try_into().unwrap());
            let words = record.extra.chunks_exact(4).map(word).collect();
            let tsc = record.stamped.then_some(record.tsc);
            records.insert(record.at_bytes, (cpu.0, record.event, tsc, words));
        }
    }
    records
}

fn compare(name: &str, file: &[u8]) {
    let Some(mut theirs) = theirs(file) else { return };
    let all = theirs.len();
    theirs.retain(|_, (_, event, ..)| *event != WRAP_BUFFER);
    let ours = ours(file);
    for (at, record) in &theirs {
        assert_eq!(ours.get(at), Some(record), "{name}: record at byte {at}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
    println!("{name}: {all} records, the same as xenalyze's");
}

#[test]
fn records_are_xenalyzes() {
    for (name, file) in files("succeed") {
        compare(&name, &file);
    }
    // Whatever recordings there are besides, for whoever has some.
    if let Some(paths) = std::env::var_os("TRANSECT_XENTRACE_FILES") {
        for path in std::env::split_paths(&paths) {
            let name = path.display().to_string();
            compare(&name, &std::fs::read(Path::new(&path)).unwrap());
        }
    }
}

#[test]
fn made_up_traces_are_read_by_xenalyze() {
    let spec = Spec { records: 30_000, cpus: 3, domains: 9, ..Spec::default() };
    let (file, _) = synthetic::write(Vec::new(), &spec).unwrap();
    compare("made up", &file);
    let Some(summary) = xenalyze(&["--summary"], &file) else { return };
    for dom in 1..=9 {
        assert!(summary.contains(&format!("|-- Domain {dom} --|")), "{summary}");
    }
}

/// Written again in windows of other sizes, recordings tell xenalyze the same.
#[test]
fn what_we_write_says_the_same_to_xenalyze() {
    for (name, file) in files("succeed") {
        let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
        let mut writer = Writer::new(Vec::new(), 1_000);
        let mut records = BTreeMap::new();
        for cpu in trace.cpus() {
            records.extend(
                trace.stream(cpu).map(|record| ((record.tsc, cpu, record.at_bytes), record)),
            );
        }
        for ((_, cpu, _), record) in &records {
            writer.copy(*cpu, record).unwrap();
        }
        let copy = writer.finish().unwrap();
        compare(&name, &copy);
        // One is not a history of anything; and of a loss xenalyze makes other states when windows
        // end elsewhere, because it takes them up in another order.
        if name == "every-record" || name == "lost" {
            continue;
        }
        let args: &[&str] =
            if name == "pvh" { &["--svm-mode", "--summary"] } else { &["--summary"] };
        let (Some(before), Some(after)) = (xenalyze(args, &file), xenalyze(args, &copy)) else {
            return;
        };
        assert!(before.contains("Total time"), "{name}: {before}");
        assert_eq!(without_volume(&before), without_volume(&after), "{name}");
    }
}

/// Volumes count bytes of windows' heads and wraps, which differ.
fn without_volume(summary: &str) -> Vec<&str> {
    summary.lines().filter(|line| !line.trim_start().starts_with("gen ")).collect()
}

/// The summaries in `testdata` are xenalyze's own.
#[test]
fn summaries_are_xenalyzes() {
    for (name, file) in files("succeed") {
        let path = folder("succeed").join(format!("{name}.summary.txt"));
        let Ok(expected) = std::fs::read_to_string(path) else { continue };
        let mut args = vec!["--cpu-hz=2596139000", "--summary"];
        if name == "pvh" {
            args.push("--svm-mode");
        }
        let Some(summary) = xenalyze(&args, &file) else { return };
        assert_eq!(summary, expected, "{name}");
    }
}
