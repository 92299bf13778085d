//! Wall-clock time on a real kernel: a clock that is set and slewed while it is recorded, and an alert that is followed from
//! its time to the recording of its cause.

use super::Bed;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use transect_e2e::{number, on_shared_host, output_of, report_with, table_rows, transect};

const HOUR: i64 = 3_600_000_000_000;
const SECOND: i64 = 1_000_000_000;
/// `/proc/uptime` has hundredths of a second.
const SLACK: i64 = 20_000_000;

/// Sets the clock by an hour in both directions and slews it by 300 ppm. Before and after each change it prints uptime, wall
/// clock and uptime: the first clock is that of the recording.
const STEPS: &str = r"
look() { for i in 1 2 3; do
 read a x </proc/uptime; d=$(busybox date +%s); read b x </proc/uptime; echo look $a $d $b; sleep 0.3; done; }
look; busybox date -s @$(( $(busybox date +%s) - 3600 )) >/dev/null
look; busybox date -s @$(( $(busybox date +%s) + 3600 )) >/dev/null
look; busybox adjtimex -f 19660800 >/dev/null; sleep 2
look; busybox adjtimex -f 0 >/dev/null
";

/// "12.34" in ns.
fn ns(text: &str) -> Result<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let part = format!("{part:0<9}");
    Ok(whole.parse::<i64>()? * SECOND + part[..9].parse::<i64>()?)
}

/// The wall clock at a trace time by the table; none where it is unknown.
fn wall_at(rows: &[Value], ts: i64) -> Option<i64> {
    let row = rows.iter().find(|row| {
        let (start, dur) = (row["ts"].as_i64().unwrap_or(0), row["dur"].as_i64().unwrap_or(0));
        (start..=start + dur).contains(&ts)
    })?;
    let [start, dur, unix, unix_dur] =
        ["ts", "dur", "unix_ns", "unix_dur"].map(|name| row[name].as_i64().unwrap_or(0));
    let part = i128::from(ts - start) * i128::from(unix_dur) / i128::from(dur.max(1));
    Some(unix + i64::try_from(part).ok()?)
}

#[test]
fn wall_clock_is_right_on_both_sides_of_real_steps_and_slews() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        if !bed.host.is_nested() {
            println!("skipped: the clock of a real host is not set by a test");
            return;
        }
        for mode in ["", "--full"] {
            check_steps(&bed, mode).unwrap();
        }
    });
}

fn check_steps(bed: &Bed, mode: &str) -> Result<()> {
    let name = format!("step{mode}.transect");
    let command = format!(
        "cat >steps.sh <<'END'\n{STEPS}\nEND\n{} record {mode} -o {name} -- sh steps.sh",
        bed.transect
    );
    let out = bed.host.run(&command).within(240)?.ok()?;
    let recording = bed.fetch(&name)?;
    let table = table_rows(&recording)?;
    let wall: Vec<Value> = table.into_iter().filter(|row| row["table"] == "wall_clock").collect();
    println!("{mode}: {wall:#?}");
    let steps: Vec<i64> =
        wall.iter().filter_map(|row| row["step_ns"].as_i64()).filter(|step| *step != 0).collect();
    // `date` sets whole seconds, so each step is up to a second off the hour.
    ensure!(steps.len() == 2, "{steps:?}");
    ensure!((steps[0] + HOUR).abs() <= SECOND && (steps[1] - HOUR).abs() <= SECOND, "{steps:?}");
    let mut looks = 0;
    for line in out.stdout.lines().filter_map(|line| line.strip_prefix("look ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [before, wall_clock, after] = words[..] else { anyhow::bail!("{line}") };
        let (before, wall_clock, after) = (ns(before)?, ns(wall_clock)?, ns(after)?);
        // Only the compact collector's clock is that of /proc/uptime.
        if mode.is_empty() {
            // Right beside a step it is unknown.
            let known = wall_at(&wall, before).zip(wall_at(&wall, after));
            let Some((from, until)) = known else { continue };
            // `date` prints whole seconds.
            let range = from - SECOND - SLACK..=until + SLACK;
            ensure!(range.contains(&wall_clock), "{line}: {range:?}");
        }
        looks += 1;
    }
    // Three looks each before, between and after the changes.
    ensure!(looks >= 9, "{}", out.stdout);
    let dir = recording.to_str().context("path")?;
    let page = output_of(transect()?, &["report", dir, "--view", "recording"])?;
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    println!("{page}");
    ensure!(page.contains("set by −") && page.contains("set by +"), "{page}");
    ensure!(mode.is_empty() || page.contains("slewed by"), "{page}");
    Ok(())
}

/// A trigger fires for a starved VM. Its time, the window of the history, the snapshot's description, the report of the
/// snapshot, SQL and the timeline's facts are about the same five seconds.
#[test]
fn an_alert_leads_to_its_snapshot_with_one_time_in_every_view() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        follow_an_alert(&bed).unwrap();
    });
}

