//! XenMon's metrics of a live run. What `record` in dom0 makes of xentrace's stream is, for every full window and to the
//! nanosecond, what is made of the file that xentrace wrote at the same time; half-done recordings say the same of the
//! windows they have wholly; a cap reads as it was set; and xentop, which asks Xen and not its trace, sees the same shares.
//! What `transect top` shows meanwhile is what is made of the file, too; an xentrace that dies under it is told.
//!
//! One host with one pCPU, whose time is counted in instructions, and which is never idle: shares are exact whatever else
//! this machine does.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what was measured belongs in the log of a test run; a failed expectation is the report"
)]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};
use transect_e2e::{lines, number, output_of, table_rows_by, transect};
use transect_testbed::{
    XenHost,
    xen::{self, TscMode, XenOptions},
};

/// Full windows of the whole run; a recorder that has dom0's share of a busy pCPU takes a while to begin.
const FULL_WINDOWS: usize = 5;
/// Percent of a pCPU.
const CAP: f64 = 30.0;
const CAP_WITHIN: f64 = 0.3;
/// Points of a percentage.
const XENTOP_WITHIN: f64 = 2.0;

/// XenMon's metrics, window by window, with all that a row has but the machine's number.
const WINDOWS: &str = "SELECT m.name AS machine, w.vcpu, w.cpu, w.ts, w.dur, w.executions, w.gotten_ns, w.waited_ns, \
    w.blocked_ns, w.offline_ns, w.unknown_ns, w.allocations, w.allocated_avg_ns, w.allocated_min_ns, \
    w.allocated_max_ns, w.io_count, w.exits \
    FROM windows w JOIN machines m ON m.machine_id = w.machine_id ORDER BY w.ts, m.name, w.vcpu, w.cpu";

