//! `transect explain` of a real nested recording: pieces that tile, whom it names, and what it refuses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use crate::view_support::{nested, testdata, transect};
use serde_json::Value;
use std::path::Path;

fn explained(cache: &Path, words: &[&str]) -> Value {
    let output = transect(cache, &[&["explain", "--json"][..], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or_else(|| panic!("{name}: {value}"))
}

/// The pieces tile the window, and every sum over them is the window.
fn check(root: &Value) {
    let (from, until) = (number(&root["window"], "from"), number(&root["window"], "until"));
    let mut at = from;
    for piece in root["path"].as_array().unwrap() {
        assert_eq!(number(piece, "ts"), at, "{piece}");
        assert!(number(piece, "dur") > 0);
        at += number(piece, "dur");
    }
    assert_eq!(at, until, "{}", root["name"]);
    let layers: i64 =
        root["layers"].as_object().unwrap().values().map(|ns| ns.as_i64().unwrap()).sum();
    assert_eq!(layers, until - from);
    let sums = root["sums"].as_array().unwrap();
    assert_eq!(sums.iter().map(|sum| number(sum, "total_ns")).sum::<i64>(), until - from);
}

#[test]
fn paths_of_every_thread_tile_their_window() {
    let dir = tempfile::tempdir().unwrap();
    let recording = nested(dir.path());
    let all = explained(dir.path(), &[&recording, "--all"]);
    let roots = all["roots"].as_array().unwrap();
    assert!(roots.len() > 60, "{}", roots.len());
    assert!(roots.iter().all(|root| root["path"].is_null()));
    for machine in [0, 1] {
        let of: Vec<&Value> = roots.iter().filter(|root| root["machine_id"] == machine).collect();
        let vm = machine.to_string();
        let mut words = vec![recording.clone(), "--vm".to_owned(), vm];
        words.extend(of.iter().flat_map(|root| ["--thread".to_owned(), root["tid"].to_string()]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let each = explained(dir.path(), &words);
        let each = each["roots"].as_array().unwrap();
        assert_eq!(each.len(), of.len());
        for one in each {
            check(one);
            let root = of.iter().find(|root| root["tid"] == one["tid"]).unwrap();
            assert_eq!(one["sums"], root["sums"]);
        }
    }
}

/// A guest's writer of disk blocks waits for the VMM, as the prototype of the design found.
#[test]
fn a_guests_disk_requests_lead_to_the_vmm() {
    let dir = tempfile::tempdir().unwrap();
    let recording = nested(dir.path());
    let all = explained(dir.path(), &[&recording, "--vm", "1", "--thread", "wl-disk"]);
    let root = &all["roots"][0];
    check(root);
    let length = number(&root["window"], "until") - number(&root["window"], "from");
    let share = |layer: &str| 100 * number(&root["layers"], layer) / length;
    println!("{}", root["layers"]);
    assert!(share("host") > 60, "{}", root["layers"]);
    assert!(share("unknown") < 10, "{}", root["layers"]);
    let sentence = root["sentences"][0].as_str().unwrap();
    assert!(sentence.contains("wl-disk") && sentence.contains("qemu-system-x86"), "{sentence}");
}

fn selected(cache: &Path, recording: &str, sql: &str) -> Vec<Value> {
    let output = transect(cache, &["sql", "--json", recording, sql]);
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    rows.as_array().unwrap().clone()
}

/// The same numbers, whether JSON wrote them with a point or not.
#[track_caller]
fn same(what: &str, sql: &[Value], explained: &Value) {
    let explained = explained.as_array().unwrap();
    assert_eq!(sql.len(), explained.len(), "{what}");
    for (ours, theirs) in sql.iter().zip(explained) {
        let (ours, theirs) = (ours.as_object().unwrap(), theirs.as_object().unwrap());
        assert!(ours.keys().eq(theirs.keys()), "{what}: {ours:?} {theirs:?}");
        for (column, value) in ours {
            let theirs = &theirs[column];
            let is_same =
                value == theirs || value.as_f64().is_some_and(|v| Some(v) == theirs.as_f64());
            assert!(is_same, "{what}, {column}: {ours:?} {theirs:?}");
        }
    }
}

/// SQL's functions and the command give the same, of the whole recording and of a range, to the nanosecond.
#[test]
fn sql_says_what_the_command_says() {
    let dir = tempfile::tempdir().unwrap();
    let recording = nested(dir.path());
    let sql = |sql: &str| selected(dir.path(), &recording, sql);
    let all = explained(dir.path(), &[&recording, "--all"]);
    same("findings()", &sql("SELECT * FROM findings()"), &all["findings"]);
    same("blame()", &sql("SELECT * FROM blame()"), &all["blame"]);
    let disk = all["roots"].as_array().unwrap().iter();
    let disk =
        disk.clone().find(|root| root["name"].as_str().unwrap().contains("wl-disk")).unwrap();
    let tid = disk["tid"].to_string();
    let start = number(&disk["window"], "from");
    let (from, until) = (start + 100_000_000, start + 400_000_000);
    let [from_text, until_text] = [from, until].map(|ns| ns.to_string());
    let range = ["--from", &from_text, "--until", &until_text];
    for (words, call) in
        [(&[][..], format!("1, {tid}")), (&range[..], format!("1, {tid}, {from}, {until}"))]
    {
        let words = [&[&recording[..], "--vm", "1", "--thread", &tid][..], words].concat();
        let one = explained(dir.path(), &words);
        let root = &one["roots"][0];
        let of = |function: &str| sql(&format!("SELECT * FROM {function}({call})"));
        same("critical_path", &of("critical_path"), &root["path"]);
        same("blame", &of("blame"), &one["blame"]);
        if words.len() == 5 {
            let of_path = sql(&format!("SELECT * FROM findings({call}, NULL, NULL)"));
            same("findings of a path", &of_path, &one["findings"]);
        }
        let sentences: Vec<Value> =
            of("explanation").into_iter().map(|row| row["sentence"].clone()).collect();
        assert_eq!(Value::from(sentences), root["sentences"]);
    }
    // A vCPU is its host's thread.
    let vcpu = explained(dir.path(), &[&recording, "--vm", "1"]);
    let root = &vcpu["roots"][0];
    let path = sql("SELECT * FROM critical_path(1, 'vcpu0')");
    same("vcpu0", &path, &root["path"]);
    let sums = sql("SELECT state, sum(dur) AS ns FROM critical_path(1, 'vcpu0') GROUP BY state");
    let length = number(&root["window"], "until") - number(&root["window"], "from");
    assert_eq!(sums.iter().map(|row| number(row, "ns")).sum::<i64>(), length);
}

/// Pages show what the commands print: each block that begins with a command on a recording of the source.
#[test]
fn pages_show_what_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("nested.transect").to_str().unwrap().to_owned();
    let [host, guest] = ["nested/host.dat", "nested/guest.dat"].map(testdata);
    let words = ["import", &host, &guest, "--tsc-hz", "2596100000", "-o", &nested];
    assert!(transect(dir.path(), &words).status.success());
    let is_blessed = std::env::var_os("TRANSECT_BLESS").is_some();
    let mut blocks = 0;
    for name in ["reference/explain.md", "guides/why-slow.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let page = std::fs::read_to_string(&path).unwrap();
        let mut made = String::new();
        for (at, part) in page.split("```\n").enumerate() {
            let command = last_command(part);
            made += if at == 0 { "" } else { "```\n" };
            let Some((commands, command)) = command.filter(|_| at % 2 == 1) else {
                made += part;
                continue;
            };
            let words: Vec<String> = command
                .split_whitespace()
                .map(|word| match word.strip_prefix("testdata/succeed/") {
                    Some(file) => testdata(file),
                    None => word.replace("nested.transect", &nested),
                })
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = transect(dir.path(), &[&["explain"][..], &words].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            made += &commands;
            made += std::str::from_utf8(&output.stdout).unwrap();
            blocks += 1;
        }
        if is_blessed {
            std::fs::write(&path, made).unwrap();
        } else {
            assert_eq!(page, made, "{name}: TRANSECT_BLESS=1 writes it anew");
        }
    }
    assert_eq!(blocks, 3);
}

/// The lines of a block up to its last command, and that command, if it is about a recording of the source.
fn last_command(block: &str) -> Option<(String, String)> {
    const PROMPT: &str = "$ transect explain ";
    let lines: Vec<&str> = block.lines().collect();
    let at = lines.iter().rposition(|line| line.starts_with(PROMPT))?;
    let command = lines[at].strip_prefix(PROMPT)?.to_owned();
    let is_ours = command.contains("testdata/") || command.contains("nested.transect");
    is_ours.then(|| (lines[..=at].join("\n") + "\n", command))
}

fn finding<'f>(explained: &'f Value, detector: &str, subject: &str) -> Option<&'f Value> {
    let mut all = explained["findings"].as_array().unwrap().iter();
    all.find(|finding| finding["detector"] == detector && finding["subject"] == subject)
}

/// A domU with a cap of 30 % that computes: it ran 30 % of the time, its neighbours are no cause of most of the rest.
#[test]
fn a_cap_under_xen_is_no_neighbour() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/cap.bin");
    let words = [&bin[..], "--cpu-hz", "999999000", "--domain", "1=hog", "--domain", "2=duty"];
    let all = explained(dir.path(), &words);
    for root in all["roots"].as_array().unwrap() {
        check(root);
    }
    let cap = finding(&all, "throttled", "hog vcpu0").unwrap();
    assert_eq!(cap["confidence"], "likely");
    assert!(finding(&all, "starved", "hog vcpu0").is_none());
    let root = all["roots"].as_array().unwrap().iter().find(|root| root["name"] == "hog vcpu0");
    let window = &root.unwrap()["window"];
    let length = number(window, "until") - number(window, "from");
    let percent = |ns: i64| 100 * ns / length;
    let ran = root.unwrap()["sums"].as_array().unwrap().iter();
    let ran = ran.filter(|sum| sum["state"] == "running").map(|sum| number(sum, "total_ns"));
    assert_eq!(percent(ran.sum()), 30);
    assert_eq!(percent(number(cap, "held_ns")), 63);
    let blamed = all["blame"].as_array().unwrap().iter();
    let most = blamed.filter(|line| line["level"] == "machine" && line["victim"] == "hog");
    let most = most.max_by_key(|line| number(line, "total_ns")).unwrap();
    assert_eq!((&most["culprit"], &most["why"]), (&"its quota".into(), &"throttled".into()));
}

#[test]
fn a_short_range_has_sentences_and_no_findings() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/cap.bin");
    let range = ["--from", "+200ms", "--until", "+300ms"];
    let words = [&[&bin[..], "--cpu-hz", "999999000"][..], &range].concat();
    let all = explained(dir.path(), &words);
    assert!(all["findings"].is_null());
    for root in all["roots"].as_array().unwrap() {
        check(root);
        assert!(!root["sentences"].as_array().unwrap().is_empty());
    }
    let output = transect(dir.path(), &[&["explain"][..], &words].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("none: the range is shorter than a second"), "{text}");
}

#[test]
fn what_cannot_be_explained_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let recording = nested(dir.path());
    for (words, why) in [
        (&["--thread", "nobody"][..], "no thread in this range is called"),
        (&["--vm", "nobody"], "no machine is called"),
        (&["--from", "+2000", "--until", "+1000"], "range"),
        (&["--thread", "kworker/0:1", "--all"], "cannot be used with"),
    ] {
        let output = transect(dir.path(), &[&["explain", &recording][..], words].concat());
        assert!(!output.status.success(), "{words:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(why), "{words:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}