const SETTINGS: &str = r#"
[[trigger]]
name = "starved"
of = "vm"
match = "web"
when = "waited_ns > 20%"
for = "2s"
cooldown = "10m"
seconds = 5
"#;

fn follow_an_alert(bed: &Bed) -> Result<()> {
    let start = |name: &str, work: &str| bed.host.guest(name).workload(work).boot();
    let web = start("web", "periodic:period_ms=20:work_us=2000")?;
    let batch = start("batch", "hog:threads=1")?;
    let last = bed.host.run("echo $(($(nproc) - 1))").within(60)?.ok()?.stdout;
    web.pin(last.trim())?;
    batch.pin(last.trim())?;
    // Snapshots and triggers need a token.
    let wget = "busybox wget --header \"Authorization: Bearer $(cat $PWD/alert-data/control.token)\" -qO- http://127.0.0.1:9766";
    let begin = format!(
        "cat >alert.toml <<'END'\n{SETTINGS}\nEND\n\
         {} serve --config alert.toml --listen 127.0.0.1:9766 --data $PWD/alert-data 2>alert.err & echo $! >alert.pid; \
         until busybox wget -qO- http://127.0.0.1:9766/readyz; do sleep 1; done",
        bed.transect
    );
    bed.host.run(&begin).within(120)?.ok()?;
    // Long enough before, so that the flight recorder reaches back over the whole window.
    let starve = format!(
        "sleep 8; for task in /proc/{}/task/*; do renice -n -15 -p ${{task##*/}}; done >/dev/null",
        batch.pid()?
    );
    bed.host.run(&starve).within(120)?.ok()?;
    let ask = |path: &str| -> Result<Value> {
        let text = bed.host.run(&format!("{wget}'{path}'")).within(60)?.ok()?.stdout;
        serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
    };
    let fired = format!("until {wget}/api/v1/snapshots | grep -q starved; do sleep 1; done");
    bed.host.run(&fired).within(240)?.ok()?;
    let snapshots = ask("/api/v1/snapshots")?;
    let history = ask("/api/v1/history?from=-60s&step=1s&tables=windows,findings")?;
    let snapshot = &snapshots["snapshots"][0];
    let id = snapshot["id"].as_str().context("no id")?;
    let triggers = ask("/api/v1/triggers")?;
    let end = "kill $(cat alert.pid); sleep 1; tar cf alert.tar alert-data; cat alert.err";
    println!("{}", bed.host.run(end).within(120)?.ok()?.stdout);
    web.kill()?;
    batch.kill()?;
    println!("{snapshot}\n{triggers}");
    let (from, until) = (number(snapshot, "from_unix_ns")?, number(snapshot, "until_unix_ns")?);
    ensure!(
        (until - from - 5 * SECOND).abs() < SECOND / 1000,
        "the window of the trigger: {snapshot}"
    );

    // The dashboard's windows at that time show the wait.
    let windows = history["windows"].as_array().context("no windows")?;
    let waited = windows.iter().any(|window| {
        let ended = window["ended_unix_ns"].as_i64().unwrap_or(0);
        let rows = window["windows"].as_array().into_iter().flatten();
        let waits = rows.filter_map(|row| row["waited_ns"].as_i64()).any(|ns| ns > SECOND / 5);
        (from..=until + 2 * SECOND).contains(&ended) && waits
    });
    ensure!(waited, "no window of the history at that time has the wait");

    ensure!(hog_is_found(windows, until), "no window of the history names the hog: {history}");

    let tar = bed.fetch("alert.tar")?;
    // The pictures of docs/guides/from-alert-to-cause.md are made from such a folder, by a local `transect serve`.
    if let Some(keep) = std::env::var_os("TRANSECT_KEEP_ALERT") {
        std::fs::write(Path::new(&keep).join("history.json"), history.to_string())?;
        std::fs::write(Path::new(&keep).join("snapshots.json"), snapshots.to_string())?;
        std::fs::copy(&tar, Path::new(&keep).join("alert.tar"))?;
    }
    let here = tempfile::tempdir()?;
    output_of(
        "tar",
        &["xf", tar.to_str().context("path")?, "-C", here.path().to_str().context("path")?],
    )?;
    let data = here.path().join("alert-data");
    let page = timeline_facts(&data, id)?;
    same_time_in_every_view(&data.join(format!("snapshots/{id}.transect")), &page, from, until)
}

