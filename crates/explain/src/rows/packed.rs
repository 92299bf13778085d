//! Rows as small as paths need them: what all rows of an actor share is not in them.
//!
//! A recording of ten million events has as many of these; the sizes are checked at compile time.

use super::{
    exits::Exits,
    keys::{Cpu, Map, VcpuOf},
    line::{Happens, Lasts, Line, Moments},
};
use crate::{parallel, piece::ThreadId};
use std::sync::{Mutex, PoisonError};
use transect_model::{
    cause::{CauseKind, Evidence},
    event::BlockOp,
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    state::{ThreadState, VcpuState},
    table::{BlockIo, Cause, CpuSlice, Irq, Row, Tables, ThreadStateRow, VcpuStateRow},
};

const _: () = assert!(size_of::<State>() <= 24);
const _: () = assert!(size_of::<Slice>() <= 32);
const _: () = assert!(size_of::<OfVcpu>() <= 32);
const _: () = assert!(size_of::<Handler>() <= 24);
const _: () = assert!(size_of::<Origin>() <= 48);

/// Which of the values that a row need not have are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct There(u8);

impl There {
    fn note(&mut self, bit: u8, is_there: bool) {
        self.0 |= u8::from(is_there) << bit;
    }

    fn get<T>(self, bit: u8, value: T) -> Option<T> {
        (self.0 >> bit & 1 == 1).then_some(value)
    }
}

/// A state of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    cpu: CpuId,
    there: There,
    pub(crate) state: ThreadState,
}

impl State {
    fn new(row: &ThreadStateRow) -> Self {
        let mut there = There::default();
        there.note(0, row.cpu.is_some());
        let cpu = row.cpu.unwrap_or_default();
        State { ts: row.ts, dur: row.dur, cpu, there, state: row.state }
    }

    /// The CPU that it is on, waits for or was on last.
    pub(crate) fn cpu(&self) -> Option<CpuId> {
        self.there.get(0, self.cpu)
    }
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Occupant {
    Thread(Tid),
    /// A vCPU without a thread that is known (Xen).
    Vcpu(MachineId, VcpuId),
    Unknown,
}

/// A stretch in which somebody has a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    pub(crate) who: Occupant,
}

impl Slice {
    fn new(row: &CpuSlice) -> Self {
        let who = match (row.tid, row.vcpu_machine_id.zip(row.vcpu)) {
            (Some(tid), _) => Occupant::Thread(tid),
            (None, Some((machine, vcpu))) => Occupant::Vcpu(machine, vcpu),
            (None, None) => Occupant::Unknown,
        };
        Slice { ts: row.ts, dur: row.dur, who }
    }

    /// The thread, as its kernel numbers it.
    pub(crate) fn tid(&self) -> Option<Tid> {
        match self.who {
            Occupant::Thread(tid) => Some(tid),
            Occupant::Vcpu(..) | Occupant::Unknown => None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tid().is_some_and(Tid::is_idle)
    }
}

/// A state of a vCPU. A wait has somebody for whom it waits, another state the reason of an exit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfVcpu {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    cpu: CpuId,
    about: About,
    there: There,
    pub(crate) state: VcpuState,
}

/// The machine and thread that have the CPU, or the exit's code and the number of an unknown instruction set.
type About = [u32; 2];

/// Bits of [`There`]; those of an instruction set are behind them.
const HAS_CPU: u8 = 0;
const IS_BY: u8 = 1;
const IS_REASON: u8 = 2;
const ISA: u8 = 3;

impl OfVcpu {
    fn new(row: &VcpuStateRow) -> Self {
        let mut there = There::default();
        there.note(HAS_CPU, row.cpu.is_some());
        let is_wait = matches!(row.state, VcpuState::Preempted | VcpuState::Waking);
        let by = row.by_machine_id.zip(row.by_tid).filter(|_| is_wait || row.reason.is_none());
        let about = match (by, row.reason) {
            (Some((machine, tid)), _) => {
                there.note(IS_BY, true);
                [machine.0, tid.0.cast_unsigned()]
            }
            (None, Some(ExitReason { isa, code })) => {
                there.note(IS_REASON, true);
                let (number, unknown) = numbered(isa);
                there.0 |= number << ISA;
                [code, unknown]
            }
            (None, None) => [0; 2],
        };
        let cpu = row.cpu.unwrap_or_default();
        OfVcpu { ts: row.ts, dur: row.dur, cpu, about, there, state: row.state }
    }

