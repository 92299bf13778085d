//! VMs, containers and control groups.

use super::{
    behind::Heaviest,
    findings, pressure,
    scene::{Page, Scene, WAIT, lacks, lacks_vcpus},
};
use crate::{
    part::part,
    sums::Sums,
    table::{Cell, Column, Row, Sort, Table, Tone},
    who::{Who, machine_name},
};
use std::collections::{HashMap, HashSet};
use transect_live::{ActorWindow, ContainerWindow, Snapshot};
use transect_model::{
    ids::{MachineId, Tid},
    table::Window,
};

/// Columns before the pairs.
const BEFORE: usize = 3;

pub(super) fn page(scene: &Scene<'_>) -> Page {
    let sort = scene.level.sort(0).unwrap_or(Sort { column: BEFORE + WAIT, is_reversed: false });
    let table = Table::new(columns(scene), rows(scene), sort, "no rows in this window");
    let mut summary = Vec::new();
    if let Some(now) = scene.now()
        && !now.snapshot.actors.iter().any(|actor| actor.window.cgroup.is_none())
    {
        summary.push(vec![no_vm(&now.snapshot)]);
    }
    summary.extend(findings::line(scene));
    Page { summary, tables: vec![table.sorted(BEFORE).filtered(&scene.level.filter)] }
}

/// Why there is none, as far as that can be told.
fn no_vm(snapshot: &Snapshot) -> crate::part::Part {
    let kvm = snapshot.missing.iter().find(|missing| missing.metric == "exits");
    let text = match kvm {
        Some(missing) => format!("no VM is running; exits are missing: {}", missing.why),
        None => "no VM is running".to_owned(),
    };
    part(0, text).tone(Tone::Dim)
}

fn columns(scene: &Scene<'_>) -> Vec<Column> {
    let mut columns = vec![
        Column::text("NAME", 12, 30, 0),
        Column::text("KIND", 5, 10, 5),
        Column::number("N", 3, 3),
    ];
    columns.extend(scene.pair_columns());
    columns.extend([
        Column::number("WAITp99", 7, 6),
        Column::number("BLOCK%", 6, 8),
        Column::number("RUNS/s", 6, 9),
        Column::number("EXIT/s", 6, 4),
        Column::number("IO/s", 5, 7),
    ]);
    if has_limits(scene) {
        columns.push(Column::number("HELD%", 5, 4));
    }
    columns.push(Column::text("ANTAGONIST", 12, 40, 1));
    columns
}

fn rows(scene: &Scene<'_>) -> Vec<Row> {
    let Some(now) = scene.now() else { return Vec::new() };
    let snapshot = &now.snapshot;
    let series = scene.span.series(|moment, add| {
        let snapshot = &moment.snapshot;
        for (row, _) in &snapshot.containers {
            add(Who::Group(row.cgroup.clone()), Sums::of_container(row));
        }
        for row in listed(snapshot) {
            add(Who::of_actor(row), Sums::of_actor(row));
        }
    });
    let heaviest = heaviest(snapshot);
    let row = |entry: Entry<'_>| {
        let course = series.get(&entry.who);
        let mut cells =
            vec![Cell::Text(entry.name), Cell::Text(entry.kind), Cell::Rate(entry.threads as f64)];
        cells.extend(scene.pairs(&course, entry.of));
        cells.extend(entry.more.cells(scene, snapshot));
        if lacks_vcpus(snapshot, &entry.who) {
            // What nobody counted is not 0.
            cells[BEFORE - 1..].fill(Cell::Missing);
        }
        let waited_ns = course.now.map_or(0, |now| now.waited_ns);
        let held = match &entry.who {
            Who::Group(group) => pressure::held_back_share(snapshot, group),
            _ => None,
        };
        let times = (waited_ns, scene.span.now_ns());
        cells.push(heaviest.cell_or_limit(&entry.who, times, held));
        Row { who: entry.who, cells }
    };
    let containers =
        snapshot.containers.iter().map(|(container, _)| Entry::of_container(container));
    let actors = listed(snapshot).map(|actor| Entry::of_actor(snapshot, actor));
    actors.chain(containers).map(row).collect()
}

/// Has any container or group a limit of its own?
fn has_limits(scene: &Scene<'_>) -> bool {
    let pressure = scene.now().into_iter().flat_map(|now| &now.snapshot.pressure);
    pressure.into_iter().any(|row| row.cgroup.is_some() && row.quota_ns.is_some())
}

