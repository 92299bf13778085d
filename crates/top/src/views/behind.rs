//! Whom waits are blamed on.

use super::scene::per_cent;
use crate::{
    number,
    table::Cell,
    who::{Who, machine_name},
};
use std::collections::HashMap;
use transect_live::{Antagonist, Snapshot};
use transect_model::ids::MachineId;

const HOST: MachineId = MachineId(0);
const IDLE: &str = "idle";

/// Who had the CPU, as a row's actor.
pub(super) fn culprit(row: &Antagonist) -> Who {
    match row.by_vcpu {
        Some(vcpu) if row.by_machine_id != HOST => Who::Vcpu(row.by_machine_id, vcpu),
        _ => Who::Thread(row.by_tid),
    }
}

/// Who waited.
pub(super) fn victim(row: &Antagonist) -> Who {
    match row.vcpu {
        Some(vcpu) if row.machine_id != HOST => Who::Vcpu(row.machine_id, vcpu),
        _ => Who::Thread(row.tid),
    }
}

/// What the one who had the CPU is called.
pub(super) fn culprit_name(snapshot: &Snapshot, row: &Antagonist) -> String {
    match (row.by_machine_id, row.by_vcpu) {
        (HOST, _) => numbered(&row.by_name, row.by_tid.0),
        (vm, Some(vcpu)) => format!("{} vCPU {vcpu}", machine_name(snapshot, vm)),
        (vm, None) => format!("{} {}", machine_name(snapshot, vm), row.by_name),
    }
}

/// What the one who waited is called.
pub(super) fn victim_name(snapshot: &Snapshot, row: &Antagonist) -> String {
    match (row.machine_id, row.vcpu) {
        (HOST, _) => numbered(&row.name, row.tid.0),
        (vm, Some(vcpu)) => format!("{} vCPU {vcpu}", machine_name(snapshot, vm)),
        (vm, None) => format!("{} {}", machine_name(snapshot, vm), row.name),
    }
}

/// There may be many of a name.
fn numbered(name: &str, tid: i32) -> String {
    match (name, tid) {
        ("", _) | (_, 0) => thread(name, tid),
        (name, tid) => format!("{name} ({tid})"),
    }
}

fn thread(name: &str, tid: i32) -> String {
    match (name, tid) {
        (_, 0) => "idle (leaving idle state)".to_owned(),
        ("", tid) => format!("thread {tid}"),
        (name, _) => name.to_owned(),
    }
}

/// The heaviest antagonist of each actor, by VM or name.
pub(super) struct Heaviest(HashMap<Who, HashMap<String, i64>>);

impl Heaviest {
    /// `whose` tells the actors that a waiting thread counts for.
    pub(super) fn of(snapshot: &Snapshot, whose: impl Fn(&Antagonist) -> Vec<Who>) -> Self {
        let mut all: HashMap<Who, HashMap<String, i64>> = HashMap::new();
        for row in &snapshot.antagonists {
            let name = match (row.by_machine_id, row.by_tid.0) {
                (_, 0) => IDLE.to_owned(),
                (HOST, tid) => thread(&row.by_name, tid),
                (vm, _) => machine_name(snapshot, vm),
            };
            for who in whose(row) {
                *all.entry(who).or_default().entry(name.clone()).or_default() += row.ns;
            }
        }
        Heaviest(all)
    }

    /// The same of a group that its own limit held back for this share of the time: `97% its limit` where that
    /// is more than anybody else's, or where the CPU was idle, for the group was not allowed to have it.
    pub(super) fn cell_or_limit(
        &self,
        who: &Who,
        (waited_ns, window_ns): (i64, i64),
        held_back: Option<f64>,
    ) -> Cell {
        let waited = per_cent(waited_ns, window_ns);
        let Some(held) = held_back.filter(|held| *held >= 0.05 && waited >= 0.05) else {
            return self.cell(who, waited_ns, window_ns);
        };
        let by = self.0.get(who).into_iter().flatten();
        let heaviest = by.max_by_key(|(_, ns)| **ns);
        let share = (held * 100.0 / waited).min(100.0);
        let is_limit =
            heaviest.is_none_or(|(name, ns)| name == IDLE || per_cent(*ns, waited_ns) <= share);
        match is_limit {
            true => Cell::Text(format!("{}% its limit", number::rate(share.round()))),
            false => self.cell(who, waited_ns, window_ns),
        }
    }

    /// `93% greedy`: of what the actor waited. Nothing if it waited for less than is shown of it.
    pub(super) fn cell(&self, who: &Who, waited_ns: i64, window_ns: i64) -> Cell {
        let by = self.0.get(who).into_iter().flatten();
        match by.max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0))) {
            Some((name, ns)) if per_cent(waited_ns, window_ns) >= 0.05 => {
                let share = per_cent(*ns, waited_ns).min(100.0);
                Cell::Text(format!("{}% {name}", number::rate(share.round())))
            }
            _ => Cell::Nothing,
        }
    }
}
