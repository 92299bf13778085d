//! What the engine's rows of one window add up to.
//!
//! Rows come when they are complete, and may begin before the window: the part in it counts. At the
//! window's end the engine is asked what is open ([`Part::Open`]): those rows end with the window, and
//! come again, longer, in a later one. So times are cut at the edges, and what counts as a whole – a
//! wait, an exit, a request – counts where it ends.

use crate::histogram::Histogram;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transect_model::{
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
    state::{Metric, ThreadState, VcpuState},
    table::{
        BlockIo, CpuSlice, Exit, NetIo, Row, TableDoc, TableSink, Thread, ThreadStateRow,
        VcpuStateRow, Window,
    },
};

/// Slices of one CPU kept for one window, to tell who was in whose way; what is beyond is not attributed.
const MAX_SLICES: usize = 1 << 18;
/// Stretches of waiting kept for the same.
const MAX_STRETCHES: usize = 1 << 18;
/// Requests and exits are kept by kind; so many kinds at most.
const MAX_KINDS: usize = 8192;

/// Is a row complete, or cut at the window's end to be continued?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Closed,
    Open,
}

/// Waits for a CPU of one actor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// The one under way: since when, and until when it is known to go on.
    open: Option<(i64, i64)>,
    pub(crate) lengths: Histogram,
    pub(crate) max_ns: u64,
}

impl Waits {
    /// Another stretch of its time; the window begins at `window`.
    fn stretch(&mut self, window: i64, (from, to): (i64, i64), is_waiting: bool, is_known: bool) {
        match (&mut self.open, is_waiting) {
            (Some(open), true) if open.1 == from => open.1 = to,
            (open, _) => {
                if let Some((since, until)) = open.take()
                    // What it did next is not known, nor whether the wait had ended.
                    && (is_known || until < from)
                    && until >= window
                {
                    let ns = u64::try_from(until - since).unwrap_or(0);
                    self.lengths.add_length(ns);
                    self.max_ns = self.max_ns.max(ns);
                }
                if is_waiting {
                    self.open = Some((from, to));
                }
            }
        }
    }

    fn next_window(&mut self) {
        self.lengths = Histogram::default();
        self.max_ns = 0;
    }
}

/// Who had the CPU meanwhile: a machine (Xen), or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rival {
    pub(crate) machine: MachineId,
    pub(crate) tid: Option<Tid>,
}

/// How often and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InTheWay {
    pub(crate) times: u64,
    pub(crate) ns: i64,
}

/// One vCPU in one window: what `windows` has no columns for.
#[derive(Clone, Debug, Default)]
pub(crate) struct VcpuSums {
    pub(crate) preempted_ns: i64,
    pub(crate) waking_ns: i64,
    pub(crate) unattributed_ns: i64,
    pub(crate) migrations: u64,
    pub(crate) waits: Waits,
    pub(crate) rivals: HashMap<Rival, InTheWay>,
    /// Where it was last, and what it did then.
    pub(crate) cpu: Option<CpuId>,
    pub(crate) state: Option<VcpuState>,
    pub(crate) halts: u64,
    ran_on: Option<CpuId>,
    /// The stretch of waiting behind one rival that is under way.
    behind: Option<(Rival, i64)>,
}

/// One thread in one window.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadSums {
    pub(crate) executions: u64,
    pub(crate) gotten_ns: i64,
    pub(crate) preempted_ns: i64,
    pub(crate) waking_ns: i64,
    pub(crate) blocked_ns: i64,
    pub(crate) unknown_ns: i64,
    pub(crate) migrations: u64,
    pub(crate) slices: u64,
    pub(crate) slices_ns: i64,
    pub(crate) slice_min_ns: Option<i64>,
    pub(crate) slice_max_ns: Option<i64>,
    pub(crate) waits: Waits,
    pub(crate) cpu: Option<CpuId>,
    pub(crate) state: Option<&'static str>,
    ran_on: Option<CpuId>,
    /// The last time it ran: since when, until when.
    ran: Option<(i64, i64)>,
}

/// A CPU in one window.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuSums {
    pub(crate) busy_ns: i64,
    pub(crate) idle_ns: i64,
    pub(crate) unknown_ns: i64,
    /// Who had it, in order.
    pub(crate) slices: Vec<(i64, i64, Tid)>,
}

