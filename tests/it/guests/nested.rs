//! The flagship: a KVM host and its guests in one recording, on real kernels.
//!
//! One host is booted for all tests of this file (nested KVM where this machine has none) and the
//! tests take turns on it, because each of them records everything that happens there.
//! Never skipped: what it needs comes from Debian packages.

#![allow(clippy::print_stdout, reason = "what was measured belongs in the log of a test run")]

mod explain;
mod io;
#[path = "../../live_equals.rs"]
mod live_equals;
mod time;
mod top_screen;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use transect_e2e::{
    agent, events_of, number, on_shared_host, report, report_with, rows, trace_cmd_events, transect,
};
use transect_testbed::{
    Guest, KvmHost,
    counting::{Counted, Counts},
};

/// The host of this file, for one test at a time.
struct Bed {
    host: &'static KvmHost,
    /// `transect` as the host sees it.
    transect: String,
    /// Where recordings are brought to.
    here: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Bed {
    fn take(host: &'static KvmHost) -> Result<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        host.put(transect()?, "transect")?;
        let transect = host.scratch().join("transect").display().to_string();
        Ok(Bed { host, transect, here: tempfile::tempdir()?, _turn: turn })
    }

    /// A guest whose agent listens on vsock.
    fn guest(&self, name: &str, workload: &str) -> Result<Guest> {
        self.host.guest(name).workload(workload).agent(agent()?, &["--vsock"]).boot()
    }

    /// Brings a recording of the host here.
    fn fetch(&self, name: &str) -> Result<PathBuf> {
        let to = self.here.path().join(name);
        self.host.get(name, &to)?;
        Ok(to)
    }
}

/// `--guest` for a guest of the testbed.
fn spec(guest: &Guest) -> Result<String> {
    let cid = guest.cid().context("the guest has no vsock")?;
    Ok(format!("--guest name={},vsock:{cid}", guest.name()))
}

fn machine_id(report: &Value, name: &str) -> Result<i64> {
    let machines = rows(report, "machines")?;
    let found = machines.iter().find(|m| m["name"] == name);
    number(found.with_context(|| format!("no machine {name} in {machines:?}"))?, "machine_id")
}

/// The states of every vCPU fill the window to the nanosecond.
fn expect_states_to_fill_the_window(report: &Value) -> Result<()> {
    let vcpus = rows(report, "vcpus")?;
    ensure!(!vcpus.is_empty(), "no vCPU in the report");
    for vcpu in vcpus {
        let parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
        let sum = parts.iter().map(|part| number(vcpu, part)).sum::<Result<i64>>()?;
        ensure!(sum == number(vcpu, "window_ns")?, "states do not fill the window: {vcpu}");
    }
    Ok(())
}

#[test]
fn counting_guest_exits_are_exact() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        let asked = Counts { hypercalls: 211, port_writes: 307, halts: 101 };
        let counting = asked.command(bed.host).unwrap();
        let out = bed
            .host
            .run(&format!(
                "perf stat -x, -a -e kvm:kvm_exit -e kvm:kvm_hypercall -o perf.csv \
             {} record -o counting.transect -- {counting}; cat perf.csv",
                bed.transect
            ))
            .within(240)
            .unwrap();
        let counted = Counted::in_output(&out.expect_success().stdout).unwrap();
        let perf = |event: &str| -> i64 {
            let line = out.stdout.lines().find(|l| l.contains(event)).expect("perf's line");
            line.split(',').next().and_then(|n| n.parse().ok()).expect("perf's count")
        };

        let report = report(&bed.fetch("counting.transect").unwrap()).unwrap();
        let exits = rows(&report, "exits").unwrap();
        let count = |reason: &str| -> i64 {
            exits
                .iter()
                .filter(|e| e["reason"] == reason)
                .map(|e| number(e, "count").unwrap())
                .sum()
        };
        let [hypercall, port, halt] = match counted.vendor.as_str() {
            "amd" => ["hypercall", "io", "hlt"],
            _ => ["VMCALL", "IO_INSTRUCTION", "HLT"],
        };
        assert_eq!(count(hypercall), 211);
        assert_eq!(count(port), 307);
        assert_eq!(count(halt), 101);
        let all: i64 = exits.iter().map(|e| number(e, "count").unwrap()).sum();
        assert_eq!(all, perf("kvm:kvm_exit"), "perf counted the same run");
        assert_eq!(perf("kvm:kvm_hypercall"), 211);
        expect_states_to_fill_the_window(&report).unwrap();
    });
}

