//! `transect bench` as its users call it: a real matrix on this machine, killed and gone on with; its faces; what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests report by failing"
)]

use crate::bench_support::{lines, of_kind, said, transect};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const PLAN: &str = r#"
name = "small"
about = "of the tests"
seed = 11

[machine]
memory_mib = 512
disk_mib = 64

[procedure]
looks = [6]
limit_s = 60
sample_every_ms = 20

[[matrix]]
platforms = ["native"]
tracers = ["none", "append-1mb"]
workloads = ["micro/syscall", "micro/pipe"]

[workloads."micro/syscall"]
seconds = 0.02
batches = 5

[workloads."micro/pipe"]
seconds = 0.02
batches = 5
"#;

/// Cells and blocks of the plan: two workloads under two arms, and the reference once more.
const RUNS: usize = 2 * 3 * 6;

/// Can a cell of the plan run here at all?
fn is_refused(folder: &Path) -> bool {
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let out = transect(&["bench", "plan", plan.to_str().unwrap(), "--json"]);
    assert!(out.status.success(), "{}", said(&out));
    let planned: Value = serde_json::from_slice(&out.stdout).unwrap();
    let refused = planned["planned"]["refused"].as_array().unwrap();
    if let Some(first) = refused.first() {
        println!("skipped: {first}");
    }
    !refused.is_empty()
}

/// In the background; what it says goes into a file beside its results.
fn start(arguments: &[&str], said: &Path) -> Child {
    let said = std::fs::File::create(said).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(arguments).stdout(Stdio::null()).stderr(said).process_group(0);
    command.spawn().unwrap()
}

