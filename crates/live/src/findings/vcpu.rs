//! Exits that take a vCPU's time, polls for it while it is halted, and VMs that are scheduled for each request.

use super::scene::{HOST, Scene};
use std::collections::{BTreeMap, HashMap};
use transect_explain::{
    Party,
    detect::{Confidence, Detail, Detector, Finding, Range, rules},
};
use transect_model::{
    ids::{MachineId, VcpuId},
    table::Window,
};

type VcpuOf = (MachineId, VcpuId);

pub(super) fn find(scene: &Scene<'_>, range: Range) -> Vec<Finding> {
    let mut found = storms(scene, range);
    found.extend(polls(scene, range));
    found.extend(ping_pong(scene, range));
    found
}

fn storms(scene: &Scene<'_>, range: Range) -> Vec<Finding> {
    let rows = scene.window.actors.iter().map(|actor| &actor.window);
    let on: HashMap<VcpuOf, i64> =
        rows.filter_map(|row| Some(((row.machine_id, row.vcpu?), row.gotten_ns))).collect();
    // Of a vCPU the one that takes the most.
    let mut found: BTreeMap<VcpuOf, Finding> = BTreeMap::new();
    for (row, _) in scene.window.exits.iter().filter(|(row, _)| !row.reason.is_halt()) {
        let on = on.get(&(row.machine_id, row.vcpu)).copied().unwrap_or(0);
        let known = found.get(&(row.machine_id, row.vcpu)).map(|f| (f.held_ns, f.count));
        if rules::is_exit_storm(row.handling_ns, on, row.count, range)
            && known < Some((row.handling_ns, row.count))
        {
            let finding = Finding {
                detector: Detector::ExitStorm,
                subject: Party::Vcpu(row.machine_id, row.vcpu),
                held_ns: row.handling_ns,
                of_ns: on,
                count: row.count,
                confidence: Confidence::Certain,
                detail: Detail::Exit { reason: row.reason, detail: None, rip: None },
            };
            found.insert((row.machine_id, row.vcpu), finding);
        }
    }
    found.into_values().collect()
}

fn polls(scene: &Scene<'_>, range: Range) -> Vec<Finding> {
    let mut found = Vec::new();
    for actor in &scene.window.actors {
        let (machine, detail) = (actor.window.machine_id, &actor.detail);
        let Some(vcpu) = actor.window.vcpu else { continue };
        let in_vain = detail.halts.saturating_sub(detail.halts_polled);
        // Each poll is taken to be as long as the others.
        let failed =
            i128::from(detail.poll_ns) * i128::from(in_vain) / i128::from(detail.halts.max(1));
        let failed = i64::try_from(failed).unwrap_or(0);
        if rules::is_in_vain(detail.poll_ns, failed, actor.window.gotten_ns, range) {
            found.push(Finding {
                detector: Detector::HaltPoll,
                subject: Party::Vcpu(machine, vcpu),
                held_ns: failed,
                of_ns: actor.window.gotten_ns,
                count: in_vain,
                confidence: Confidence::Likely,
                detail: Detail::None,
            });
        }
    }
    found
}

fn ping_pong(scene: &Scene<'_>, range: Range) -> Vec<Finding> {
    let rows = scene.window.actors.iter().map(|actor| &actor.window);
    // Of some requests only, nothing is known of their number.
    let is_known = |row: &&Window| !scene.window.lacks("io_count", row.machine_id);
    let vms = rows
        .filter(|row| row.machine_id != HOST && row.vcpu.is_none() && row.cgroup.is_none())
        .filter(is_known);
    let mut found = Vec::new();
    for row in vms {
        let wanted = row.gotten_ns.saturating_add(row.waited_ns);
        let per_run =
            rules::requests_per_run(row.executions, row.io_count, row.waited_ns, wanted, range);
        found.extend(per_run.map(|per_run| Finding {
            detector: Detector::PingPong,
            subject: Party::Machine(row.machine_id),
            held_ns: row.waited_ns,
            of_ns: wanted,
            count: row.executions,
            confidence: Confidence::Likely,
            detail: Detail::PerRun(per_run),
        }));
    }
    found
}
