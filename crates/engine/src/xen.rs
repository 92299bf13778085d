//! xentrace files as streams: the adapter from the codec to the engine.
//!
//! One stream per pCPU. Records become [`XenEvent`]s of the model; those no state machine asks for
//! are counted with the one behind them. Only the first and the last record of a pCPU, those around
//! odd stamps, and one every now and then in between are items whatever they are, for they show when
//! the pCPU was recorded.
//!
//! Two things are told that are no records of their own ([`XenEvent::Current`]): before a pCPU's
//! first record, who had it then, as its first record about the scheduler says; and after lost
//! records, who had it by then, which `lost_records` says.

use crate::{
    align::Input,
    problems::Problems,
    stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey},
};
use std::{collections::VecDeque, ops::Range};
use transect_clock::{ClockError, ClockGraph, Converter};
use transect_model::{
    event::CoreEvent,
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid},
    table::ImportLog,
    time::{Source, Timestamp},
    xen::{Runstate, XenCall, XenEvent, XenVcpu},
};
use transect_xentrace::{
    EventTaker, Hypercall, Lost, Problem, Runstate as RecordedRunstate, Stream,
    XenEvent as Recorded, XenTrace, XenVcpu as RecordedVcpu, isa_of_reason,
};

/// The clock of Xen's stamps.
pub const CLOCK: &str = "x86-tsc";
/// Records looked at, of each pCPU, for what is to be known before the first one is handled.
const LOOK_AHEAD: usize = 1 << 18;
/// Ticks after which a record is an item whatever it tells: a second or two.
const LONG_TSC: u64 = 1 << 32;
/// Records after which the next one is.
const MANY: u32 = 4096;

/// One xentrace file of a recording.
#[derive(Debug)]
pub struct XenSource<'t, 'd> {
    file: &'t XenTrace<'d>,
    machine: MachineId,
    /// For messages.
    name: String,
    /// Who numbered exit reasons whose value does not tell.
    isa: Isa,
}

impl<'t, 'd> XenSource<'t, 'd> {
    /// Prepares a file; `machine` is the hypervisor, `name` is what messages call the file.
    pub fn new(file: &'t XenTrace<'d>, machine: MachineId, name: impl Into<String>) -> Self {
        XenSource { file, machine, name: name.into(), isa: isa_of(file) }
    }

    /// The streams of every pCPU.
    ///
    /// # Errors
    /// The clock graph cannot place one of the pCPUs.
    pub fn inputs(
        &self,
        clocks: &ClockGraph,
    ) -> Result<Vec<Input<XenStream<'_>, Converter>>, ClockError> {
        let inputs = self.file.cpus().map(|cpu| {
            let key = StreamKey { machine: self.machine, cpu };
            let clock = clocks.converter(self.machine, cpu)?;
            Ok(Input { key, stream: self.stream(cpu), clock })
        });
        inputs.collect()
    }

    fn stream(&self, cpu: CpuId) -> XenStream<'_> {
        let mut stretches: VecDeque<_> = self.file.stretches(cpu).into();
        let first = stretches.pop_front().unwrap_or(0..0);
        let stream = self.file.stream_of_stretch(cpu, first);
        XenStream {
            file: self.file,
            ahead: first_running(stream.clone()).into_iter().collect(),
            stream,
            stretches,
            quiet: Quiet::default(),
            read: Vec::new(),
            source: &self.name,
            isa: self.isa,
        }
    }

    /// What is wrong with the file outside of its streams: for the import log.
    pub fn remarks(&self) -> Vec<ImportLog> {
        self.file.problems().iter().map(|problem| row(&self.name, problem)).collect()
    }
}

fn row(source: &str, problem: &Problem) -> ImportLog {
    let message = match problem.cpu {
        Some(cpu) => format!("CPU {cpu}: {}", problem.what),
        None => problem.what.to_string(),
    };
    ImportLog {
        source: source.to_owned(),
        offset: Some(problem.at_bytes),
        message,
        data_loss: problem.what.loses(),
    }
}

