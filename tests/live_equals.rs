//! Live windows beside the offline windows of a recording of the same time.
//!
//! Both take stamps of their own, a moment apart: an event that happened at an edge of a window may lie
//! in one window here and in the next there. So a count may differ by the events that lie within
//! `edge_ns` of the window's two edges, which the recording tells, and by no more. And guest mode lies between
//! the stamps of two programs, an entry's and an exit's: where one collector's program at the one runs longer
//! than at the other, every exit moves the other's stamps by that, up to `exit_ns`. And after a switch that the
//! kernel did not trace, each side learns from its own events who is there: time that one of them does not know
//! (`unknown_ns`) the other may, so that times may differ by it.
//! Included by the tests of the CLI and by those on real guests.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where a window is, and whose.
type Key = (i64, String);

/// How far the two sides' stamps may lie apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack {
    /// An event this near to an edge may lie on either side of it.
    pub(crate) edge_ns: i64,
    /// An exit may take this from the time in guest mode.
    pub(crate) exit_ns: i64,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Rows that both have, and of which at most a fiftieth of the time is in doubt.
    pub(crate) rows: usize,
    /// Rows that both have, of which more is in doubt: their counts were compared, their times not.
    pub(crate) doubtful: usize,
    /// Of these, rows without an event near an edge: all counts had to be equal.
    pub(crate) exact: usize,
    /// The largest difference of a time, in millionths of the window.
    pub(crate) worst_ppm: i64,
    /// What differs more than it may, in words.
    pub(crate) wrong: Vec<String>,
    /// Of these, counts.
    #[allow(dead_code, reason = "asked for on emulated hosts only")]
    pub(crate) wrong_counts: usize,
    /// Rows of which a time differs more than it may.
    #[allow(dead_code, reason = "asked for on emulated hosts only")]
    pub(crate) off: usize,
}

const COUNTS: [&str; 4] = ["executions", "exits", "io_count", "allocations"];
const TIMES: [&str; 7] =
    ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "guest_ns", "halted_ns", "steal_ns"];

fn number(row: &Value, column: &str) -> Option<i64> {
    row[column].as_i64()
}

fn of_table<'a>(rows: &'a [Value], table: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["table"] == table)
}

/// Rows of `windows` by time and owner: a control group, or a machine's name and perhaps a vCPU.
fn windows(rows: &[Value]) -> BTreeMap<Key, &Value> {
    let names: BTreeMap<i64, &str> = of_table(rows, "machines")
        .filter_map(|row| Some((number(row, "machine_id")?, row["name"].as_str()?)))
        .collect();
    let key = |row: &Value| {
        let whose = match (row["cgroup"].as_str(), number(row, "vcpu")) {
            (Some(cgroup), _) => format!("cgroup {cgroup}"),
            (None, vcpu) => {
                let name = names.get(&number(row, "machine_id")?)?;
                vcpu.map_or_else(|| format!("vm {name}"), |vcpu| format!("vcpu {name}/{vcpu}"))
            }
        };
        Some((number(row, "ts")?, whose))
    };
    of_table(rows, "windows").filter_map(|row| Some((key(row)?, row))).collect()
}

/// Where the second window begins.
fn second(windows: &BTreeMap<Key, &Value>) -> Option<i64> {
    let mut starts: Vec<i64> = windows.keys().map(|(ts, _)| *ts).collect();
    starts.dedup();
    starts.get(1).copied()
}

/// How many CPUs something ran on.
fn cpus(offline: &[Value]) -> i64 {
    let cpus: BTreeSet<i64> =
        of_table(offline, "cpu_slices").filter_map(|row| number(row, "cpu")).collect();
    i64::try_from(cpus.len()).unwrap_or(i64::MAX)
}

/// Stamps of all that is counted, sorted.
fn counted(offline: &[Value]) -> Vec<i64> {
    let of = |table| of_table(offline, table).filter_map(|row| number(row, "ts"));
    let mut stamps: Vec<i64> = of("cpu_slices").chain(of("exits")).collect();
    stamps.sort_unstable();
    stamps
}

/// Compares the rows of owners that are wanted, in windows that lie wholly within the recording.
///
/// `offline` is what `transect export --to jsonl --window T` writes, `live` what `transect top --log` does.
pub(crate) fn compare(
    offline: &[Value],
    live: &[Value],
    slack: Slack,
    is_wanted: impl Fn(&str) -> bool,
) -> Compared {
    let (theirs, ours) = (windows(offline), windows(live));
    let stamps = counted(offline);
    let near = |edge: i64| {
        let from = stamps.partition_point(|stamp| *stamp < edge - slack.edge_ns);
        let to = stamps.partition_point(|stamp| *stamp <= edge + slack.edge_ns);
        i64::try_from(to - from).unwrap_or(i64::MAX)
    };
    let starts: Vec<i64> = theirs.keys().map(|(ts, _)| *ts).collect();
    let (first, last) = (starts.first().copied(), starts.last().copied());
    // A slice that began before a side looked is not counted there when it ends, a window later at the most: one of a
    // vCPU's thread, and in all one a CPU.
    let (their_second, our_second) = (second(&theirs), second(&ours));
    let at_once = cpus(offline);
    let lacks = |side: Option<i64>, key: &Key, column: &str| match &key.1 {
        _ if column != "allocations" || side != Some(key.0) => 0,
        whose if whose.starts_with("vcpu ") => 1,
        _ => at_once,
    };
    let mut compared = Compared::default();
    for (key, their) in theirs.iter().filter(|((_, whose), _)| is_wanted(whose)) {
        // The first one is cut, and what its threads did before is guessed; the last one is cut.
        if Some(key.0) == first || Some(key.0) == last {
            continue;
        }
        let Some(our) = ours.get(key) else { continue };
        let dur = number(their, "dur").unwrap_or(1);
        let may_differ = near(key.0) + near(key.0 + dur);
        let doubt_ns: i64 = [*our, *their].iter().filter_map(|row| number(row, "unknown_ns")).sum();
        let is_doubtful = doubt_ns > dur / 50;
        compared.rows += usize::from(!is_doubtful);
        compared.doubtful += usize::from(is_doubtful);
        compared.exact += usize::from(may_differ == 0);
        for column in COUNTS {
            // What cannot be had live is null.
            let (Some(a), Some(b)) = (number(our, column), number(their, column)) else { continue };
            if a - b > may_differ + lacks(their_second, key, column)
                || b - a > may_differ + lacks(our_second, key, column)
            {
                compared.wrong_counts += 1;
                compared.wrong.push(format!(
                    "{key:?}: {column} {a} live, {b} offline ({may_differ} events at the edges)"
                ));
            }
        }
        let mut is_off = false;
        for column in TIMES.iter().filter(|_| !is_doubtful).copied() {
            let (Some(a), Some(b)) = (number(our, column), number(their, column)) else { continue };
            let exits = number(their, "exits").filter(|_| column == "guest_ns").unwrap_or(0);
            let off_ns = ((a - b).abs() - exits * slack.exit_ns - doubt_ns).max(0);
            let ppm = off_ns.saturating_mul(1_000_000) / dur;
            compared.worst_ppm = compared.worst_ppm.max(ppm);
            if ppm > 1000 {
                is_off = true;
                compared.wrong.push(format!("{key:?}: {column} {a} live, {b} offline: {ppm} ppm"));
            }
        }
        compared.off += usize::from(is_off);
    }
    compared
}