#[test]
fn host_and_two_guests_are_on_one_clock() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        let web = bed.guest("web", "periodic:period_ms=20:work_us=500").unwrap();
        let mixed = bed.guest("mixed", "mix:rounds=1000").unwrap();
        bed.host
            .run(&format!(
                "{} record --full -o pair.transect {} {} --duration 4s",
                bed.transect,
                spec(&web).unwrap(),
                spec(&mixed).unwrap()
            ))
            .within(240)
            .unwrap()
            .expect_success();
        let dir = bed.fetch("pair.transect").unwrap();
        let exact = report(&dir).unwrap();
        expect_states_to_fill_the_window(&exact).unwrap();
        for name in ["web", "mixed"] {
            expect_alignment_by_tsc(&exact, name).unwrap();
        }
        expect_estimate_within_its_bound(&dir, &exact).unwrap();
        expect_trace_cmd_to_agree(&dir).unwrap();

        // The same with the compact collector on the host and in both guests.
        bed.host
            .run(&format!(
                "{} record -o pair-compact.transect {} {} --duration 4s",
                bed.transect,
                spec(&web).unwrap(),
                spec(&mixed).unwrap()
            ))
            .within(240)
            .unwrap()
            .expect_success();
        let dir = bed.fetch("pair-compact.transect").unwrap();
        for file in ["host.compact", "guest-web.compact", "guest-mixed.compact"] {
            assert!(dir.join(file).exists(), "{file} was not recorded");
        }
        let compact = report(&dir).unwrap();
        expect_states_to_fill_the_window(&compact).unwrap();
        for name in ["web", "mixed"] {
            expect_alignment_by_tsc(&compact, name).unwrap();
        }
        web.kill().unwrap();
        mixed.kill().unwrap();
    });
}

/// Offset exact, and every testable guest event inside its vCPU's guest-mode intervals.
fn expect_alignment_by_tsc(report: &Value, name: &str) -> Result<()> {
    let id = machine_id(report, name)?;
    let of_machine = |row: &&Value| row["machine_id"] == id;
    let edges = rows(report, "clock_edges")?;
    let edge =
        edges.iter().find(of_machine).with_context(|| format!("no clock edge for {name}"))?;
    ensure!(edge["method"] == "tsc_offset", "{name} is aligned by {edge}");
    let checks = rows(report, "clock_check")?;
    let check = checks.iter().find(of_machine).with_context(|| format!("no check of {name}"))?;
    ensure!(number(check, "tested")? > 100, "hardly anything was tested: {check}");
    ensure!(number(check, "outside")? == 0, "guest events outside guest mode: {check}");
    ensure!(number(check, "slack_later_ns")? > 0, "the check states no sensitivity: {check}");
    Ok(())
}

/// Without the TSC offset, the channel's estimate is no further from the truth than it says.
fn expect_estimate_within_its_bound(dir: &Path, exact: &Value) -> Result<()> {
    let estimated = report_with(dir, &["--no-tsc-offset"])?;
    let ticks_per_ns = rows(exact, "clock_edges")?
        .iter()
        .find(|edge| edge["method"] == "tsc_rate")
        .and_then(|edge| edge["rate"].as_f64())
        .context("the host's tick rate is not told")?;
    let estimates = rows(&estimated, "clock_edges")?.iter().filter(|e| e["method"] == "exchange");
    let mut guests = 0;
    for edge in estimates {
        let same =
            |e: &&Value| e["machine_id"] == edge["machine_id"] && e["method"] == "tsc_offset";
        let truth = rows(exact, "clock_edges")?.iter().find(same).context("no exact edge")?;
        let off_ticks = (number(edge, "offset")? - number(truth, "offset")?).abs();
        #[expect(clippy::cast_precision_loss, reason = "an offset's error, far below 2^52")]
        let off_ns = off_ticks as f64 / ticks_per_ns;
        #[expect(clippy::cast_precision_loss, reason = "a bound, far below 2^52")]
        let bound_ns = number(edge, "error_bound_ns")? as f64;
        println!("estimate is {off_ns:.0} ns off the exact edge, its bound is {bound_ns:.0} ns");
        ensure!(off_ns <= bound_ns, "{off_ns} ns off, beyond the bound of {bound_ns}: {edge}");
        ensure!(number(edge, "samples")? > 10, "few brackets: {edge}");
        guests += 1;
    }
    ensure!(guests == 2, "no estimate for both guests: {}", estimated["clock_edges"]);
    Ok(())
}