/// Who numbers this file's exit reasons: some values tell, others mean one thing with SVM and
/// another with VMX, and records before Xen 4.19 do not say which it is.
fn isa_of(file: &XenTrace<'_>) -> Isa {
    let told = file.cpus().find_map(|cpu| {
        file.stream(cpu).take(LOOK_AHEAD).find_map(|record| match record.typed() {
            Recorded::VmExit { isa: Some(isa), .. } => Some(isa),
            Recorded::VmExit { reason, .. } => isa_of_reason(reason),
            _ => None,
        })
    });
    told.unwrap_or(Isa::Vmx)
}

/// Who had the pCPU at its first record.
fn first_running(mut stream: Stream<'_>) -> Option<StreamItem> {
    let mut first = None;
    for _ in 0..LOOK_AHEAD {
        let record = stream.next()?;
        let ts = *first.get_or_insert(record.tsc);
        match first_of(&record.typed()) {
            First::NotYet => {}
            First::Nobody => return None,
            First::Had(vcpu) => return Some(item(ts, 0, XenEvent::Current { vcpu: named(vcpu) })),
        }
    }
    None
}

/// What a record tells of who had its pCPU since the records began.
pub(crate) enum First {
    /// Nothing.
    NotYet,
    /// That it cannot be known.
    Nobody,
    /// This one.
    Had(RecordedVcpu),
}

/// What a record tells of who had its pCPU before it.
pub(crate) fn first_of(recorded: &Recorded) -> First {
    match *recorded {
        Recorded::RunstateChange { vcpu, old: RecordedRunstate::Running, .. }
        | Recorded::ContinueRunning { vcpu }
        | Recorded::SwitchInfPrev { vcpu, .. }
        | Recorded::SwitchInfCont { vcpu, .. }
        | Recorded::Switch { prev: vcpu, .. } => First::Had(vcpu),
        Recorded::Lost(_) | Recorded::RunstateChange { new: RecordedRunstate::Running, .. } => {
            First::Nobody
        }
        _ => First::NotYet,
    }
}

#[inline(always)]
pub(crate) fn item(tsc: u64, quiet: u32, event: XenEvent) -> StreamItem {
    let ts = Timestamp::new(tsc);
    StreamItem::Event { ts, tid: Tid::IDLE, quiet, event: CoreEvent::Xen(event) }
}

#[inline(always)]
fn other(tsc: u64, quiet: u32) -> StreamItem {
    StreamItem::Other { ts: Timestamp::<Source>::new(tsc), tid: Tid::IDLE, quiet }
}

#[inline(always)]
pub(crate) fn named(vcpu: RecordedVcpu) -> XenVcpu {
    XenVcpu { dom: vcpu.dom, vcpu: vcpu.vcpu }
}

#[inline(always)]
fn runstate(recorded: RecordedRunstate) -> Runstate {
    match recorded {
        RecordedRunstate::Running => Runstate::Running,
        RecordedRunstate::Runnable => Runstate::Runnable,
        RecordedRunstate::Blocked => Runstate::Blocked,
        RecordedRunstate::Offline => Runstate::Offline,
    }
}

fn call(recorded: Hypercall) -> XenCall {
    let argument = |number| recorded.argument(number).and_then(|arg| u32::try_from(arg).ok());
    let count = recorded.grant_requests().map(|(_, count)| count);
    XenCall { op: recorded.op(), cmd: argument(0), count }
}

/// One pCPU of an xentrace file.
#[derive(Debug)]
pub struct XenStream<'t> {
    file: &'t XenTrace<'t>,
    stream: Stream<'t>,
    /// Windows that come next, each stretch behind records that are missing.
    stretches: VecDeque<Range<usize>>,
    /// What was wrong in the stretches before.
    read: Vec<Problem>,
    /// Items that come before the next record's.
    ahead: VecDeque<StreamItem>,
    quiet: Quiet,
    source: &'t str,
    isa: Isa,
}

