//! Threads: of a VM, of a control group, on a CPU, or all.

use super::{
    behind::{Heaviest, victim},
    findings,
    lines::{io_line, state_word, time_line},
    pressure,
    scene::{Page, Scene, WAIT, lacks, lacks_vcpus},
};
use crate::{
    moment::Moment,
    number,
    part::part,
    sums::Sums,
    table::{Cell, Column, Row, Sort, Table, Tone},
    who::{Who, container, is_in, thread_label, thread_name},
};
use transect_live::{ActorWindow, Snapshot, ThreadWindow};
use transect_model::ids::MachineId;

/// Columns before the pairs.
const BEFORE: usize = 4;

/// What a list of threads is about.
pub(super) struct List<'a> {
    pub(super) holds: &'a dyn Fn(&ThreadWindow) -> bool,
    pub(super) name: &'a dyn Fn(&Snapshot, &ThreadWindow) -> String,
    pub(super) has_exits: bool,
    pub(super) empty: &'a str,
}

pub(super) fn of_vm(scene: &Scene<'_>, id: MachineId) -> Page {
    let table = table(
        scene,
        &List {
            holds: &|thread| thread.vm_machine_id == Some(id),
            name: &|_, thread| match thread.role {
                "vcpu" | "vmm" => thread_name(thread),
                role => format!("{} ({role})", thread.name),
            },
            has_exits: true,
            empty: "this VM does not exist in this window",
        },
    );
    let mut summary = Vec::new();
    if let Some(now) = scene.now() {
        let vm = now.snapshot.actors.iter().find(|row| Who::of_actor(row) == Who::Vm(id));
        if let Some(vm) = vm.filter(|_| !lacks_vcpus(&now.snapshot, &Who::Vm(id))) {
            summary.extend(time_line(scene, &Sums::of_actor(vm), id));
        }
        summary.extend(io_line(scene, |row| row.machine_id == id));
        summary.extend(missing_of(&now.snapshot, id));
        summary.extend(findings::line_of(scene, |who| match who {
            Who::Vm(vm) | Who::Vcpu(vm, _) => *vm == id,
            _ => false,
        }));
    }
    Page { summary, tables: vec![table] }
}

/// What is missing of this VM alone.
fn missing_of(snapshot: &Snapshot, id: MachineId) -> Vec<crate::part::Parts> {
    let own = snapshot.missing.iter().filter(|missing| missing.machine_id == Some(id));
    own.map(|missing| {
        vec![part(0, format!("missing {}: {}", missing.metric, missing.why)).tone(Tone::Warn)]
    })
    .collect()
}

pub(super) fn of_group(scene: &Scene<'_>, group: &str) -> Page {
    let table = table(
        scene,
        &List {
            holds: &|thread| {
                scene.now().is_some_and(|now| is_in(&now.snapshot, group, thread.cgroup.as_deref()))
            },
            name: &thread_label,
            has_exits: false,
            empty: "all its threads slept through this window",
        },
    );
    let mut summary = Vec::new();
    if let Some((sums, threads)) = scene.now().and_then(|now| sums_of(&now.snapshot, group)) {
        summary.extend(time_line(scene, &sums, MachineId(0)));
        let awake = format!("{} of {threads} threads were active", table.all_rows);
        summary.push(vec![part(1, awake).tone(Tone::Dim)]);
    }
    summary.extend(pressure::line(scene, group));
    summary.extend(findings::line_of(scene, |who| match (who, scene.now()) {
        (Who::Group(of), Some(now)) => is_in(&now.snapshot, group, Some(of.as_str())),
        _ => false,
    }));
    Page { summary, tables: vec![table] }
}

/// What a container or control group did, and its threads.
fn sums_of(snapshot: &Snapshot, group: &str) -> Option<(Sums, u64)> {
    if let Some(row) = container(snapshot, group) {
        return Some((Sums::of_container(row), row.threads));
    }
    let of_group = |row: &&ActorWindow| row.window.cgroup.as_deref() == Some(group);
    let row = snapshot.actors.iter().find(of_group)?;
    Some((Sums::of_actor(row), row.detail.threads))
}

