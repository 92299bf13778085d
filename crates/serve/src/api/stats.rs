//! `/api/stats`: what a range holds, by SQL over the tables.

use super::{Answered, Time, body, database, view};
use crate::http::Response;
use crate::sql::{Row, id, int, rows, text, tid, while_wanted};
use crate::state::State;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::TcpStream;
use transect_query::{Database, Stop};
use transect_timeline::{Actor, Class, Kind, Track, View};

/// Tracks that may be asked for at once.
const MAX_TRACKS: usize = 1000;
/// Rows of sums at most.
const MAX_SUMS: usize = 100_000;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    to: Time,
    tracks: Option<Vec<u32>>,
}

pub(crate) fn answer(state: &State, bytes: &[u8], client: &TcpStream) -> Answered {
    let wish: Wish = body(bytes)?;
    let (from, to) = (wish.from.0, wish.to.0);
    let tracks = wish.tracks.unwrap_or_default();
    if from >= to {
        return Err(Response::error(400, "the range is empty"));
    }
    if tracks.len() > MAX_TRACKS {
        let message = format!("{} tracks at once: ask for {MAX_TRACKS} at most", tracks.len());
        return Err(Response::error(400, &message));
    }
    let (view, database) = (view(state)?, database(state)?);
    while_wanted(client, |stop| {
        let ask = Ask { view: &view, database: &database, range: (from, to), stop };
        Ok(Response::json(&json!({
            "from": from.to_string(),
            "to": to.to_string(),
            "tracks": ask.tracks(&tracks)?,
            "vms": ask.vms()?,
            "exits": ask.exits()?,
        })))
    })
}

/// How the intervals of a kind of track are added up by SQL.
struct Sum {
    table: &'static str,
    /// Columns that say whose the row is.
    actor: &'static [&'static str],
    /// Columns that make the key.
    key: &'static [&'static str],
}

fn sum_of(kind: Kind) -> Option<Sum> {
    let sum = |table, actor, key| Some(Sum { table, actor, key });
    match kind {
        Kind::Cpu => sum("cpu_slices", &["cpu"], &["tid", "vcpu_machine_id", "vcpu"]),
        Kind::Vcpu => {
            sum("vcpu_states", &["vcpu"], &["state", "reason", "by_machine_id", "by_tid"])
        }
        Kind::Thread => sum("thread_states", &["tid"], &["state", "effective", "reason"]),
        Kind::Domain => sum("domain_states", &[], &["state"]),
        Kind::Exits => sum("exits", &["vcpu"], &["reason"]),
        Kind::Irq => sum("irqs", &["cpu"], &["softirq", "vector"]),
        Kind::Syscall => sum("syscalls", &["tid"], &["nr"]),
        _ => None,
    }
}

/// One key's time in the range.
struct StateSum {
    key: Option<usize>,
    state: String,
    label: String,
    ns: i64,
    count: i64,
}

struct Ask<'a> {
    view: &'a View,
    database: &'a Database,
    range: (i64, i64),
    stop: &'a Stop,
}

