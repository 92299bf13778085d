//! Limits of one client's questions.

use super::Running;
use std::process::{Command, Stdio};

/// Takes a snapshot and returns the path of a question of its timeline.
fn question(running: &Running) -> String {
    let taken = running.post("/api/v1/snapshots", "").json();
    format!("/view/{}/api/at?track=1&ts=0", taken["id"].as_str().unwrap())
}

fn refused_total(running: &Running) -> u64 {
    let metrics = String::from_utf8(running.get("/metrics").body).unwrap();
    let name = "transect_questions_refused_total ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[test]
fn question_beyond_the_limit_gets_429_and_the_time_to_wait() {
    let running = Running::start(|config| config.questions_per_minute = 2);
    let question = question(&running);
    let ask = || running.read(&question);
    assert_ne!(ask().status, 429);
    assert_ne!(ask().status, 429);
    assert_eq!(refused_total(&running), 0);
    // On a machine that stands still for half a minute there is one more.
    let mut answers = (0..10).map(|_| ask());
    let refused = answers.find(|answer| answer.status == 429).unwrap();
    let wait_s: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait_s), "{wait_s}");
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(
        refused.json()["error"],
        format!("too many requests: the limit for user {uid} is 2 per minute")
    );
    let hint = format!("retry in {wait_s} s (limits.questions_per_minute)");
    assert_eq!(refused.json()["hint"], hint);
    assert!(refused_total(&running) >= 1);
    // Requests that cost little do not count.
    let recording = question.replace("at?track=1&ts=0", "recording");
    assert!((0..10).all(|_| running.read(&recording).status == 200));
    // Another limit holds at once.
    let mut config = Running::config(running.data.path());
    config.questions_per_minute = 600;
    assert_eq!(running.daemon.as_ref().unwrap().reload(&config), Ok(vec![]));
    super::wait_for("a question", || ask().status != 429);
}

#[test]
fn user_beyond_the_limit_leaves_the_others_theirs() {
    let running = Running::start(|config| config.questions_per_minute = 1);
    let question = question(&running);
    let (host, port) = (running.address, running.address.port());
    let head = format!("Host: {host}\\r\\nAuthorization: Bearer {}", running.control());
    let script = format!(
        "for _ in 1 2 3 4 5; do exec 3<>/dev/tcp/127.0.0.1/{port}; \
         printf 'GET {question} HTTP/1.1\\r\\n{head}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3; done"
    );
    let mut client = Command::new("setpriv");
    client.args(["--reuid=65534", "--clear-groups", "bash", "-c", &script]);
    let is_root = rustix::process::geteuid().is_root();
    let output = if is_root { client.stderr(Stdio::inherit()).output().ok() } else { None };
    let Some(output) = output else {
        println!("skipped: not root, or no setpriv here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("HTTP/1.1 429 Too Many Requests\r\n"), "{said}");
    assert!(said.contains("the limit for user 65534 is 1 per minute"), "{said}");
    assert_ne!(running.read(&question).status, 429);
}