#[test]
fn the_live_run_is_the_file_and_shares_are_xens_own() {
    if let Some(why) = xen::missing() {
        println!("skipped: {why}");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let hz = record(here.path()).unwrap();
    the_file_is_the_stream(here.path()).unwrap();
    half_done_recordings_agree(here.path(), hz).unwrap();
    the_live_recording_agrees(here.path(), hz).unwrap();
    xentop_sees_the_same(here.path()).unwrap();
    the_cap_reads_as_set(here.path()).unwrap();
    top_is_the_file(here.path()).unwrap();
    a_dying_xentrace_is_told(here.path()).unwrap();
}

/// Records a busy host: into `live.transect`, of which `part1` to `part3` are copies made meanwhile; what xentrace wrote is
/// in `beside.bin` too. Returns the rate of the TSC.
fn record(here: &Path) -> Result<u64> {
    let host = XenHost::boot_with(&XenOptions {
        cpus: 1,
        lifetime: Duration::from_secs(1800),
        ..XenOptions::default()
    })?;
    let binary = transect()?;
    let link = format!("test -x {0} && ln -s {0} transect", binary.display());
    if host.run(&link).within(60)?.code != 0 {
        host.put(binary, "transect")?;
    }
    let domu = |name: &str| host.domu(name).pv().tsc_mode(TscMode::Native);
    // Its weight lets it have what its cap allows, whatever the recorder does in dom0.
    let _hog = domu("hog").weight(2048).cap(30).workload("hog").boot()?;
    let duty = domu("duty").workload("periodic:period_ms=50:work_us=5000").boot()?;
    duty.wait_for("lateness").within(120)?;
    let _filler = host.never_idle()?;
    host.run(TEE).within(60)?.ok()?;
    let out = host.run(SCENE).within(1200)?.ok()?;
    println!("{}{}", out.stdout, out.stderr);
    let out = host.run(TOP).within(600)?.ok()?;
    println!("{}{}", out.stdout, out.stderr);
    for name in [
        "live.transect",
        "part1",
        "part2",
        "part3",
        "beside.bin",
        "top.txt",
        "quiet.transect",
        "top.jsonl",
        "top.bin",
        "once.json",
        "killed.jsonl",
    ] {
        host.get(name, here.join(name))?;
    }
    host.tsc_hz()
}

/// In front of xentrace a script of its name, that has all its output copied on the way.
const TEE: &str = r#"set -e
tool=$(ls /usr/lib/xen-*/bin/xentrace)
mkdir real && mv $tool real/
cat >$tool <<END
#!/bin/bash
cd $PWD && mkfifo way && { tee -a copied.bin <way & } && exec >way && rm way && exec real/xentrace "\$@"
END
chmod +x $tool"#;

/// Each step waits for the one before it, however long that takes: the recorder lives until it is told to end.
const SCENE: &str = r#"no() { echo "$*" >&2; exit 1; }
    ./transect record --xen only --xen-events sched,pv -o live.transect --duration 120s >said.txt 2>&1 &
    recorder=$!
    for n in $(seq 600); do test -s live.transect/xen.bin && break; sleep 0.05; done
    sleep 1.5; cp -r live.transect part1
    xentop -b -f -d 1 -i 4 >top.txt || no xentop
    cp -r live.transect part2
    sleep 0.5; cp -r live.transect part3
    sleep 1; kill -TERM $recorder || no "the recorder has ended: $(cat said.txt)"
    wait $recorder || no "the recorder failed: $(cat said.txt)"
    mv copied.bin beside.bin
    cat said.txt
    ./transect record -q --xen only --xen-events sched -o quiet.transect --duration 3s || no quiet"#;

/// `top` chooses Xen by itself in a dom0. Under the last one its `xentrace` is killed, when two windows are there.
const TOP: &str = r#"no() { echo "$*" >&2; exit 1; }
    rm -f copied.bin
    ./transect top --log top.jsonl --windows 4 || no top
    mv copied.bin top.bin
    ./transect top --once --json >once.json || no once
    ./transect top --source xen --log killed.jsonl --windows 7 &
    top=$!
    for n in $(seq 600); do test "$(grep -s '"snapshot"' killed.jsonl | wc -l)" -ge 2 && break; sleep 0.05; done
    kill -9 $(pidof xentrace) || no "no xentrace to kill"
    wait $top || no "top failed"
    ! pidof xentrace || no "xentrace has survived top""#;

fn the_file_is_the_stream(here: &Path) -> Result<()> {
    let (live, beside) =
        (fs::read(here.join("live.transect/xen.bin"))?, fs::read(here.join("beside.bin"))?);
    let same = live.iter().zip(&beside).take_while(|(a, b)| a == b).count();
    ensure!(live == beside, "{same} bytes alike, of {} and {}", live.len(), beside.len());
    println!("{} bytes of xentrace, the same live and beside", live.len());
    Ok(())
}

fn half_done_recordings_agree(here: &Path, hz: u64) -> Result<()> {
    let whole = windows(&imported(here, "beside.bin", hz)?)?;
    // Whatever the copies end with, one of them ends within a window.
    let cut = fs::File::options().write(true).open(here.join("part2/xen.bin"))?;
    cut.set_len(cut.metadata()?.len().saturating_sub(1001))?;
    let mut counts = Vec::new();
    for part in ["part1", "part2", "part3"] {
        ensure!(!windows(&here.join(part))?.is_empty(), "{part} cannot be asked while it grows");
        let part = windows(&imported(here, &format!("{part}/xen.bin"), hz)?)?;
        counts.push(same_full_windows(&part, &whole)?);
    }
    // xentop's three seconds are between the first copy and the second, half of one between that and the third.
    let grew = counts[1] > counts[0] && counts[2] >= counts[1];
    ensure!(grew, "full windows of the three copies: {counts:?}");
    Ok(())
}

/// What the recording itself says, and the file beside it on the recording's clock, which measured the TSC's rate itself.
fn the_live_recording_agrees(here: &Path, hz: u64) -> Result<()> {
    let live = here.join("live.transect");
    let beside = imported(here, "beside.bin", hz)?;
    fs::copy(live.join("clocks.jsonl"), beside.join("clocks.jsonl"))?;
    let (live, beside) = (windows(&live)?, windows(&beside)?);
    let count = same_full_windows(&live, &beside)?;
    ensure!(count >= FULL_WINDOWS, "{count} full windows");
    println!("{count} full windows, {} rows, the same live and of the file", live.len());
    Ok(())
}

/// Second by second, where nothing else goes on but the recording; over all seconds, with xentop and copying beside it.
fn the_cap_reads_as_set(here: &Path) -> Result<()> {
    let [quiet, busy] =
        ["quiet.transect", "live.transect"].map(|name| shares_of_hog(&here.join(name)));
    let (quiet, busy) = (quiet?, busy?);
    println!("hog, second by second: {quiet:.3?} %, and while more goes on {busy:.2?} %");
    ensure!(quiet.len() >= 2 && busy.len() >= FULL_WINDOWS, "{} and {}", quiet.len(), busy.len());
    #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
    let mean = busy.iter().sum::<f64>() / busy.len() as f64;
    for share in quiet.into_iter().chain([mean]) {
        ensure!((share - CAP).abs() <= CAP_WITHIN, "{share} %");
    }
    Ok(())
}

/// Each window's rows of `top` are those of the file that xentrace wrote meanwhile, in all columns.
fn top_is_the_file(here: &Path) -> Result<()> {
    let facts: Value = serde_json::from_slice(&fs::read(here.join("live.transect/xen.json"))?)?;
    let hz = facts["cpu_hz"]["hz"].as_u64().context("xen.json has no cpu_hz")?;
    let offline = table_rows_by(&imported(here, "top.bin", hz)?, &["--window", "1s"])?;
    let live = lines(&fs::read_to_string(here.join("top.jsonl"))?)?;
    let (live_names, offline_names) = (names(&live)?, names(&offline)?);
    let mut compared = 0;
    for row in of_table(&live, "windows") {
        let name = &live_names[&number(row, "machine_id")?];
        let same = of_table(&offline, "windows").find(|other| {
            ["ts", "dur", "vcpu"].iter().all(|column| other[*column] == row[*column])
                && other["cpu"].is_null()
                && number(other, "machine_id").is_ok_and(|id| &offline_names[&id] == name)
        });
        let same = same.with_context(|| format!("the file has no row of {name}: {row}"))?;
        let columns = row.as_object().context("no row")?.iter();
        for (column, value) in columns.filter(|(_, value)| !value.is_null()) {
            let is_number = ["machine_id", "table"].contains(&column.as_str());
            ensure!(is_number || *value == same[column], "{name} {column}: {row} {same}");
        }
        compared += 1;
    }
    println!("{compared} rows of top, the same of the file");
    // Four domains of one vCPU each, and each as a whole.
    ensure!(compared >= 4 * 8, "{compared} rows");
    top_shows_who_waits(&live, &live_names)?;
    let once: Value = serde_json::from_slice(&fs::read(here.join("once.json"))?)?;
    let machines = once["machines"].as_array().context("no machines")?;
    let named = |name: &str| machines.iter().any(|machine| machine["name"] == name);
    ensure!(named("dom0") && named("hog") && named("duty"), "{machines:?}");
    ensure!(once["cpu_windows"].as_array().is_some_and(|rows| rows.len() == 1), "{once}");
    Ok(())
}

/// `hog` has its cap's share; `duty`, which wakes into it, waits behind `hog` and dom0.
fn top_shows_who_waits(rows: &[Value], names: &BTreeMap<i64, String>) -> Result<()> {
    let name = |row: &Value, column: &str| number(row, column).map(|id| names[&id].clone());
    let mut shares = Vec::new();
    for row in of_table(rows, "windows").filter(|row| row["vcpu"].is_null()) {
        if name(row, "machine_id")? == "hog" {
            shares.push(percent(row, "gotten_ns")?);
        }
    }
    println!("hog in top: {shares:.2?} %");
    #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    ensure!((mean - CAP).abs() <= XENTOP_WITHIN, "{mean} %");
    let mut behind: BTreeMap<String, i64> = BTreeMap::new();
    for row in of_table(rows, "antagonists") {
        if name(row, "machine_id")? == "duty" {
            *behind.entry(name(row, "by_machine_id")?).or_default() += number(row, "ns")?;
        }
    }
    println!("duty waited behind {behind:?}");
    ensure!(behind.contains_key("hog") || behind.contains_key("dom0"), "{behind:?}");
    let lost = of_table(rows, "health").map(|row| number(row, "missed_events"));
    ensure!(lost.collect::<Result<Vec<_>>>()?.iter().all(|lost| *lost == 0), "lost records");
    Ok(())
}

/// `xentrace` was killed in the middle: that is told, another one goes on, and nothing hangs.
fn a_dying_xentrace_is_told(here: &Path) -> Result<()> {
    let rows = lines(&fs::read_to_string(here.join("killed.jsonl"))?)?;
    let told = of_table(&rows, "missing").filter_map(|row| row["why"].as_str());
    let told: Vec<&str> = told.filter(|why| why.contains("xentrace")).collect();
    ensure!(told.iter().any(|why| why.contains("killed by signal 9")), "{told:?}");
    let windows = of_table(&rows, "snapshot").count();
    ensure!(windows == 7, "{windows} windows");
    let last = of_table(&rows, "cpu_windows").last().context("no CPU")?;
    ensure!(number(last, "unknown_ns")? == 0, "known again: {last}");
    Ok(())
}

fn of_table<'a>(rows: &'a [Value], table: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["table"] == table)
}

