//! Time and number of each key of a track, for tracks that have keys.

use super::keys::Known;
use super::{Ask, ByActor, OfTrack, literal};
use crate::http::Response;
use crate::row::{Row, id, int};
use serde_json::{Value, json};
use std::collections::HashMap;
use transect_timeline::{Actor, Kind};

/// One key's part of the range.
pub(super) struct StateSum {
    key: Option<usize>,
    state: String,
    pub(super) label: String,
    pub(super) ns: i64,
    pub(super) count: i64,
    /// Of losses: how many events, as far as they were counted.
    events: Option<u64>,
}

impl StateSum {
    pub(super) fn json(&self) -> Value {
        let mut json = json!({
            "key": self.key,
            "state": self.state,
            "label": self.label,
            "ns": self.ns,
            "count": self.count,
        });
        if let Some(events) = self.events {
            json["events"] = json!(events);
        }
        json
    }
}

/// How the rows of a kind of track are added up by SQL.
struct Sum {
    table: &'static str,
    /// Column that says, beside the machine, whose a row is; none where the machine does.
    actor: Option<&'static str>,
    /// Columns that make the key.
    key: &'static [&'static str],
    /// A row's length; `0` where rows have none.
    dur: &'static str,
}

/// None for groups, and for tracks of numbers.
fn sum_of(kind: Kind) -> Option<Sum> {
    const OPEN: &str = "coalesce(dur, 0)";
    let sum = |table, actor, key, dur| Some(Sum { table, actor, key, dur });
    match kind {
        Kind::Cpu => sum("cpu_slices", Some("cpu"), &["tid", "vcpu_machine_id", "vcpu"], "dur"),
        Kind::Vcpu => {
            let key = &["state", "reason", "by_machine_id", "by_tid"];
            sum("vcpu_states", Some("vcpu"), key, "dur")
        }
        Kind::Thread => sum("thread_states", Some("tid"), &["state", "effective", "reason"], "dur"),
        Kind::Domain => sum("domain_states", None, &["state"], "dur"),
        Kind::Exits => sum("exits", Some("vcpu"), &["reason"], OPEN),
        Kind::Irq => sum("irqs", Some("cpu"), &["softirq", "vector"], "dur"),
        Kind::Syscall => sum("syscalls", Some("tid"), &["nr"], OPEN),
        Kind::Block => sum("block_io", Some("device"), &["op", "tid"], OPEN),
        Kind::Net => sum("net_io", Some("device"), &["direction"], "0"),
        Kind::Work => sum("work_items", Some("cpu"), &["function"], OPEN),
        Kind::Lost => sum("lost", Some("cpu"), &["cause"], "dur"),
        Kind::Ticks => sum("events", Some("name"), &[], "0"),
        _ => None,
    }
}

/// What tells an actor from others of its machine and kind, as its column has it.
fn value_of(actor: &Actor) -> Option<String> {
    let tid = actor.tid.map(|tid| tid.to_string());
    let number = actor.vcpu.or(actor.cpu).map(|number| number.to_string());
    let what = (!actor.what.is_empty()).then(|| literal(&actor.what));
    tid.or(number).or(what)
}

/// The same of a row.
fn value_in(row: &Row, column: &str) -> Option<String> {
    match row.get(column)? {
        Value::Null => None,
        Value::String(text) => Some(literal(text)),
        number => Some(number.to_string()),
    }
}

/// The condition that a row is an actor's; `column` as in [`Sum`].
fn condition(column: Option<&str>, actor: &Actor) -> String {
    let machine = actor.machine;
    match (column, value_of(actor)) {
        (Some(column), Some(value)) => format!("(machine_id = {machine} AND {column} = {value})"),
        (Some(column), None) => format!("(machine_id = {machine} AND {column} IS NULL)"),
        (None, _) => format!("machine_id = {machine}"),
    }
}

fn conditions(column: Option<&str>, of_actor: &ByActor<'_>) -> String {
    let actors: Vec<String> = of_actor.keys().map(|actor| condition(column, actor)).collect();
    actors.join(" OR ")
}

