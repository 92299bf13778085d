//! Which tracks there are, and which rows each shows.

use super::item::{Item, Metric, Row, Shape};
use super::lanes::lanes;
use super::names::Names;
use crate::{CounterUnit, TraceWriter, Track, WriteError};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use transect_model::ids::{CpuId, MachineId, Tid, VcpuId};
use transect_model::state::ThreadState;
use transect_model::table::{CpuSlice, Tables};

/// The groups under a machine, in their order.
const CPUS: u32 = 0;
const VCPUS: u32 = 1;
const METRICS: u32 = 2;
const THREADS: u32 = 3;
const LOST: u32 = 4;

/// What a track is about; the order is the order of tracks under a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Subject {
    Cpu(CpuId),
    Interrupts(CpuId),
    Domain,
    Vcpu(VcpuId),
    Window(Option<VcpuId>, Option<String>, Metric),
    Thread(Tid),
    Syscalls(Tid),
    Lost,
}

impl Subject {
    fn group(&self) -> u32 {
        match self {
            Subject::Cpu(_) | Subject::Interrupts(_) => CPUS,
            Subject::Domain | Subject::Vcpu(_) => VCPUS,
            Subject::Window(..) => METRICS,
            Subject::Thread(_) | Subject::Syscalls(_) => THREADS,
            Subject::Lost => LOST,
        }
    }

    /// A CPU's interrupts come right after the CPU, a thread's calls right after the thread, a domain before its
    /// vCPUs.
    fn order(&self) -> (u32, i64, bool, Subject) {
        let (number, is_second) = match self {
            Subject::Cpu(cpu) => (i64::from(cpu.0), false),
            Subject::Interrupts(cpu) => (i64::from(cpu.0), true),
            Subject::Domain => (-1, false),
            Subject::Vcpu(vcpu) => (i64::from(vcpu.0), false),
            Subject::Window(vcpu, ..) => (vcpu.map_or(-1, |vcpu| i64::from(vcpu.0)), false),
            Subject::Thread(tid) => (i64::from(tid.0), false),
            Subject::Syscalls(tid) => (i64::from(tid.0), true),
            Subject::Lost => (0, false),
        };
        (self.group(), number, is_second, self.clone())
    }
}

/// One track with what it shows.
pub(crate) struct Line {
    pub(crate) uuid: u64,
    parent: Option<u64>,
    name: String,
    description: String,
    rank: u32,
    counter: Option<CounterUnit>,
    pub(crate) items: Vec<Item>,
}

/// All tracks of a trace, groups first within their machine.
pub(crate) struct Layout {
    pub(crate) lines: Vec<Line>,
    pub(crate) shift_ns: i64,
    /// The length of the recording's unit of time is unknown.
    in_ticks: bool,
    /// Where the arrow of a wakeup ends: machine, woken thread, start of its running.
    pub(crate) flow_ends: HashMap<(MachineId, Tid, i64), u64>,
}

type Tracks = BTreeMap<MachineId, HashMap<Subject, Vec<Item>>>;

impl Layout {
    pub(crate) fn new(tables: &Tables, time_unit: &str) -> Result<Self, WriteError> {
        let mut tracks = collect(tables)?;
        for machine in &tables.machines {
            tracks.entry(machine.machine_id).or_default();
        }
        let first = tracks.values().flat_map(HashMap::values).flatten().map(|item| item.ts).min();
        let shift_ns = first.filter(|ts| *ts < 0).map_or(Some(0), i64::checked_neg);
        let shift_ns =
            shift_ns.ok_or(WriteError::Range { table: "events", ts: i64::MIN, dur: 0 })?;
        let (in_ticks, flow_ends) = (time_unit != "ns", flow_ends(tables));
        let mut layout = Layout { lines: Vec::new(), shift_ns, in_ticks, flow_ends };
        let names = Names::new(tables);
        for (rank, (machine, subjects)) in (0..).zip(tracks) {
            layout.machine(machine, rank, subjects, &names, time_unit);
        }
        Ok(layout)
    }

    /// The first moment anything happens, in trace time.
    pub(crate) fn first_ts(&self) -> Option<i64> {
        self.lines.iter().filter_map(|line| line.items.first()).map(|item| item.ts).min()
    }

    /// A moment of trace time as a stamp of the trace.
    pub(crate) fn shifted(&self, ts: i64) -> Result<u64, WriteError> {
        let shifted = ts.checked_add(self.shift_ns).and_then(|ts| u64::try_from(ts).ok());
        shifted.ok_or(WriteError::Range { table: "events", ts, dur: 0 })
    }

