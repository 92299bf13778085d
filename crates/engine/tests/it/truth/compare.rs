//! The comparison: intervals of a damaged recording are those of the whole one, or unknown.

use super::{causes::compare_causes, points::compare_points};
use std::{collections::BTreeMap, fmt::Debug};
use transect_engine::{StreamKey, Summary, Topology};
use transect_model::{
    state::{EffectiveState, ThreadState, VcpuState},
    table::{Row, Tables, Window},
};

/// The result of a run of the engine.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub tables: Tables,
    pub summary: Summary,
}

/// A row of the damaged recording that the whole recording contradicts.
#[derive(Clone, Debug)]
pub struct Contradiction {
    /// Table and difference without times and numbers: cases of one cause have the same text.
    pub kind: String,
    /// The rows.
    pub rows: String,
}

/// A stretch in which an actor has one state.
#[derive(Clone, Debug)]
struct Interval {
    from: i64,
    to: i64,
    state: &'static str,
    /// Further columns; none covers every value.
    columns: Vec<(&'static str, Option<i64>)>,
    row: Row,
}

/// Table and actor (machine and number; further numbers for counters).
type Actor = (&'static str, Vec<i64>);
type Intervals = BTreeMap<Actor, Vec<Interval>>;

pub const UNKNOWN: &str = "unknown";

pub fn span(summary: &Summary) -> (i64, i64) {
    summary.span.map_or((0, 0), |span| (span.start.get(), span.end.get()))
}

/// All contradictions between the rows of a damaged recording and those of the whole.
pub fn compare(whole: &Outcome, damaged: &Outcome) -> Vec<Contradiction> {
    let mut found = Vec::new();
    compare_intervals(&intervals(whole), &intervals(damaged), &mut found);
    compare_points(&whole.tables, &damaged.tables, span(&damaged.summary), &mut found);
    compare_causes(&whole.tables, &damaged.tables, &mut found);
    compare_windows(whole, damaged, &mut found);
    found
}

/// Rows that leave the span or do not tile it.
pub fn check_tiles(
    topology: &Topology,
    keys: &[StreamKey],
    outcome: &Outcome,
) -> Vec<Contradiction> {
    let mut found = Vec::new();
    let (start, end) = span(&outcome.summary);
    let intervals = intervals(outcome);
    for ((table, actor), rows) in intervals.iter().filter(|((table, _), _)| *table != "counters") {
        let mut at = start;
        for row in rows {
            let is_inside = row.from >= start && row.to <= end && row.from < row.to;
            if !is_inside || row.from < at {
                let kind = format!("{table}: row outside of the span or overlapping");
                found
                    .push(Contradiction { kind, rows: format!("{:?} in {start}..{end}", row.row) });
            } else if row.from > at && *table != "thread_states" {
                let kind = format!("{table}: gap between rows");
                found.push(Contradiction { kind, rows: format!("{actor:?} {at}: {:?}", row.row) });
            }
            at = row.to;
        }
        if at != end && *table != "thread_states" {
            let kind = format!("{table}: rows end before the span");
            found.push(Contradiction { kind, rows: format!("{actor:?} {at} of {start}..{end}") });
        }
    }
    if start == end {
        return found;
    }
    let vcpus = topology.vcpus.iter().map(|v| ("vcpu_states", number([v.machine.0, v.vcpu.0])));
    let cpus = keys.iter().map(|key| ("cpu_slices", number([key.machine.0, key.cpu.0])));
    for actor in vcpus.chain(cpus).filter(|actor| !intervals.contains_key(actor)) {
        let kind = format!("{}: actor without rows", actor.0);
        found.push(Contradiction { kind, rows: format!("{:?}", actor.1) });
    }
    found
}

fn number<const N: usize>(numbers: [u32; N]) -> Vec<i64> {
    numbers.into_iter().map(i64::from).collect()
}

fn intervals(outcome: &Outcome) -> Intervals {
    let tables = &outcome.tables;
    let mut all: Intervals = BTreeMap::new();
    for r in &tables.thread_states {
        let effective = r.effective.filter(|effective| *effective != EffectiveState::Unknown);
        let interval = Interval {
            from: r.ts,
            to: r.ts + r.dur,
            state: if r.state == ThreadState::Unknown { UNKNOWN } else { r.state.as_str() },
            columns: vec![
                ("cpu", r.cpu.map(|cpu| i64::from(cpu.0))),
                ("reason", r.reason.map(|letter| letter as i64)),
                ("waker_tid", r.waker_tid.map(|tid| i64::from(tid.0))),
                ("waker_context", r.waker_context.map(|context| context as i64)),
                ("effective", effective.map(|effective| effective as i64)),
            ],
            row: Row::from(r.clone()),
        };
        let actor = ("thread_states", vec![i64::from(r.machine_id.0), i64::from(r.tid.0)]);
        all.entry(actor).or_default().push(interval);
    }
    for r in &tables.vcpu_states {
        let interval = Interval {
            from: r.ts,
            to: r.ts + r.dur,
            state: if r.state == VcpuState::Unknown { UNKNOWN } else { r.state.as_str() },
            columns: vec![
                ("cpu", r.cpu.map(|cpu| i64::from(cpu.0))),
                ("reason", r.reason.map(|reason| i64::from(reason.code))),
                ("by_machine_id", r.by_machine_id.map(|id| i64::from(id.0))),
                ("by_tid", r.by_tid.map(|tid| i64::from(tid.0))),
            ],
            row: Row::from(r.clone()),
        };
        let actor = ("vcpu_states", number([r.machine_id.0, r.vcpu.0]));
        all.entry(actor).or_default().push(interval);
    }
    for r in &tables.cpu_slices {
        let interval = Interval {
            from: r.ts,
            to: r.ts + r.dur,
            state: match r.tid {
                None => UNKNOWN,
                Some(tid) if tid.is_idle() => "idle",
                Some(_) => "occupied",
            },
            columns: vec![
                ("tid", r.tid.map(|tid| i64::from(tid.0))),
                ("vcpu_machine_id", r.vcpu_machine_id.map(|id| i64::from(id.0))),
                ("vcpu", r.vcpu.map(|vcpu| i64::from(vcpu.0))),
            ],
            row: Row::from(r.clone()),
        };
        let actor = ("cpu_slices", number([r.machine_id.0, r.cpu.0]));
        all.entry(actor).or_default().push(interval);
    }
    let (_, end) = span(&outcome.summary);
    for r in &tables.counters {
        let vcpu = r.vcpu.map_or(-1, |vcpu| i64::from(vcpu.0));
        let device = r.device.map_or(-1, |device| i64::from(device.0));
        let actor = ("counters", vec![i64::from(r.machine_id.0), r.name as i64, vcpu, device]);
        let rows: &mut Vec<Interval> = all.entry(actor).or_default();
        if let Some(last) = rows.last_mut() {
            last.to = r.ts;
        }
        rows.push(Interval {
            from: r.ts,
            to: end.max(r.ts),
            state: if r.value.is_none() { UNKNOWN } else { "known" },
            columns: vec![("value", r.value)],
            row: Row::from(r.clone()),
        });
    }
    all.values_mut().for_each(|rows| rows.sort_by_key(|row| row.from));
    all
}

/// Does the state of the damaged recording agree with that of the whole?
fn covers(table: &str, damaged: &str, whole: &str) -> bool {
    // `running`: on a CPU, in a mode that is not known.
    let on_cpu = ["guest", "exit", "user", "halt_poll", "running"];
    let is_mode_unknown = table == "vcpu_states" && damaged == "running";
    // `blocked`: asleep, and no halt is known.
    let may_be_halt = table == "vcpu_states" && damaged == "blocked" && whole == "halted";
    damaged == whole || (is_mode_unknown && on_cpu.contains(&whole)) || may_be_halt
}

fn compare_intervals(whole: &Intervals, damaged: &Intervals, found: &mut Vec<Contradiction>) {
    for ((table, actor), rows) in damaged {
        let all = whole.get(&(*table, actor.clone())).map_or(&[][..], Vec::as_slice);
        for row in rows.iter().filter(|row| row.state != UNKNOWN && row.from < row.to) {
            compare_interval(table, row, all, found);
        }
    }
}

fn compare_interval(
    table: &str,
    row: &Interval,
    whole: &[Interval],
    found: &mut Vec<Contradiction>,
) {
    let mut add = |kind: String, other: &dyn Debug| {
        let rows = format!("damaged {:?}\n  whole   {other:?}", row.row);
        found.push(Contradiction { kind, rows });
    };
    let mut at = row.from;
    let first = whole.partition_point(|other| other.to <= row.from);
    for other in whole[first..].iter().take_while(|other| other.from < row.to) {
        if other.from > at {
            add(format!("{table}: {} where no row is", row.state), &other.row);
        }
        at = other.to;
        if other.state == UNKNOWN {
            add(format!("{table}: {} where the whole is unknown", row.state), &other.row);
        } else if !covers(table, row.state, other.state) {
            add(format!("{table}: {} where {} is", row.state, other.state), &other.row);
        } else {
            for ((name, value), (_, expected)) in row.columns.iter().zip(&other.columns) {
                if value.is_some() && value != expected {
                    add(format!("{table}: {}, {name} differs", row.state), &other.row);
                }
            }
        }
    }
    if at < row.to {
        add(format!("{table}: {} where no row is", row.state), &"has no row there");
    }
}

/// With one window over everything: the sums of known states are at most those of the whole.
fn compare_windows(whole: &Outcome, damaged: &Outcome, found: &mut Vec<Contradiction>) {
    let ((start, end), (from, to)) = (span(&whole.summary), span(&damaged.summary));
    for row in &damaged.tables.windows {
        let sum = row.gotten_ns + row.waited_ns + row.blocked_ns + row.offline_ns + row.unknown_ns;
        if row.vcpu.is_some() && sum != row.dur {
            let kind = "windows: sum differs from the length".into();
            found.push(Contradiction { kind, rows: format!("{row:?}") });
        }
        // Sums over parts of different lengths do not compare.
        if from < start || to > end {
            continue;
        }
        let same = |other: &&Window| {
            (other.machine_id, other.vcpu, other.cpu, &other.cgroup)
                == (row.machine_id, row.vcpu, row.cpu, &row.cgroup)
        };
        let Some(other) = whole.tables.windows.iter().find(same) else {
            let kind = "windows: actor without a row in the whole".into();
            found.push(Contradiction { kind, rows: format!("{row:?}") });
            continue;
        };
        let sums = [
            ("executions", row.executions as i64, other.executions as i64),
            ("gotten_ns", row.gotten_ns, other.gotten_ns),
            ("waited_ns", row.waited_ns, other.waited_ns),
            ("blocked_ns", row.blocked_ns, other.blocked_ns),
            ("offline_ns", row.offline_ns, other.offline_ns),
            ("guest_ns", row.guest_ns, other.guest_ns),
            ("halted_ns", row.halted_ns, other.halted_ns),
            ("steal_ns", row.steal_ns, other.steal_ns),
            ("io_count", row.io_count as i64, other.io_count as i64),
            ("exits", row.exits as i64, other.exits as i64),
        ];
        let of = match (&row.cgroup, row.vcpu) {
            (Some(_), _) => "cgroup",
            (None, Some(_)) => "vCPU",
            (None, None) => "VM",
        };
        for (name, sum, most) in sums {
            if sum > most {
                let kind = format!("windows: {name} of a {of} is larger");
                let rows = format!("damaged {row:?}\n  whole   {other:?}");
                found.push(Contradiction { kind, rows });
            }
        }
    }
}
