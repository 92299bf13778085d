//! A vCPU or thread: where its time went, its exits, who was in its way, and in whose way it was.

use super::{
    behind::{culprit, culprit_name, victim, victim_name},
    findings,
    lines::{io_line, state_word, time_line},
    scene::{Page, Scene, lacks, per_cent},
    threads::time_or,
};
use crate::{
    number,
    part::{Parts, part},
    sums::Sums,
    table::{Cell, Column, Row, Sort, Table, Tone},
    who::{Who, thread_row},
};
use std::collections::HashMap;
use transect_live::{Antagonist, ExitWindow, Snapshot, ThreadWindow};
use transect_model::ids::MachineId;

pub(super) fn page(scene: &Scene<'_>, who: &Who) -> Page {
    let (exits, ways, behind) = (exits(scene, who), ways(scene, who), behind(scene, who));
    let mut tables = Vec::new();
    if matches!(who, Who::Vcpu(..)) {
        tables.push(exits);
    }
    tables.extend([ways, behind]);
    Page { summary: summary(scene, who), tables }
}

fn summary(scene: &Scene<'_>, who: &Who) -> Vec<Parts> {
    let Some(now) = scene.now() else { return Vec::new() };
    let Some(thread) = thread_row(&now.snapshot, who) else {
        return vec![vec![
            part(0, "no activity in this window, or the thread does not exist").tone(Tone::Dim),
        ]];
    };
    let machine = thread.vm_machine_id.unwrap_or(MachineId(0));
    let mut lines = vec![place_line(thread)];
    lines.extend(time_line(scene, &Sums::of_thread(thread), machine));
    lines.push(wait_line(scene, &now.snapshot, thread, machine));
    lines.extend(io_line(scene, |row| row.pid == Some(thread.pid) && thread.pid == thread.tid));
    lines.extend(findings::line_of(scene, |of| of == who));
    lines
}

fn place_line(thread: &ThreadWindow) -> Parts {
    let mut line = vec![
        part(0, format!("thread {} \"{}\"", thread.tid, thread.name)).tone(Tone::Strong),
        part(1, format!("of process {}", thread.pid)),
        part(0, format!("{} on CPU {}", state_word(thread.state), thread.cpu)),
    ];
    line.extend(thread.cgroup.as_ref().map(|group| part(2, format!("in {group}"))));
    line
}

fn wait_line(
    scene: &Scene<'_>,
    snapshot: &Snapshot,
    thread: &ThreadWindow,
    machine: MachineId,
) -> Parts {
    let max = (thread.wait_max_ns > 0).then_some(thread.wait_max_ns);
    let [p50, p99] = [thread.wait_p50_ns, thread.wait_p99_ns].map(|ns| at_most(ns, max));
    let [p50, p99, max] = [p50, p99, max].map(|ns| time_or(ns, scene));
    let slice = thread.allocated_avg_ns.and_then(|ns| u64::try_from(ns).ok());
    let mut line = vec![
        part(0, format!("waits for a CPU: p50 {p50}, p99 {p99}, longest {max}")),
        part(1, format!("runs {}/s", number::rate(scene.per_second(thread.executions)))),
    ];
    if !lacks(snapshot, "migrations", machine) {
        line.push(part(
            3,
            format!("moves {}/s", number::rate(scene.per_second(thread.migrations))),
        ));
    }
    line.extend(slice.map(|_| part(4, format!("slices {} on average", time_or(slice, scene)))));
    line
}

/// Quantiles are upper bounds of their buckets, the longest is exact.
fn at_most(bound_ns: Option<u64>, longest_ns: Option<u64>) -> Option<u64> {
    [bound_ns, longest_ns.filter(|_| bound_ns.is_some())].into_iter().flatten().min()
}

fn exits(scene: &Scene<'_>, who: &Who) -> Table {
    let Who::Vcpu(vm, vcpu) = who else {
        return Table::new(Vec::new(), Vec::new(), Sort { column: 0, is_reversed: false }, "");
    };
    let columns = vec![
        Column::text("EXITS", 14, 30, 0),
        Column::number("EXIT/s", 6, 0),
        Column::number("TIME%", 6, 1),
        Column::number("CPU%", 6, 2),
        Column::number("p50", 6, 2),
        Column::number("p90", 6, 4),
        Column::number("p99", 6, 1),
        Column::number("MAX", 6, 3),
    ];
    let Some(now) = scene.now() else { return Table::new(columns, Vec::new(), by(1), "") };
    let own = now.snapshot.exits.iter().map(|(row, _)| row);
    let own = own.filter(|row| row.machine_id == *vm && row.vcpu == *vcpu);
    let time = |ns: Option<u64>| ns.map_or(Cell::Nothing, Cell::Time);
    let missing = now.snapshot.missing.iter().find(|missing| {
        missing.metric == "exit_durations" && missing.machine_id.is_none_or(|of| of == *vm)
    });
    // They are counted all the same: Xen's PV guests.
    let share = |ns: i64| Cell::unless(missing.is_some(), Cell::Share(scene.share(ns)));
    let row = |row: &ExitWindow| Row {
        who: Who::Exit(row.reason.to_string()),
        cells: vec![
            Cell::Text(row.reason.to_string()),
            Cell::Rate(scene.per_second(row.count)),
            share(row.total_ns),
            share(row.handling_ns),
            time(at_most(row.p50_ns, row.max_ns)),
            time(at_most(row.p90_ns, row.max_ns)),
            time(at_most(row.p99_ns, row.max_ns)),
            time(row.max_ns),
        ],
    };
    let empty = match missing {
        Some(missing) => format!("missing: {}", missing.why),
        None => "no exit ended in this window".to_owned(),
    };
    let sort = scene.level.sort(0).unwrap_or(by(1));
    Table::new(columns, own.map(row).collect(), sort, &empty)
        .sorted(1)
        .filtered(&scene.level.filter)
}