/// A stretch of a thread's waiting for one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) tid: Tid,
    pub(crate) cpu: CpuId,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Exits or requests of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    pub(crate) count: u64,
    pub(crate) total_ns: i64,
    pub(crate) handling_ns: i64,
    pub(crate) bytes: u64,
    pub(crate) max_ns: Option<u64>,
    pub(crate) lengths: Histogram,
}

impl Durations {
    /// Adds another's.
    pub(crate) fn join(&mut self, other: &Durations) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.handling_ns += other.handling_ns;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.lengths.add_all(&other.lengths);
    }

    fn add(&mut self, ns: i64) {
        let length = u64::try_from(ns).unwrap_or(0);
        self.count += 1;
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(Some(length));
        self.lengths.add_length(length);
    }
}

/// Whose packets or requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IoKind {
    Block { tid: Tid, is_write: bool },
    Net { device: String, is_xmit: bool },
}

/// Everything of one window, of the kernel or hypervisor that is machine 0.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) vcpus: BTreeMap<(MachineId, VcpuId), VcpuSums>,
    pub(crate) threads: BTreeMap<Tid, ThreadSums>,
    pub(crate) cpus: BTreeMap<CpuId, CpuSums>,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) exits: BTreeMap<(MachineId, VcpuId, ExitReason), Durations>,
    pub(crate) io: BTreeMap<IoKind, Durations>,
    pub(crate) windows: Vec<Window>,
    pub(crate) named: Vec<Thread>,
    /// Which thread runs which vCPU.
    pub(crate) vcpu_threads: HashMap<Tid, (MachineId, VcpuId)>,
    /// Xen's PV guests, as far as their ways into Xen have shown.
    pub(crate) paravirtual: BTreeSet<MachineId>,
    /// Kinds that found no place, since the start.
    pub(crate) no_room: u64,
    part: Option<Part>,
}

const HOST: MachineId = MachineId(0);

impl Tally {
    /// The rows to come are of this kind.
    pub(crate) fn takes(&mut self, part: Part) -> &mut Self {
        self.part = Some(part);
        self
    }

    /// The next window begins where this one ended.
    pub(crate) fn next_window(&mut self, from: i64, to: i64) {
        (self.from, self.to) = (from, to);
        self.windows.clear();
        self.stretches.clear();
        self.exits.clear();
        self.io.clear();
        self.cpus.values_mut().for_each(|cpu| *cpu = CpuSums::default());
        let here = self.named.iter().filter(|thread| thread.machine_id == HOST);
        let alive: BTreeSet<Tid> = here.map(|thread| thread.tid).collect();
        // The engine names all threads that it has not forgotten.
        self.threads.retain(|tid, _| alive.is_empty() || alive.contains(tid));
        for thread in self.threads.values_mut() {
            let ThreadSums { waits, cpu, state, ran_on, ran, .. } = std::mem::take(thread);
            *thread = ThreadSums { waits, cpu, state, ran_on, ran, ..ThreadSums::default() };
            thread.waits.next_window();
        }
        for vcpu in self.vcpus.values_mut() {
            let VcpuSums { waits, cpu, state, ran_on, behind, .. } = std::mem::take(vcpu);
            *vcpu = VcpuSums { waits, cpu, state, ran_on, behind, ..VcpuSums::default() };
            vcpu.waits.next_window();
        }
        self.named.clear();
        self.vcpu_threads.clear();
    }

    /// Forgets vCPUs that are gone.
    pub(crate) fn keep_vcpus(&mut self, is_there: impl Fn(MachineId, VcpuId) -> bool) {
        self.vcpus.retain(|(machine, vcpu), _| is_there(*machine, *vcpu));
    }

    fn is_open(&self) -> bool {
        self.part == Some(Part::Open)
    }

    /// The part of a row in this window.
    fn clip(&self, ts: i64, dur: i64) -> Option<(i64, i64)> {
        let (from, to) = (ts.max(self.from), (ts + dur).min(self.to));
        (from < to).then_some((from, to))
    }