/// trace-cmd reads each file of the recording: the same number of events in each, and for the
/// host (whose stamps need no conversion) the same events, field by field.
fn expect_trace_cmd_to_agree(dir: &Path) -> Result<()> {
    let manifest = std::fs::read_to_string(dir.join("manifest.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    for source in rows(&manifest, "sources")? {
        let machine = usize::try_from(number(source, "machine_id")?)?;
        let name =
            manifest["machines"][machine]["name"].as_str().context("machine without name")?;
        let file = dir.join(source["file"].as_str().context("source without a file")?);
        let ours = events_of(dir, name)?;
        let theirs = trace_cmd_events(&file)?;
        ensure!(ours.len() > 100, "{} is nearly empty", file.display());
        ensure!(
            ours.len() == theirs.len(),
            "{}: {} events, trace-cmd: {}",
            file.display(),
            ours.len(),
            theirs.len()
        );
        if machine == 0 {
            for (ours, theirs) in ours.iter().zip(&theirs) {
                ensure!(ours == theirs, "differs from trace-cmd:\n  {ours}\n  {theirs}");
            }
        }
    }
    Ok(())
}

/// Recorded and watched at the same time: the same windows. And who is starved is told by whom.
#[test]
fn live_windows_equal_a_recording_s_and_name_the_antagonist() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        let web = bed.guest("starved", "periodic:period_ms=20:work_us=2000").unwrap();
        let hog = bed.guest("greedy", "hog:threads=1").unwrap();
        let last = bed.host.run("echo $(($(nproc) - 1))").within(60).unwrap().ok().unwrap().stdout;
        web.pin(last.trim()).unwrap();
        hog.pin(last.trim()).unwrap();
        let favour = format!(
            "for task in /proc/{}/task/*; do renice -n -15 -p ${{task##*/}} >/dev/null; done",
            hog.pid().unwrap()
        );
        bed.host.run(&favour).within(60).unwrap().expect_success();
        for first in [First::Live, First::Recording] {
            expect_both_to_tell_the_same(&bed, first).unwrap();
        }
        web.kill().unwrap();
        hog.kill().unwrap();
    });
}

/// Whose programs the kernel runs first, which is who was there first: those of the other stamp when they are done.
#[derive(Clone, Copy, Debug)]
enum First {
    Live,
    Recording,
}

fn expect_both_to_tell_the_same(bed: &Bed, first: First) -> Result<()> {
    let transect = &bed.transect;
    let (live, dir) = (format!("{first:?}.jsonl"), format!("{first:?}.transect"));
    let top = format!("{transect} top --log {live} & top=$!");
    let record = format!("{transect} record -q -o {dir} & record=$!");
    let until = |what: &str| format!("until {what}; do sleep 0.5; done");
    let windows = format!("$(grep -c '\"table\":\"snapshot\"' {live})");
    let (of_live, of_recording) =
        (until(&format!("[ -s {live} ]")), until(&format!("[ -s {dir}/host.compact ]")));
    let (begin, both) = match first {
        First::Live => (format!("{top}; {of_live}; {record}"), of_recording),
        First::Recording => (format!("{record}; {of_recording}; {top}"), of_live),
    };
    bed.host
        .run(&format!(
            "{begin}; {both}; seen={windows}; {}; {transect} stop {dir}; wait $record; sleep 1; \
             kill -INT $top; wait $top",
            until(&format!("[ {windows} -ge $((seen + 12)) ]"))
        ))
        .within(400)?
        .expect_success();
    let live = bed.fetch(&live)?;
    if matches!(first, First::Live) {
        keep_as_sample(&live)?;
        expect_screen_names_it(&live)?;
    }
    let live = transect_e2e::lines(&std::fs::read_to_string(live)?)?;
    let dir = bed.fetch(&dir)?;
    let offline = transect_e2e::table_rows_by(&dir, &["--window", "1s"])?;
    println!("first: {first:?}");
    expect_equal_windows(&offline, &live)?;
    expect_antagonist(&live, "starved", "greedy")
}

/// The screen says it, too: in the list of VMs, and as the first in the way of the vCPU.
fn expect_screen_names_it(log: &Path) -> Result<()> {
    let row = |screen: &str, begins: &str| {
        screen.lines().find(|line| line.starts_with(begins)).unwrap_or_default().to_owned()
    };
    top_screen::shown(log, &[], |screen| row(screen, "starved").contains("% greedy"))?;
    let down = ["/", "s", "t", "a", "r", "v", "e", "d", "Enter", "Enter", "Enter"];
    let shown = top_screen::shown(log, &down, |screen| {
        let below = screen.split_once("ANTAGONISTS").map_or("", |(_, below)| below);
        below.lines().nth(1).is_some_and(|line| line.starts_with("greedy vCPU 0"))
    })?;
    println!("{}", shown.unwrap_or_default());
    Ok(())
}

