//! What killed recorders left on this machine, and tracing instances of other programs.

use super::check::Check;
use transect_recorder::{control, leftovers::Removed};
use transect_tracefs::{FoundInstance, Owner, Tracefs, found_instances};

/// Removes leftovers and reports them, with the recorders that run.
pub(super) fn checks() -> Vec<Check> {
    let removed = Removed::now();
    let mut checks = vec![leftovers(&removed)];
    if let Some(tracefs) = Tracefs::mounted() {
        checks.extend(instances(&tracefs, &found_instances(&tracefs)));
    }
    let running = control::running();
    if !running.is_empty() {
        let each = running.iter().map(|found| {
            let state = &found.state;
            format!("pid {} records {}", state.pid, state.output.display())
        });
        checks.push(Check::ok("recorders", each.collect::<Vec<_>>().join("; ")));
    }
    checks
}

fn leftovers(removed: &Removed) -> Check {
    match removed.lines() {
        lines if lines.is_empty() => Check::ok("leftovers", "none of killed recorders"),
        lines => Check::ok("leftovers", lines.join("; ")),
    }
}

/// The instances that are left: of other programs, and of processes that are not visible from here.
fn instances(tracefs: &Tracefs, found: &[FoundInstance]) -> Option<Check> {
    let state = |found: &FoundInstance| match found.is_tracing {
        Some(true) => "tracing",
        Some(false) => "not tracing",
        None => "state unknown",
    };
    let others = found.iter().filter(|found| found.owner == Owner::Other);
    let others: Vec<_> = others.map(|found| format!("{} ({})", found.name, state(found))).collect();
    let stuck: Vec<_> = found
        .iter()
        .filter_map(|found| match found.owner {
            Owner::Gone(pid) => Some(format!("{} (pid {pid}, {})", found.name, state(found))),
            _ => None,
        })
        .collect();
    if !stuck.is_empty() {
        let finding = format!(
            "in use by processes that are not visible from here, in another pid namespace: {}",
            stuck.join(", ")
        );
        return Some(Check::limited(
            "instances",
            finding,
            format!(
                "if they are not in use any more: rmdir {}/instances/NAME",
                tracefs.root().display()
            ),
        ));
    }
    let finding = format!("of other programs, left alone: {}", others.join(", "));
    (!others.is_empty()).then(|| Check::ok("instances", finding))
}