    fn vcpu_state(&mut self, row: &VcpuStateRow) {
        let is_open = self.is_open();
        let clipped = self.clip(row.ts, row.dur);
        let begins = row.ts >= self.from && row.ts < self.to;
        let window = self.from;
        let sums = self.vcpus.entry((row.machine_id, row.vcpu)).or_default();
        let is_waiting = row.state.metric() == Metric::Waited;
        let is_known = row.state != VcpuState::Unknown;
        if is_open {
            // Goes on, or the wait before it has ended.
            if !is_waiting {
                sums.waits.stretch(window, (row.ts, row.ts), false, is_known);
            }
            (sums.cpu, sums.state) = (row.cpu.or(sums.cpu), Some(row.state));
        } else {
            sums.waits.stretch(window, (row.ts, row.ts + row.dur), is_waiting, is_known);
        }
        if row.state.metric() == Metric::Gotten {
            let moved = sums.ran_on.is_some() && sums.ran_on != row.cpu;
            sums.migrations += u64::from(moved && begins);
            if !is_open || begins {
                sums.ran_on = row.cpu.or(sums.ran_on);
            }
        }
        let ended_here = !is_open && row.ts + row.dur >= self.from;
        sums.halts += u64::from(row.state == VcpuState::Halted && ended_here);
        let Some((from, to)) = clipped else { return };
        match row.state {
            VcpuState::Preempted => sums.preempted_ns += to - from,
            VcpuState::Waking => sums.waking_ns += to - from,
            _ => return,
        }
        match row.by_machine_id.map(|machine| Rival { machine, tid: row.by_tid }) {
            Some(rival) => {
                let goes_on = sums.behind == Some((rival, row.ts)) && from > window;
                let way = sums.rivals.entry(rival).or_default();
                way.ns += to - from;
                way.times += u64::from(!goes_on);
                sums.behind = Some((rival, row.ts + row.dur));
            }
            None => sums.unattributed_ns += to - from,
        }
    }

    fn thread_state(&mut self, row: &ThreadStateRow) {
        if row.machine_id != HOST {
            return;
        }
        let is_open = self.is_open();
        let clipped = self.clip(row.ts, row.dur);
        let window = self.from;
        let sums = self.threads.entry(row.tid).or_default();
        let is_waiting = row.state == ThreadState::Runnable;
        let is_known = row.state != ThreadState::Unknown;
        if is_open && !is_waiting {
            sums.waits.stretch(window, (row.ts, row.ts), false, is_known);
        } else if !is_open {
            sums.waits.stretch(window, (row.ts, row.ts + row.dur), is_waiting, is_known);
        }
        let is_woken = row.is_woken();
        if row.state == ThreadState::Running && !is_open {
            sums.ran = Some((row.ts, row.ts + row.dur));
        }
        // Switched out while it wanted to run: a slice has ended.
        if is_waiting
            && !is_woken
            && row.ts >= window
            && let Some((since, until)) = sums.ran.filter(|ran| ran.1 == row.ts)
        {
            let ns = until - since;
            sums.slices += 1;
            sums.slices_ns += ns;
            sums.slice_min_ns = Some(sums.slice_min_ns.map_or(ns, |min| min.min(ns)));
            sums.slice_max_ns = Some(sums.slice_max_ns.map_or(ns, |max| max.max(ns)));
            sums.ran = None;
        }
        let word = match row.state {
            ThreadState::Running => "running",
            ThreadState::Runnable if is_woken => "waking",
            ThreadState::Runnable => "preempted",
            ThreadState::Blocked => "asleep",
            ThreadState::Unknown => "unknown",
        };
        (sums.cpu, sums.state) = (row.cpu.or(sums.cpu), Some(if is_open { word } else { "gone" }));
        let Some((from, to)) = clipped else { return };
        let ns = to - from;
        match row.state {
            ThreadState::Running => sums.gotten_ns += ns,
            ThreadState::Runnable if is_woken => sums.waking_ns += ns,
            ThreadState::Runnable => sums.preempted_ns += ns,
            ThreadState::Blocked => sums.blocked_ns += ns,
            ThreadState::Unknown => sums.unknown_ns += ns,
        }
        if let Some(cpu) = row.cpu.filter(|_| is_waiting)
            && self.stretches.len() < MAX_STRETCHES
        {
            self.stretches.push(Stretch { tid: row.tid, cpu, from, to });
        }
    }