impl Ask<'_> {
    /// Adds up the rows of these tracks.
    pub(super) fn of_kind(
        &self,
        kind: Kind,
        of_actor: &ByActor<'_>,
        found: &mut HashMap<u32, OfTrack>,
    ) -> Result<(), Response> {
        let (mut rows, actor) = match (kind, sum_of(kind)) {
            (Kind::CpuGuest, _) => (self.inside(of_actor)?, Some("cpu")),
            (_, Some(sum)) => (self.sums(&sum, of_actor)?, sum.actor),
            (_, None) => return Ok(()),
        };
        if kind == Kind::Thread {
            rows = fuse(rows, self.elsewhere(of_actor)?);
        }
        let places: HashMap<(u32, Option<String>), u32> =
            of_actor.iter().map(|(a, track)| ((a.machine, value_of(a)), *track)).collect();
        for row in &rows {
            let Some(machine) = id(row, "machine_id") else { continue };
            let whose = actor.and_then(|column| value_in(row, column));
            let Some(track) = places.get(&(machine, whose)) else { continue };
            if let Some(state) = self.state(kind, row) {
                found.entry(*track).or_default().states.push(state);
            }
        }
        Ok(())
    }

    fn sums(&self, sum: &Sum, of_actor: &ByActor<'_>) -> Result<Vec<Row>, Response> {
        let (ns, within) = self.clipped(sum.dur);
        let mut columns = vec!["machine_id"];
        for column in sum.actor.iter().chain(sum.key) {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
        let groups = columns.join(", ");
        let ns = if sum.dur == "0" { "0".to_owned() } else { format!("sum({ns})") };
        let events = if sum.table == "lost" { ", sum(\"count\") AS events" } else { "" };
        self.rows(&format!(
            "SELECT {groups}, {ns} AS ns, count(*) AS count{events} FROM {} \
             WHERE {within} AND ({}) GROUP BY {groups}",
            sum.table,
            conditions(sum.actor, of_actor)
        ))
    }

    /// What guests ran inside their vCPUs, on the host's CPUs that the vCPUs had.
    fn inside(&self, of_actor: &ByActor<'_>) -> Result<Vec<Row>, Response> {
        let (ns, within) = self.clipped("dur");
        let left = format!(
            "SELECT ts, dur, machine_id, cpu, vcpu_machine_id AS vm, vcpu AS vm_cpu \
             FROM cpu_slices WHERE vcpu IS NOT NULL AND {within} AND ({})",
            conditions(Some("cpu"), of_actor)
        );
        let right = format!(
            "SELECT ts, dur, machine_id AS vm, cpu AS vm_cpu, tid, vcpu_machine_id, vcpu \
             FROM cpu_slices WHERE {within}"
        );
        let groups = "machine_id, cpu, vm, tid, vcpu_machine_id, vcpu";
        self.rows(&format!(
            "SELECT {groups}, sum({ns}) AS ns, count(*) AS count \
             FROM interval_join({}, {}, 'vm, vm_cpu') WHERE {within} GROUP BY {groups}",
            literal(&left),
            literal(&right)
        ))
    }

    /// What the vCPUs did under guests' threads that were not where their kernel believed, as the
    /// threads' tracks show it.
    fn elsewhere(&self, of_actor: &ByActor<'_>) -> Result<Vec<Row>, Response> {
        let (ns, within) = self.clipped("dur");
        let left = format!(
            "SELECT ts, dur, machine_id, cpu AS vcpu, tid, state, effective, reason \
             FROM thread_states WHERE cpu IS NOT NULL \
             AND effective NOT IN ('', 'running', 'unknown') AND {within} AND ({})",
            conditions(Some("tid"), of_actor)
        );
        let right = format!(
            "SELECT ts, dur, machine_id, vcpu, state AS vcpu_state, reason AS vcpu_reason, \
             by_machine_id, by_tid FROM vcpu_states WHERE {within}"
        );
        let groups = "machine_id, tid, state, effective, reason, vcpu_state, vcpu_reason, \
                      by_machine_id, by_tid";
        self.rows(&format!(
            "SELECT {groups}, sum({ns}) AS ns, count(*) AS count \
             FROM interval_join({}, {}, 'machine_id, vcpu') WHERE {within} GROUP BY {groups}",
            literal(&left),
            literal(&right)
        ))
    }

    /// A row of sums, with the key that the track shows it as; none for idle time.
    fn state(&self, kind: Kind, row: &Row) -> Option<StateSum> {
        let known = Known::of_row(kind, row)?;
        let (key, label) = known.find(&self.keys);
        let (ns, count) = (int(row, "ns")?, int(row, "count")?);
        let events = row.get("events").and_then(Value::as_u64);
        Some(StateSum { key, state: known.into_state(), label, ns, count, events })
    }
}

/// Takes what is told by the vCPU's states from what the threads' own rows say. What no state of
/// the vCPU covers stays theirs, uncounted: the pieces are parts of rows that are counted already.
fn fuse(own: Vec<Row>, by_vcpu: Vec<Row>) -> Vec<Row> {
    const OWN: [&str; 5] = ["machine_id", "tid", "state", "effective", "reason"];
    let name = |row: &Row| OWN.map(|column| row.get(column).map(Value::to_string));
    let mut told: HashMap<[Option<String>; 5], i64> = HashMap::new();
    for row in &by_vcpu {
        *told.entry(name(row)).or_default() += int(row, "ns").unwrap_or(0);
    }
    let mut rows = by_vcpu;
    for mut row in own {
        if let Some(told) = told.get(&name(&row)) {
            let left = int(&row, "ns").unwrap_or(0) - told;
            if left <= 0 {
                continue;
            }
            row.insert("ns".to_owned(), json!(left));
            row.insert("count".to_owned(), json!(0));
        }
        rows.push(row);
    }
    rows
}