impl Ask<'_> {
    fn rows(&self, sql: &str) -> Result<Vec<Row>, Response> {
        rows(self.database, sql, MAX_SUMS, self.stop)
    }

    /// Length of a row within the range, and the condition that it has any.
    fn clipped(&self) -> (String, String) {
        let (from, to) = self.range;
        let dur = "coalesce(dur, 0)";
        (
            format!("least(ts + {dur}, {to}) - greatest(ts, {from})"),
            format!("ts < {to} AND (ts + {dur} > {from} OR (ts >= {from} AND {dur} = 0))"),
        )
    }

    fn tracks(&self, numbers: &[u32]) -> Result<Vec<Value>, Response> {
        let mut by_kind: HashMap<Kind, Vec<&Track>> = HashMap::new();
        for number in numbers {
            let unknown = || Response::error(400, &format!("there is no track {number}"));
            let track = self.view.track(*number).ok_or_else(unknown)?;
            by_kind.entry(track.actor.kind).or_default().push(track);
        }
        let mut sums: HashMap<u32, Vec<StateSum>> = HashMap::new();
        for (kind, tracks) in by_kind {
            if let Some(sum) = sum_of(kind) {
                self.of_kind(kind, &sum, &tracks, &mut sums)?;
            }
        }
        Ok(numbers.iter().map(|n| track_json(*n, sums.remove(n).unwrap_or_default())).collect())
    }

    fn of_kind(
        &self,
        kind: Kind,
        sum: &Sum,
        tracks: &[&Track],
        sums: &mut HashMap<u32, Vec<StateSum>>,
    ) -> Result<(), Response> {
        let (ns, within) = self.clipped();
        let columns = [&["machine_id"], sum.actor, sum.key].concat();
        let groups = dedup(&columns).join(", ");
        let actors: Vec<String> = tracks.iter().map(|track| condition(sum, &track.actor)).collect();
        let sql = format!(
            "SELECT {groups}, sum({ns}) AS ns, count(*) AS count FROM {} \
             WHERE {within} AND ({}) GROUP BY {groups}",
            sum.table,
            actors.join(" OR ")
        );
        // All lanes of an actor have one answer; the first of them is asked for.
        let of_actor: HashMap<(u32, Option<i64>), u32> =
            tracks.iter().rev().map(|t| ((t.actor.machine, number(&t.actor)), t.track)).collect();
        for row in self.rows(&sql)? {
            let whose = sum.actor.first().map(|column| int(&row, column).unwrap_or(-1));
            let Some(machine) = id(&row, "machine_id") else { continue };
            let Some(track) = of_actor.get(&(machine, whose)) else { continue };
            if let Some(state) = self.state(kind, &row) {
                sums.entry(*track).or_default().push(state);
            }
        }
        Ok(())
    }

    /// A row of sums, with the key that the track shows it as; none for idle time.
    fn state(&self, kind: Kind, row: &Row) -> Option<StateSum> {
        let (class, state, reason, whose) = match kind {
            Kind::Cpu => of_cpu(row)?,
            Kind::Vcpu => {
                let whose = (id(row, "by_machine_id"), None, tid(row, "by_tid"));
                let state = text(row, "state");
                (Class::of_vcpu_state(state), state, text(row, "reason").to_owned(), whose)
            }
            Kind::Thread => {
                let (is, really) = (text(row, "state"), text(row, "effective"));
                let reason = text(row, "reason");
                let shown = if really.is_empty() { is } else { really };
                (Class::of_thread_state(is, really, reason), shown, reason.to_owned(), NOBODY)
            }
            Kind::Domain => {
                let state = text(row, "state");
                (Class::of_domain_state(state), state, String::new(), NOBODY)
            }
            Kind::Exits => (Class::Exit, "exit", text(row, "reason").to_owned(), NOBODY),
            Kind::Syscall => (Class::Syscall, "syscall", int(row, "nr")?.to_string(), NOBODY),
            _ => of_irq(row)?,
        };
        let key = self.view.keys().iter().position(|key| {
            // The vCPU of who has the CPU follows from the other two.
            let vcpu = if kind == Kind::Vcpu { None } else { key.vcpu };
            let same_whose = (key.machine_id, vcpu, key.tid) == whose;
            let known = key.reason.as_deref().unwrap_or_default();
            key.class == class && key.state == state && known == reason && same_whose
        });
        let label = key
            .map_or_else(|| format!("{state} {reason}"), |key| self.view.keys()[key].label.clone());
        let (ns, count) = (int(row, "ns")?, int(row, "count")?);
        Some(StateSum { key, state: state.to_owned(), label, ns, count })
    }

    /// What each VM got, in the words of the domain metrics.
    fn vms(&self) -> Result<Vec<Value>, Response> {
        let (ns, within) = self.clipped();
        let sum = |name: &str, states: &str| {
            format!("coalesce(sum(CASE WHEN state IN ({states}) THEN {ns} END), 0) AS {name}")
        };
        let gotten = "'guest', 'exit', 'user', 'halt_poll', 'running', 'hypercall', 'trap'";
        let sums = [
            sum("gotten_ns", gotten),
            sum("waited_ns", "'preempted', 'waking'"),
            sum("blocked_ns", "'halted', 'blocked'"),
            sum("offline_ns", "'offline'"),
            sum("unknown_ns", "'unknown'"),
            sum("guest_ns", "'guest'"),
        ];
        let (from, to) = self.range;
        let sql = format!(
            "SELECT s.*, m.name, coalesce(e.executions, 0) AS executions FROM \
             (SELECT machine_id, {} FROM vcpu_states WHERE {within} GROUP BY machine_id) AS s \
             JOIN machines AS m ON m.machine_id = s.machine_id LEFT JOIN \
             (SELECT vcpu_machine_id, count(*) AS executions FROM cpu_slices \
              WHERE vcpu IS NOT NULL AND ts >= {from} AND ts < {to} GROUP BY vcpu_machine_id) AS e \
             ON e.vcpu_machine_id = s.machine_id ORDER BY s.machine_id",
            sums.join(", ")
        );
        Ok(self.rows(&sql)?.into_iter().map(Value::Object).collect())
    }

    /// Exits that began in the range, by VM and reason.
    fn exits(&self) -> Result<Vec<Value>, Response> {
        let (from, to) = self.range;
        let sql = format!(
            "SELECT machine_id, reason, count, total_ns, q[1] AS p50_ns, q[2] AS p90_ns, \
             q[3] AS p99_ns, max_ns FROM (SELECT machine_id, reason, count(*) AS count, \
             sum(dur) AS total_ns, quantiles(dur, [0.5, 0.9, 0.99]) AS q, max(dur) AS max_ns \
             FROM exits WHERE ts >= {from} AND ts < {to} GROUP BY machine_id, reason) \
             ORDER BY total_ns DESC NULLS LAST, machine_id, reason"
        );
        Ok(self.rows(&sql)?.into_iter().map(Value::Object).collect())
    }
}

