//! Containers of a window: the sums of the control groups in them.

use super::{Level, levels, names::Names};
use crate::{
    groups::ContainerWindow,
    histogram::Histogram,
    snapshot::{ActorWindow, Snapshot},
};
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
};
use transect_model::ids::MachineId;

/// What control groups are, remembered from window to window.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    levels: HashMap<String, (Arc<[Level]>, bool)>,
    names: Names,
}

impl Containers {
    fn levels_of(&mut self, cgroup: &str) -> Arc<[Level]> {
        if let Some((known, seen)) = self.levels.get_mut(cgroup) {
            *seen = true;
            return known.clone();
        }
        let found: Arc<[Level]> = levels(cgroup).into();
        self.levels.insert(cgroup.to_owned(), (found.clone(), true));
        found
    }

    /// Fills in the containers of a snapshot that has its control groups and threads.
    pub(crate) fn fill(&mut self, snapshot: &mut Snapshot) {
        let vms = self.vms(snapshot);
        let mut rows: BTreeMap<String, (ContainerWindow, Histogram)> = BTreeMap::new();
        for actor in &snapshot.actors {
            let Some(cgroup) = &actor.window.cgroup else { continue };
            let levels = self.levels_of(cgroup);
            let mut parent: Option<Rc<str>> = None;
            for level in levels.iter() {
                let vm = vms.get(&level.path).copied().flatten();
                if let Some((row, waits)) = rows.get_mut(&level.path) {
                    add(row, waits, actor);
                } else {
                    let mut row = self.row(snapshot, level, parent.as_deref(), vm);
                    let mut waits = Histogram::default();
                    add(&mut row, &mut waits, actor);
                    rows.insert(level.path.clone(), (row, waits));
                }
                parent = Some(level.path.as_str().into());
            }
        }
        for (row, waits) in rows.values_mut() {
            row.waits = waits.count();
            row.wait_p50_ns = waits.quantile_ns(500);
            row.wait_p99_ns = waits.quantile_ns(990);
        }
        snapshot.containers = rows.into_values().collect();
        self.names.forget_the_gone();
        self.levels.retain(|_, (_, seen)| std::mem::take(seen));
    }

    /// The VM in each container; none where there are several.
    fn vms(&mut self, snapshot: &Snapshot) -> HashMap<String, Option<MachineId>> {
        let mut vms: HashMap<String, Option<MachineId>> = HashMap::new();
        let processes = snapshot.threads.iter().filter(|row| row.tid == row.pid);
        for (vm, cgroup) in
            processes.filter_map(|row| Some((row.vm_machine_id?, row.cgroup.as_ref()?)))
        {
            for level in self.levels_of(cgroup).iter().filter(|level| !level.kind.is_unit()) {
                let known = vms.entry(level.path.clone()).or_insert(Some(vm));
                *known = known.filter(|known| *known == vm);
            }
        }
        vms
    }

    fn row(
        &mut self,
        snapshot: &Snapshot,
        level: &Level,
        parent: Option<&str>,
        vm: Option<MachineId>,
    ) -> ContainerWindow {
        let told = self.names.of(level);
        ContainerWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: MachineId(0),
            kind: level.kind.as_str().to_owned(),
            name: told.name.unwrap_or_else(|| level.name.clone()),
            id: level.id.clone(),
            pod: told.pod.or_else(|| level.pod.clone()),
            namespace: told.namespace,
            cgroup: level.path.clone(),
            parent: parent.map(str::to_owned),
            vm_machine_id: vm,
            ..ContainerWindow::default()
        }
    }
}

fn add(row: &mut ContainerWindow, waits: &mut Histogram, actor: &ActorWindow) {
    let ActorWindow { window, detail, waits: more } = actor;
    row.threads += detail.threads;
    row.executions += window.executions;
    row.gotten_ns += window.gotten_ns;
    row.waited_ns += window.waited_ns;
    row.preempted_ns += detail.preempted_ns;
    row.waking_ns += detail.waking_ns;
    row.blocked_ns += window.blocked_ns;
    row.unknown_ns += window.unknown_ns;
    row.guest_ns += window.guest_ns;
    row.exits += window.exits;
    row.migrations += detail.migrations;
    row.wait_max_ns = row.wait_max_ns.max(detail.wait_max_ns);
    waits.add_all(more);
}

/// The control groups of which a thread ran, and all those above them but the root.
pub(crate) fn active_groups(snapshot: &Snapshot) -> Vec<String> {
    let mut all = std::collections::BTreeSet::new();
    let ran = snapshot.actors.iter().filter(|actor| actor.window.executions > 0);
    for mut path in ran.filter_map(|actor| actor.window.cgroup.as_deref()) {
        while path.len() > 1 && !all.contains(path) {
            all.insert(path.to_owned());
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    all.into_iter().collect()
}