/// Machines by number.
fn names(rows: &[Value]) -> Result<BTreeMap<i64, String>> {
    let of = |row: &Value| {
        let name = row["name"].as_str().context("a machine without a name")?;
        Ok((number(row, "machine_id")?, name.to_owned()))
    };
    of_table(rows, "machines").map(of).collect()
}

fn shares_of_hog(recording: &Path) -> Result<Vec<f64>> {
    let rows = windows(recording)?;
    let of_hog = rows.iter().filter(|row| row["machine"] == "hog" && is_whole(row) && is_full(row));
    of_hog.map(|row| percent(row, "gotten_ns")).collect()
}

/// xentop asks Xen how long each domain has run, between two readings of the clock. Each of its looks begins with a
/// `sysctl` of dom0's, a second after the last of the look before.
fn xentop_sees_the_same(here: &Path) -> Result<()> {
    let live = here.join("live.transect");
    let rows = sql(&live, "SELECT ts FROM ev_xen_pv_hypercall_v2 WHERE op = 35 ORDER BY ts")?;
    let asked = rows.iter().map(|row| number(row, "ts")).collect::<Result<Vec<_>>>()?;
    let is_first = |at: &usize| *at == 0 || asked[*at] - asked[*at - 1] > 500_000_000;
    let asked: Vec<i64> = (0..asked.len()).filter(is_first).map(|at| asked[at]).collect();
    let looks = xentop(&fs::read_to_string(here.join("top.txt"))?)?;
    ensure!(looks.len() >= 4 && asked.len() >= looks.len(), "{looks:?} at {asked:?}");
    for (look, between) in looks[1..].iter().zip(asked.windows(2)) {
        let (from, to) = (between[0], between[1]);
        let ran = sql(
            &live,
            &format!(
                "SELECT m.name, sum(least(s.ts + s.dur, {to}) - greatest(s.ts, {from})) AS ran_ns, {to} - {from} AS dur \
             FROM vcpu_states s JOIN machines m ON m.machine_id = s.machine_id \
             WHERE s.ts < {to} AND s.ts + s.dur > {from} AND s.state IN ('running', 'hypercall', 'trap') GROUP BY m.name"
            ),
        )?;
        ensure!(ran.len() == look.len(), "{ran:?}, xentop {look:?}");
        for row in ran {
            let (name, percent) =
                (row["name"].as_str().context("no name")?, percent(&row, "ran_ns")?);
            let theirs = look.get(name).with_context(|| format!("xentop has no {name}"))?;
            println!("{name}: {percent:.2} %, xentop {theirs} %");
            ensure!(
                (percent - theirs).abs() <= XENTOP_WITHIN,
                "{name}: {percent:.2} %, xentop {theirs} %"
            );
        }
    }
    Ok(())
}

