//! `transect serve` on this host: windows, history, snapshots, other programs that read them.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]
#![allow(clippy::print_stderr, reason = "what was measured belongs in the log of a test run")]

use crate::host::loads::Load;
use crate::host::serve_support::Serving;
use crate::processes::{children, status, user_ids};
use crate::record_support::{Scratch, can_record_compact, groups::CpuGroup, wait_for};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::chown,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_compact::{Compact, Item};
use transect_model::ids::Tid;
use transect_store::Recording;

/// A user that nothing else runs as.
const UNIT_USER: u32 = 54_321;

const FAST: &str =
    "window = \"200ms\"\n[history]\nflush = \"1s\"\n[flight_recorder]\nbuffer = \"2MiB\"\n";

fn written(serving: &Serving) -> u64 {
    serving.get("/api/v1/status").json()["history"]["windows_written"].as_u64().unwrap()
}

#[test]
fn history_survives_a_kill_and_goes_on() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path("");
    let serving = Serving::start(&dir, FAST);
    wait_for("windows on disk", || written(&serving) >= 15);
    let before = serving.get("/api/v1/status").json();
    let run = before["run"].clone();
    serving.kill();
    let on_disk = fs::read_dir(dir.join("data/history")).unwrap();
    let file = on_disk.map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.to_string_lossy().contains("/w-")).unwrap();
    // What a write that was cut leaves.
    let mut torn = fs::File::options().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut torn, b"\x5a\x2a\x4d\x18half a frame").unwrap();
    let mut serving = Serving::start(&dir, FAST);
    assert!(serving.line_with("cut after byte").contains(file.to_str().unwrap()));
    let history = serving.get("/api/v1/history?from=-10m&step=1m&tables=cpu_windows").json();
    let steps = history["windows"].as_array().unwrap();
    let old: i64 =
        steps.iter().filter(|step| step["run"] == run).map(|s| s["dur"].as_i64().unwrap()).sum();
    assert!(old >= 15 * 200_000_000, "{history}");
    assert!(steps.iter().any(|step| step["run"] != run), "and this run's");
    // A second one is refused, and leaves the first alone.
    let second = scratch.run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        dir.join("data").to_str().unwrap(),
    ]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another daemon"), "{said}");
    let written = written(&serving);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said:?}");
    // What was not written yet was written at the end.
    let mut zstdcat = Command::new("zstdcat");
    for entry in fs::read_dir(dir.join("data/history")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("/w-") {
            zstdcat.arg(path);
        }
    }
    let Ok(out) = zstdcat.output() else {
        eprintln!("skipped the rest: no zstdcat here");
        return;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let windows = text.lines().filter(|line| line.contains("\"table\":\"snapshot\"")).count();
    assert!(windows as u64 >= written + 15, "{windows}, {written}");
}