pub(super) fn all(scene: &Scene<'_>) -> Page {
    let table = table(
        scene,
        &List {
            holds: &|_| true,
            name: &thread_label,
            has_exits: false,
            empty: "all threads slept through this window",
        },
    );
    let told = scene.now().map(|now| {
        let text = format!("{} of {} threads were active", table.all_rows, now.threads);
        vec![part(1, text).tone(Tone::Dim)]
    });
    Page { summary: told.into_iter().collect(), tables: vec![table] }
}

/// The list, sorted and filtered.
pub(super) fn table(scene: &Scene<'_>, list: &List<'_>) -> Table {
    let sort = scene.level.sort(0).unwrap_or(Sort { column: BEFORE + WAIT, is_reversed: false });
    let rows = scene.now().map(|now| rows(scene, now, list)).unwrap_or_default();
    let table = Table::new(columns(scene, list), rows, sort, list.empty);
    table.sorted(BEFORE).filtered(&scene.level.filter)
}

fn columns(scene: &Scene<'_>, list: &List<'_>) -> Vec<Column> {
    let mut columns = vec![
        Column::text("NAME", 16, 28, 0),
        Column::number("TID", 7, 5),
        Column::number("ON", 3, 4),
        Column::text("STATE", 9, 9, 4),
    ];
    columns.extend(scene.pair_columns());
    columns.extend([
        Column::number("WAITp99", 7, 6),
        Column::number("BLOCK%", 6, 8),
        Column::number("RUNS/s", 6, 9),
        Column::number("MOVES/s", 7, 7),
    ]);
    if list.has_exits {
        columns.push(Column::number("EXIT/s", 6, 4));
    }
    columns.push(Column::text("ANTAGONIST", 12, 40, 1));
    columns
}

fn rows(scene: &Scene<'_>, now: &Moment, list: &List<'_>) -> Vec<Row> {
    let snapshot = &now.snapshot;
    let series = scene.span.series(|moment, add| {
        for row in moment.snapshot.threads.iter() {
            if (list.holds)(row) {
                add(Who::of_thread(row), Sums::of_thread(row));
            }
        }
    });
    let heaviest = Heaviest::of(snapshot, |row| vec![victim(row)]);
    let row = |thread: &ThreadWindow| {
        let who = Who::of_thread(thread);
        let mut cells = vec![
            Cell::Text((list.name)(snapshot, thread)),
            Cell::Text(thread.tid.to_string()),
            Cell::Text(thread.cpu.to_string()),
            Cell::Text(state_word(thread.state).to_owned()),
        ];
        cells.extend(scene.pairs(&series.get(&who), 1.0));
        cells.extend(more_cells(scene, snapshot, thread, list));
        cells.push(heaviest.cell(&who, thread.waited_ns, scene.span.now_ns()));
        Row { who, cells }
    };
    snapshot.threads.iter().filter(|thread| (list.holds)(thread)).map(row).collect()
}

fn more_cells(
    scene: &Scene<'_>,
    snapshot: &Snapshot,
    thread: &ThreadWindow,
    list: &List<'_>,
) -> Vec<Cell> {
    let machine = thread.vm_machine_id.unwrap_or(thread.machine_id);
    let rate = |column: &str, count: u64| {
        let rate = Cell::Rate(scene.per_second(count));
        Cell::unless(lacks(snapshot, column, machine), rate)
    };
    let mut cells = vec![
        thread.wait_p99_ns.map_or(Cell::Nothing, Cell::Time),
        Cell::Share(scene.share(thread.blocked_ns)),
        Cell::Rate(scene.per_second(thread.executions)),
        rate("migrations", thread.migrations),
    ];
    if list.has_exits {
        let exits = rate("exits", thread.exits);
        cells.push(if thread.vcpu.is_some() { exits } else { Cell::Nothing });
    }
    cells
}

/// A length, or what stands for none.
pub(super) fn time_or(ns: Option<u64>, scene: &Scene<'_>) -> String {
    ns.map_or_else(|| scene.glyphs.missing.to_owned(), |ns| number::time(ns, scene.glyphs.micro))
}