fn by(column: usize) -> Sort {
    Sort { column, is_reversed: false }
}

fn ways(scene: &Scene<'_>, who: &Who) -> Table {
    let place = usize::from(matches!(who, Who::Vcpu(..)));
    let unattributed = scene.now().and_then(|now| thread_row(&now.snapshot, who));
    let unattributed = unattributed.map(|thread| thread.unattributed_ns).filter(|ns| *ns > 0);
    let rows = blamed(scene, |row| victim(row) == *who, &|row| culprit(row), &culprit_name);
    let mut table =
        blame_table(scene, "ANTAGONISTS", place, rows, "no antagonists in these windows");
    if let Some(ns) = unattributed {
        table.rows.push(Row {
            who: Who::Metric("unattributed".to_owned(), None),
            cells: vec![
                Cell::Text("others, or unknown".to_owned()),
                Cell::Share(scene.share(ns)),
                Cell::Nothing,
                Cell::Nothing,
                Cell::Nothing,
            ],
        });
    }
    table
}

fn behind(scene: &Scene<'_>, who: &Who) -> Table {
    let place = 1 + usize::from(matches!(who, Who::Vcpu(..)));
    let rows = blamed(scene, |row| culprit(row) == *who, &|row| victim(row), &victim_name);
    blame_table(scene, "WAITERS", place, rows, "no thread waited for it")
}

fn blame_table(scene: &Scene<'_>, title: &str, place: usize, rows: Vec<Row>, empty: &str) -> Table {
    let columns = vec![
        Column::text(title, 16, 40, 0),
        Column::number("WAIT%", 6, 0),
        Column::number(&scene.long_title(), 6, 1),
        Column::number("TIMES/s", 7, 2),
        Column::number("EACH", 6, 3),
    ];
    let sort = scene.level.sort(place).unwrap_or(by(1));
    Table::new(columns, rows, sort, empty).sorted(2).filtered(&scene.level.filter)
}

/// What stands between two actors, over the windows of the span.
#[derive(Clone, Default)]
struct Blame {
    name: String,
    now_ns: i64,
    now_times: u64,
    all_ns: i64,
}

/// The rows that `is_meant`, by the actor that `whose` names.
fn blamed(
    scene: &Scene<'_>,
    is_meant: impl Fn(&Antagonist) -> bool,
    whose: &dyn Fn(&Antagonist) -> Who,
    name: &dyn Fn(&Snapshot, &Antagonist) -> String,
) -> Vec<Row> {
    let mut found: HashMap<Who, Blame> = HashMap::new();
    let last = scene.span.moments.len().saturating_sub(1);
    for (at, moment) in scene.span.moments.iter().enumerate() {
        for row in moment.snapshot.antagonists.iter().filter(|row| is_meant(row)) {
            let blame = found.entry(whose(row)).or_default();
            blame.all_ns += row.ns;
            if at == last {
                blame.now_ns += row.ns;
                blame.now_times += row.times;
            }
            blame.name = name(&moment.snapshot, row);
        }
    }
    let row = |(who, blame): (Who, Blame)| {
        let each = per_time(blame.now_ns, blame.now_times);
        let share = per_cent(blame.now_ns, scene.span.now_ns());
        Row {
            who,
            cells: vec![
                Cell::Text(blame.name),
                Cell::Waiting(share, Tone::of_waiting(share)),
                Cell::Share(scene.long_share(blame.all_ns)),
                Cell::Rate(scene.per_second(blame.now_times)),
                each,
            ],
        }
    };
    found.into_iter().map(row).collect()
}

fn per_time(ns: i64, times: u64) -> Cell {
    let each = u64::try_from(ns).ok().and_then(|ns| ns.checked_div(times));
    each.map_or(Cell::Nothing, Cell::Time)
}