#[test]
fn a_snapshot_is_a_recording_of_the_last_seconds() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch.path(""), FAST);
    // Somebody whose switches must be in it.
    let mut busy = Command::new("python3")
        .args(["-c", "import time\nwhile True: time.sleep(0.001)"])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let taken = serving.post("/api/v1/snapshots", "{\"seconds\": 5, \"reason\": \"a test\"}");
    let pid = busy.id();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert_eq!(taken.status, 201, "{}", taken.text());
    let taken = taken.json();
    assert!(taken["events"].as_u64() > Some(1000), "{taken}");
    let id = taken["id"].as_str().unwrap();
    let tar = serving.read(taken["tar"].as_str().unwrap());
    fs::write(scratch.path("s.tar"), &tar.body).unwrap();
    let unpacked = Command::new("tar").args(["xf", "s.tar"]).current_dir(scratch.path("")).status();
    assert!(unpacked.unwrap().success());
    let recording = format!("{id}.transect");
    let question = format!("SELECT count(*) AS n FROM cpu_slices WHERE tid = {pid}");
    let rows = scratch.run(&["sql", &recording, &question, "--json"]);
    assert!(rows.status.success(), "{}", String::from_utf8_lossy(&rows.stderr));
    let rows: Value = serde_json::from_slice(&rows.stdout).unwrap();
    assert!(rows[0]["n"].as_i64() > Some(300), "{rows}");
    // The timeline of it, as the page asks for it.
    wait_for("the timeline", || {
        let about = serving.read(&format!("/view/{id}/api/recording")).json();
        assert_eq!(about["building"]["error"], Value::Null);
        about["building"]["state"] == "ready"
    });
    let about = serving.read(&format!("/view/{id}/api/recording")).json();
    assert!(about["tracks"].as_u64() > Some(3), "{about}");
    let rows = serving.post(&format!("/view/{id}/api/sql"), "{\"sql\": \"SELECT 1\"}");
    assert_eq!(rows.status, 200);
    // A second one has what came after the first.
    let second = serving.post("/api/v1/snapshots", "{\"seconds\": 5}").json();
    assert!(second["events"].as_u64() > Some(10) && second["id"] != id, "{second}");
    let report = scratch.run(&["report", &recording]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
}

#[test]
fn a_trigger_takes_one_when_a_group_waits() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let settings = format!(
        "{FAST}[[trigger]]\nname = \"busy\"\nof = \"cgroup\"\nwhen = \"executions > 1\"\nfor = \"400ms\"\n\
         cooldown = \"1h\"\nseconds = 2\n"
    );
    let mut serving = Serving::start(&scratch.path(""), &settings);
    serving.line_with("snapshot 2");
    let snapshots = serving.read("/api/v1/snapshots").json();
    assert_eq!(snapshots["snapshots"][0]["trigger"], "busy", "{snapshots}");
    assert_eq!(serving.read("/api/v1/triggers").json()["triggers"][0]["fired"], 1);
}

/// A finding fires one, with its sentence as the reason.
#[test]
fn a_trigger_takes_one_when_a_quota_ends() {
    if !can_record_compact() {
        return;
    }
    let Some(group) = CpuGroup::with_quota("fires", 20_000, 100_000) else {
        eprintln!("skipped: no control group with a quota can be made here");
        return;
    };
    let load = Load::spinning(0);
    group.add(load.id());
    let scratch = Scratch::new();
    let settings = format!(
        "[flight_recorder]\nbuffer = \"2MiB\"\n[[trigger]]\nname = \"quota\"\nof = \"cgroup\"\n\
         match = \"{}\"\nwhen = \"throttled >= 10%\"\nfor = \"2s\"\ncooldown = \"1h\"\nseconds = 2\n",
        group.path
    );
    let mut serving = Serving::start(&scratch.path(""), &settings);
    serving.line_with("snapshot 2");
    let snapshots = serving.read("/api/v1/snapshots").json();
    let reason = snapshots["snapshots"][0]["reason"].as_str().unwrap();
    let begin = format!("quota: {} waited ", group.path);
    assert!(reason.starts_with(&begin) && reason.contains("its quota had ended in"), "{reason}");
    // The window of the API has it, too, and only the findings if they are asked for.
    let now = serving.get("/api/v1/now?tables=findings").json();
    let found = now["findings"].as_array().unwrap();
    let own = found.iter().find(|row| row["cgroup"] == group.path.as_str()).unwrap();
    assert_eq!(own["detector"], "throttled", "{own}");
    assert!(now["windows"].is_null(), "{now}");
}