/// VMs, and the control groups that no container stands for.
fn listed(snapshot: &Snapshot) -> impl Iterator<Item = &ActorWindow> {
    let containers: HashSet<&str> =
        snapshot.containers.iter().map(|(row, _)| row.cgroup.as_str()).collect();
    // Any of its parents is enough.
    let is_contained = move |group: &str| {
        let ends = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
        ends.into_iter().any(|end| containers.contains(&group[..end]))
    };
    let actors = snapshot.actors.iter().filter(|row| row.window.vcpu.is_none());
    actors.filter(move |row| !row.window.cgroup.as_deref().is_some_and(&is_contained))
}

/// A row of the list.
struct Entry<'a> {
    who: Who,
    name: String,
    kind: String,
    threads: u64,
    /// How many of them can wait at once before it is all that it could wait.
    of: f64,
    more: More<'a>,
}

/// The rest of its columns.
enum More<'a> {
    Actor(&'a ActorWindow),
    Container(&'a ContainerWindow),
}

impl<'a> Entry<'a> {
    fn of_actor(snapshot: &Snapshot, actor: &'a ActorWindow) -> Self {
        let threads = actor.detail.threads;
        let (name, kind, of) = match &actor.window.cgroup {
            Some(group) => (group.clone(), "group", 1.0),
            // A VM can wait as often as it has vCPUs.
            None => (machine_name(snapshot, actor.window.machine_id), "vm", threads as f64),
        };
        let (who, kind, more) = (Who::of_actor(actor), kind.to_owned(), More::Actor(actor));
        Entry { who, name, kind, threads, of, more }
    }

    fn of_container(row: &'a ContainerWindow) -> Self {
        Entry {
            who: Who::Group(row.cgroup.clone()),
            name: row.full_name(),
            kind: row.kind.clone(),
            threads: row.threads,
            of: 1.0,
            more: More::Container(row),
        }
    }
}

impl More<'_> {
    fn cells(&self, scene: &Scene<'_>, snapshot: &Snapshot) -> Vec<Cell> {
        let (p99_ns, blocked_ns, executions) = match self {
            More::Actor(row) => {
                (row.detail.wait_p99_ns, row.window.blocked_ns, row.window.executions)
            }
            More::Container(row) => (row.wait_p99_ns, row.blocked_ns, row.executions),
        };
        let of_vm = |column: &str, count: fn(&Window) -> u64| match self {
            More::Actor(ActorWindow { window, .. }) if window.cgroup.is_none() => Cell::unless(
                lacks(snapshot, column, window.machine_id),
                Cell::Rate(scene.per_second(count(window))),
            ),
            _ => Cell::Nothing,
        };
        let group = match self {
            More::Actor(row) => row.window.cgroup.as_deref(),
            More::Container(row) => Some(row.cgroup.as_str()),
        };
        let mut cells = vec![
            p99_ns.map_or(Cell::Nothing, Cell::Time),
            Cell::Share(scene.share(blocked_ns)),
            Cell::Rate(scene.per_second(executions)),
            of_vm("exits", |window| window.exits),
            of_vm("io_count", |window| window.io_count),
        ];
        if has_limits(scene) {
            let held = group.and_then(|group| pressure::held_back(snapshot, group));
            cells.push(held.unwrap_or(Cell::Nothing));
        }
        cells
    }
}

/// Waits of a vCPU count for its VM, those of a thread for its group and the containers around it.
fn heaviest(snapshot: &Snapshot) -> Heaviest {
    let threads = snapshot.threads.iter();
    let groups: HashMap<Tid, &String> =
        threads.filter_map(|thread| Some((thread.tid, thread.cgroup.as_ref()?))).collect();
    let containers: HashSet<&str> =
        snapshot.containers.iter().map(|(row, _)| row.cgroup.as_str()).collect();
    Heaviest::of(snapshot, |row| {
        let vm = (row.machine_id != MachineId(0) && row.vcpu.is_some())
            .then_some(Who::Vm(row.machine_id));
        let group = groups.get(&row.tid).map(|group| group.as_str()).unwrap_or_default();
        let ends = group.match_indices('/').map(|(at, _)| at);
        let above = ends.map(|end| &group[..end]).filter(|above| containers.contains(above));
        let groups = above.chain((!group.is_empty()).then_some(group));
        vm.into_iter().chain(groups.map(|group| Who::Group(group.to_owned()))).collect()
    })
}