/// Is there a window before that time, of those in which the VM was starved, whose findings say so, and name the other one?
fn hog_is_found(windows: &[Value], until: i64) -> bool {
    let found = windows.iter().filter(|window| window["ended_unix_ns"].as_i64() <= Some(until));
    let found = found.flat_map(|window| window["findings"].as_array().into_iter().flatten());
    let mut starved = found.filter(|row| {
        row["detector"] == "starved"
            && row["subject"] == "web vcpu0"
            && row["share"].as_f64() > Some(0.2)
    });
    starved.any(|row| {
        println!("{}", row["sentence"]);
        row["sentence"].as_str().is_some_and(|text| text.contains("behind batch vcpu0"))
    })
}

/// Report, SQL and the page's facts have this window, to the millisecond.
fn same_time_in_every_view(dir: &Path, page: &Value, from: i64, until: i64) -> Result<()> {
    let is_near = |name: &str, at: i64, wanted: i64| {
        ensure!((at - wanted).abs() < 1_000_000, "{name}: {at} instead of {wanted}");
        Ok(())
    };
    let report = report_with(dir, &["--view", "recording"])?;
    let facts = &report["recording"];
    is_near("report", number(facts, "start_unix_ns")?, from)?;
    is_near("report", number(facts, "end_unix_ns")?, until)?;
    let (start, end) = (number(facts, "start_ns")?, number(facts, "end_ns")?);
    ensure!((end - start - 5 * SECOND).abs() < 1_000_000, "{facts}");
    let path = dir.to_str().context("path")?;
    let query = format!(
        "SELECT cast(arrow_cast(wall({start}), 'Int64') AS bigint) AS begins, \
         cast(arrow_cast(wall({}), 'Int64') AS bigint) AS ends",
        end - 1
    );
    let rows = output_of(transect()?, &["sql", path, "--json", &query])?;
    let rows: Value = serde_json::from_str(&rows)?;
    let row = rows.get(0).unwrap_or(&rows);
    is_near("sql", number(row, "begins")?, from)?;
    is_near("sql", number(row, "ends")?, until)?;
    let wall = page["wall"].as_array().context("the page has no wall-clock time")?;
    let numbers: Vec<Value> = wall.iter().map(with_numbers).collect();
    is_near("timeline", wall_at(&numbers, start).context("unknown at its start")?, from)?;
    is_near("timeline", wall_at(&numbers, end).context("unknown at its end")?, until)?;
    Ok(())
}

/// Numbers that were sent as text.
fn with_numbers(row: &Value) -> Value {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<i64>().ok());
    let fields = row.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), Value::from(number(value)))).collect()
}

/// The facts that the timeline's page gets about a snapshot, from a daemon on its data.
fn timeline_facts(data: &Path, id: &str) -> Result<Value> {
    let mut daemon = Command::new(transect()?)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = BufReader::new(daemon.stderr.take().context("no standard error")?);
    let address = stderr.lines().map_while(Result::ok).find_map(|line| {
        Some(line.split_once("serving http://")?.1.trim_end_matches('/').to_owned())
    });
    let token = std::fs::read_to_string(data.join("control.token"));
    let facts =
        address.context("no address").and_then(|address| ready_facts(&address, id, token?.trim()));
    let _ = daemon.kill();
    let _ = daemon.wait();
    facts
}

/// Asks until the timeline is built.
fn ready_facts(address: &str, id: &str, token: &str) -> Result<Value> {
    let mut last = Value::Null;
    for _ in 0..120 {
        let mut stream = TcpStream::connect(address)?;
        let bearer = format!("Authorization: Bearer {token}\r\n");
        write!(stream, "GET /view/{id}/api/recording HTTP/1.0\r\nHost: {address}\r\n{bearer}\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        last = serde_json::from_str(body).with_context(|| answer.clone())?;
        if last["building"]["state"] == "ready" {
            return Ok(last);
        }
        thread::sleep(Duration::from_millis(500));
    }
    anyhow::bail!("the timeline is not built: {last}")
}
