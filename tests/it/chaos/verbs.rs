//! The verbs that read a recording, with all that they answer about it.

use super::{
    answer::{Answer, DEADLINE, End, Part, end_of, run},
    daemon::ask_for_history,
    http::ask,
};
use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    fmt,
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_e2e::transect;

/// The recording in the directory of a case.
pub(crate) const RECORDING: &str = "r.transect";
/// What some verbs write.
const OUTPUT: &str = "output";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Report,
    Sql,
    Rows,
    Perfetto,
    Excerpt,
    View,
    Import,
    /// A daemon, asked for its history.
    Serve,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verb::Report => "report",
            Verb::Sql => "sql",
            Verb::Rows => "export jsonl",
            Verb::Perfetto => "export perfetto",
            Verb::Excerpt => "export recording",
            Verb::View => "view",
            Verb::Import => "import",
            Verb::Serve => "serve",
        })
    }
}

impl Verb {
    pub(crate) const ALL: [Verb; 6] =
        [Verb::Report, Verb::Sql, Verb::Rows, Verb::Perfetto, Verb::Excerpt, Verb::View];

    /// Runs it in a directory that has the recording.
    pub(crate) fn run(self, dir: &Path, import: &[String]) -> Result<Answer> {
        let to_file = |format: &str| -> Result<Answer> {
            let words = ["export", RECORDING, "--to", format, "-o", OUTPUT];
            let mut answer = run(command(dir)?.args(words), dir)?;
            if let Ok(body) = fs::read(dir.join(OUTPUT)) {
                answer.parts = vec![Part { name: "file", status: 200, body }];
            }
            Ok(answer)
        };
        match self {
            Verb::Report => {
                let mut answer = run(command(dir)?.args(["report", RECORDING, "--json"]), dir)?;
                answer.parts.iter_mut().for_each(|part| part.body = without_sizes(&part.body));
                Ok(answer)
            }
            Verb::Sql => run(command(dir)?.args(["sql", RECORDING, "--jsonl", &questions()]), dir),
            Verb::Rows => {
                run(command(dir)?.args(["export", RECORDING, "--to", "jsonl", "-o", "-"]), dir)
            }
            Verb::Perfetto => to_file("perfetto"),
            Verb::Excerpt => {
                let words = ["export", RECORDING, "--to", "recording", "-o", "x.transect"];
                let made = run(command(dir)?.args(words), dir)?;
                rows_of_made(dir, made, "x.transect")
            }
            Verb::Import => {
                let mut words = vec!["import".to_owned(), "-o".to_owned(), "x.transect".to_owned()];
                words.extend(import.iter().cloned());
                let made = run(command(dir)?.args(words), dir)?;
                rows_of_made(dir, made, "x.transect")
            }
            Verb::View => view(dir),
            Verb::Serve => ask_for_history(dir),
        }
    }
}

/// A report without the sizes of the files, which are those of the damaged ones.
fn without_sizes(report: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(report).into_owned();
    for column in ["\"source_bytes\":", "\"table_bytes\":"] {
        if let Some(at) = text.find(column).map(|at| at + column.len()) {
            // A number, or null where there are none.
            let value = text[at..].bytes().take_while(u8::is_ascii_alphanumeric).count();
            text.replace_range(at..at + value, "0");
        }
    }
    text.into_bytes()
}

/// `transect` in a directory with a cache of its own.
pub(crate) fn command(dir: &Path) -> Result<Command> {
    let mut command = Command::new(transect()?);
    command.current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache"));
    Ok(command)
}

/// The rows of a recording that the verb made, if it was a success or left something.
fn rows_of_made(dir: &Path, mut made: Answer, name: &str) -> Result<Answer> {
    made.parts.clear();
    if made.end == End::Code(0) || (made.end == End::Code(1) && dir.join(name).is_dir()) {
        let rows = run(command(dir)?.args(["export", name, "--to", "jsonl", "-o", "-"]), dir)?;
        if rows.end == End::Code(0) {
            made.parts = rows.parts;
        } else if made.end == End::Code(0) {
            // What the verb called whole must be readable.
            made.end = rows.end;
            made.messages = format!("the copy cannot be read: {}", rows.messages);
        }
    }
    Ok(made)
}

/// Tables of intervals that have a state, and their columns of it.
const STATES: [(&str, &str); 4] = [
    ("cpu_slices", "case when tid is null and vcpu is null then 'unknown' else 'known' end"),
    ("thread_states", "state"),
    ("vcpu_states", "state"),
    ("domain_states", "state"),
];
/// The machines and tables of single happenings, and an order of their rows.
const HAPPENINGS: [(&str, &str); 7] = [
    ("machines", "machine_id"),
    ("wakeups", "ts, machine_id, tid, cpu"),
    ("exits", "ts, machine_id, vcpu"),
    ("irqs", "ts, machine_id, cpu, vector"),
    ("block_io", "ts, machine_id, tid, sector"),
    ("net_io", "ts, machine_id, cpu, bytes"),
    ("work_items", "ts, machine_id, cpu"),
];

