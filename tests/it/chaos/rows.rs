//! The rows of `export --to jsonl` of a damaged recording beside those of the whole one.
//!
//! Lost events can make a row unknown or remove it; they cannot give it another value. The property test of the engine
//! (`crates/engine/tests/it/truth`) defines the same for recordings in memory.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// No more contradictions are collected.
const MOST: usize = 8;

/// Tables of intervals that tile time: the columns of the actor, and those that agree where they are not null.
const INTERVALS: [(&str, &[&str], &[&str]); 4] = [
    ("cpu_slices", &["machine_id", "cpu"], &["tid", "vcpu_machine_id", "vcpu"]),
    (
        "thread_states",
        &["machine_id", "tid"],
        &["state", "cpu", "reason", "waker_tid", "waker_context", "effective"],
    ),
    (
        "vcpu_states",
        &["machine_id", "vcpu"],
        &["state", "cpu", "reason", "by_machine_id", "by_tid"],
    ),
    ("domain_states", &["machine_id"], &["state"]),
];
/// Tables of which each row belongs to one event.
const POINTS: [&str; 13] = [
    "exits",
    "wakeups",
    "irqs",
    "syscalls",
    "block_io",
    "io_requests",
    "net_io",
    "packets",
    "stack_samples",
    "work_items",
    "locks",
    "throttles",
    "reclaims",
];
/// Tables of what was learned from many events, and the columns that say from how many.
const LEARNED: [(&str, &[&str]); 2] =
    [("irq_lines", &["runs", "agreement"]), ("queues", &["requests", "agreement", "backend_tid"])];
/// Kinds of a waking in an interrupt of which more is known than that it is one.
const WAKINGS: [&str; 4] = ["timer", "ipi", "completion", "packet"];
/// Columns of a request that tell of another machine's events.
const JOINED: [&str; 11] = [
    "queue",
    "kick_ts",
    "pickup_ts",
    "host_submit_ts",
    "host_issue_ts",
    "host_complete_ts",
    "signal_ts",
    "inject_ts",
    "guest_irq_ts",
    "backend_tid",
    "host_device",
];
/// Columns of a packet that tell of events after its first one, beside the times.
const JOINED_TO_PACKET: [&str; 5] =
    ["to_machine_id", "to_device", "wake_tid", "backend_tid", "to_backend_tid"];
/// Columns of both that follow from stages that are missing, or from the evidence at hand.
const UNCERTAIN: [&str; 4] = ["dur", "missing", "evidence", "error_ns"];
/// Evidence, the best first.
const EVIDENCE: [&str; 3] = ["id", "context", "order"];
/// Columns that hold a sum of known time or a count.
pub(crate) const SUMS: [&str; 19] = [
    "executions",
    "gotten_ns",
    "waited_ns",
    "blocked_ns",
    "offline_ns",
    "guest_ns",
    "halted_ns",
    "steal_ns",
    "io_count",
    "exits",
    "running_ns",
    "runnable_ns",
    "vcpu_ns",
    "thread_ns",
    "idle_ns",
    "count",
    "total_ns",
    "max_ns",
    "allocations",
];

/// Names of threads are events, too: the last one that is known is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    AreKept,
    MayBeEarlier,
}

/// The time that the whole does not know can be known from a part of its events.
pub(crate) const UNKNOWN: &str = "unknown_ns";

type Actor = (String, Vec<i64>);

struct Interval {
    from: i64,
    to: i64,
    row: Value,
}

/// The rows of the whole recording.
#[derive(Default)]
pub(crate) struct Whole {
    lines: HashMap<String, usize>,
    intervals: HashMap<Actor, Vec<Interval>>,
    points: HashMap<(String, i64), Vec<Value>>,
    windows: BTreeMap<String, BTreeMap<&'static str, i64>>,
    others: HashMap<String, Vec<Value>>,
    machines: Vec<Value>,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) contradictions: Vec<String>,
    /// Rows of `lost` and `import_log` that the whole does not have.
    pub(crate) statements: Vec<Value>,
}

impl Difference {
    pub(crate) fn add(&mut self, contradiction: impl FnOnce() -> String) {
        if self.contradictions.len() < MOST {
            self.contradictions.push(contradiction());
        }
    }
}