/// Clients that ask all the time beside a recording: it loses nothing, nor does the daemon.
fn beside_a_recording(clients: usize, lasting: Duration) {
    let scratch = Scratch::new();
    // All of them are one user's.
    let settings = "[limits]\nconnections_per_client = 400\n";
    let serving = Serving::start(&scratch.path(""), settings);
    wait_for("some windows", || serving.get("/api/v1/now").json()["windows"].is_array());
    let seconds = format!("{}s", lasting.as_secs() + 2);
    let recorder = scratch.start_compact(&["record", "-o", "r.transect", "--duration", &seconds]);
    let before = serving.memory_bytes();
    let (over, answers, highest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..clients {
            let (serving, over, answers) = (&serving, &over, &answers);
            scope.spawn(move || {
                let path = match number % 20 {
                    0 => "/metrics",
                    1 => "/api/v1/history?from=-1m&step=10s&tables=windows",
                    2..6 => "/api/v1/now",
                    _ => "/api/v1/now?tables=windows,antagonists&after=TS",
                };
                let mut ts = 0;
                while !over.load(Relaxed) {
                    let answer = serving.get(&path.replace("TS", &ts.to_string()));
                    assert!([200, 429, 503].contains(&answer.status), "{}", answer.text());
                    if answer.status == 200 && path.contains("TS") {
                        ts = answer.json()["ts"].as_i64().unwrap();
                    }
                    answers.fetch_add(1, Relaxed);
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < lasting {
            highest.fetch_max(serving.memory_bytes(), Relaxed);
            std::thread::sleep(Duration::from_millis(200));
        }
        over.store(true, Relaxed);
    });
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(scratch.path("r.transect/manifest.json")).unwrap())
            .unwrap();
    let lost = manifest["cost"]["lost"].as_u64();
    let metrics = serving.get("/metrics").text();
    let metric = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_default().parse::<f64>().unwrap()
    };
    // A machine that has no CPU for a second misses a window, and says so.
    let (missed, taken) =
        (metric("transect_windows_missed_total"), metric("transect_windows_total"));
    assert!(missed <= taken / 5.0, "{missed} windows missed, {taken} taken");
    let names = [
        "transect_untracked_events_total",
        "transect_no_room_total",
        "transect_missed_events_total",
        "transect_late_threads_total",
    ];
    let own = names.map(|name| (name, metric(name)));
    let grown = highest.load(Relaxed).saturating_sub(before);
    eprintln!(
        "{clients} clients for {lasting:?}: {} answers, {} MiB of memory and {} MiB more at most, {lost:?} of {} events lost, {missed} of {taken} windows missed, {own:?}",
        answers.load(Relaxed),
        before >> 20,
        grown >> 20,
        manifest["cost"]["events"],
    );
    assert_eq!(lost, Some(0));
    assert!(own.iter().all(|(_, count)| *count == 0.0), "{own:?}");
    assert!(answers.load(Relaxed) >= clients as u64);
    assert!(grown < 200 << 20, "{grown}");
}

/// A quarter of a minute; with `TRANSECT_LONG=1` a whole one.
#[test]
fn two_hundred_clients_beside_a_recording() {
    if can_record_compact() {
        let is_long = std::env::var_os("TRANSECT_LONG").is_some();
        beside_a_recording(200, Duration::from_secs(if is_long { 60 } else { 15 }));
    }
}

#[test]
fn a_hang_up_reads_the_settings_again_if_they_are_valid() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let mut serving = Serving::start(&scratch.path(""), FAST);
    let file = scratch.path("serve.toml");
    let hang_up = |serving: &Serving| {
        let pid = rustix::process::Pid::from_child(&serving.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    let triggers = |serving: &Serving| serving.read("/api/v1/triggers").json()["triggers"].clone();
    let settings = |serving: &Serving| {
        let said = serving.read("/api/v1/status").json()["configuration"].clone();
        (said["error"].as_str().map(str::to_owned), said["needs_restart"].clone())
    };
    let more = "[[trigger]]\nname = \"new\"\nof = \"vm\"\nwhen = \"exits > 1000000\"\n";
    fs::write(&file, format!("{}{more}", FAST.replace("200ms", "500ms"))).unwrap();
    hang_up(&serving);
    let said = serving.line_with("configuration reloaded");
    assert!(said.ends_with("these settings need a restart: window"), "{said}");
    assert_eq!(triggers(&serving)[0]["name"], "new");
    assert_eq!(settings(&serving), (None, serde_json::json!(["window"])));
    // One that is not valid changes nothing, and says where.
    fs::write(&file, format!("{FAST}keep = 0\n")).unwrap();
    hang_up(&serving);
    let said = serving.line_with("cannot reload the configuration");
    assert!(said.contains("serve.toml: line 6: flight_recorder.keep"), "{said}");
    assert_eq!(triggers(&serving)[0]["name"], "new");
    assert!(settings(&serving).0.unwrap().contains("line 6"));
    fs::remove_file(&file).unwrap();
    hang_up(&serving);
    serving.line_with("serve.toml: No such file");
    assert_eq!(triggers(&serving)[0]["name"], "new");
    assert_eq!(serving.get("/api/v1/now").json()["dur"], 200_000_000);
    assert_eq!(serving.stop().0, Some(0));
}

/// Since when every log of a recording holds everything, ns of the kernel's clock. By logs, and not by CPUs: what came
/// while a CPU was writing is in logs of its own, which reach further back.
fn held_by_all_since(dir: &Path) -> u64 {
    let recording = Recording::open(dir).unwrap();
    let file = Compact::parse(&recording.sources[0].bytes).unwrap();
    let first = file.logs().filter_map(|log| file.chunks(log).next());
    first.map(|chunk| chunk.sync.get()).max().unwrap()
}

/// What a time of the kernel's clock is since 1970.
fn unix_of(kernel_ns: u64) -> i128 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let since_1970 = i128::try_from(unix).unwrap() - i128::from(transect_live::monotonic_ns());
    i128::from(kernel_ns) + since_1970
}

/// The flight recorder of 64 KiB reaches back less and less far than it runs, and a snapshot begins where it says, or
/// later by what was written until it was taken.
#[test]
fn how_far_a_snapshot_reaches_back_is_told() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let settings = FAST.replace("2MiB", "64KiB");
    let serving = Serving::start(&scratch.path(""), &settings);
    let reach = || {
        let status = serving.get("/api/v1/status").json();
        status["snapshots"]["reach_back_to_unix_ns"].as_u64()
    };
    let mut busy = Command::new("python3")
        .args(["-c", "import time\nwhile True: time.sleep(0.0001)"])
        .spawn()
        .unwrap();
    wait_for("it is told", || reach().is_some());
    let first = reach().unwrap();
    wait_for("it has moved on", || reach().unwrap() > first + 1_000_000_000);
    let told = i128::from(reach().unwrap());
    let taken = serving.post("/api/v1/snapshots", "{\"seconds\": 600}").json();
    busy.kill().unwrap();
    busy.wait().unwrap();
    let id = taken["id"].as_str().unwrap();
    let dir = scratch.path(&format!("data/snapshots/{id}.transect"));
    let held = unix_of(held_by_all_since(&dir));
    let later_ns = held - told;
    eprintln!("held since {later_ns} ns later than told");
    // What is held only moves on. Two clocks are read one after the other, and the machine may be slow in between.
    assert!(later_ns >= -500_000_000, "told {told}, held since {held}");
    // It is looked up every 2 s, and written to until the snapshot's files are there.
    assert!(later_ns <= 10_000_000_000, "told {told}, held since {held}");
}