/// Statements whose rows name what they count.
fn questions() -> String {
    let mut all = Vec::new();
    for (table, state) in STATES {
        all.push(format!(
            "select 'sum' as q, '{table}' as t, machine_id as m, {state} as k, sum(dur) as v from {table} group by 3, 4 order by 3, 4"
        ));
    }
    for (table, order) in HAPPENINGS {
        all.push(format!("select '{table}' as \"table\", * from {table} order by {order}"));
    }
    for table in ["syscalls", "wakeups", "irqs", "exits", "threads", "cpus", "machines"] {
        all.push(format!(
            "select 'count' as q, '{table}' as t, machine_id as m, count(*) as v from {table} group by 3 order by 3"
        ));
    }
    all.push("select 'count' as q, 'events' as t, name as k, count(*) as v from events group by 3 order by 3".into());
    all.push("select 'sum' as q, 'syscalls' as t, nr as k, sum(dur) as v from syscalls group by 3 order by 3".into());
    all.push("select 'count' as q, 'filtered' as t, tid as k, count(*) as v from syscalls where dur > 1000 group by 3 order by 3".into());
    all.join("; ")
}

/// The server, asked for everything that its page shows.
fn view(dir: &Path) -> Result<Answer> {
    let (out, err) = (dir.join("stdout"), dir.join("stderr"));
    let mut command = command(dir)?;
    command.args(["view", RECORDING, "--no-browser"]).stdin(Stdio::null());
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let address = loop {
        let text = fs::read_to_string(&out).unwrap_or_default();
        if let Some(line) =
            text.lines().find(|line| line.contains("?token=") && text.ends_with('\n'))
        {
            break Some(line.to_owned());
        }
        if child.try_wait()?.is_some() || begun.elapsed() > DEADLINE {
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let mut parts = Vec::new();
    let mut broken = String::new();
    if let Some(address) = address {
        if let Err(error) = browse(&address, &mut parts) {
            broken = format!("{error:#}");
        }
        let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    }
    let end = end_of(&mut child, DEADLINE)?;
    let messages = fs::read_to_string(err).unwrap_or_default();
    let messages: Vec<&str> = messages.lines().filter(|line| !line.contains("http://")).collect();
    let mut messages = messages.join("\n");
    // The end by SIGTERM is in order, whatever its code; a broken connection is judged as one.
    let end = match (broken.is_empty(), parts.is_empty(), end) {
        (false, ..) => {
            messages.push_str(&format!("\nthe connection broke off: {broken}"));
            End::Code(1)
        }
        (true, false, End::Code(_)) => End::Code(0),
        (.., end) => end,
    };
    Ok(Answer { end, messages, parts })
}

fn browse(address: &str, parts: &mut Vec<Part>) -> Result<()> {
    let rest = address.split("http://").nth(1).context("no address")?;
    let (host, rest) = rest.split_once("/?token=").context("no token")?;
    let token: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    let mut get = |name: &'static str, path: &str, body: Option<&str>| -> Result<(u16, Vec<u8>)> {
        let (status, body) = ask(host, &token, path, body)?;
        parts.push(Part { name, status, body: body.clone() });
        Ok((status, body))
    };
    let begun = Instant::now();
    let recording = loop {
        let (status, body) = ask(host, &token, "/api/recording", None)?;
        let facts: Value = serde_json::from_slice(&body).unwrap_or_default();
        let state = facts["building"]["state"].as_str().unwrap_or_default();
        if status != 200 || state == "ready" || state == "failed" || begun.elapsed() > DEADLINE {
            break facts;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let (status, _) = get("recording", "/api/recording", None)?;
    if status != 200 || recording["building"]["state"] != "ready" {
        return Ok(());
    }
    get("tracks", "/api/tracks", None)?;
    get("keys", "/api/keys", None)?;
    let count = recording["tracks"].as_u64().unwrap_or(0).min(400);
    let tracks: Vec<String> = (0..count).map(|track| track.to_string()).collect();
    let tracks = tracks.join(",");
    let level_max = recording["level_max"].as_u64().unwrap_or(0);
    for (name, level) in
        [("tiles", level_max.saturating_sub(9)), ("fine tiles", level_max.saturating_sub(15))]
    {
        let body = format!(r#"{{"level":{level},"first":0,"count":4,"tracks":[{tracks}]}}"#);
        get(name, "/api/tiles", Some(&body))?;
    }
    let (from, to) = (&recording["from"], &recording["to"]);
    get("stats", "/api/stats", Some(&format!(r#"{{"from":{from},"to":{to}}}"#)))?;
    get("busy", "/api/busy", Some(&format!(r#"{{"from":{from},"to":{to}}}"#)))?;
    let sql =
        r#"{"sql":"select state, sum(dur) from thread_states group by state order by state"}"#;
    get("sql", "/api/sql", Some(sql))?;
    Ok(())
}
