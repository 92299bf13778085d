//! The comparison of tables whose rows begin at an event.

use super::compare::Contradiction;
use std::{collections::BTreeMap, fmt::Debug};
use transect_model::{
    cause::Evidence,
    column::ColumnValue as _,
    table::{Row, Tables},
};

/// A row: columns that have to be equal, and columns that may be null instead.
struct Point {
    ts: i64,
    fixed: Vec<(&'static str, i64)>,
    optional: Vec<(&'static str, Option<i64>)>,
    row: Row,
}

/// Table, machine and time. The simulator gives every event a time of its own.
type Points = BTreeMap<(&'static str, i64, i64), Point>;

fn id(number: u32) -> i64 {
    i64::from(number)
}

fn points(tables: &Tables) -> Points {
    let mut all = Points::new();
    let mut add = |table, machine: u32, point: Point| {
        all.insert((table, i64::from(machine), point.ts), point);
    };
    for r in &tables.exits {
        // Whether KVM_RUN returned is known once the exit has its end.
        let to_user = r.dur.is_some() || r.to_user;
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("vcpu", id(r.vcpu.0)),
                ("reason", id(r.reason.code)),
                ("rip", r.rip as i64),
            ],
            optional: vec![
                ("dur", r.dur),
                ("handling_ns", r.handling_ns),
                ("detail", r.detail.map(|detail| detail as i64)),
                ("to_user", to_user.then_some(i64::from(r.to_user))),
            ],
            row: Row::from(r.clone()),
        };
        add("exits", r.machine_id.0, point);
    }
    for r in &tables.wakeups {
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("tid", r.tid.0.into()),
                ("waker_tid", r.waker_tid.map_or(-1, |tid| tid.0.into())),
                ("waker_cpu", id(r.waker_cpu.0)),
                ("context", r.context.map_or(-1, |context| context as i64)),
            ],
            optional: vec![
                ("dur", r.dur),
                ("cpu", r.cpu.map(|cpu| id(cpu.0))),
                ("source", r.source.and_then(|source| source.word().map(u64::cast_signed))),
                ("vector", r.vector.map(i64::from)),
            ],
            row: Row::from(r.clone()),
        };
        add("wakeups", r.machine_id.0, point);
    }
    for r in &tables.irqs {
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("cpu", id(r.cpu.0)),
                ("softirq", r.softirq.into()),
                ("source", r.source.word().map_or(-1, u64::cast_signed)),
                ("vector", r.vector.into()),
                ("dur", r.dur),
            ],
            optional: Vec::new(),
            row: Row::from(r.clone()),
        };
        add("irqs", r.machine_id.0, point);
    }
    for r in &tables.syscalls {
        let point = Point {
            ts: r.ts,
            fixed: vec![("tid", r.tid.0.into()), ("nr", r.nr)],
            optional: vec![("dur", r.dur), ("ret", r.ret)],
            row: Row::from(r.clone()),
        };
        add("syscalls", r.machine_id.0, point);
    }
    for r in &tables.block_io {
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("tid", r.tid.0.into()),
                ("device", id(r.device.0)),
                ("sector", r.sector as i64),
                ("bytes", r.bytes as i64),
            ],
            optional: vec![
                ("dur", r.dur),
                ("issue_ns", r.issue_ns),
                ("complete_cpu", r.complete_cpu.map(|cpu| id(cpu.0))),
                ("error", r.error.map(i64::from)),
            ],
            row: Row::from(r.clone()),
        };
        add("block_io", r.machine_id.0, point);
    }
    for r in &tables.io_requests {
        // What nothing but time tells may be another's.
        let sure = |ts: Option<i64>| ts.filter(|_| r.evidence != Some(Evidence::Order));
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("tid", r.tid.0.into()),
                ("device", id(r.device.0)),
                ("sector", r.sector as i64),
                ("bytes", r.bytes as i64),
            ],
            optional: vec![
                ("issue_ts", r.issue_ts),
                ("kick_ts", sure(r.kick_ts)),
                ("pickup_ts", sure(r.pickup_ts)),
                ("host_submit_ts", sure(r.host_submit_ts)),
                ("host_issue_ts", sure(r.host_issue_ts)),
                ("host_complete_ts", sure(r.host_complete_ts)),
                ("signal_ts", sure(r.signal_ts)),
                ("inject_ts", sure(r.inject_ts)),
                ("guest_irq_ts", sure(r.guest_irq_ts)),
                ("complete_ts", r.complete_ts),
                ("wake_ts", r.wake_ts),
                ("run_ts", r.run_ts),
                ("wake_tid", r.wake_tid.map(|tid| tid.0.into())),
                ("error", r.error.map(i64::from)),
            ],
            row: Row::from(r.clone()),
        };
        add("io_requests", r.machine_id.0, point);
    }
    for r in &tables.packets {
        // What nothing but time tells may be another's.
        let sure = |ts: Option<i64>| ts.filter(|_| r.evidence != Some(Evidence::Order));
        let point = Point {
            ts: r.ts,
            fixed: vec![("flow", id(r.flow)), ("seq", id(r.seq))],
            optional: vec![
                ("tid", r.tid.map(|tid| tid.0.into())),
                ("bytes", r.bytes.map(|bytes| bytes as i64)),
                ("send_ts", r.send_ts),
                ("kick_ts", sure(r.kick_ts)),
                ("pickup_ts", sure(r.pickup_ts)),
                ("host_receive_ts", sure(r.host_receive_ts)),
                ("fetch_ts", sure(r.fetch_ts)),
                ("signal_ts", sure(r.signal_ts)),
                ("inject_ts", sure(r.inject_ts)),
                ("guest_irq_ts", sure(r.guest_irq_ts)),
                ("wake_ts", sure(r.wake_ts)),
                ("run_ts", sure(r.run_ts)),
                (
                    "wake_tid",
                    r.wake_tid.filter(|_| sure(r.wake_ts).is_some()).map(|tid| tid.0.into()),
                ),
            ],
            row: Row::from(r.clone()),
        };
        add("packets", r.machine_id.0, point);
    }
    for r in &tables.stack_samples {
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("cpu", id(r.cpu.0)),
                ("tid", r.tid.0.into()),
                ("kernel_stack_id", r.kernel_stack_id.map_or(-1, i64::from)),
            ],
            optional: vec![("stage_ts", r.stage_ts)],
            row: Row::from(r.clone()),
        };
        add("stack_samples", r.machine_id.0, point);
    }
    for r in &tables.net_io {
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("cpu", id(r.cpu.0)),
                ("tid", r.tid.0.into()),
                ("bytes", r.bytes as i64),
                ("direction", r.direction as i64),
            ],
            optional: vec![("code", r.code.map(i64::from))],
            row: Row::from(r.clone()),
        };
        add("net_io", r.machine_id.0, point);
    }
    for r in &tables.work_items {
        let point = Point {
            ts: r.ts,
            fixed: vec![
                ("tid", r.tid.0.into()),
                ("cpu", id(r.cpu.0)),
                ("function", r.function as i64),
            ],
            optional: vec![("dur", r.dur)],
            row: Row::from(r.clone()),
        };
        add("work_items", r.machine_id.0, point);
    }
    all
}

