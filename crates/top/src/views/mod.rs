//! What is looked at: lists of actors, and single ones.

mod all;
mod behind;
mod cpu;
mod one;
mod pressure;
mod threads;

use crate::{
    app::Level,
    moment::Moment,
    number,
    part::{Parts, part},
    sums::{Course, Span, Sums},
    table::{Cell, Column, Glyphs, Table, Tone},
    who::{Who, full_name},
};
use transect_live::{IoWindow, Snapshot};
use transect_model::ids::{CpuId, MachineId};

/// How many windows the second column of a pair sums up.
pub(crate) const LONG: u64 = 10;

/// Something that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// VMs, containers and control groups.
    All,
    /// A VM's vCPUs and other threads.
    Vm(MachineId),
    /// A container's or control group's threads.
    Group(String),
    /// Every thread.
    Threads,
    /// A CPU and who was on it.
    Cpu(CpuId),
    /// A vCPU or thread.
    One(Who),
}

/// A view of some windows, before it is known how large the screen is.
pub(crate) struct Page {
    pub(crate) summary: Vec<Parts>,
    pub(crate) tables: Vec<Table>,
}

/// What a view needs to be made.
pub(crate) struct Scene<'a> {
    pub(crate) span: &'a Span,
    pub(crate) level: &'a Level,
    pub(crate) glyphs: &'a Glyphs,
}

impl Scene<'_> {
    /// The window on the screen.
    fn now(&self) -> Option<&Moment> {
        self.span.moments.last().map(|moment| &**moment)
    }

    /// Per cent of one CPU in the window on the screen.
    fn share(&self, ns: i64) -> f64 {
        per_cent(ns, self.span.now_ns())
    }

    /// The same over all windows.
    fn long_share(&self, ns: i64) -> f64 {
        per_cent(ns, self.span.all_ns())
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / (self.span.now_ns().max(1) as f64)
    }

    /// What the second column of a pair is called.
    fn long_title(&self) -> String {
        number::window(self.span.all_ns())
    }

    fn trend(&self, course: &Course, of: f64) -> Cell {
        let lengths = self.span.moments.iter().map(|moment| moment.snapshot.dur);
        let shares = course.waited_ns.iter().zip(lengths);
        Cell::Trend(shares.map(|(ns, dur)| per_cent(*ns, dur) / of.max(1.0)).collect())
    }

    /// CPU% and WAIT%, each for the window and for all; `of` CPUs could wait at once.
    fn pairs(&self, course: &Course, of: f64) -> [Cell; 5] {
        let waiting = |value: f64| Cell::Waiting(value, Tone::of_waiting(value / of.max(1.0)));
        let (share, wait) = match course.now {
            Some(now) => {
                (Cell::Share(self.share(now.gotten_ns)), waiting(self.share(now.waited_ns)))
            }
            None => (Cell::Nothing, Cell::Nothing),
        };
        [
            share,
            Cell::Share(self.long_share(course.all.gotten_ns)),
            wait,
            waiting(self.long_share(course.all.waited_ns)),
            self.trend(course, of),
        ]
    }

    /// The columns of [`Self::pairs`].
    fn pair_columns(&self) -> [Column; 5] {
        let long = self.long_title();
        [
            Column::number("CPU%", 6, 0),
            Column::number(&long, 6, 2),
            Column::number("WAIT%", 6, 0),
            Column::number(&long, 6, 2),
            Column { is_left: true, ..Column::number("WAITING", 10, 3) },
        ]
    }
}

/// Where the column of [`Scene::pairs`] that rows are sorted by at first is, behind `before` columns.
const WAIT: usize = 2;

/// Of a window whose columns cannot be had.
fn lacks(snapshot: &Snapshot, column: &str, machine: MachineId) -> bool {
    snapshot.lacks(column, machine)
}

/// Is this a VM of which nothing tells which threads run its vCPUs?
fn lacks_vcpus(snapshot: &Snapshot, who: &Who) -> bool {
    let Who::Vm(id) = who else { return false };
    let is_told = snapshot
        .missing
        .iter()
        .any(|missing| missing.metric == "vcpu_threads" && missing.machine_id == Some(*id));
    let has_one = |row: &&transect_live::ActorWindow| Who::of_actor(row) == *who;
    is_told && snapshot.actors.iter().find(has_one).is_none_or(|row| row.detail.threads == 0)
}