    pub(crate) fn cpu(&self) -> Option<CpuId> {
        self.there.get(HAS_CPU, self.cpu)
    }

    /// Who has the CPU that it waits for, and for which machine that works.
    pub(crate) fn by(&self) -> Option<(MachineId, Tid)> {
        let [machine, tid] = self.about;
        self.there.get(IS_BY, (MachineId(machine), Tid(tid.cast_signed())))
    }

    /// Of which exit.
    pub(crate) fn reason(&self) -> Option<ExitReason> {
        let [code, unknown] = self.about;
        self.there.get(IS_REASON, ExitReason { isa: isa(self.there.0 >> ISA, unknown), code })
    }
}

/// A number for the instruction set, and that of one that is unknown.
fn numbered(isa: Isa) -> (u8, u32) {
    match isa {
        Isa::Vmx => (0, 0),
        Isa::Svm => (1, 0),
        Isa::Arm64 => (2, 0),
        Isa::Arm64Ret => (3, 0),
        Isa::XenHypercall => (4, 0),
        Isa::XenTrap => (5, 0),
        Isa::Other(number) => (6, number),
    }
}

fn isa(number: u8, unknown: u32) -> Isa {
    match number {
        0 => Isa::Vmx,
        1 => Isa::Svm,
        2 => Isa::Arm64,
        3 => Isa::Arm64Ret,
        4 => Isa::XenHypercall,
        5 => Isa::XenTrap,
        _ => Isa::Other(unknown),
    }
}

/// A run of a handler of interrupts or softirqs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    pub(crate) vector: i32,
    pub(crate) source: IrqSource,
}

impl Handler {
    fn new(row: &Irq) -> Self {
        Handler { ts: row.ts, dur: row.dur, vector: row.vector, source: row.source }
    }
}

/// The cause of something that happens to an actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) ts: i64,
    end: i64,
    error_ns: u64,
    pub(crate) machine: MachineId,
    cpu: CpuId,
    tid: Tid,
    vector: i32,
    to_cpu: CpuId,
    there: There,
    pub(crate) kind: CauseKind,
    pub(crate) context: Option<Context>,
    pub(crate) evidence: Evidence,
}

impl Origin {
    fn new(row: &Cause) -> Self {
        let mut there = There::default();
        there.note(0, row.cpu.is_some());
        there.note(1, row.tid.is_some());
        there.note(2, row.vector.is_some());
        there.note(3, row.to_cpu.is_some());
        there.note(4, row.error_ns.is_some());
        Origin {
            ts: row.ts,
            end: row.ts.saturating_add(row.dur),
            error_ns: row.error_ns.unwrap_or_default(),
            machine: row.machine_id,
            cpu: row.cpu.unwrap_or_default(),
            tid: row.tid.unwrap_or_default(),
            vector: row.vector.unwrap_or_default(),
            to_cpu: row.to_cpu.unwrap_or_default(),
            there,
            kind: row.kind,
            context: row.context,
            evidence: row.evidence,
        }
    }

    pub(crate) fn cpu(&self) -> Option<CpuId> {
        self.there.get(0, self.cpu)
    }

    fn tid(&self) -> Option<Tid> {
        self.there.get(1, self.tid)
    }

    pub(crate) fn vector(&self) -> Option<i32> {
        self.there.get(2, self.vector)
    }

    pub(crate) fn effect_cpu(&self) -> Option<CpuId> {
        self.there.get(3, self.to_cpu)
    }

    pub(crate) fn error_ns(&self) -> Option<u64> {
        self.there.get(4, self.error_ns)
    }

    /// When its effect is.
    pub(crate) fn at(&self) -> i64 {
        self.end
    }

    /// Its thread, where it has one.
    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.tid().map(|tid| ThreadId { machine: self.machine, tid })
    }
}

/// A block request that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) ts: i64,
    end: i64,
    /// When its device had it, from `ts` on; 0 if that is not known.
    pub(crate) issue_ns: i64,
    pub(crate) tid: Tid,
    pub(crate) op: BlockOp,
    pub(crate) complete_cpu: Option<CpuId>,
}

