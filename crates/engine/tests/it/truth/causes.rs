//! The comparison of causes: an effect has the same cause, or one of which less is known, or none.

use super::compare::Contradiction;
use std::collections::BTreeMap;
use transect_model::{
    cause::{CauseKind, Evidence},
    table::{Cause, Tables},
};

/// Wakings in an interrupt, as their kind is if more is known than that.
const WAKINGS: [CauseKind; 4] =
    [CauseKind::Timer, CauseKind::Ipi, CauseKind::Completion, CauseKind::Packet];

fn effect(cause: &Cause) -> (u32, i64) {
    (cause.to_machine_id.0, cause.ts + cause.dur)
}

pub fn compare_causes(whole: &Tables, damaged: &Tables, found: &mut Vec<Contradiction>) {
    let mut all: BTreeMap<(u32, i64), Vec<&Cause>> = BTreeMap::new();
    for cause in &whole.causes {
        all.entry(effect(cause)).or_default().push(cause);
    }
    for cause in damaged.causes.iter().filter(|cause| cause.evidence != Evidence::Order) {
        let here = all.get(&effect(cause)).map_or(&[][..], Vec::as_slice);
        let differences = here.iter().map(|other| difference(cause, other));
        let Some(closest) = differences.min_by_key(Option::is_some) else {
            let kind = format!("causes: {} that the whole does not have", cause.kind.as_str());
            found.push(Contradiction { kind, rows: format!("{cause:?}") });
            continue;
        };
        if let Some(column) = closest {
            let kind = format!("causes: {} of {} differs", column, cause.kind.as_str());
            found.push(Contradiction {
                kind,
                rows: format!("damaged {cause:?}\n  whole   {here:?}"),
            });
        }
    }
}

/// The first column in which it contradicts.
fn difference(cause: &Cause, whole: &Cause) -> Option<&'static str> {
    fn agrees<T: PartialEq>(value: Option<T>, expected: Option<T>) -> bool {
        value.is_none() || value == expected
    }
    let is_coarser = cause.kind == CauseKind::Wakeup && WAKINGS.contains(&whole.kind);
    let checks = [
        ("kind", cause.kind == whole.kind || is_coarser),
        ("ts", cause.ts == whole.ts || is_coarser),
        ("machine_id", cause.machine_id == whole.machine_id),
        ("cpu", agrees(cause.cpu, whole.cpu)),
        ("tid", agrees(cause.tid, whole.tid)),
        ("context", agrees(cause.context, whole.context)),
        ("vector", agrees(cause.vector, whole.vector)),
        ("to_cpu", agrees(cause.to_cpu, whole.to_cpu)),
        ("to_tid", agrees(cause.to_tid, whole.to_tid)),
        ("to_vcpu", agrees(cause.to_vcpu, whole.to_vcpu)),
        ("id", agrees(cause.id, whole.id)),
        ("evidence", cause.evidence >= whole.evidence),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map(|(column, _)| column)
}