/// The numbers of machines count the order in which they appear, which a loss can change: the same machine by its name.
pub(crate) struct Numbers(HashMap<i64, i64>);

impl Numbers {
    /// Of the rows of `machines` of the whole and of the damaged recording.
    pub(crate) fn new(whole: &[Value], damaged: &[Value]) -> Self {
        let of = |row: &Value| [row["kind"].clone(), row["name"].clone(), row["domid"].clone()];
        let pairs = damaged.iter().filter_map(|row| {
            let other = whole.iter().find(|other| of(other) == of(row))?;
            let (is, was) = (number(row, "machine_id")?, number(other, "machine_id")?);
            (is != was).then_some((is, was))
        });
        Numbers(pairs.collect())
    }

    pub(crate) fn is_identity(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives a row the numbers of the whole.
    pub(crate) fn apply(&self, row: &mut Value) {
        let columns =
            ["machine_id", "vcpu_machine_id", "by_machine_id", "to_machine_id", "parent_id", "m"];
        for column in columns {
            if let Some(number) = number(row, column).and_then(|number| self.0.get(&number)) {
                row[column] = (*number).into();
            }
        }
    }
}

fn number(row: &Value, column: &str) -> Option<i64> {
    row[column].as_i64()
}

fn actor_of(table: &str, columns: &[&str], row: &Value) -> Actor {
    (table.to_owned(), columns.iter().map(|c| number(row, c).unwrap_or(-1)).collect())
}

fn interval_of(row: &Value) -> Option<(i64, i64)> {
    let from = number(row, "ts")?;
    Some((from, from + number(row, "dur")?))
}

fn is_unknown(table: &str, row: &Value) -> bool {
    match table {
        "cpu_slices" => row["tid"].is_null() && row["vcpu"].is_null(),
        _ => row["state"] == "unknown",
    }
}

fn columns_of(table: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    INTERVALS.iter().find(|(name, ..)| *name == table).map(|(_, actor, columns)| (*actor, *columns))
}

fn window_of(row: &Value) -> String {
    let of = ["machine_id", "vcpu", "cpu", "cgroup"].map(|column| row[column].to_string());
    of.join(" ")
}

impl Whole {
    pub(crate) fn new(text: &str) -> Self {
        let mut whole = Whole::default();
        for line in text.lines() {
            *whole.lines.entry(line.to_owned()).or_default() += 1;
            let Ok(row) = serde_json::from_str::<Value>(line) else { continue };
            let table = row["table"].as_str().unwrap_or_default().to_owned();
            if let Some((actor, _)) = columns_of(&table) {
                let Some((from, to)) = interval_of(&row) else { continue };
                let actor = actor_of(&table, actor, &row);
                whole.intervals.entry(actor).or_default().push(Interval { from, to, row });
            } else if POINTS.contains(&table.as_str()) {
                let ts = number(&row, "ts").unwrap_or_default();
                whole.points.entry((table, ts)).or_default().push(row);
            } else if table == "windows" {
                add_sums(whole.windows.entry(window_of(&row)).or_default(), &row);
            } else {
                if table == "machines" {
                    whole.machines.push(row.clone());
                }
                whole.others.entry(table).or_default().push(row);
            }
        }
        whole.intervals.values_mut().for_each(|rows| rows.sort_by_key(|row| row.from));
        whole
    }