macro_rules! lasts {
    ($($row:ty),*) => { $(
        impl Lasts for $row {
            fn ts(&self) -> i64 {
                self.ts
            }
            fn end(&self) -> i64 {
                self.ts.saturating_add(self.dur)
            }
        }
    )* };
}
lasts!(State, Slice, OfVcpu, Handler);

macro_rules! happens {
    ($($row:ty),*) => { $(
        impl Happens for $row {
            fn at(&self) -> i64 {
                self.end
            }
        }
    )* };
}
happens!(Origin, Request);

/// The rows of those tables that have the most, by actor.
#[derive(Debug, Default)]
pub struct Packed {
    pub(super) states: Map<ThreadId, Line<State>>,
    pub(super) slices: Map<Cpu, Line<Slice>>,
    pub(super) vcpus: Map<VcpuOf, Line<OfVcpu>>,
    /// Softirqs and others, by CPU.
    pub(super) handlers: Map<(Cpu, bool), Line<Handler>>,
    /// Wakings and kicks, by the thread that goes on.
    pub(super) wakes: Map<ThreadId, Moments<Origin>>,
    /// Of softirqs and lines, by the CPU of the handler.
    pub(super) to_handlers: Map<Cpu, Moments<Origin>>,
    pub(super) injections: Map<VcpuOf, Moments<Origin>>,
    /// Packets of other machines, by their receiver.
    pub(super) packets: Map<MachineId, Moments<Origin>>,
    pub(super) requests: Map<MachineId, Moments<Request>>,
    pub(super) exits: Exits,
}

impl Packed {
    pub(super) fn of(tables: &Tables) -> Self {
        let mut packed = Packed::default();
        tables.thread_states.iter().for_each(|row| packed.state(row));
        tables.cpu_slices.iter().for_each(|row| packed.slice(row));
        tables.vcpu_states.iter().for_each(|row| packed.of_vcpu(row));
        tables.irqs.iter().for_each(|row| packed.handler(row));
        tables.causes.iter().for_each(|row| packed.cause(row));
        tables.block_io.iter().for_each(|row| packed.request(row));
        tables.exits.iter().for_each(|row| packed.exits.push(row));
        packed
    }

    /// Adds the rows of other tables.
    pub(super) fn append(&mut self, other: Packed) {
        let Packed { states, slices, vcpus, handlers, wakes, .. } = other;
        let Packed { to_handlers, injections, packets, requests, exits, .. } = other;
        self.states.extend(states);
        self.slices.extend(slices);
        self.vcpus.extend(vcpus);
        self.handlers.extend(handlers);
        self.wakes.extend(wakes);
        self.to_handlers.extend(to_handlers);
        self.injections.extend(injections);
        self.packets.extend(packets);
        self.requests.extend(requests);
        self.exits.append(exits);
    }

    /// Packs the row, if it is one of those that are many.
    pub(super) fn take(&mut self, row: &Row) -> bool {
        match row {
            Row::ThreadState(row) => self.state(row),
            Row::CpuSlice(row) => self.slice(row),
            Row::VcpuState(row) => self.of_vcpu(row),
            Row::Irq(row) => self.handler(row),
            Row::Cause(row) => self.cause(row),
            Row::BlockIo(row) => self.request(row),
            Row::Exit(row) => self.exits.push(row),
            _ => return false,
        }
        true
    }

    fn state(&mut self, row: &ThreadStateRow) {
        let of = ThreadId { machine: row.machine_id, tid: row.tid };
        self.states.entry(of).or_default().push(State::new(row));
    }

    fn slice(&mut self, row: &CpuSlice) {
        self.slices.entry((row.machine_id, row.cpu)).or_default().push(Slice::new(row));
    }

    fn of_vcpu(&mut self, row: &VcpuStateRow) {
        self.vcpus.entry((row.machine_id, row.vcpu)).or_default().push(OfVcpu::new(row));
    }

    fn handler(&mut self, row: &Irq) {
        let of = ((row.machine_id, row.cpu), row.softirq);
        self.handlers.entry(of).or_default().push(Handler::new(row));
    }

