//! `transect serve` on a data directory: the subject of a daemon's history, and the requests about it.

use super::{
    answer::{Answer, DEADLINE, End, Part, end_of},
    http::ask,
    rows::Difference,
    verbs::command,
};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The data directory in the directory of a case.
pub(crate) const DATA: &str = "data";
/// The range of time that is asked for.
const RANGE: &str = "range";
const SETTINGS: &str = "serve.toml";
/// The steps of the answers, and the windows that are recorded.
const STEPS: [(&str, &str); 3] =
    [("single windows", "100ms"), ("steps of 1s", "1s"), ("steps of 10s", "10s")];
pub(crate) const RECORDING_SETTINGS: &str =
    "window = \"100ms\"\n[history]\nflush = \"1s\"\n[flight_recorder]\nbuffer = \"1MiB\"\n";
/// Without the flight recorder: it takes longer to start than the answers.
pub(crate) const READING_SETTINGS: &str =
    "window = \"100ms\"\n[history]\nflush = \"1s\"\n[flight_recorder]\nenabled = false\n";

/// A daemon that ends with its owner.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// Starts it, and waits until it serves; `Err` has the end of one that did not.
    pub(crate) fn start(dir: &Path, settings: &str) -> Result<Result<Self, End>> {
        fs::write(dir.join(SETTINGS), settings)?;
        let mut command = command(dir)?;
        command.args(["serve", "--listen", "127.0.0.1:0", "--config", SETTINGS, "--data", DATA]);
        let err = dir.join("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&err)?);
        let mut child = command.spawn()?;
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&err).unwrap_or_default();
            let line = text.lines().find_map(|line| line.split_once("serving http://"));
            if let Some((_, address)) = line.filter(|_| text.ends_with('\n')) {
                let address = address.trim_end_matches('/').to_owned();
                return Ok(Ok(Daemon { child, address }));
            }
            if child.try_wait()?.is_some() || begun.elapsed() > DEADLINE {
                return Ok(Err(end_of(&mut child, Duration::ZERO)?));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let words = [&format!("-{name}")[..], &self.child.id().to_string()];
        ensure!(std::process::Command::new("kill").args(words).status()?.success(), "kill {name}");
        Ok(())
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) -> Result<End> {
        self.signal("TERM")?;
        end_of(&mut self.child, DEADLINE)
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// A data directory with two runs of the daemon and a snapshot.
pub(crate) fn make(dir: &Path) -> Result<()> {
    let from = now_ns();
    for run in 0..2 {
        let daemon = Daemon::start(dir, RECORDING_SETTINGS)?;
        let daemon = daemon.map_err(|end| anyhow::anyhow!("serve: {end}"))?;
        wait_for_windows(&daemon, from, 20 * (run + 1))?;
        if run == 1 {
            let token = fs::read_to_string(dir.join(DATA).join("control.token"))?;
            let body = r#"{"seconds": 1, "reason": "chaos"}"#;
            let (status, body) =
                ask(&daemon.address, token.trim(), "/api/v1/snapshots", Some(body))?;
            ensure!(status == 201, "snapshot: {}", String::from_utf8_lossy(&body));
        }
        ensure!(daemon.stop()? == End::Code(0), "serve did not end in order");
    }
    fs::write(dir.join(RANGE), format!("from={from}&until={}", now_ns()))?;
    Ok(())
}

fn wait_for_windows(daemon: &Daemon, from: u128, count: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let path = format!("/api/v1/history?from={from}&step=100ms&tables=machines");
        let (_, body) = ask(&daemon.address, "", &path, None)?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if answer["windows"].as_array().is_some_and(|windows| windows.len() >= count) {
            return Ok(());
        }
        ensure!(begun.elapsed() < DEADLINE, "no windows: {}", String::from_utf8_lossy(&body));
        thread::sleep(Duration::from_millis(100));
    }
}

/// Starts the daemon on the directory, and asks for everything that it kept.
pub(crate) fn ask_for_history(dir: &Path) -> Result<Answer> {
    let range = fs::read_to_string(dir.join(RANGE))?;
    let messages = || {
        let text = fs::read_to_string(dir.join("stderr")).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.contains("http://"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let daemon = match Daemon::start(dir, READING_SETTINGS)? {
        Ok(daemon) => daemon,
        Err(end) => return Ok(Answer { end, messages: messages(), parts: Vec::new() }),
    };
    let token = fs::read_to_string(dir.join(DATA).join("control.token")).unwrap_or_default();
    let mut parts = Vec::new();
    let mut broken = String::new();
    for (name, step) in STEPS {
        let path = format!("/api/v1/history?{range}&step={step}");
        match ask(&daemon.address, token.trim(), &path, None) {
            Ok((status, body)) => parts.push(Part { name, status, body }),
            Err(error) => broken = format!("{name}: the connection broke off: {error:#}"),
        }
    }
    match ask(&daemon.address, token.trim(), "/api/v1/snapshots", None) {
        Ok((status, body)) => parts.push(Part { name: "snapshots", status, body }),
        Err(error) => broken = format!("snapshots: the connection broke off: {error:#}"),
    }
    let end = match (daemon.stop()?, broken.is_empty()) {
        (End::Code(0), false) => End::Code(1),
        (end, _) => end,
    };
    Ok(Answer { end, messages: format!("{}\n{broken}", messages()), parts })
}

/// The windows of a step's answer: whole ones, each once, and stretches that are gone.
pub(crate) fn compare(whole: &Answer, answer: &Answer) -> Difference {
    let mut found = Difference::default();
    for (name, step) in STEPS {
        let json = |answer: &Answer| -> Value {
            serde_json::from_str(&answer.text(name)).unwrap_or_default()
        };
        let (was, is) = (json(whole), json(answer));
        let gone = is["gone"].as_array().cloned().unwrap_or_default();
        let stretches: Vec<(i64, i64)> = gone
            .iter()
            .filter_map(|row| Some((row["from_unix_ns"].as_i64()?, row["until_unix_ns"].as_i64()?)))
            .collect();
        found.statements.extend(gone);
        compare_steps(step, &was, &is, &stretches, &mut found);
    }
    found
}

/// Run and time of a step, ns since 1970.
fn place(step: &Value) -> (i64, i64, i64) {
    let end = step["ended_unix_ns"].as_i64().unwrap_or(0);
    let run = step["run"].as_i64().unwrap_or(0);
    (run, end - step["dur"].as_i64().unwrap_or(0), end)
}

fn compare_steps(
    name: &str,
    whole: &Value,
    answer: &Value,
    gone: &[(i64, i64)],
    found: &mut Difference,
) {
    let list = |answer: &Value| answer["windows"].as_array().cloned().unwrap_or_default();
    let (was, is) = (list(whole), list(answer));
    // The whole step of the clock around a stretch is incomplete.
    let around = whole["step_ns"].as_i64().unwrap_or(0);
    let touches = |step: &Value| {
        let (_, from, until) = place(step);
        gone.iter().any(|(a, b)| from < *b + around && until > *a - around)
    };
    for (number, step) in is.iter().enumerate() {
        if is[..number].contains(step) {
            found.add(|| format!("{name}: doubled: {:?}", place(step)));
        } else if !was.contains(step) && !touches(step) {
            found.add(|| format!("{name}: not a step of the whole: {:?}", place(step)));
        }
    }
    for step in was.iter().filter(|step| !is.contains(step) && !touches(step)) {
        found.add(|| format!("{name}: left out without a word: {:?}", place(step)));
    }
    let length = |steps: &[Value]| -> i64 { steps.iter().filter_map(|s| s["dur"].as_i64()).sum() };
    if length(&is) > length(&was) {
        found.add(|| format!("{name}: longer than the whole"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(end: i64) -> Value {
        json!({"run": 1, "dur": 10, "ended_unix_ns": end, "windows": []})
    }

    fn contradictions(steps: &[Value], gone: &[(i64, i64)]) -> usize {
        let whole = json!({"step_ns": 10, "windows": [step(10), step(20), step(30), step(60)]});
        let answer = json!({"step_ns": 10, "windows": steps});
        let mut found = Difference::default();
        compare_steps("10ns", &whole, &answer, gone, &mut found);
        found.contradictions.len()
    }

    #[test]
    fn steps_are_whole_and_there_once_unless_they_are_gone() {
        let whole = [step(10), step(20), step(30), step(60)];
        assert_eq!(contradictions(&whole, &[]), 0);
        assert_eq!(contradictions(&whole[..3], &[(50, 60)]), 0);
        assert_eq!(contradictions(&whole[..3], &[]), 1);
        assert_eq!(contradictions(&whole[..3], &[(10, 20)]), 1);
        assert!(contradictions(&[&whole[..], &whole[3..]].concat(), &[]) > 0);
        let mut other = whole.clone();
        other[3]["windows"] = json!([1]);
        assert_eq!(contradictions(&other, &[]), 2);
    }
}
