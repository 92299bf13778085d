//! Time and number of each state of a range, by SQL over the tables: what the statistics that the
//! server takes from its tiles are compared with.

use super::Served;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Of each key its time and how often.
pub(crate) type Sums = BTreeMap<String, (i64, i64)>;

/// An actor of a kind: its machine, and what tells it from others there, as text.
pub(crate) type Subject = (i64, String);

/// What the tables hold of an actor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) sums: Sums,
    /// Of losses: how many events, as far as they were counted.
    pub(crate) events: i64,
}

/// How the rows of a kind are added up.
struct Peer {
    table: &'static str,
    /// Column that says, beside the machine, whose a row is; empty where the machine does.
    actor: &'static str,
    /// Columns that make the key.
    key: &'static str,
    /// A row's length; `0` where rows have none.
    dur: &'static str,
}

fn peer_of(kind: &str) -> Option<Peer> {
    const OPEN: &str = "coalesce(dur, 0)";
    let peer = |table, actor, key, dur| Some(Peer { table, actor, key, dur });
    match kind {
        "cpu" => peer("cpu_slices", "cpu", "tid, vcpu_machine_id, vcpu", "dur"),
        "vcpu" => peer("vcpu_states", "vcpu", "state, reason, by_machine_id, by_tid", "dur"),
        "thread" => peer("thread_states", "tid", "state, effective, reason", "dur"),
        "domain" => peer("domain_states", "", "state", "dur"),
        "exits" => peer("exits", "vcpu", "reason", OPEN),
        "irq" => peer("irqs", "cpu", "source, vector", "dur"),
        "syscall" => peer("syscalls", "tid", "nr", OPEN),
        "block" => peer("block_io", "device", "op, tid", OPEN),
        "net" => peer("net_io", "device", "direction", "0"),
        "work" => peer("work_items", "cpu", "function", OPEN),
        "lost" => peer("lost", "cpu", "cause", "dur"),
        "ticks" => peer("events", "name", "", "0"),
        _ => None,
    }
}

/// Linux' softirqs by vector (include/linux/interrupt.h, 6.1).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

fn int(row: &Value, name: &str) -> Option<i64> {
    row[name].as_i64()
}

fn text<'r>(row: &'r Value, name: &str) -> &'r str {
    row[name].as_str().unwrap_or_default()
}

/// What the key of a state is known by: of who has a CPU in a wait, the vCPU follows from the thread.
fn name(state: &str, reason: &str, whose: [Option<i64>; 3]) -> String {
    format!("{state} ({reason}) {whose:?}")
}

/// The same of a row of `/api/keys`.
pub(crate) fn name_of_key(key: &Value) -> String {
    let vcpu = int(key, "vcpu").filter(|_| key["class"] == "vcpu");
    let whose = [int(key, "machine_id"), vcpu, int(key, "tid")];
    name(text(key, "state"), text(key, "reason"), whose)
}

/// The same of a row of sums; none for idle time, which no track shows.
fn name_of_row(kind: &str, row: &Value) -> Option<String> {
    let plain = |state: &str, reason: &str| name(state, reason, [None; 3]);
    let of_vcpu = |state: &str, reason: &str| {
        let whose = [int(row, "by_machine_id"), None, int(row, "by_tid")];
        name(text(row, state), text(row, reason), whose)
    };
    Some(match kind {
        "cpu" => return of_cpu(row, int(row, "machine_id")),
        "cpu_guest" => return of_cpu(row, int(row, "vm")),
        "vcpu" => of_vcpu("state", "reason"),
        "thread" if row["vcpu_state"].is_string() => of_vcpu("vcpu_state", "vcpu_reason"),
        "thread" => {
            let shown = Some(text(row, "effective")).filter(|effective| !effective.is_empty());
            plain(shown.unwrap_or_else(|| text(row, "state")), text(row, "reason"))
        }
        "domain" => plain(text(row, "state"), ""),
        "exits" => plain("exit", text(row, "reason")),
        "syscall" => plain("syscall", &int(row, "nr")?.to_string()),
        "irq" => {
            let vector = int(row, "vector")?;
            let known = usize::try_from(vector).ok().and_then(|vector| SOFTIRQS.get(vector));
            match (text(row, "source"), known) {
                ("softirq", Some(known)) => plain("softirq", known),
                ("softirq", None) => plain("softirq", &vector.to_string()),
                ("line", _) => plain("irq", &vector.to_string()),
                (own, _) => plain("irq", own),
            }
        }
        "block" => name(text(row, "op"), "", [int(row, "machine_id"), None, int(row, "tid")]),
        "net" => plain(text(row, "direction"), ""),
        "work" => plain("work", &format!("{:#x}", row["function"].as_u64()?)),
        "lost" => plain("lost", text(row, "cause")),
        _ => plain(text(row, "name"), ""),
    })
}

fn of_cpu(row: &Value, machine: Option<i64>) -> Option<String> {
    let (vm, vcpu) = (int(row, "vcpu_machine_id"), int(row, "vcpu"));
    match (vm, vcpu, int(row, "tid")) {
        (Some(_), Some(_), tid) => Some(name("vcpu", "", [vm, vcpu, tid])),
        (_, _, Some(0)) => None,
        (_, _, tid @ Some(_)) => Some(name("thread", "", [machine, None, tid])),
        _ => Some(name("unknown", "", [None; 3])),
    }
}