/// For each look what each domain had since the look before, in percent of a pCPU.
fn xentop(text: &str) -> Result<Vec<BTreeMap<String, f64>>> {
    let mut looks: Vec<BTreeMap<String, f64>> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["NAME", ..] => looks.push(BTreeMap::new()),
            [name, _state, _seconds, percent, ..] => {
                let name = if name == "Domain-0" { "dom0" } else { name };
                let look = looks.last_mut().context("no heading")?;
                look.insert(name.to_owned(), percent.parse()?);
            }
            _ => anyhow::bail!("{line}"),
        }
    }
    Ok(looks)
}

/// The recording made of a file of the folder.
fn imported(here: &Path, file: &str, hz: u64) -> Result<std::path::PathBuf> {
    let into = here.join(format!("{}.transect", file.replace('/', "-")));
    if into.exists() {
        return Ok(into);
    }
    let [from, to] = [here.join(file), into.clone()].map(|path| path.display().to_string());
    let hz = hz.to_string();
    let names = ["0=dom0", "1=hog", "2=duty", "3=filler"].map(|name| ["--domain", name]);
    let args = ["import", &from, "-o", &to, "--cpu-hz", &hz, "--xen-version", "4.17"];
    let out = Command::new(transect()?).args(args).args(names.concat()).output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    // A copy may end in the middle of what was just being written: that is told, and what is before it is there.
    let is_cut = file.starts_with("part") && said.contains("the file ends within a window");
    ensure!(out.status.code() == Some(i32::from(is_cut)), "{:?}: {said}", out.status);
    Ok(into)
}

