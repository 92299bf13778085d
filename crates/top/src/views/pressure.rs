//! What a container or control group was short of: its own limit, CPUs, disks, memory.

use super::scene::{Scene, per_cent};
use crate::{
    number,
    part::{Parts, part},
    table::{Cell, Tone},
};
use transect_live::{PressureWindow, Snapshot};

fn row<'a>(snapshot: &'a Snapshot, group: &str) -> Option<&'a PressureWindow> {
    snapshot.pressure.iter().find(|row| row.cgroup.as_deref() == Some(group))
}

/// How much of the time it was held back by its own limit (`cpu.max`), added up over CPUs. None without a limit.
pub(super) fn held_back(snapshot: &Snapshot, group: &str) -> Option<Cell> {
    let share = held_back_share(snapshot, group)?;
    Some(Cell::Waiting(share, Tone::of_waiting(share)))
}

/// The same as a number, per cent.
pub(super) fn held_back_share(snapshot: &Snapshot, group: &str) -> Option<f64> {
    let row = row(snapshot, group)?;
    row.quota_ns?;
    Some(per_cent(row.throttled_ns?, row.dur))
}

/// Its limit, and what its threads waited for.
pub(super) fn line(scene: &Scene<'_>, group: &str) -> Option<Parts> {
    let row = row(&scene.now()?.snapshot, group)?;
    let share = |ns: i64| format!("{}%", number::share(per_cent(ns, row.dur)));
    let mut line = Vec::new();
    if let (Some(quota), Some(period)) = (row.quota_ns, row.period_ns.filter(|ns| *ns > 0)) {
        line.push(part(0, format!("limit {:.2} CPUs", quota as f64 / period as f64)));
    }
    if let (Some(_), Some(ns)) = (row.quota_ns, row.throttled_ns) {
        let tone = Tone::of_waiting(per_cent(ns, row.dur));
        line.push(part(0, format!("throttled {}", share(ns))).tone(tone));
    }
    if let (Some(_), Some(all), Some(held)) = (row.quota_ns, row.periods, row.periods_throttled) {
        line.push(part(3, format!("in {held} of {all} periods")));
    }
    let pressures =
        [("CPU", row.cpu_some_ns), ("disk", row.io_some_ns), ("memory", row.memory_some_ns)];
    for (word, ns) in pressures {
        line.extend(ns.map(|ns| part(2, format!("{word} pressure {}", share(ns)))));
    }
    (!line.is_empty()).then_some(line)
}