/// With `TRANSECT_BLESS=1`: the log that the screen's tests show.
fn keep_as_sample(log: &Path) -> Result<()> {
    if std::env::var_os("TRANSECT_BLESS").is_some() {
        let to =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/succeed/live/nested.jsonl");
        std::fs::create_dir_all(to.parent().context("a file")?)?;
        let text = std::fs::read_to_string(log)?;
        let begins: Vec<usize> =
            text.match_indices("{\"table\":\"snapshot\"").map(|(at, _)| at).collect();
        // The last windows: more would only be larger.
        let from = begins.len().checked_sub(7).context("too few windows")?;
        std::fs::write(to, &text[begins[from]..])?;
    }
    Ok(())
}

/// Every program takes tens of microseconds in an emulated host, and the two stamp one after the other.
const EMULATED: live_equals::Slack =
    live_equals::Slack { edge_ns: 100_000, exit_ns: 10_000, is_paused: true };

fn expect_equal_windows(offline: &[Value], live: &[Value]) -> Result<()> {
    let of_guests = |whose: &str| whose.contains("starved") || whose.contains("greedy");
    let compared = live_equals::compare(offline, live, EMULATED, of_guests);
    println!(
        "{} rows, {} without an event near an edge, times within {} ppm",
        compared.rows, compared.exact, compared.worst_ppm
    );
    ensure!(compared.rows >= 8, "hardly a row in both: {compared:?}");
    ensure!(compared.wrong_counts == 0, "{:#?}", compared.wrong);
    // The machine below takes the emulated CPU away when it likes, between the two programs' stamps of one event, too
    // (7 and 22 ms were seen while that machine was busy): that event's two windows differ by it, and no others. What is
    // wrong in a program is wrong in all.
    println!("{} rows differ: {:#?}", compared.off, compared.wrong);
    ensure!(compared.off * 4 <= compared.rows, "{:#?}", compared.wrong);
    let exits = live.iter().filter(|row| row["table"] == "windows" && row["vcpu"] == 0);
    let exits: i64 = exits.filter_map(|row| row["exits"].as_i64()).sum();
    ensure!(exits > 1000, "only {exits} exits");
    Ok(())
}

/// The heaviest antagonist of a guest's vCPU is another guest's.
fn expect_antagonist(live: &[Value], victim: &str, culprit: &str) -> Result<()> {
    let id_of = |name: &str| {
        let found = live.iter().find(|row| row["table"] == "machines" && row["name"] == name);
        number(found.with_context(|| format!("no machine {name}"))?, "machine_id")
    };
    let (victim, culprit) = (id_of(victim)?, id_of(culprit)?);
    let mut by: std::collections::BTreeMap<i64, i64> = std::collections::BTreeMap::new();
    let rows = live.iter().filter(|row| {
        row["table"] == "antagonists" && row["machine_id"] == victim && row["vcpu"] == 0
    });
    for row in rows {
        *by.entry(number(row, "by_machine_id")?).or_default() += number(row, "ns")?;
    }
    println!("waited behind: {by:?}");
    let heaviest = by.iter().max_by_key(|(_, ns)| **ns).map(|(machine, _)| *machine);
    ensure!(heaviest == Some(culprit), "waited behind {by:?}, not behind machine {culprit}");
    Ok(())
}

/// One run, recorded by both collectors at once: the same exits, in the same order, as long; the
/// same threads on the CPU, one after the other.
#[test]
fn both_collectors_give_the_same_tables() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        // A name of its own: what a guest of this host leaves behind is found by its name.
        let both = bed.guest("both", "mix:rounds=1000").unwrap();
        // Full is on for longer, at both ends.
        let out = bed
            .host
            .run(&format!(
                "{0} record --full -o full.transect & full=$!; \
                 until grep -qs 1 /sys/kernel/tracing/instances/transect*/tracing_on; do sleep 0.2; done; \
                 {0} record -o compact.transect --duration 2s; sleep 0.5; \
                 {0} stop full.transect; wait $full",
                bed.transect
            ))
            .within(240)
            .unwrap();
        out.expect_success();
        both.expect_to_go_on("getppid").unwrap();
        both.kill().unwrap();
        let full = Told::of(&bed.fetch("full.transect").unwrap()).unwrap();
        let compact = Told::of(&bed.fetch("compact.transect").unwrap()).unwrap();

        let at = place_of(&compact.exits, &full.exits, |a, b| a.what == b.what);
        let at = at.expect("the compact recording's exits are not in the full one's, in order");
        let (few, of) = (compact.exits.len(), full.exits.len());
        assert!(few > 500, "only {few} exits, {of} in the full recording; {}", out.stderr);
        let same = &full.exits[at..at + compact.exits.len()];
        // Each collector's own work lies between the other's stamps, so lengths differ by it.
        let mut off: Vec<i64> =
            compact.exits.iter().zip(same).map(|(a, b)| (a.dur - b.dur).abs()).collect();
        off.sort_unstable();
        let mut lengths: Vec<i64> = same.iter().map(|exit| exit.dur).collect();
        lengths.sort_unstable();
        let (off, length) = (off[off.len() / 2], lengths[lengths.len() / 2]);
        println!("{} exits: lengths differ by {off} ns in the median of {length} ns", same.len());
        assert!(off * 2 < length, "lengths differ by {off} ns, in the median they are {length} ns");

        let at = place_of(&compact.slices, &full.slices, |a, b| a == b);
        assert!(at.is_some(), "the threads on the CPU are not the same, in order");
        println!("{} slices in the same order", compact.slices.len());
    });
}

