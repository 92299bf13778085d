//! Live windows beside the offline windows of a recording of the same time.
//!
//! Both take stamps of their own, a moment apart: an event that happened at an edge of a window may lie
//! in one window here and in the next there. So a count may differ by the events that lie within
//! `edge_ns` of the window's two edges, which the recording tells, and by no more. Where the machine was taken away
//! between the two stamps of an event (`is_paused`), they lie further apart: by what the times of the two windows that
//! meet there differ, for the event is what parts them. And guest mode lies between
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
    /// The machine may be taken away between the two stamps of an event for longer than that: an emulated one.
    pub(crate) is_paused: bool,
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

/// Time of a window that one side or the other knows nothing of.
fn doubt_ns(our: &Value, their: &Value) -> i64 {
    [our, their].iter().filter_map(|row| number(row, "unknown_ns")).sum()
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
    let near = |edge: i64, apart_ns: i64| {
        let from = stamps.partition_point(|stamp| *stamp < edge - apart_ns);
        let to = stamps.partition_point(|stamp| *stamp <= edge + apart_ns);
        i64::try_from(to - from).unwrap_or(i64::MAX)
    };
    // How far apart the two sides' times of a window are; nothing is told by those that are in doubt.
    let apart = |ts: i64, whose: &str| {
        let key = (ts, whose.to_owned());
        let (Some(their), Some(our)) = (theirs.get(&key), ours.get(&key)) else { return 0 };
        let dur = number(their, "dur").unwrap_or(1);
        if !slack.is_paused || doubt_ns(our, their) > dur / 50 {
            return 0;
        }
        let of = |column: &str| Some((number(our, column)? - number(their, column)?).abs());
        TIMES.iter().filter_map(|column| of(column)).max().unwrap_or(0)
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
        let (ts, whose) = (key.0, key.1.as_str());
        let [before, here, after] = [ts - dur, ts, ts + dur].map(|ts| apart(ts, whose));
        let may_differ =
            near(ts, slack.edge_ns + before + here) + near(ts + dur, slack.edge_ns + here + after);
        let doubt_ns = doubt_ns(our, their);
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

/// An event that the two sides stamped on either side of an edge: counted in one window here and in the next there.
#[test]
fn a_count_moves_only_with_the_time_that_its_event_parts() {
    const MS: i64 = 1_000_000;
    let row = |window: i64, gotten_ns: i64, allocations: i64| {
        serde_json::json!({
            "table": "windows", "machine_id": 1, "vcpu": 0, "ts": window * 1000 * MS, "dur": 1000 * MS,
            "gotten_ns": gotten_ns, "allocations": allocations,
        })
    };
    let of = |middle: [(i64, i64); 2]| {
        let inner = [(2, middle[0]), (3, middle[1])];
        let all = [(0, (0, 0)), (1, (0, 0)), inner[0], inner[1], (4, (0, 0)), (5, (0, 0))];
        let mut rows: Vec<Value> =
            all.iter().map(|(at, (ns, count))| row(*at, *ns, *count)).collect();
        rows.push(serde_json::json!({"table": "machines", "machine_id": 1, "name": "one"}));
        // Half a millisecond before the edge of the two windows in the middle.
        rows.push(serde_json::json!({"table": "cpu_slices", "cpu": 0, "ts": 3000 * MS - MS / 2}));
        rows
    };
    let with = |is_paused, live| {
        let slack = Slack { edge_ns: 100_000, exit_ns: 0, is_paused };
        compare(&of([(500 * MS, 11), (500 * MS, 10)]), &of(live), slack, |_| true)
    };
    let compare = |live| with(true, live);
    // Stamped 2 ms later: half a millisecond more in the window before, one and a half less in the one after.
    let later = [(500 * MS + MS / 2, 10), (498 * MS + MS / 2, 11)];
    let moved = compare(later);
    assert_eq!((moved.wrong_counts, moved.off), (0, 1), "{moved:#?}");
    assert_eq!(
        with(false, later).wrong_counts,
        2,
        "nothing is taken away from a machine of its own"
    );
    let wrong = compare([(500 * MS, 10), (500 * MS, 11)]);
    assert_eq!((wrong.wrong_counts, wrong.off), (2, 0), "{wrong:#?}");
    let twice = compare([(500 * MS + MS / 2, 9), (498 * MS + MS / 2, 12)]);
    assert_eq!(twice.wrong_counts, 2, "{twice:#?}");
}