    /// Declares every track.
    pub(crate) fn declare<W: Write>(&self, writer: &mut TraceWriter<W>) -> io::Result<()> {
        self.lines.iter().try_for_each(|line| {
            writer.track(&Track {
                uuid: line.uuid,
                parent: line.parent,
                name: &line.name,
                description: &line.description,
                rank: line.rank,
                counter: line.counter,
            })
        })
    }

    fn machine(
        &mut self,
        machine: MachineId,
        rank: u32,
        subjects: HashMap<Subject, Vec<Item>>,
        names: &Names<'_>,
        time_unit: &str,
    ) {
        let host = names.parent(machine).map(|host| format!(" on {}", names.machine(host)));
        let unit = if self.in_ticks { " (1 ns shown = 1 tick of unknown length)" } else { "" };
        let name = format!("{}{}{unit}", names.machine(machine), host.unwrap_or_default());
        let description = format!(
            "machine_id {machine}; timestamps are trace time + {} in {time_unit}",
            self.shift_ns
        );
        let machine_uuid = self.group(None, rank, name, description);
        let mut subjects: Vec<(Subject, Vec<Item>)> = subjects.into_iter().collect();
        subjects.sort_by_cached_key(|(subject, _)| subject.order());
        let mut group = None;
        for (rank, (subject, items)) in (0..).zip(subjects) {
            let parent = match (group, subject.group()) {
                (_, LOST) => machine_uuid,
                (Some((number, uuid)), wanted) if number == wanted => uuid,
                (_, wanted) => {
                    let title = ["CPUs", "vCPUs", "metrics", "threads"][wanted as usize];
                    let uuid =
                        self.group(Some(machine_uuid), wanted, title.to_owned(), String::new());
                    group = Some((wanted, uuid));
                    uuid
                }
            };
            self.subject(machine, parent, rank, &subject, items, names);
        }
    }

    fn group(&mut self, parent: Option<u64>, rank: u32, name: String, description: String) -> u64 {
        self.line(parent, rank, name, description, None, Vec::new())
    }

    fn line(
        &mut self,
        parent: Option<u64>,
        rank: u32,
        name: String,
        description: String,
        counter: Option<CounterUnit>,
        items: Vec<Item>,
    ) -> u64 {
        let uuid = self.lines.len() as u64 + 1;
        self.lines.push(Line { uuid, parent, name, description, rank, counter, items });
        uuid
    }

    fn subject(
        &mut self,
        machine: MachineId,
        parent: u64,
        rank: u32,
        subject: &Subject,
        mut items: Vec<Item>,
        names: &Names<'_>,
    ) {
        let (mut name, description, mut counter) = titles(machine, subject, names);
        if self.in_ticks && counter == Some(CounterUnit::TimeNs) {
            name += " (ticks)";
            counter = Some(CounterUnit::Count);
        }
        if counter.is_some() {
            items.sort_by_key(|item| item.ts);
            self.line(Some(parent), rank, name, description, counter, items);
            return;
        }
        for (lane, items) in lanes(items).into_iter().enumerate() {
            let name = if lane == 0 { name.clone() } else { format!("{name} ({})", lane + 1) };
            self.line(Some(parent), rank, name, description.clone(), None, items);
        }
    }
}

/// Name, description and counter unit of a track.
fn titles(
    machine: MachineId,
    subject: &Subject,
    names: &Names<'_>,
) -> (String, String, Option<CounterUnit>) {
    let of = |table: &str, actor: String| format!("{table} of machine_id {machine}{actor}");
    match subject {
        Subject::Cpu(cpu) => (format!("cpu{cpu}"), of("cpu_slices", format!(" cpu {cpu}")), None),
        Subject::Interrupts(cpu) => {
            (format!("cpu{cpu} interrupts"), of("irqs", format!(" cpu {cpu}")), None)
        }
        Subject::Vcpu(vcpu) => {
            (format!("vcpu{vcpu}"), of("vcpu_states", format!(" vcpu {vcpu}")), None)
        }
        Subject::Domain => ("domain".to_owned(), of("domain_states", String::new()), None),
        Subject::Thread(tid) => (
            format!("{} {tid}", names.host_thread(machine, *tid)),
            of("thread_states", format!(" tid {tid}")),
            None,
        ),
        Subject::Syscalls(tid) => (
            format!("{} {tid} syscalls", names.host_thread(machine, *tid)),
            of("syscalls", format!(" tid {tid}")),
            None,
        ),
        Subject::Lost => ("lost events".to_owned(), of("lost", String::new()), None),
        Subject::Window(vcpu, cgroup, metric) => {
            let who = match (vcpu, cgroup) {
                (Some(vcpu), _) => format!("vcpu{vcpu}"),
                (None, Some(cgroup)) => cgroup.clone(),
                (None, None) => "all vCPUs".to_owned(),
            };
            let actor = match (vcpu, cgroup) {
                (Some(vcpu), _) => format!(" vcpu {vcpu}"),
                (None, Some(cgroup)) => format!(" cgroup {cgroup}"),
                (None, None) => String::new(),
            };
            let description = of(&format!("windows.{}", metric.column()), actor);
            (format!("{who} {}", metric.word()), description, Some(metric.unit()))
        }
    }
}