/// What is compared of a recording's tables.
struct Told {
    exits: Vec<ToldExit>,
    /// Who had CPU 0, one after the other.
    slices: Vec<i64>,
}

struct ToldExit {
    /// Reason, instruction pointer and vCPU: what identifies an exit without a clock.
    what: (String, String, i64),
    dur: i64,
}

impl Told {
    fn of(dir: &Path) -> Result<Self> {
        let (mut exits, mut slices) = (Vec::new(), Vec::new());
        for row in transect_e2e::table_rows(dir)? {
            match row["table"].as_str() {
                Some("exits") if !row["dur"].is_null() => exits.push((
                    number(&row, "ts")?,
                    ToldExit {
                        what: (
                            row["reason"].to_string(),
                            row["rip"].to_string(),
                            number(&row, "vcpu")?,
                        ),
                        dur: number(&row, "dur")?,
                    },
                )),
                Some("cpu_slices") if row["cpu"] == 0 && !row["tid"].is_null() => {
                    slices.push((number(&row, "ts")?, number(&row, "tid")?));
                }
                _ => {}
            }
        }
        exits.sort_by_key(|(ts, _)| *ts);
        slices.sort_by_key(|(ts, _)| *ts);
        // The first and last slices are cut by the window.
        let inner = slices.len().saturating_sub(2);
        Ok(Told {
            exits: exits.into_iter().map(|(_, exit)| exit).collect(),
            slices: slices.into_iter().skip(1).take(inner).map(|(_, tid)| tid).collect(),
        })
    }
}

/// Where all of `part` is found in `whole`, one after the other.
fn place_of<T>(part: &[T], whole: &[T], same: impl Fn(&T, &T) -> bool) -> Option<usize> {
    let places = whole.len().checked_sub(part.len())? + 1;
    (0..places).find(|at| part.iter().zip(&whole[*at..]).all(|(a, b)| same(a, b)))
}

#[test]
fn a_guest_that_dies_costs_only_its_own_interval() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        let stays = bed.guest("stays", "periodic:period_ms=20:work_us=500").unwrap();
        let dies = bed.guest("dies", "periodic:period_ms=20:work_us=500").unwrap();
        let command = format!(
            "{} record -o dies.transect {} {}",
            bed.transect,
            spec(&stays).unwrap(),
            spec(&dies).unwrap()
        );
        let record = bed.host.run(&command).spawn().unwrap();
        // Loading programs takes an emulated kernel seconds: the recording begins when it begins.
        let begun = "until [ -e dies.transect/guest-dies.compact ]; do sleep 0.2; done; sleep 3";
        bed.host.run(begun).within(240).unwrap().expect_success();
        dies.kill().unwrap();
        let ends = format!("sleep 3; {} stop dies.transect", bed.transect);
        bed.host.run(&ends).within(240).unwrap().expect_success();
        record.finish_within(240).unwrap().expect_success();
        let report = report(&bed.fetch("dies.transect").unwrap()).unwrap();
        expect_states_to_fill_the_window(&report).unwrap();
        let (stays_id, dies_id) =
            (machine_id(&report, "stays").unwrap(), machine_id(&report, "dies").unwrap());
        let lost = rows(&report, "lost").unwrap();
        assert!(
            lost.iter()
                .any(|row| row["machine_id"] == dies_id && row["cause"] == "guest_disconnected"),
            "the missing interval is not marked: {lost:?}"
        );
        assert!(lost.iter().all(|row| row["machine_id"] != stays_id), "{lost:?}");
        stays.kill().unwrap();
    });
}
