//! A stranger's queries beside a daemon of root's: nothing ends, is forged or grows, and other users are answered.

use crate::host::serve_support::Serving;
use crate::processes::{children, process, status, user_ids};
use crate::record_support::{Scratch, can_record_compact, wait_for};
use procfs::process::{FDTarget, Limit, LimitValue, Process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("hostile_queries.py");

/// Clock ticks of CPU time of a process.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = Process::new(i32::try_from(pid).unwrap()).and_then(|process| process.stat());
    stat.map_or(0, |stat| stat.utime + stat.stime)
}

/// True if the daemon's children use less than a tenth of a CPU.
fn children_are_idle(daemon: u32) -> bool {
    let ticks = || children(daemon).into_iter().map(cpu_ticks).sum::<u64>();
    let before = ticks();
    thread::sleep(Duration::from_millis(500));
    ticks().saturating_sub(before) < 5
}

fn metric(serving: &Serving, name: &str) -> u64 {
    let metrics = serving.get("/metrics").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().parse().unwrap()
}

/// The longest time for which this machine let a thread that slept for 20 ms wait.
fn watch_stalls(over: &AtomicBool, longest_ms: &AtomicU64) {
    while !over.load(Relaxed) {
        let begun = Instant::now();
        thread::sleep(Duration::from_millis(20));
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap();
        longest_ms.fetch_max(ms, Relaxed);
    }
}

/// One of each hostile query and 250 other requests; with `TRANSECT_LONG=1` 200 queries and 1,000 requests.
#[test]
fn hostile_queries_of_a_stranger_hurt_nobody_else() {
    if !can_record_compact() {
        return;
    }
    let is_long = std::env::var_os("TRANSECT_LONG").is_some();
    let (queries, requests, per_minute) = if is_long { (200, 1000, 600) } else { (50, 250, 120) };
    let scratch = Scratch::new();
    let settings = format!("[limits]\nquestions_per_minute = {per_minute}\n");
    let serving = Serving::start(&scratch.path(""), &settings);
    thread::sleep(Duration::from_secs(2));
    let taken = serving.post("/api/v1/snapshots", "{\"seconds\": 5}").json();
    let id = taken["id"].as_str().unwrap();
    let recording = || serving.read(&format!("/view/{id}/api/recording")).json();
    wait_for("the timeline", || recording()["building"]["state"] == "ready");
    let machines = recording()["machines"].clone();
    let ask = |sql: &str| {
        let body = serde_json::json!({ "sql": sql }).to_string();
        serving.post(&format!("/view/{id}/api/sql"), &body)
    };
    let missed_before = metric(&serving, "transect_windows_missed_total");
    let (over, longest_ms) = (AtomicBool::new(false), AtomicU64::new(0));
    let found: Value = thread::scope(|scope| {
        scope.spawn(|| watch_stalls(&over, &longest_ms));
        // Another user's queries beside them. Without root there is no other user.
        scope.spawn(|| {
            while !over.load(Relaxed) && rustix::process::geteuid().is_root() {
                let answer = ask("select count(*) from machines");
                assert_eq!(answer.status, 200, "{}", answer.text());
                thread::sleep(Duration::from_secs(1));
            }
        });
        let mut attack = Command::new("python3");
        attack.args(["-c", SCRIPT, &serving.host, id]);
        // With a token: without one nothing of a snapshot is answered.
        attack.env("TOKEN", serving.token());
        attack.args([queries.to_string(), requests.to_string()]);
        let output = attack.output();
        over.store(true, Relaxed);
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    });
    let quiet_since = Instant::now();
    wait_for("the children are idle", || children_are_idle(serving.child.id()));
    let quiet_after = quiet_since.elapsed();

    let answers = found["answers"].as_array().unwrap();
    assert_eq!(answers.len(), queries);
    for answer in answers {
        let (status, error) = (answer["status"].as_u64().unwrap(), answer["error"].as_str());
        if answer["is_cut"] == true {
            assert!(status == 200 && answer["truncated"] == "true", "{answer}");
        } else {
            assert!([400, 500, 504].contains(&status), "{answer}");
            assert!(error.is_some_and(|error| !error.is_empty()), "{answer}");
        }
    }
    let refused = &found["refused"];
    assert!(refused["status"] == 429 && refused["again"].is_string(), "{refused}");
    assert!(
        refused["error"].as_str().unwrap().contains("is 120 per minute") || is_long,
        "{refused}"
    );
    let statuses = found["statuses"].as_array().unwrap();
    assert_eq!(statuses.len(), requests + 40);
    assert!(
        statuses
            .iter()
            .all(|status| [200, 400, 404, 405, 429, 503].map(Value::from).contains(status))
    );

    // Nothing is forged, nothing is written, nothing grows, nothing is missed.
    assert_eq!(recording()["machines"], machines);
    if rustix::process::geteuid().is_root() {
        let names = ask("select name from machines");
        assert_eq!(names.status, 200, "{}", names.text());
        assert!(!names.body.windows(6).any(|bytes| bytes == b"FORGED"));
    }
    for path in ["/tmp/transect-forged.csv", "/dev/shm/transect-forged.parquet"] {
        assert!(!fs::exists(path).unwrap(), "{path}");
    }
    let most: u64 = status(serving.child.id()).vmhwm.unwrap();
    let missed = metric(&serving, "transect_windows_missed_total") - missed_before;
    let longest_ms = longest_ms.load(Relaxed);
    println!(
        "{queries} hostile queries and {requests} requests in {} s: {} MiB of memory at most, {missed} of {} windows missed, \
         children idle after {quiet_after:?}, longest stall of this machine {longest_ms} ms",
        found["seconds"],
        most >> 10,
        metric(&serving, "transect_windows_total"),
    );
    assert!(most <= 256 << 10, "{most} kB");
    // A machine that stands still misses windows by itself.
    assert!(missed == 0 || longest_ms > 500, "{missed} windows missed, {longest_ms} ms");
    assert_eq!(metric(&serving, "transect_history_windows_total{how=\"lost\"}"), 0);
}