/// Every row on its track.
fn collect(tables: &Tables) -> Result<Tracks, WriteError> {
    let mut tracks = Collector { tracks: Tracks::new() };
    // Of slices with one span the first pushed is the outer: the exit around its state.
    for (at, r) in numbered("exits", &tables.exits)? {
        let (subject, row) = (Subject::Vcpu(r.vcpu), Row::Exit(at));
        match r.dur {
            Some(dur) => tracks.slice(r.machine_id, subject, "exits", (r.ts, dur), row)?,
            None => tracks.instant(r.machine_id, subject, r.ts, row),
        }
    }
    for (at, r) in numbered("vcpu_states", &tables.vcpu_states)? {
        let subject = Subject::Vcpu(r.vcpu);
        tracks.slice(r.machine_id, subject, "vcpu_states", (r.ts, r.dur), Row::VcpuState(at))?;
    }
    for (at, r) in numbered("domain_states", &tables.domain_states)? {
        let (subject, row) = (Subject::Domain, Row::DomainState(at));
        tracks.slice(r.machine_id, subject, "domain_states", (r.ts, r.dur), row)?;
    }
    for (at, r) in numbered("irqs", &tables.irqs)? {
        let subject = Subject::Interrupts(r.cpu);
        tracks.slice(r.machine_id, subject, "irqs", (r.ts, r.dur), Row::Irq(at))?;
    }
    for (at, r) in numbered("syscalls", &tables.syscalls)? {
        let (subject, row) = (Subject::Syscalls(r.tid), Row::Syscall(at));
        match r.dur {
            Some(dur) => tracks.slice(r.machine_id, subject, "syscalls", (r.ts, dur), row)?,
            None => tracks.instant(r.machine_id, subject, r.ts, row),
        }
    }
    for (at, r) in numbered("lost", &tables.lost)? {
        tracks.slice(r.machine_id, Subject::Lost, "lost", (r.ts, r.dur), Row::Lost(at))?;
    }
    tracks.cpus(tables)?;
    tracks.threads(tables)?;
    tracks.windows(tables)?;
    Ok(tracks.tracks)
}