/// Where in a recording the thread is not for as long as another snapshot was taken: the gap that is told, and the
/// stretch without its events, ns.
fn hole_of(dir: &Path, tid: Tid) -> ((u64, u64), (u64, u64)) {
    let recording = Recording::open(dir).unwrap();
    let gaps = &recording.manifest.gaps;
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let (from, to) = (gaps[0].from.unwrap(), gaps[0].to.unwrap());
    let file = Compact::parse(&recording.sources[0].bytes).unwrap();
    let items = file.cpus().filter_map(|cpu| file.stream(cpu)).flatten();
    let stamp_of = |item| match item {
        Item::Event { ts, tid: by, .. } if by == tid => Some(ts.get()),
        _ => None,
    };
    let mut stamps: Vec<u64> = items.filter_map(stamp_of).collect();
    stamps.sort_unstable();
    let after = stamps.partition_point(|stamp| *stamp <= from);
    ((from, to), (stamps[after - 1], stamps[after]))
}

/// Nobody writes while a snapshot is taken: one that comes soon after says so, and of when.
#[test]
fn a_snapshot_says_what_the_one_before_kept_out_of_it() {
    if !can_record_compact() {
        return;
    }
    // Who takes the snapshot may have to wait for a CPU between letting them write again and looking at the clock.
    let is_right = (0..5).any(|_| {
        let scratch = Scratch::new();
        let serving = Serving::start(&scratch.path(""), FAST);
        let mut busy = Command::new("python3")
            .args(["-c", "import time\nwhile True: time.sleep(0.0001)"])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let take = || serving.post("/api/v1/snapshots", "{\"seconds\": 600}").json();
        let first = take();
        // It was there between the two.
        let switches = || status(busy.id()).voluntary_ctxt_switches.unwrap();
        let before = switches();
        wait_for("the load goes on", || switches() > before + 2);
        let [first, second] = [first, take()].map(|taken| {
            let id = taken["id"].as_str().unwrap();
            scratch.path(&format!("data/snapshots/{id}.transect"))
        });
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(Recording::open(&first).unwrap().manifest.gaps, []);
        let ((from, to), (last, next)) = hole_of(&second, Tid(i32::try_from(busy.id()).unwrap()));
        eprintln!("{} ns are told, {} ns have no events", to - from, next - last);
        let question = "SELECT cause, dur FROM lost";
        let rows = scratch.run(&["sql", second.to_str().unwrap(), "--csv", question]);
        let rows = String::from_utf8_lossy(&rows.stdout).into_owned();
        assert_eq!(rows.trim(), format!("cause,dur\nsnapshot,{}", to - from));
        2 * (next - from) > to - from
    });
    assert!(is_right, "events where none were to be");
}