/// What a state machine asks for of a record; `file_isa` numbered exit reasons that do not tell.
#[inline(always)]
fn event(recorded: Recorded, file_isa: Isa) -> Option<XenEvent> {
    Some(match recorded {
        Recorded::Other => return None,
        Recorded::RunstateChange { vcpu, old, new } => {
            let (old, new) = (runstate(old), runstate(new));
            XenEvent::Runstate { vcpu: named(vcpu), old, new }
        }
        Recorded::ContinueRunning { vcpu } => XenEvent::Continue { vcpu: named(vcpu) },
        Recorded::SwitchInfPrev { vcpu, ran_ns } => XenEvent::InfPrev { vcpu: named(vcpu), ran_ns },
        Recorded::SwitchInfNext { vcpu, waited_ns, slice_ns } => {
            XenEvent::InfNext { vcpu: named(vcpu), waited_ns, slice_ns }
        }
        Recorded::SwitchInfCont { vcpu, ran_ns, slice_ns } => {
            XenEvent::InfCont { vcpu: named(vcpu), ran_ns, slice_ns }
        }
        Recorded::Switch { prev, next } => {
            XenEvent::Switch { prev: named(prev), next: named(next) }
        }
        Recorded::Wake { vcpu } => XenEvent::Wake { vcpu: named(vcpu) },
        Recorded::Sleep { vcpu } => XenEvent::Sleep { vcpu: named(vcpu) },
        Recorded::Block { vcpu } => XenEvent::Block { vcpu: named(vcpu) },
        Recorded::Yield { vcpu } => XenEvent::Yield { vcpu: named(vcpu) },
        Recorded::Shutdown { vcpu, reason } => XenEvent::Shutdown { vcpu: named(vcpu), reason },
        Recorded::DomainScheduled { dom } | Recorded::DomainCreated { dom } => {
            XenEvent::DomainAdded { dom }
        }
        Recorded::DomainUnscheduled { dom } => XenEvent::DomainRemoved { dom },
        Recorded::DomainDestroyed { dom } => XenEvent::DomainEnding { dom },
        // A guest's guest: for this one it is all one exit.
        Recorded::VmEntry { nested: true } | Recorded::VmExit { nested: true, .. } => {
            return None;
        }
        Recorded::VmEntry { .. } => XenEvent::VmEntry,
        Recorded::VmExit { reason, rip, isa, .. } => {
            let isa = isa.or_else(|| isa_of_reason(reason)).unwrap_or(file_isa);
            XenEvent::VmExit { reason: ExitReason { isa, code: reason }, rip }
        }
        Recorded::HvmHypercall { op } => XenEvent::HvmHypercall { op },
        Recorded::Injection { vector } => XenEvent::Injection { vector },
        Recorded::Hypercall(recorded) => XenEvent::Hypercall(call(recorded)),
        Recorded::Subcall(recorded) => XenEvent::Subcall(call(recorded)),
        Recorded::PvTrap { trap, rip, .. } => XenEvent::PvTrap { trap, rip },
        Recorded::PvPageFault { rip, addr, .. } => XenEvent::PvPageFault { addr, rip },
        Recorded::PvPrivop { .. } | Recorded::PvMathState | Recorded::PvPtwr { .. } => {
            XenEvent::PvEmulation
        }
        Recorded::GrantMap { dom } | Recorded::GrantTransfer { dom } => XenEvent::GrantPage { dom },
        Recorded::IdleEntry { state } => XenEvent::IdleEntry { state },
        Recorded::IdleExit { state } => XenEvent::IdleExit { state },
        Recorded::Lost(_)
        | Recorded::Interrupt { .. }
        | Recorded::Halt { .. }
        | Recorded::GrantUnmap { .. }
        | Recorded::IrqHandled { .. }
        | Recorded::FrequencyChange { .. } => return None,
    })
}

/// The records since the last item, which tell nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quiet {
    count: u32,
    /// Stamp of the last one.
    last_tsc: u64,
    /// Stamp of the last item; none before the first.
    told_tsc: Option<u64>,
}

impl Quiet {
    /// Is a record with this stamp to be an item whatever it tells?
    #[inline(always)]
    fn is_due(&self, tsc: u64) -> bool {
        // One that is before the last item is very far behind it then.
        self.count >= MANY || self.told_tsc.is_none_or(|told| tsc.wrapping_sub(told) > LONG_TSC)
    }