/// The sums of every actor of a kind; none for groups and numbers.
pub(crate) fn sums_by_sql(
    served: &Served,
    kind: &str,
    range: (i64, i64),
) -> Option<HashMap<Subject, Held>> {
    let (rows, actor) = match peer_of(kind) {
        _ if kind == "cpu_guest" => (rows_inside(served, range), "cpu"),
        Some(peer) if kind == "thread" => {
            (fuse(own_rows(served, &peer, range), rows_elsewhere(served, range)), peer.actor)
        }
        Some(peer) => (own_rows(served, &peer, range), peer.actor),
        None => return None,
    };
    let mut held: HashMap<Subject, Held> = HashMap::new();
    for row in &rows {
        let value = match &row[actor] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            number => number.to_string(),
        };
        let Some(name) = name_of_row(kind, row) else { continue };
        let subject = (int(row, "machine_id").unwrap(), value);
        let of_actor = held.entry(subject).or_default();
        let sum = of_actor.sums.entry(name).or_default();
        sum.0 += int(row, "ns").unwrap();
        sum.1 += int(row, "count").unwrap();
        of_actor.events += int(row, "events").unwrap_or(0);
    }
    Some(held)
}

/// Length of a row within the range, and the condition that it reaches into it.
fn clipped((from, to): (i64, i64), dur: &str) -> (String, String) {
    (
        format!("least(ts + {dur}, {to}) - greatest(ts, {from})"),
        format!("ts < {to} AND (ts + {dur} > {from} OR (ts >= {from} AND {dur} = 0))"),
    )
}

fn own_rows(served: &Served, peer: &Peer, range: (i64, i64)) -> Vec<Value> {
    let (ns, within) = clipped(range, peer.dur);
    let mut groups = vec!["machine_id"];
    let columns = [peer.actor].into_iter().chain(peer.key.split(", "));
    groups.extend(columns.filter(|column| !column.is_empty()));
    let groups = groups.join(", ");
    let events = if peer.table == "lost" { ", sum(\"count\") AS events" } else { "" };
    let sql = format!(
        "SELECT {groups}, CAST(sum({ns}) AS BIGINT) AS ns, count(*) AS count{events} FROM {} \
         WHERE {within} GROUP BY {groups}",
        peer.table
    );
    let mut rows = served.many(&sql, 100_000);
    if peer.dur == "0" {
        rows.iter_mut().for_each(|row| row["ns"] = Value::from(0));
    }
    rows
}

/// What guests ran inside their vCPUs, on the CPUs that the vCPUs had.
fn rows_inside(served: &Served, range: (i64, i64)) -> Vec<Value> {
    let (ns, within) = clipped(range, "dur");
    let groups = "machine_id, cpu, vm, tid, vcpu_machine_id, vcpu";
    let sql = format!(
        "SELECT {groups}, sum({ns}) AS ns, count(*) AS count FROM interval_join(\
         'SELECT ts, dur, machine_id, cpu, vcpu_machine_id AS vm, vcpu AS vm_cpu \
          FROM cpu_slices WHERE vcpu IS NOT NULL AND {within}', \
         'SELECT ts, dur, machine_id AS vm, cpu AS vm_cpu, tid, vcpu_machine_id, vcpu \
          FROM cpu_slices WHERE {within}', 'vm, vm_cpu') WHERE {within} GROUP BY {groups}"
    );
    served.many(&sql, 100_000)
}

/// What the vCPUs did under guests' threads that were not where their kernel believed.
fn rows_elsewhere(served: &Served, range: (i64, i64)) -> Vec<Value> {
    let (ns, within) = clipped(range, "dur");
    let groups = "machine_id, tid, state, effective, reason, vcpu_state, vcpu_reason, \
                  by_machine_id, by_tid";
    let sql = format!(
        "SELECT {groups}, sum({ns}) AS ns, count(*) AS count FROM interval_join(\
         'SELECT ts, dur, machine_id, cpu AS vcpu, tid, state, effective, reason \
          FROM thread_states WHERE cpu IS NOT NULL \
          AND effective NOT IN ('''', ''running'', ''unknown'') AND {within}', \
         'SELECT ts, dur, machine_id, vcpu, state AS vcpu_state, reason AS vcpu_reason, \
          by_machine_id, by_tid FROM vcpu_states WHERE {within}', 'machine_id, vcpu') \
         WHERE {within} GROUP BY {groups}"
    );
    served.many(&sql, 100_000)
}

/// Takes what is told by the vCPU's states from what the threads' own rows say. What no state of the
/// vCPU covers stays theirs, uncounted: the pieces are parts of rows that are counted already.
fn fuse(own: Vec<Value>, by_vcpu: Vec<Value>) -> Vec<Value> {
    let name = |row: &Value| {
        ["machine_id", "tid", "state", "effective", "reason"].map(|column| row[column].to_string())
    };
    let mut told: HashMap<[String; 5], i64> = HashMap::new();
    for row in &by_vcpu {
        *told.entry(name(row)).or_default() += int(row, "ns").unwrap();
    }
    let mut rows = by_vcpu;
    for mut row in own {
        if let Some(told) = told.get(&name(&row)) {
            let left = int(&row, "ns").unwrap() - told;
            if left <= 0 {
                continue;
            }
            row["ns"] = Value::from(left);
            row["count"] = Value::from(0);
        }
        rows.push(row);
    }
    rows
}