/// As a user without further privileges, with no more than the capabilities that the systemd unit gives its user.
#[test]
fn units_capabilities_are_enough_for_an_unprivileged_user() {
    if !can_record_compact() {
        return;
    }
    let unit =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/transect.service"))
            .unwrap();
    let setting = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name));
    assert_eq!(setting("User="), Some("transect"));
    let line = setting("CapabilityBoundingSet=").unwrap();
    assert_eq!(setting("AmbientCapabilities="), Some(line), "a user has only ambient capabilities");
    let set: String = line
        .split(' ')
        .map(|cap| format!(",+{}", cap.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let set = format!("-all{set}");
    let user = UNIT_USER.to_string();
    let setpriv = || {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--no-new-privs"]);
        setpriv.args(["--inh-caps", &set, "--ambient-caps", &set, "--bounding-set", &set]);
        setpriv
    };
    if !setpriv().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no setpriv here that knows these capabilities");
        return;
    }
    let mut setpriv = setpriv();
    setpriv.arg(env!("CARGO_BIN_EXE_transect"));
    let scratch = Scratch::new();
    chown(scratch.path(""), Some(UNIT_USER), Some(UNIT_USER)).unwrap();
    // The walls around its children, too.
    let settings = FAST.replace("[history]", "[access]\nrequire_sandbox = true\n[history]");
    let serving = Serving::by(setpriv, &scratch.path(""), &settings);
    serving.wait_until_ready();
    let limited = serving.get("/api/v1/now?tables=missing").json();
    assert_eq!(user_ids(&status(serving.child.id())), [UNIT_USER; 4]);
    let taken = serving.post("/api/v1/snapshots", "");
    assert_eq!(taken.status, 201, "{}", taken.text());
    let id = taken.json()["id"].as_str().unwrap().to_owned();
    // A query, in a child that has the same user and no capabilities.
    let token = format!("Authorization: Bearer {}\r\n", serving.token());
    let ask = |path: &str, method: &str, body: &str| {
        serving.ask(method, &format!("/view/{id}/api/{path}"), &token, body)
    };
    wait_for("the snapshot's tables", || {
        ask("recording", "GET", "").json()["building"]["state"] == "ready"
    });
    let answer = ask("sql", "POST", "{\"sql\": \"SELECT count(*) FROM machines\"}");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let children = children(serving.child.id());
    let engine = status(*children.first().expect("a child that answers SQL"));
    assert_eq!(user_ids(&engine), [UNIT_USER; 4]);
    assert_eq!((engine.capprm, engine.seccomp), (0, Some(2)), "{engine:?}");
    drop(serving);
    let other = Scratch::new();
    let whole = Serving::start(&other.path(""), FAST).get("/api/v1/now?tables=missing").json();
    assert_eq!(limited["missing"], whole["missing"], "nothing more is missing");
}