    /// The next item has this stamp: how many come before it?
    #[inline(always)]
    fn told(&mut self, tsc: u64) -> u32 {
        self.told_tsc = Some(tsc);
        std::mem::take(&mut self.count)
    }

    /// An item for those so far, where they were: the next one may be thought damaged.
    #[cold]
    fn tell(&mut self) -> Option<StreamItem> {
        let before = self.count.checked_sub(1)?;
        self.told(self.last_tsc);
        Some(other(self.last_tsc, before))
    }
}

/// Puts every record's items behind the others.
pub(crate) struct Put<'i> {
    pub(crate) items: &'i mut Vec<StreamItem>,
    pub(crate) quiet: &'i mut Quiet,
    pub(crate) isa: Isa,
}

impl EventTaker for Put<'_> {
    #[inline(always)]
    fn take(&mut self, tsc: u64, recorded: Recorded) {
        if let Recorded::Lost(lost) = recorded {
            self.lost(lost);
            return;
        }
        let due = self.quiet.is_due(tsc);
        if due {
            self.items.extend(self.quiet.tell());
        }
        // Each is made where it will lie.
        match event(recorded, self.isa) {
            Some(event) => self.items.push(item(tsc, self.quiet.told(tsc), event)),
            None if due => self.items.push(other(tsc, self.quiet.told(tsc))),
            None => {
                self.quiet.count += 1;
                self.quiet.last_tsc = tsc;
            }
        }
    }
}

impl Put<'_> {
    /// Lost records hide the time between two stamps, and say who ran at the second.
    #[cold]
    fn lost(&mut self, lost: Lost) {
        self.items.extend(self.quiet.tell());
        let hole =
            LostEvents { count: Some(u64::from(lost.count)), cause: LostCause::BufferOverrun };
        let (from, to) = (lost.from_tsc.min(lost.to_tsc), lost.from_tsc.max(lost.to_tsc));
        self.items.push(other(from, self.quiet.told(from)));
        self.items.push(StreamItem::Lost(hole));
        let current = XenEvent::Current { vcpu: named(lost.current) };
        self.items.push(item(to, self.quiet.told(to), current));
    }
}

impl XenStream<'_> {
    /// Goes on behind missing records. False at the end.
    fn next_stretch(&mut self, items: &mut Vec<StreamItem>) -> bool {
        let Some(windows) = self.stretches.pop_front() else { return false };
        self.read.extend_from_slice(self.stream.problems());
        self.stream = self.file.stream_of_stretch(self.stream.cpu(), windows);
        self.quiet = Quiet::default();
        items.push(StreamItem::Lost(LostEvents { count: None, cause: LostCause::CorruptPage }));
        items.extend(first_running(self.stream.clone()));
        true
    }
}

impl EventStream for XenStream<'_> {
    fn left(&self) -> u64 {
        let later: usize = self.stretches.iter().map(ExactSizeIterator::len).sum();
        (self.stream.left_windows() + later) as u64
    }

    fn next_item(&mut self) -> Option<StreamItem> {
        if self.ahead.is_empty() {
            let mut items = Vec::new();
            self.next_batch(&mut items, 1);
            self.ahead.extend(items);
        }
        self.ahead.pop_front()
    }

    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        let (begin, limit) = (items.len(), limit.max(1));
        items.extend(self.ahead.drain(..));
        while items.len() < begin + limit {
            let records = begin + limit - items.len();
            let mut put = Put { items, quiet: &mut self.quiet, isa: self.isa };
            if self.stream.give(records, &mut put) == 0 {
                items.extend(self.quiet.tell());
                if !self.next_stretch(items) {
                    return;
                }
            }
        }
    }

    fn problems(&self) -> Vec<ImportLog> {
        let mut problems = Problems::new(self.source);
        let mut rows: Vec<ImportLog> = Vec::new();
        for problem in self.read.iter().chain(self.stream.problems()) {
            if problem.what.loses() {
                problems.add(problem.at_bytes, || row(self.source, problem).message);
            } else if rows.len() < 100 {
                rows.push(row(self.source, problem));
            }
        }
        rows.extend(problems.rows());
        rows
    }
}