    fn slice(&mut self, row: &CpuSlice) {
        let begins = row.ts >= self.from && row.ts < self.to;
        let Some((from, to)) = self.clip(row.ts, row.dur) else { return };
        let sums = self.cpus.entry(row.cpu).or_default();
        let ns = to - from;
        match (row.tid, row.vcpu) {
            (Some(Tid::IDLE), _) => sums.idle_ns += ns,
            (None, None) => sums.unknown_ns += ns,
            _ => sums.busy_ns += ns,
        }
        let Some(tid) = row.tid else { return };
        if sums.slices.len() < MAX_SLICES {
            sums.slices.push((from, to, tid));
        }
        if begins && tid != Tid::IDLE {
            let thread = self.threads.entry(tid).or_default();
            thread.executions += 1;
            thread.migrations += u64::from(thread.ran_on.is_some_and(|cpu| cpu != row.cpu));
            thread.ran_on = Some(row.cpu);
        }
    }

    fn exit(&mut self, row: &Exit) {
        if matches!(row.reason.isa, Isa::XenHypercall | Isa::XenTrap) {
            self.paravirtual.insert(row.machine_id);
        }
        let key = (row.machine_id, row.vcpu, row.reason);
        if self.exits.len() >= MAX_KINDS && !self.exits.contains_key(&key) {
            self.no_room += 1;
            return;
        }
        let sums = self.exits.entry(key).or_default();
        match row.dur {
            Some(ns) => {
                sums.add(ns);
                sums.handling_ns += row.handling_ns.unwrap_or(0);
            }
            None => sums.count += 1,
        }
    }

    fn io(&mut self, kind: IoKind, bytes: u64, ns: Option<i64>) {
        if self.io.len() >= MAX_KINDS && !self.io.contains_key(&kind) {
            self.no_room += 1;
            return;
        }
        let sums = self.io.entry(kind).or_default();
        sums.bytes = sums.bytes.saturating_add(bytes);
        match ns {
            Some(ns) => sums.add(ns),
            None => sums.count += 1,
        }
    }

    fn block(&mut self, row: &BlockIo) {
        let op = row.op.as_str();
        let Some(dur) = row.dur.filter(|_| ["read", "write"].contains(&op)) else { return };
        // The engine's row begins where it was queued; the device has it from its issue on.
        let ns = dur - row.issue_ns.unwrap_or(0);
        self.io(IoKind::Block { tid: row.tid, is_write: op == "write" }, row.bytes, Some(ns));
    }

    fn net(&mut self, row: &NetIo) {
        if row.code.is_some_and(|code| code != 0) {
            return;
        }
        let device = row.device.to_str().into_owned();
        let is_xmit = row.direction.as_str() == "xmit";
        self.io(IoKind::Net { device, is_xmit }, row.bytes, None);
    }
}

impl TableSink for Tally {
    fn row(&mut self, row: Row) {
        let is_open = self.is_open();
        match row {
            Row::VcpuState(row) => self.vcpu_state(&row),
            Row::ThreadState(row) => self.thread_state(&row),
            Row::CpuSlice(row) => self.slice(&row),
            Row::Window(row) => self.windows.extend((row.ts >= self.from).then_some(*row)),
            Row::Thread(row) => self.named.push(row),
            Row::Vcpu(row) => {
                self.vcpu_threads.extend(row.vmm_tid.map(|tid| (tid, (row.machine_id, row.vcpu))));
            }
            // Those that are open have not ended.
            Row::Exit(row) if !is_open => self.exit(&row),
            Row::BlockIo(row) if !is_open => self.block(&row),
            Row::NetIo(row) if !is_open => self.net(&row),
            _ => {}
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        [
            VcpuStateRow::TABLE.name,
            ThreadStateRow::TABLE.name,
            CpuSlice::TABLE.name,
            Window::TABLE.name,
            Exit::TABLE.name,
            BlockIo::TABLE.name,
            NetIo::TABLE.name,
        ]
        .contains(&table.name)
    }
}