#[test]
fn systemd_is_told_when_it_is_ready_that_it_lives_and_that_it_ends() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(crate::record_support::DEADLINE)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.env("NOTIFY_SOCKET", &path);
    let serving = Serving::by(command, &scratch.path(""), FAST);
    let told = || {
        let mut bytes = [0; 64];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    assert_eq!([told(), told(), told()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    assert_eq!(serving.get("/readyz").status, 200);
    assert_eq!(serving.stop().0, Some(0));
    let rest: Vec<String> =
        std::iter::repeat_with(told).take_while(|word| word != "STOPPING=1").collect();
    assert!(rest.iter().all(|word| word == "WATCHDOG=1"), "{rest:?}");
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/transect.service");
    let text = fs::read_to_string(unit).unwrap();
    let scratch = Scratch::new();
    let here = scratch.path("transect.service");
    fs::write(&here, text.replace("/usr/bin/transect", env!("CARGO_BIN_EXE_transect"))).unwrap();
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").arg(&here).output() else {
        eprintln!("skipped: no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !said.contains("transect.service:"), "{said}");
    let security = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=25"])
        .arg(&here)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&security.stdout).into_owned();
    let level = said.lines().rev().find(|line| line.contains("exposure level")).unwrap_or_default();
    eprintln!("{level}");
    assert!(security.status.success(), "{said}");
}

#[test]
fn settings_are_printed_checked_and_refused_with_line_and_field() {
    let scratch = Scratch::new();
    let printed = scratch.run(&["serve", "--print-config", "--listen", "[::1]:9000"]);
    assert!(printed.status.success());
    fs::write(scratch.path("all.toml"), &printed.stdout).unwrap();
    let checked = scratch.run(&["serve", "--config", "all.toml", "--check-config"]);
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "all.toml: valid\n");
    let again = scratch.run(&["serve", "--config", "all.toml", "--print-config"]);
    assert_eq!(again.stdout, printed.stdout);
    fs::write(scratch.path("bad.toml"), "listen = \"[::1]:1\"\n[history]\nkeep = 5\n").unwrap();
    let refused = scratch.run(&["serve", "--config", "bad.toml", "--check-config"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("bad.toml: line 3: history.keep: 5; it must be"), "{said}");
    let open = scratch.run(&["serve", "--check-config", "--listen", "0.0.0.0:1"]);
    let said = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(said.contains("not a loopback address") && said.contains("--insecure"), "{said}");
    assert!(
        scratch
            .run(&["serve", "--check-config", "--listen", "0.0.0.0:1", "--insecure"])
            .status
            .success()
    );
    assert!(!scratch.run(&["serve", "--config", "none.toml"]).status.success());
}