    /// The rows of a damaged recording beside these. If its events are damaged, a thread can have an earlier name.
    pub(crate) fn compare(&self, text: &str, names: Names) -> Difference {
        let mut found = Difference::default();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut windows: BTreeMap<String, BTreeMap<&'static str, i64>> = BTreeMap::new();
        let mut intervals: HashMap<Actor, Vec<(i64, i64)>> = HashMap::new();
        let machines = text.lines().filter(|line| has_table(line, "machines"));
        let machines: Vec<Value> =
            machines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let numbers = Numbers::new(&self.machines, &machines);
        for line in text.lines() {
            let times = seen.entry(line).or_default();
            *times += 1;
            let known = match numbers.is_identity() {
                true => self.lines.get(line).copied().unwrap_or(0),
                false => 0,
            };
            if known > 0 && *times > known {
                found.add(|| format!("doubled: {line}"));
                continue;
            }
            let is_interval = INTERVALS.iter().any(|(name, ..)| has_table(line, name));
            if known > 0 && !is_interval && !has_table(line, "windows") {
                continue;
            }
            let Ok(mut row) = serde_json::from_str::<Value>(line) else {
                found.add(|| format!("not JSON: {line}"));
                continue;
            };
            numbers.apply(&mut row);
            let table = row["table"].as_str().unwrap_or_default();
            if let Some((actor, _)) = columns_of(table) {
                if is_unknown(table, &row) {
                    continue;
                }
                if let Some(interval) = interval_of(&row).filter(|(from, to)| from < to) {
                    intervals.entry(actor_of(table, actor, &row)).or_default().push(interval);
                }
                if known == 0 {
                    self.compare_interval(table, &row, &mut found);
                }
            } else if table == "windows" {
                add_sums(windows.entry(window_of(&row)).or_default(), &row);
            } else {
                self.compare_other(table, &row, names, &mut found);
            }
        }
        for (actor, mut rows) in intervals {
            rows.sort_unstable();
            if let Some(two) = rows.windows(2).find(|two| two[0].1 > two[1].0) {
                found.add(|| format!("two states at once: {actor:?} {two:?}"));
            }
        }
        for (of, sums) in windows {
            let Some(most) = self.windows.get(&of) else {
                found.add(|| format!("windows: no row of {of} in the whole"));
                continue;
            };
            let unknown = most.get(UNKNOWN).copied().unwrap_or(0);
            for (column, sum) in sums.into_iter().filter(|(column, _)| *column != UNKNOWN) {
                if sum > most.get(column).copied().unwrap_or(0) + unknown {
                    found.add(|| format!("windows: {column} of {of}: {sum}, more than {most:?}"));
                }
            }
        }
        found
    }

    fn compare_interval(&self, table: &str, row: &Value, found: &mut Difference) {
        let Some((actor, columns)) = columns_of(table) else { return };
        let Some((from, to)) = interval_of(row) else {
            found.add(|| format!("{table}: without ts or dur: {row}"));
            return;
        };
        let key = actor_of(table, actor, row);
        let all = self.intervals.get(&key).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|other| other.to <= from);
        let mut at = from;
        for other in all[first..].iter().take_while(|other| other.from < to) {
            if other.from > at {
                break;
            }
            at = other.to;
            // Evidence that contradicts itself is unknown; a part of it need not be.
            if is_unknown(table, &other.row) {
                continue;
            }
            let differs = columns.iter().find(|column| !agrees(table, column, row, &other.row));
            if let Some(column) = differs {
                found.add(|| format!("{table}: {column}: {row}, the whole: {}", other.row));
                return;
            }
        }
        if at < to {
            found.add(|| format!("{table}: the whole has no such interval: {row}"));
        }
    }

    fn compare_other(&self, table: &str, row: &Value, names: Names, found: &mut Difference) {
        match table {
            "lost" | "import_log" => found.statements.push(row.clone()),
            // The evidence for a clock can be less; its errors are in its rows.
            "clock_edges" | "clock_check" | "wall_clock" => {}
            "io_requests" => {
                let row = certain_stages(table, row);
                let ts = number(&row, "ts").unwrap_or_default();
                let all = self.points.get(&(table.to_owned(), ts));
                let is_known = all.into_iter().flatten().any(|other| is_part_of(&row, other))
                    || self.is_later_part(&row);
                if !is_known {
                    found.add(|| format!("{table}: the whole has no such row: {row}"));
                }
            }
            "packets" => {
                let certain = certain_stages(table, row);
                let all = self.points.iter().filter(|((of, _), _)| of == table);
                let mut all = all.flat_map(|(_, rows)| rows);
                if !all.any(|other| is_part_of(&without_ends(&certain, row, other), other)) {
                    found.add(|| format!("{table}: the whole has no such row: {row}"));
                }
            }
            _ if POINTS.contains(&table) => {
                let ts = number(row, "ts").unwrap_or_default();
                let all = self.points.get(&(table.to_owned(), ts));
                let is_known = all.into_iter().flatten().any(|other| is_part_of(row, other))
                    || (table == "block_io" && self.is_later_part(row));
                if !is_known {
                    found.add(|| format!("{table}: the whole has no such row: {row}"));
                }
            }
            "causes" => {
                let mut all = self.others.get(table).into_iter().flatten();
                if row["evidence"] != "order" && !all.any(|other| is_cause_of_same(row, other)) {
                    found.add(|| format!("causes: the whole has no such row: {row}"));
                }
            }
            "counters" => {
                if !row["value"].is_null() && !self.is_value_in_force(row) {
                    found.add(|| format!("counters: the whole has no such value: {row}"));
                }
            }
            _ => {
                let mut row = row.clone();
                if table == "threads" && names == Names::MayBeEarlier {
                    row["name"] = Value::Null;
                }
                for (_, columns) in LEARNED.iter().filter(|(name, _)| *name == table) {
                    columns.iter().for_each(|column| row[*column] = Value::Null);
                }
                let row = &row;
                let all = self.others.get(table).into_iter().flatten();
                if !all.into_iter().any(|other| is_part_of(row, other)) {
                    found.add(|| format!("{table}: the whole has no such row: {row}"));
                }
            }
        }
    }