pub fn compare_points(
    whole: &Tables,
    damaged: &Tables,
    (start, end): (i64, i64),
    found: &mut Vec<Contradiction>,
) {
    let whole = points(whole);
    for (key @ (table, ..), point) in points(damaged) {
        let mut add = |kind: String, other: &dyn Debug| {
            let rows = format!("damaged {:?}\n  whole   {other:?}", point.row);
            found.push(Contradiction { kind, rows });
        };
        if point.ts < start || point.ts > end {
            add(format!("{table}: row outside of the span"), &format_args!("span {start}..{end}"));
        }
        let Some(other) = whole.get(&key) else {
            let has_parts = ["block_io", "io_requests", "packets"];
            if has_parts.contains(&table) && is_later_part(&point, whole.values()) {
                continue;
            }
            add(format!("{table}: row that the whole does not have"), &"has no such row");
            continue;
        };
        for ((name, value), (_, expected)) in point.fixed.iter().zip(&other.fixed) {
            if value != expected {
                add(format!("{table}: {name} differs"), &other.row);
            }
        }
        for ((name, value), (_, expected)) in point.optional.iter().zip(&other.optional) {
            if value.is_some() && value != expected {
                add(format!("{table}: {name} differs"), &other.row);
            }
        }
    }
}

/// Does the row of a request whose queueing was not recorded begin where the whole row has its issue?
fn is_later_part<'p>(part: &Point, mut whole: impl Iterator<Item = &'p Point>) -> bool {
    if let Row::IoRequest(part) = &part.row {
        return whole.any(|point| {
            let Row::IoRequest(row) = &point.row else { return false };
            (row.device, row.sector, row.bytes) == (part.device, part.sector, part.bytes)
                && row.issue_ts == Some(part.ts)
                && part.complete_ts.is_none_or(|ts| row.complete_ts == Some(ts))
        });
    }
    if let Row::Packet(part) = &part.row {
        // It is told as a packet of its own, which begins with a later event.
        return whole.any(|point| {
            let Row::Packet(row) = &point.row else { return false };
            (row.flow, row.seq) == (part.flow, part.seq) && row.ts < part.ts
        });
    }
    let Row::BlockIo(part) = &part.row else { return false };
    whole.any(|point| {
        let Row::BlockIo(row) = &point.row else { return false };
        let issue_ns = row.issue_ns.unwrap_or(-1);
        (row.device, row.sector, row.bytes) == (part.device, part.sector, part.bytes)
            && row.ts + issue_ns == part.ts
            && part.dur.is_none_or(|dur| row.dur == Some(dur + issue_ns))
    })
}