    fn cause(&mut self, row: &Cause) {
        let machine = row.to_machine_id;
        let moments = match (row.kind, row.to_tid, row.to_cpu, row.to_vcpu) {
            (CauseKind::Softirq | CauseKind::Line, _, Some(cpu), _) => {
                self.to_handlers.entry((machine, cpu)).or_default()
            }
            (_, _, _, Some(vcpu)) => self.injections.entry((machine, vcpu)).or_default(),
            (CauseKind::Packet, None, ..) => self.packets.entry(machine).or_default(),
            (CauseKind::Work | CauseKind::Lock, ..) => return,
            (_, Some(tid), ..) => self.wakes.entry(ThreadId { machine, tid }).or_default(),
            _ => return,
        };
        moments.push(Origin::new(row));
    }

    fn request(&mut self, row: &BlockIo) {
        let Some(dur) = row.dur else { return };
        self.requests.entry(row.machine_id).or_default().push(Request {
            ts: row.ts,
            end: row.ts.saturating_add(dur),
            issue_ns: row.issue_ns.unwrap_or(0),
            tid: row.tid,
            op: row.op,
            complete_cpu: row.complete_cpu,
        });
    }

    /// Has to be called once all are there.
    pub(super) fn sort(&mut self) {
        let Packed { states, slices, vcpus, handlers, .. } = self;
        let Packed { wakes, to_handlers, injections, packets, requests, .. } = self;
        let mut all: Vec<Mutex<&mut dyn Sort>> = Vec::new();
        each(&mut all, vcpus);
        each(&mut all, states);
        each(&mut all, slices);
        each(&mut all, handlers);
        each(&mut all, wakes);
        each(&mut all, to_handlers);
        each(&mut all, injections);
        each(&mut all, packets);
        each(&mut all, requests);
        // Each is taken by one thread alone.
        parallel::map(&all, |rows| rows.lock().unwrap_or_else(PoisonError::into_inner).sort());
    }
}

/// Rows of an actor that can be put in order.
trait Sort: Send {
    fn sort(&mut self);
}

impl<T: Lasts + Send> Sort for Line<T> {
    fn sort(&mut self) {
        Line::sort(self);
    }
}

impl<T: Happens + Send> Sort for Moments<T> {
    fn sort(&mut self) {
        Moments::sort(self);
    }
}

fn each<'p, K, T: Sort>(all: &mut Vec<Mutex<&'p mut dyn Sort>>, rows: &'p mut Map<K, T>) {
    all.extend(rows.values_mut().map(|rows| Mutex::new(rows as &mut dyn Sort)));
}

#[cfg(test)]
mod tests {
    use super::OfVcpu;
    use transect_model::{
        exit::{ExitReason, Isa},
        ids::{CpuId, MachineId, Tid, VcpuId},
        state::VcpuState,
        table::VcpuStateRow,
    };

    #[test]
    fn states_of_vcpus_are_packed_without_loss() {
        let row = VcpuStateRow {
            ts: -5,
            dur: 7,
            machine_id: MachineId(1),
            vcpu: VcpuId(2),
            cpu: None,
            state: VcpuState::Exit,
            reason: None,
            by_machine_id: None,
            by_tid: None,
        };
        let all = [
            Isa::Vmx,
            Isa::Svm,
            Isa::Arm64,
            Isa::Arm64Ret,
            Isa::XenHypercall,
            Isa::XenTrap,
            Isa::Other(0),
            Isa::Other(u32::MAX),
        ];
        for (isa, code) in all.into_iter().flat_map(|isa| [(isa, 0), (isa, u32::MAX)]) {
            let reason = Some(ExitReason { isa, code });
            let packed = OfVcpu::new(&VcpuStateRow { reason, ..row.clone() });
            assert_eq!((packed.reason(), packed.by(), packed.cpu()), (reason, None, None));
        }
        for (cpu, tid) in [(0, i32::MIN), (u32::MAX, -1), (3, 0), (3, i32::MAX)] {
            let (by_machine_id, by_tid) = (Some(MachineId(u32::MAX)), Some(Tid(tid)));
            let row = VcpuStateRow { cpu: Some(CpuId(cpu)), by_machine_id, by_tid, ..row.clone() };
            let packed = OfVcpu::new(&row);
            assert_eq!(packed.by(), by_machine_id.zip(by_tid));
            assert_eq!((packed.reason(), packed.cpu()), (None, Some(CpuId(cpu))));
            assert_eq!((packed.ts, packed.dur, packed.state), (-5, 7, VcpuState::Exit));
        }
    }
}