    /// A request whose first events were lost begins with the next one: its issue, or another issue of a busy device.
    fn is_later_part(&self, row: &Value) -> bool {
        let of =
            |row: &Value| ["machine_id", "device", "sector", "bytes"].map(|c| row[c].to_string());
        let all = self.points.iter().filter(|((table, _), _)| table == "block_io");
        all.flat_map(|(_, rows)| rows).any(|other| {
            let spans = interval_of(other).zip(number(row, "ts"));
            let is_in = spans.is_some_and(|((from, to), ts)| from <= ts && ts <= to);
            let ends = |row: &Value| interval_of(row).map(|(_, to)| to);
            of(other) == of(row) && is_in && (row["dur"].is_null() || ends(row) == ends(other))
        })
    }

    fn is_value_in_force(&self, row: &Value) -> bool {
        let of = |row: &Value| {
            ["machine_id", "vcpu", "cpu", "device", "name"].map(|c| row[c].to_string())
        };
        let ts = number(row, "ts");
        let all = self.others.get("counters").into_iter().flatten();
        let before = all.filter(|other| of(other) == of(row) && number(other, "ts") <= ts);
        let last = before.max_by_key(|other| number(other, "ts"));
        last.is_some_and(|other| other["value"] == row["value"])
    }
}

/// A request or packet without its uncertain columns.
fn certain_stages(table: &str, row: &Value) -> Value {
    // What nothing but time tells may be another's.
    let is_by_order = row["evidence"] == "order";
    let is_joined = |column: &str| match table {
        "packets" => column.ends_with("_ts") || JOINED_TO_PACKET.contains(&column),
        _ => JOINED.contains(&column),
    };
    let mut certain = row.clone();
    for (column, value) in certain.as_object_mut().into_iter().flatten() {
        if UNCERTAIN.contains(&column.as_str()) || (is_by_order && is_joined(column)) {
            *value = Value::Null;
        }
    }
    certain
}

/// The certain columns of a packet, without those of its first and last event where the whole has an earlier or a later
/// one.
fn without_ends(certain: &Value, row: &Value, whole: &Value) -> Value {
    let mut certain = certain.clone();
    let is_event = |(column, ts): (&String, &Value)| column.ends_with("_ts") && *ts == row["ts"];
    if row["ts"] != whole["ts"] && whole.as_object().into_iter().flatten().any(is_event) {
        for column in ["ts", "machine_id", "tid", "device", "bytes"] {
            certain[column] = Value::Null;
        }
    }
    let end = |row: &Value| interval_of(row).map(|(_, to)| to);
    if end(row) != end(whole) {
        certain["to_device"] = Value::Null;
    }
    certain
}

fn has_table(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix("{\"table\":\"").and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with('"'))
}

fn add_sums(sums: &mut BTreeMap<&'static str, i64>, row: &Value) {
    for column in SUMS.into_iter().chain([UNKNOWN]) {
        *sums.entry(column).or_default() += number(row, column).unwrap_or(0);
    }
}