/// As nobody, beside root's daemon in its default configuration: windows and metrics are read, and nothing else.
#[test]
fn stranger_reads_windows_and_metrics_and_nothing_else() {
    let is_root = rustix::process::geteuid().is_root();
    if !can_record_compact() || !is_root {
        println!("skipped: without root there is no other user");
        return;
    }
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch.path(""), "");
    thread::sleep(Duration::from_secs(1));
    let taken = serving.post("/api/v1/snapshots", "{\"seconds\": 5}").json();
    let id = taken["id"].as_str().unwrap();
    // Every operation of the description, and requests of a timeline.
    let described = serving.get("/openapi.json").json();
    let mut requests = Vec::new();
    for (path, operations) in described["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let scope = operation["x-scope"].as_str().unwrap();
            requests.push((method.to_uppercase(), path.replace("{id}", id), scope.to_owned()));
        }
    }
    for name in ["", "api/recording", "api/tracks", "api/keys", "api/progress", "api/at"] {
        requests.push(("GET".to_owned(), format!("/view/{id}/{name}"), "read".to_owned()));
    }
    for name in ["sql", "stats", "export", "tiles", "search", "busy", "next", "flows"] {
        requests.push(("POST".to_owned(), format!("/view/{id}/api/{name}"), "read".to_owned()));
    }
    let mut answered = Vec::new();
    for (method, path, scope) in &requests {
        let mut curl = Command::new("setpriv");
        curl.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "curl",
            "-s",
            "-o",
            "/dev/null",
        ]);
        curl.args(["-w", "%{http_code}", "-X", method, &format!("http://{}{path}", serving.host)]);
        if method == "POST" {
            curl.args(["-d", "{}"]);
        }
        let Ok(output) = curl.output() else {
            println!("skipped: no setpriv or curl here");
            return;
        };
        let status = String::from_utf8(output.stdout).unwrap();
        if status == "200" {
            answered.push(format!("{path} {scope}"));
        } else {
            let is_login = path == "/login";
            assert!(status == "401" || is_login && status == "400", "{method} {path}: {status}");
        }
    }
    answered.sort();
    let expected = [
        "/api/v1/history windows",
        "/api/v1/now windows",
        "/api/v1/status windows",
        "/healthz none",
        "/metrics windows",
        "/openapi.json none",
        "/readyz none",
    ];
    assert_eq!(answered, expected);
    let kept = serving.read("/api/v1/snapshots").json();
    assert_eq!(kept["snapshots"].as_array().unwrap().len(), 1);
}