type Whose = (Option<u32>, Option<u32>, Option<i32>);
const NOBODY: Whose = (None, None, None);

fn of_cpu(row: &Row) -> Option<(Class, &'static str, String, Whose)> {
    let (vm, vcpu) = (id(row, "vcpu_machine_id"), id(row, "vcpu"));
    let tid = tid(row, "tid");
    let whose = match (vm, vcpu, tid) {
        (Some(vm), Some(vcpu), tid) => {
            return Some((Class::Vcpu, "vcpu", String::new(), (Some(vm), Some(vcpu), tid)));
        }
        (_, _, Some(0)) => return None,
        (_, _, Some(tid)) => (id(row, "machine_id"), None, Some(tid)),
        _ => return Some((Class::Unknown, "unknown", String::new(), NOBODY)),
    };
    Some((Class::Thread, "thread", String::new(), whose))
}

fn of_irq(row: &Row) -> Option<(Class, &'static str, String, Whose)> {
    let is_soft = row.get("softirq")?.as_bool()?;
    let vector = i32::try_from(int(row, "vector")?).ok()?;
    let name = transect_timeline::vector_name(is_soft, vector);
    let (class, state) = if is_soft { (Class::Softirq, "softirq") } else { (Class::Irq, "irq") };
    Some((class, state, name, NOBODY))
}

fn dedup<'s>(columns: &[&'s str]) -> Vec<&'s str> {
    let mut seen = Vec::new();
    for column in columns {
        if !seen.contains(column) {
            seen.push(*column);
        }
    }
    seen
}

/// The actor's own number; none where its machine has one of its kind.
fn number(actor: &Actor) -> Option<i64> {
    let tid = actor.tid.map(i64::from);
    tid.or(actor.vcpu.map(i64::from)).or(actor.cpu.map(i64::from))
}

fn condition(sum: &Sum, actor: &Actor) -> String {
    match (sum.actor.first(), number(actor)) {
        (Some(column), Some(number)) => {
            format!("(machine_id = {} AND {column} = {number})", actor.machine)
        }
        _ => format!("machine_id = {}", actor.machine),
    }
}

fn track_json(track: u32, mut states: Vec<StateSum>) -> Value {
    states.sort_by(|a, b| (b.ns, &a.label).cmp(&(a.ns, &b.label)));
    let states = states.into_iter().map(|sum| {
        json!({
            "key": sum.key,
            "state": sum.state,
            "label": sum.label,
            "ns": sum.ns,
            "count": sum.count,
        })
    });
    json!({ "track": track, "states": states.collect::<Vec<_>>() })
}