/// Kills it by force when so many more runs have ended, in the midst of the next.
fn kill_after(mut child: Child, results: &Path, said: &Path, runs: usize) {
    let before = of_kind(&lines(results), "ended").count();
    let began = Instant::now();
    while of_kind(&lines(results), "ended").count() < before + runs {
        assert!(began.elapsed() < Duration::from_secs(300), "no run ends");
        let ended = child.try_wait().unwrap();
        let told = || std::fs::read_to_string(said).unwrap_or_default();
        assert!(ended.is_none(), "{ended:?} before it was killed: {}", told());
        std::thread::sleep(Duration::from_millis(7));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_twice_it_goes_on_and_every_run_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    if is_refused(folder.path()) {
        return;
    }
    let (plan, results) = (folder.path().join("plan.toml"), folder.path().join("results"));
    let at = results.to_str().unwrap();
    // Where exactly is decided by the clock: anywhere in a run.
    let mut odd = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos() as usize;
    let mut some = |most: usize| {
        odd = odd.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (odd >> 33) % most
    };
    let told = folder.path().join("said");
    let first = start(&["bench", "run", plan.to_str().unwrap(), "-o", at], &told);
    kill_after(first, &results, &told, some(8));
    let half = lines(&results);
    kill_after(start(&["bench", "resume", at], &told), &results, &told, some(8));
    // A line that was being written when the power went.
    let journal = results.join("journal.jsonl");
    let mut torn = std::fs::read(&journal).unwrap();
    torn.extend_from_slice(b"{\"entry\":\"ended\",\"id\":\"r0");
    std::fs::write(&journal, torn).unwrap();
    let out = transect(&["bench", "resume", at]);
    assert!(out.status.success(), "{}", said(&out));

    let entries = lines(&results);
    assert_eq!(&entries[..half.len()], &half[..], "nothing that was written is changed");
    assert_eq!(of_kind(&entries, "resumed").count(), 2);
    assert!(of_kind(&entries, "resumed").any(|entry| entry["was_torn"] == true));
    assert_eq!(of_kind(&entries, "finished").count(), 1);
    let mut measured: BTreeMap<String, usize> = BTreeMap::new();
    for ended in of_kind(&entries, "ended") {
        assert!(ended["outcome"]["measured"].is_object(), "{ended}");
        let key = ["block", "workload", "platform", "tracer", "label"]
            .map(|name| ended[name].to_string());
        *measured.entry(key.join(" ")).or_default() += 1;
    }
    assert_eq!(measured.len(), RUNS, "{measured:#?}");
    assert!(measured.values().all(|times| *times == 1), "{measured:#?}");
    faces(&results, folder.path());
    confirmed(&results);
}

/// The suspects of both workloads are halved, or it is said why not; who asks again gets no other answer.
fn confirmed(results: &Path) {
    let at = results.to_str().unwrap();
    for _ in 0..2 {
        let out = transect(&["bench", "confirm", at, "--times", "4", "--quiet"]);
        assert!(out.status.success(), "{}", said(&out));
        let entries = lines(results);
        let answers: Vec<&Value> = of_kind(&entries, "confirmed").collect();
        assert_eq!(answers.len(), 2, "{answers:#?}");
        for answer in answers {
            assert_eq!(answer["tracer"], "none");
            match answer["elasticity"].as_object() {
                Some(elasticity) => assert_eq!(elasticity["runs"], serde_json::json!([4, 4])),
                None => assert!(answer["refused"]["why"].is_string(), "{answer}"),
            }
        }
    }
}

/// Everything that shows results, over these.
fn faces(results: &Path, folder: &Path) {
    let at = results.to_str().unwrap();
    let json = transect(&["bench", "report", at, "--json"]);
    assert!(json.status.success(), "{}", said(&json));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["blocks"], 6);
    assert_eq!(report["resumes"], 2);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        assert!(
            cell["limiter"]["evidence"].as_str().is_some_and(|text| !text.is_empty()),
            "{cell}"
        );
    }
    let contrast = |name: &str| {
        let all = report["comparisons"].as_array().unwrap().iter();
        all.filter(|one| one["contrast"] == name).cloned().collect::<Vec<_>>()
    };
    for comparison in contrast("noise").iter().chain(&contrast("tracer")) {
        let (low, high) = (&comparison["estimate"]["low"], &comparison["estimate"]["high"]);
        assert!(low.as_f64().unwrap() <= high.as_f64().unwrap(), "{comparison}");
        assert_eq!(comparison["ratios"].as_array().unwrap().len(), 6);
    }
    assert_eq!((contrast("noise").len(), contrast("tracer").len()), (2, 2));

    let text = transect(&["bench", "report", at]);
    assert!(said(&text).contains("micro/pipe"), "{}", said(&text));
    let csv = transect(&["bench", "report", at, "--csv", "runs"]);
    assert_eq!(String::from_utf8_lossy(&csv.stdout).lines().count(), 1 + RUNS);
    let page = folder.join("page.html");
    let html = transect(&["bench", "report", at, "--html", page.to_str().unwrap()]);
    assert!(html.status.success(), "{}", said(&html));
    assert!(std::fs::read_to_string(page).unwrap().contains("append-1mb"));
    let parquet = folder.join("tables");
    let tables = transect(&["bench", "report", at, "--parquet", parquet.to_str().unwrap()]);
    assert!(tables.status.success(), "{}", said(&tables));
    assert_eq!(std::fs::read_dir(parquet).unwrap().count(), 5);

    // A limit that nothing can reach. Of two questions at once six blocks have no interval of enough confidence.
    let gate = |more: &[&str]| {
        transect(&[&["bench", "gate", at, "--at-most", "100000%"], more].concat()).status.code()
    };
    assert_eq!(gate(&["--workload", "micro/pipe"]), Some(0));
    assert_eq!(gate(&[]), Some(1));
    assert_eq!(gate(&["--lenient"]), Some(0));
    assert_eq!(gate(&["--tracer", "nobody"]), Some(2));
    let compared = transect(&["bench", "compare", at, at]);
    assert!(compared.status.success(), "{}", said(&compared));
    let published = transect(&["bench", "publish", at, "--json"]);
    assert!(published.status.success(), "{}", said(&published));

    let again = transect(&["bench", "run", "quick", "-o", at]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("bench resume"), "{}", said(&again));
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let tried = |change: (&str, &str), told: &str| {
        let plan = folder.path().join("plan.toml");
        std::fs::write(&plan, PLAN.replace(change.0, change.1)).unwrap();
        let out = transect(&["bench", "plan", plan.to_str().unwrap()]);
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        assert_eq!(said(&out).matches(told).count(), 1, "{told} is not once in {}", said(&out));
    };
    tried(("seed = 11", "seed = 11\ncolour = 3"), "colour");
    tried(("seed = 11", "seed = \"x\""), "line");
    tried(("micro/pipe\"]\nseconds", "micro/pipe\"]\nsecondz"), "secondz");
    tried(("workloads = [\"micro/syscall\"", "workloads = [\"micro/nothing\""), "micro/nothing");
    tried(("\"none\", \"append-1mb\"", "\"append-1mb\", \"strace\""), "no reference run");
    tried(("[[matrix]]", "[[matrix]]\ncaches = [\"cold\"]"), "cache");
    tried(("looks = [6]", "looks = [6, 3]"), "looks");
}

#[test]
fn the_plans_of_the_program_are_plans() {
    let list = transect(&["bench", "list"]);
    assert!(list.status.success() && said(&list).contains("PLATFORMS"), "{}", said(&list));
    for plan in [
        "quick",
        "full",
        "published",
        "published-guests",
        "published-network",
        "published-tar",
        "published-xen",
    ] {
        let out = transect(&["bench", "plan", plan]);
        assert!(out.status.success(), "{plan}: {}", said(&out));
    }
}

#[test]
fn the_plan_of_the_documentation_is_a_plan() {
    let page = include_str!("../../../../../docs/reference/bench.md");
    let (_, after) = page.split_once("```toml\n").unwrap();
    let (plan, _) = after.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, plan).unwrap();
    let out = transect(&["bench", "plan", path.to_str().unwrap()]);
    assert!(out.status.success(), "{}", said(&out));
}
