//! Our events and trace-cmd's, in one shape that can be compared line by line.
#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};
use transect_ftrace::{Names, RawText};
use transect_tracedat::{Buffer, Item, TraceDat};

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

/// Everything we read of a file, stamps as trace-cmd reckons them.
pub fn ours(file: &[u8]) -> Lines {
    ours_with(file, |buffer, ts, cpu| buffer.timing.report_ns(ts, cpu))
}

/// Everything we read of a file, stamps by `time` from buffer, raw stamp and CPU.
pub fn ours_with(file: &[u8], time: impl Fn(&Buffer, u64, u32) -> u64) -> Lines {
    let trace = TraceDat::parse(file).expect("a readable file");
    assert_eq!(trace.problems(), []);
    let names =
        Names::new().with_printk_formats(&trace.printk_formats()).with_kallsyms(&trace.kallsyms());
    let mut text = RawText::new(trace.events(), names);
    // In order of time over all CPUs: once libtraceevent has seen a field with unprintable bytes,
    // it shows it as bytes for good.
    let mut items = Vec::new();
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let mut stream = trace.stream(buffer, cpu).expect("a listed CPU");
            while let Some(item) = stream.next() {
                let key = (buffer.name.clone(), cpu);
                match item {
                    Item::Event { ts, payload } => {
                        let ts = time(buffer, ts.get(), cpu);
                        items.push((ts, key, Ok(payload.to_vec())));
                    }
                    Item::Lost { count, before } => {
                        let ts = time(buffer, before.get(), cpu);
                        items.push((ts, key, Err(count)));
                    }
                    Item::Problem(problem) => panic!("{problem}"),
                }
            }
        }
    }
    items.sort_by_key(|(ts, ..)| *ts);
    let mut lines = Lines::new();
    for (ts, key, item) in items {
        let line = match item {
            Ok(payload) => line(&trace, &mut text, ts, &payload),
            Err(count) => lost(count),
        };
        lines.entry(key).or_default().push(line);
    }
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
    // A text that ends in a line break does not make trace-cmd print an empty line.
    let fields = fields.trim_start().trim_end_matches('\n').to_owned();
    Line { ts, comm, tid: tid.0, event, fields }
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
pub fn report(path: &Path, options: &[&str]) -> Option<String> {
    let output = Command::new("trace-cmd")
        .args(["report", "-N", "-R", "-t"])
        .args(options)
        .arg("-i")
        .arg(path)
        .output();
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

/// Compares and says how much was; panics with the first difference of each event.
pub fn compare(what: &str, ours: &Lines, theirs: &Lines) -> usize {
    let keys = |lines: &Lines| lines.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(ours), keys(theirs), "{what}: buffers and CPUs with events");
    let mut count = 0;
    let mut differences = BTreeMap::new();
    for (key, our_list) in ours {
        let their_list = &theirs[key];
        for (at, (our, their)) in our_list.iter().zip(their_list).enumerate() {
            if our != their {
                let text = format!("{key:?} event {at}\n  ours   {our:?}\n  theirs {their:?}");
                differences.entry(our.event.clone()).or_insert(text);
            }
        }
        assert_eq!(our_list.len(), their_list.len(), "{what}: {key:?} number of events");
        count += our_list.len();
    }
    let differences: Vec<_> = differences.into_values().collect();
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
    count
}

/// Names of a file's instance buffers.
pub fn instances(file: &[u8]) -> Vec<String> {
    let trace = TraceDat::parse(file).expect("a readable file");
    let names = trace.buffers().iter().map(|buffer| buffer.name.clone());
    names.filter(|name| !name.is_empty()).collect()
}