/// Does a column of a known interval agree with the whole?
fn agrees(table: &str, column: &str, row: &Value, whole: &Value) -> bool {
    let (value, expected) = (&row[column], &whole[column]);
    if value == expected || (column != "state" && (value.is_null() || value == "unknown")) {
        return true;
    }
    let is_on_cpu = ["guest", "exit", "user", "halt_poll"].iter().any(|state| expected == *state);
    // `running`: in a mode that is not known. `blocked`: asleep, and no halt is known.
    let is_coarser =
        (value == "running" && is_on_cpu) || (value == "blocked" && expected == "halted");
    table == "vcpu_states" && column == "state" && is_coarser
}

/// Is every value equal, or null?
fn is_part_of(row: &Value, whole: &Value) -> bool {
    let Some(columns) = row.as_object() else { return false };
    let is_open = row["dur"].is_null();
    columns.iter().all(|(column, value)| {
        // Whether KVM_RUN returned is known once the exit has its end.
        let is_nameless = column == "name" && value == "";
        value.is_null()
            || is_nameless
            || *value == whole[column]
            || (column == "to_user" && is_open)
    })
}

/// Have both the same effect, and the first no other cause, but one of which perhaps less is known?
fn is_cause_of_same(row: &Value, whole: &Value) -> bool {
    let ends = |row: &Value| interval_of(row).map(|(_, to)| to);
    let word = |row: &Value, column: &str| row[column].as_str().unwrap_or_default().to_owned();
    let rank = |row: &Value| EVIDENCE.iter().position(|known| row["evidence"] == *known);
    let is_coarser = row["kind"] == "wakeup" && WAKINGS.contains(&word(whole, "kind").as_str());
    let rest = row.as_object().into_iter().flatten().all(|(column, value)| match column.as_str() {
        "evidence" => rank(row) >= rank(whole),
        "candidates" | "error_ns" => true,
        "kind" | "ts" | "dur" if is_coarser => true,
        _ => value.is_null() || *value == whole[column],
    });
    rest && ends(row) == ends(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"table":"cpu_slices","ts":0,"dur":50,"machine_id":0,"cpu":0,"tid":7,"vcpu_machine_id":null,"vcpu":null}
{"table":"cpu_slices","ts":50,"dur":50,"machine_id":0,"cpu":0,"tid":8,"vcpu_machine_id":null,"vcpu":null}
{"table":"wakeups","ts":10,"dur":5,"machine_id":0,"tid":8,"waker_tid":7,"waker_cpu":0,"cpu":0}
{"table":"causes","ts":8,"dur":2,"kind":"timer","machine_id":0,"tid":null,"to_machine_id":0,"to_tid":8,"evidence":"id","candidates":1}
{"table":"irq_lines","machine_id":0,"irq":4,"runs":9}
{"table":"threads","machine_id":0,"tid":7,"pid":7,"name":"a"}
{"table":"windows","ts":0,"dur":100,"machine_id":0,"vcpu":null,"cpu":null,"cgroup":"/","gotten_ns":100}"#;

    fn contradictions(from: &str, to: &str) -> usize {
        let damaged = WHOLE.replace(from, to);
        assert_ne!(damaged, WHOLE);
        Whole::new(WHOLE).compare(&damaged, Names::AreKept).contradictions.len()
    }

    #[test]
    fn equal_rows_do_not_contradict() {
        assert!(Whole::new(WHOLE).compare(WHOLE, Names::AreKept).contradictions.is_empty());
    }

    #[test]
    fn unknown_and_missing_rows_do_not_contradict() {
        assert_eq!(contradictions(r#""tid":7,"vcpu"#, r#""tid":null,"vcpu"#), 0);
        assert_eq!(contradictions(r#""ts":50,"dur":50"#, r#""ts":60,"dur":30"#), 0);
        assert_eq!(contradictions(r#""ts":10,"dur":5"#, r#""ts":10,"dur":null"#), 0);
        assert_eq!(contradictions(r#""gotten_ns":100"#, r#""gotten_ns":90"#), 0);
        assert_eq!(contradictions(r#""evidence":"id""#, r#""evidence":"context""#), 0);
        assert_eq!(
            contradictions(
                r#""ts":8,"dur":2,"kind":"timer""#,
                r#""ts":10,"dur":0,"kind":"wakeup""#
            ),
            0
        );
        assert_eq!(contradictions(r#""runs":9"#, r#""runs":8"#), 0);
        let first = WHOLE.lines().next().unwrap();
        assert_eq!(contradictions(&format!("{first}\n"), ""), 0);
    }

    #[test]
    fn other_values_contradict() {
        for (from, to) in [
            (r#""tid":8,"vcpu"#, r#""tid":9,"vcpu"#),
            (r#""ts":50,"dur":50"#, r#""ts":40,"dur":60"#),
            (r#""ts":50,"dur":50"#, r#""ts":50,"dur":51"#),
            (r#""ts":10,"dur":5"#, r#""ts":10,"dur":6"#),
            (r#""ts":10,"dur":5"#, r#""ts":11,"dur":5"#),
            (r#""name":"a""#, r#""name":"b""#),
            (r#""ts":8,"dur":2"#, r#""ts":7,"dur":3"#),
            (r#""kind":"timer""#, r#""kind":"ipi""#),
            (r#""to_tid":8"#, r#""to_tid":9"#),
            (r#""irq":4"#, r#""irq":5"#),
            (r#""gotten_ns":100"#, r#""gotten_ns":101"#),
        ] {
            assert!(contradictions(from, to) > 0, "{from} {to}");
        }
    }

    #[test]
    fn machines_are_compared_by_their_names() {
        let machine = |id: u32, name: &str| {
            format!(
                "{{\"table\":\"machines\",\"machine_id\":{id},\"kind\":\"guest\",\"name\":\"{name}\",\"domid\":null}}"
            )
        };
        let whole = format!("{}\n{}\n{WHOLE}", machine(0, "a"), machine(1, "b"));
        let damaged = WHOLE.replace("machine_id\":0", "machine_id\":1");
        let damaged = format!("{}\n{}\n{damaged}", machine(0, "b"), machine(1, "a"));
        assert!(Whole::new(&whole).compare(&damaged, Names::AreKept).contradictions.is_empty());
        let other = damaged.replace("\"name\":\"a\"", "\"name\":\"c\"");
        assert!(!Whole::new(&whole).compare(&other, Names::AreKept).contradictions.is_empty());
    }

    #[test]
    fn a_thread_can_have_an_earlier_name_if_events_are_lost() {
        let earlier = WHOLE.replace("\"name\":\"a\"", "\"name\":\"b\"");
        assert!(Whole::new(WHOLE).compare(&earlier, Names::MayBeEarlier).contradictions.is_empty());
        let other = earlier.replace("\"tid\":7,\"pid\"", "\"tid\":9,\"pid\"");
        assert!(!Whole::new(WHOLE).compare(&other, Names::MayBeEarlier).contradictions.is_empty());
    }

    #[test]
    fn a_packet_can_begin_later_and_end_earlier() {
        let whole = r#"{"table":"packets","ts":10,"dur":40,"machine_id":1,"to_machine_id":2,"to_device":"b","flow":7,"seq":1,"send_ts":10,"host_receive_ts":20,"host_send_ts":30,"receive_ts":50,"evidence":"id","missing":""}"#;
        let later = r#"{"table":"packets","ts":20,"dur":10,"machine_id":0,"to_machine_id":null,"to_device":"c","flow":7,"seq":1,"send_ts":null,"host_receive_ts":20,"host_send_ts":30,"receive_ts":null,"evidence":"id","missing":"receive"}"#;
        let by_order =
            later.replace("_send_ts\":30", "_send_ts\":31").replace("\"id\"", "\"order\"");
        let contradictions =
            |row: &str| Whole::new(whole).compare(row, Names::AreKept).contradictions.len();
        assert_eq!((contradictions(later), contradictions(&by_order)), (0, 0));
        for (from, to) in [
            ("_send_ts\":30", "_send_ts\":31"),
            ("\"ts\":20", "\"ts\":21"),
            ("\"flow\":7", "\"flow\":8"),
            ("\"to_machine_id\":null", "\"to_machine_id\":1"),
        ] {
            assert_eq!(contradictions(&later.replace(from, to)), 1, "{from} {to}");
        }
    }

    #[test]
    fn doubled_rows_contradict() {
        let line = WHOLE.lines().nth(2).unwrap();
        let doubled = format!("{WHOLE}\n{line}");
        assert_eq!(Whole::new(WHOLE).compare(&doubled, Names::AreKept).contradictions.len(), 1);
    }
}