/// Rows with their numbers, as long as 32 bits can number them.
fn numbered<'a, T>(
    table: &'static str,
    rows: &'a [T],
) -> Result<impl Iterator<Item = (u32, &'a T)> + use<'a, T>, WriteError> {
    u32::try_from(rows.len()).map_err(|_| WriteError::TooManyRows(table))?;
    Ok((0..).zip(rows))
}

struct Collector {
    tracks: Tracks,
}

impl Collector {
    fn push(&mut self, machine: MachineId, subject: Subject, item: Item) {
        self.tracks.entry(machine).or_default().entry(subject).or_default().push(item);
    }

    fn slice(
        &mut self,
        machine: MachineId,
        subject: Subject,
        table: &'static str,
        (ts, dur): (i64, i64),
        row: Row,
    ) -> Result<(), WriteError> {
        let end = ts.checked_add(dur).filter(|_| dur >= 0);
        let end = end.ok_or(WriteError::Range { table, ts, dur })?;
        self.push(machine, subject, Item { ts, end, row, shape: Shape::Slice });
        Ok(())
    }

    fn instant(&mut self, machine: MachineId, subject: Subject, ts: i64, row: Row) {
        self.push(machine, subject, Item { ts, end: ts, row, shape: Shape::Instant });
    }

    /// Who had each CPU; inside a vCPU's slice, which thread of the guest ran there.
    fn cpus(&mut self, tables: &Tables) -> Result<(), WriteError> {
        let guests = guest_slices(tables)?;
        for (at, r) in numbered("cpu_slices", &tables.cpu_slices)? {
            if r.tid == Some(Tid::IDLE) {
                continue;
            }
            let subject = Subject::Cpu(r.cpu);
            let span = (r.ts, r.dur);
            self.slice(r.machine_id, subject.clone(), "cpu_slices", span, Row::CpuSlice(at))?;
            let Some((vm, vcpu)) = r.vcpu_machine_id.zip(r.vcpu) else { continue };
            let end = r.ts + r.dur;
            for (at, inner) in within(guests.get(&(vm, vcpu.0)), r.ts, end) {
                let (ts, end) = (inner.ts.max(r.ts), (inner.ts + inner.dur).min(end));
                let item = Item { ts, end, row: Row::GuestSlice(at), shape: Shape::Slice };
                self.push(r.machine_id, subject.clone(), item);
            }
        }
        Ok(())
    }

    /// Thread states, and wakeups on the track of who woke: a thread, or the interrupts of a CPU.
    fn threads(&mut self, tables: &Tables) -> Result<(), WriteError> {
        for (at, r) in numbered("thread_states", &tables.thread_states)? {
            let subject = Subject::Thread(r.tid);
            let span = (r.ts, r.dur);
            self.slice(r.machine_id, subject, "thread_states", span, Row::ThreadState(at))?;
        }
        for (at, r) in numbered("wakeups", &tables.wakeups)? {
            let waker = match r.waker_tid {
                Some(tid) => Subject::Thread(tid),
                None => Subject::Interrupts(r.waker_cpu),
            };
            let has_track =
                self.tracks.get(&r.machine_id).is_some_and(|tracks| tracks.contains_key(&waker));
            let subject = if has_track { waker } else { Subject::Cpu(r.waker_cpu) };
            self.instant(r.machine_id, subject, r.ts, Row::Wakeup(at));
        }
        Ok(())
    }

    fn windows(&mut self, tables: &Tables) -> Result<(), WriteError> {
        let whole = |r: &&transect_model::table::Window| r.cpu.is_none();
        for (at, r) in numbered("windows", &tables.windows)? {
            // A domain's part on one pCPU would be on the domain's own track.
            if !whole(&r) {
                continue;
            }
            for metric in Metric::ALL {
                let subject = Subject::Window(r.vcpu, r.cgroup.clone(), metric);
                let row = Row::Window(at, metric);
                let item = Item { ts: r.ts, end: r.ts, row, shape: Shape::Counter };
                self.push(r.machine_id, subject, item);
            }
        }
        Ok(())
    }
}

type GuestSlices<'a> = HashMap<(MachineId, u32), Vec<(u32, &'a CpuSlice)>>;

/// Slices of guests' own CPUs by VM and vCPU, in order of time. A guest numbers its CPUs as KVM
/// numbers its vCPUs.
fn guest_slices(tables: &Tables) -> Result<GuestSlices<'_>, WriteError> {
    let guests: Vec<MachineId> =
        tables.machines.iter().filter(|m| m.parent_id.is_some()).map(|m| m.machine_id).collect();
    let mut slices: GuestSlices<'_> = HashMap::new();
    for (at, r) in numbered("cpu_slices", &tables.cpu_slices)? {
        let runs = r.tid.is_some_and(|tid| !tid.is_idle());
        if runs && guests.contains(&r.machine_id) && r.ts.checked_add(r.dur).is_some() {
            slices.entry((r.machine_id, r.cpu.0)).or_default().push((at, r));
        }
    }
    for list in slices.values_mut() {
        list.sort_by_key(|(_, r)| r.ts);
    }
    Ok(slices)
}

/// Those that overlap the stretch. Slices of one CPU do not overlap each other.
fn within<'a>(
    slices: Option<&'a Vec<(u32, &'a CpuSlice)>>,
    start: i64,
    end: i64,
) -> impl Iterator<Item = (u32, &'a CpuSlice)> {
    let slices = slices.map_or(&[][..], Vec::as_slice);
    let first = slices.partition_point(|(_, r)| r.ts + r.dur <= start);
    slices[first..].iter().take_while(move |(_, r)| r.ts < end).copied()
}

/// An arrow ends where the woken thread starts to run. The wakeup's number plus 1 is the flow.
fn flow_ends(tables: &Tables) -> HashMap<(MachineId, Tid, i64), u64> {
    let runs = tables.thread_states.iter().filter(|r| r.state == ThreadState::Running);
    let starts: std::collections::HashSet<_> = runs.map(|r| (r.machine_id, r.tid, r.ts)).collect();
    let ends = tables.wakeups.iter().zip(1u64..).filter_map(|(r, flow)| {
        let key = (r.machine_id, r.tid, r.ts.checked_add(r.dur?)?);
        starts.contains(&key).then_some((key, flow))
    });
    ends.collect()
}