fn sql(recording: &Path, question: &str) -> Result<Vec<Value>> {
    let recording = recording.to_str().context("path is not UTF-8")?;
    let text = output_of(transect()?, &["sql", recording, "--json", question])?;
    serde_json::from_str(&text).context("sql --json is not JSON")
}

fn windows(recording: &Path) -> Result<Vec<Value>> {
    sql(recording, WINDOWS)
}

/// How many full windows the first has; the second has them, too, and each row of them is the same.
fn same_full_windows(some: &[Value], all: &[Value]) -> Result<usize> {
    let by_start = |rows: &[Value]| {
        let mut found: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
        for row in rows.iter().filter(|row| is_full(row)) {
            found.entry(row["ts"].as_i64().unwrap_or(0)).or_default().push(row.clone());
        }
        found
    };
    let (some, all) = (by_start(some), by_start(all));
    for (start, rows) in &some {
        let others = all.get(start).with_context(|| format!("no window at {start}"))?;
        ensure!(rows == others, "{rows:#?}\n{others:#?}");
    }
    Ok(some.len())
}

fn is_full(row: &Value) -> bool {
    row["dur"] == 1_000_000_000
}

/// Of a domain as a whole?
fn is_whole(row: &Value) -> bool {
    row["vcpu"].is_null() && row["cpu"].is_null()
}

#[allow(clippy::cast_precision_loss, reason = "percents")]
fn percent(row: &Value, column: &str) -> Result<f64> {
    Ok(100.0 * number(row, column)? as f64 / number(row, "dur")? as f64)
}