/// The kernel's description of a child of the daemon.
#[test]
fn child_of_the_daemon_stands_behind_its_walls() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch.path(""), "[access]\nrequire_sandbox = true\n");
    thread::sleep(Duration::from_secs(1));
    let taken = serving.post("/api/v1/snapshots", "{\"seconds\": 5}").json();
    let path = format!("/view/{}/api/", taken["id"].as_str().unwrap());
    wait_for("the timeline", || {
        let recording = serving.read(&format!("{path}recording")).json();
        recording["building"]["state"] == "ready"
    });
    // The client of a browser keeps its child when the connection ends.
    let cookie = "Cookie: transect-client=0123456789abcdef0123456789abcdef\r\n";
    let headers = serving.bearer() + cookie;
    let answer = serving.ask("POST", &format!("{path}sql"), &headers, "{\"sql\": \"select 1\"}");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let children = children(serving.child.id());
    let [child] = children[..] else { panic!("{children:?}") };
    let status = status(child);
    assert_eq!((status.nonewprivs, status.seccomp), (Some(1), Some(2)));
    let limits = process(child).limits().unwrap();
    let limit = |limit: Limit| match limit.soft_limit {
        LimitValue::Value(value) => Some(value),
        LimitValue::Unlimited => None,
    };
    assert_eq!(limit(limits.max_data_size), Some(1 << 30));
    assert_eq!(limit(limits.max_core_file_size), Some(0));
    for limited in [limits.max_address_space, limits.max_open_files, limits.max_cpu_time] {
        assert!(limit(limited).is_some(), "{limits:?}");
    }
    if rustix::process::geteuid().is_root() {
        let (own, user) = (0x7000_0000 + child, user_ids(&status));
        // In a user namespace without that number it is nobody.
        assert!(user.iter().all(|uid| *uid == own || *uid == 65_534), "{user:?}");
        assert!(status.groups.is_empty(), "{:?}", status.groups);
        let capabilities =
            [status.capinh, status.capprm, status.capeff, status.capamb.unwrap_or_default()];
        assert_eq!(capabilities, [0; 4]);
        assert!(limit(limits.max_processes).is_some());
        assert_eq!(fs::read(format!("/proc/{child}/environ")).unwrap(), b"");
    }
    for file in process(child).fd().unwrap() {
        let target = file.unwrap().target;
        let is_expected = match &target {
            FDTarget::Pipe(_) => true,
            FDTarget::Path(path) => {
                path.to_string_lossy().contains("/tables/") || path == Path::new("/dev/null")
            }
            _ => false,
        };
        assert!(is_expected, "{target:?}");
    }
    // A child that cannot see the end of its input ends with the daemon, too.
    let pid = rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    serving.kill();
    wait_for("the child's end", || {
        let stat = Process::new(pid.as_raw_pid()).and_then(|process| process.stat());
        stat.map_or(true, |stat| stat.state == 'Z')
    });
}

/// A service that may not change the user.
#[test]
fn missing_wall_is_named_and_can_be_required() {
    let without = || {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-setuid,-setgid", env!("CARGO_BIN_EXE_transect")]);
        command
    };
    if !rustix::process::geteuid().is_root() || without().arg("--version").status().is_err() {
        println!("skipped: not root, or no setpriv here");
        return;
    }
    let scratch = Scratch::new();
    let mut serve = without();
    serve.args(["serve", "--require-sandbox", "--listen", "127.0.0.1:0", "--data"]);
    let refused = serve.arg(scratch.path("data")).output().unwrap();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    let last = errors.lines().last().unwrap();
    assert!(last.contains("a wall is missing: user: queries run as user 0"), "{errors}");
    if can_record_compact() {
        let mut serving = Serving::by(without(), &scratch.path(""), "");
        serving.line_with("a wall around SQL queries is missing: user: ");
    }
}
