//! Our events and trace-cmd's, in one shape that can be compared line by line.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};
use transect_ftrace::RawText;
use transect_tracedat::{Item, TraceDat};

/// One event, or a loss, as `trace-cmd report -N -R -t` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub ts: u64,
    pub comm: String,
    pub tid: i32,
    pub event: String,
    pub fields: String,
}

/// Lines of one CPU of one buffer, in order.
pub type Lines = BTreeMap<(String, u32), Vec<Line>>;

/// `testdata/` at the root of the workspace.
pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata")
}

fn lost(count: Option<u64>) -> Line {
    let fields = match count {
        Some(count) if count > 0 => format!("{count} EVENTS DROPPED"),
        _ => "EVENTS DROPPED".to_owned(),
    };
    Line { ts: 0, comm: String::new(), tid: 0, event: "lost".into(), fields }
}

/// Everything we read of a file.
pub fn ours(file: &[u8]) -> Lines {
    let trace = TraceDat::parse(file).expect("a readable file");
    assert_eq!(trace.problems(), []);
    let mut text = RawText::new(trace.events());
    let mut lines = Lines::new();
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let mut stream = trace.stream(buffer, cpu).expect("a listed CPU");
            let mut list = Vec::new();
            while let Some(item) = stream.next() {
                match item {
                    Item::Event { ts, payload } => {
                        let ts = buffer.timing.report_ns(ts.get(), cpu);
                        list.push(line(&trace, &mut text, ts, payload));
                    }
                    Item::Lost { count, .. } => list.push(lost(count)),
                    Item::Problem(problem) => panic!("{problem}"),
                }
            }
            lines.insert((buffer.name.clone(), cpu), list);
        }
    }
    lines.retain(|_, list| !list.is_empty());
    lines
}

fn line(trace: &TraceDat<'_>, text: &mut RawText<'_>, ts: u64, payload: &[u8]) -> Line {
    let tid = trace.events().tid_of(payload).expect("a thread");
    let comm = match trace.comm(tid) {
        _ if tid.is_idle() => "<idle>".to_owned(),
        Some(comm) => comm.to_str().into_owned(),
        None => "<...>".to_owned(),
    };
    let event = trace.events().event_of(payload).map(|event| event.name.to_string());
    let mut fields = String::new();
    text.fields(payload, &mut fields);
    let event = event.unwrap_or_else(|| "unknown".into());
    Line { ts, comm, tid: tid.0, event, fields: fields.trim_start().to_owned() }
}

/// What `trace-cmd report -N -R -t` printed.
pub fn theirs(report: &str, instances: &[String]) -> Lines {
    let mut lines = Lines::new();
    let mut last = None;
    for text in report.lines() {
        let (buffer, rest) = split_instance(text, instances);
        if let Some((cpu, line)) = parse_line(rest).or_else(|| parse_lost(rest)) {
            let key = (buffer, cpu);
            lines.entry(key.clone()).or_default().push(line);
            last = Some(key);
        } else if let Some(line) =
            last.as_ref().and_then(|key| lines.get_mut(key)).and_then(|list| list.last_mut())
        {
            // A field's text had a line break in it.
            line.fields.push('\n');
            line.fields.push_str(text);
        }
    }
    lines
}

fn split_instance<'a>(text: &'a str, instances: &[String]) -> (String, &'a str) {
    let trimmed = text.trim_start();
    for name in instances {
        if let Some(rest) = trimmed.strip_prefix(name.as_str()).and_then(|r| r.strip_prefix(':')) {
            return (name.clone(), rest);
        }
    }
    (String::new(), text)
}

/// `CPU:1 [12 EVENTS DROPPED]`
fn parse_lost(text: &str) -> Option<(u32, Line)> {
    let (cpu, rest) = text.trim().strip_prefix("CPU:")?.split_once(' ')?;
    let what = rest.trim_start().strip_prefix('[')?.strip_suffix("EVENTS DROPPED]")?;
    Some((cpu.parse().ok()?, lost(what.trim().parse().ok())))
}

/// `  bash-123   [001]   12.345678901: sched_switch:   prev_comm=…`
fn parse_line(text: &str) -> Option<(u32, Line)> {
    text.match_indices('[').find_map(|(at, _)| {
        let (cpu, rest) = text[at + 1..].split_once(']')?;
        let cpu = cpu.parse().ok()?;
        let (ts, rest) = rest.trim_start().split_once(": ")?;
        let ts = ts.replace('.', "").parse().ok()?;
        let (comm, tid) = text[..at].trim_end().rsplit_once('-')?;
        let (event, fields) = rest.trim_start().split_once(':')?;
        Some((
            cpu,
            Line {
                ts,
                comm: comm.trim_start().to_owned(),
                tid: tid.parse().ok()?,
                event: event.to_owned(),
                fields: fields.trim_start().to_owned(),
            },
        ))
    })
}

/// Runs trace-cmd; `None` (and a note) where it is not installed.
pub fn report(path: &Path) -> Option<String> {
    let output =
        Command::new("trace-cmd").args(["report", "-N", "-R", "-t", "-i"]).arg(path).output();
    match output {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "trace-cmd report {}: {stderr}", path.display());
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: trace-cmd not installed");
            None
        }
        Err(err) => panic!("trace-cmd: {err}"),
    }
}

/// Compares and says how much was; panics at the first difference.
pub fn compare(what: &str, ours: &Lines, theirs: &Lines) -> usize {
    let keys = |lines: &Lines| lines.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(ours), keys(theirs), "{what}: buffers and CPUs with events");
    let mut count = 0;
    for (key, our_list) in ours {
        let their_list = &theirs[key];
        for (at, (our, their)) in our_list.iter().zip(their_list).enumerate() {
            assert_eq!(our, their, "{what}: {key:?} event {at}");
        }
        assert_eq!(our_list.len(), their_list.len(), "{what}: {key:?} number of events");
        count += our_list.len();
    }
    count
}

/// Names of a file's instance buffers.
pub fn instances(file: &[u8]) -> Vec<String> {
    let trace = TraceDat::parse(file).expect("a readable file");
    let names = trace.buffers().iter().map(|buffer| buffer.name.clone());
    names.filter(|name| !name.is_empty()).collect()
}