pub(crate) fn per_cent(part: i64, whole: i64) -> f64 {
    if whole <= 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// What a view shows of these windows.
pub(crate) fn page(view: &View, scene: &Scene<'_>) -> Page {
    match view {
        View::All => all::page(scene),
        View::Vm(id) => threads::of_vm(scene, *id),
        View::Group(group) => threads::of_group(scene, group),
        View::Threads => threads::all(scene),
        View::Cpu(cpu) => cpu::page(scene, *cpu),
        View::One(who) => one::page(scene, who),
    }
}

/// Where Enter goes from a row.
pub(crate) fn into(who: &Who) -> Option<View> {
    match who {
        Who::Vm(id) => Some(View::Vm(*id)),
        Who::Group(group) => Some(View::Group(group.clone())),
        Who::Vcpu(..) | Who::Thread(_) => Some(View::One(who.clone())),
        Who::Cpu(cpu) => Some(View::Cpu(*cpu)),
        Who::Exit(_) | Who::Metric(..) => None,
    }
}

/// What a view is called on the way down.
pub(crate) fn title(view: &View, snapshot: Option<&Snapshot>) -> String {
    let name = |who: Who| match snapshot {
        Some(snapshot) => full_name(snapshot, &who),
        None => String::new(),
    };
    match view {
        View::All => "VMs, containers, groups".to_owned(),
        View::Vm(id) => name(Who::Vm(*id)),
        View::Group(group) => name(Who::Group(group.clone())),
        View::Threads => "threads".to_owned(),
        View::Cpu(cpu) => format!("CPU {cpu}"),
        View::One(who) => name(who.clone()),
    }
}

/// The word of the report for a thread's state at the end of the window; the rows have `asleep`.
fn state_word(state: &str) -> &str {
    match state {
        "asleep" => "blocked",
        state => state,
    }
}

/// Where an actor's time went: of so many CPUs.
fn time_line(scene: &Scene<'_>, sums: &Sums, machine: MachineId) -> Vec<Parts> {
    let Some(now) = scene.now() else { return Vec::new() };
    let share = |ns: i64| format!("{}%", number::share(scene.share(ns)));
    let missing = scene.glyphs.missing;
    let part_of = |column: &str, ns: i64| match lacks(&now.snapshot, column, machine) {
        true => missing.to_owned(),
        false => share(ns),
    };
    let waited = Tone::of_waiting(scene.share(sums.waited_ns));
    let on_cpu = part(0, format!("on-CPU {}", share(sums.gotten_ns)));
    let guest = part(3, format!("(in the guest {})", part_of("guest_ns", sums.guest_ns)));
    let waiting = part(0, format!("waited {}", share(sums.waited_ns))).tone(waited);
    let (preempted, waking) = (share(sums.preempted_ns), part_of("waking_ns", sums.waking_ns));
    let kinds = part(2, format!("(preempted {preempted}, waking {waking})"));
    let blocked = part(0, format!("blocked {}", share(sums.blocked_ns)));
    let halted = part(3, format!("(halted {})", part_of("halted_ns", sums.halted_ns)));
    let mut line = vec![on_cpu, guest, waiting, kinds, blocked, halted];
    for (ns, word) in [(sums.offline_ns, "offline"), (sums.unknown_ns, "unknown")] {
        if ns > 0 {
            line.push(part(1, format!("{word} {}", share(ns))));
        }
    }
    if machine == MachineId(0) {
        line.retain(|part| {
            !part.text.starts_with("(in the guest") && !part.text.starts_with("(halted")
        });
    }
    vec![line]
}

/// What a VM did with disks and the network.
fn io_line(scene: &Scene<'_>, rows: impl Fn(&IoWindow) -> bool) -> Option<Parts> {
    let now = scene.now()?;
    let mut line = Vec::new();
    for (kind, word) in [
        ("read", "disk read"),
        ("write", "disk write"),
        ("xmit", "net xmit"),
        ("receive", "net receive"),
    ] {
        let of_kind = || {
            now.snapshot.io.iter().map(|(row, _)| row).filter(|row| row.kind == kind && rows(row))
        };
        let count: u64 = of_kind().map(|row| row.count).sum();
        let bytes: u64 = of_kind().map(|row| row.bytes).sum();
        if count == 0 {
            continue;
        }
        let (count, bytes) = (scene.per_second(count), scene.per_second(bytes));
        let slowest = of_kind().filter_map(|row| row.p99_ns).max();
        let p99 = slowest.map(|ns| format!(" p99 {}", number::time(ns, scene.glyphs.micro)));
        line.push(part(
            1,
            format!(
                "{word} {}/s {}B/s{}",
                number::rate(count),
                number::rate(bytes),
                p99.unwrap_or_default()
            ),
        ));
    }
    (!line.is_empty()).then_some(line)
}
