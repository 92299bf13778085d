//! The rows that a walk needs, by actor and in order of time.

mod exits;
mod gathered;
mod keys;
mod line;
mod packed;

pub(crate) use exits::Exited;
pub use gathered::Gathered;
pub(crate) use line::{Before, Lasts, Line, Moments};
pub use packed::Packed;
pub(crate) use packed::{Occupant, OfVcpu, Origin, Slice, State};

use crate::{
    group::groups_of,
    piece::{Actor, ThreadId},
    quota::Quotas,
    spans::Spans,
};
use keys::{Cpu, Map, VcpuOf};
use line::Happens;
use packed::{Handler, Request};
use transect_model::{
    cause::CauseKind,
    event::BlockOp,
    ids::{CpuId, MachineId, MachineKind, VcpuId},
    interrupt::Context,
    state::VcpuState,
    table::{
        BlockIo, Cause, Cgroup, CpuSlice, Irq, LockWait, Lost, Machine, Reclaim, TableDoc, Tables,
        Thread, ThreadStateRow, Throttle, Vcpu, VcpuStateRow,
    },
};

/// The tables from which paths are made.
pub const NEEDS: [TableDoc; 14] = [
    Machine::TABLE,
    Vcpu::TABLE,
    Thread::TABLE,
    Cgroup::TABLE,
    CpuSlice::TABLE,
    ThreadStateRow::TABLE,
    VcpuStateRow::TABLE,
    Irq::TABLE,
    BlockIo::TABLE,
    Cause::TABLE,
    LockWait::TABLE,
    Throttle::TABLE,
    Reclaim::TABLE,
    Lost::TABLE,
];

impl Lasts for &Reclaim {
    fn ts(&self) -> i64 {
        self.ts
    }
    fn end(&self) -> i64 {
        self.ts.saturating_add(self.dur.unwrap_or(0))
    }
}

impl Happens for &LockWait {
    fn at(&self) -> i64 {
        self.ts.saturating_add(self.dur.unwrap_or(0))
    }
}

/// The rows of a recording, or of a part of it, as paths are made from them.
#[derive(Debug, Default)]
pub struct Rows<'t> {
    machines: Map<MachineId, &'t Machine>,
    /// Since when the guests are recorded that began later than their host.
    recorded_from: Map<MachineId, i64>,
    /// By the process of their VMM.
    vms: Map<ThreadId, MachineId>,
    names: Map<ThreadId, &'t Thread>,
    groups: Map<(MachineId, &'t str), &'t Cgroup>,
    packed: Packed,
    cpus: Map<MachineId, Vec<CpuId>>,
    /// Idle time of each CPU, and of all of a machine.
    idle: Map<Cpu, Spans>,
    idle_of_all: Map<MachineId, Spans>,
    threads_of_vcpus: Map<VcpuOf, ThreadId>,
    vcpus_of_threads: Map<ThreadId, VcpuOf>,
    locks: Map<ThreadId, Moments<&'t LockWait>>,
    reclaims: Map<ThreadId, Line<&'t Reclaim>>,
    throttles: Map<Cpu, Vec<&'t Throttle>>,
    quotas: Quotas,
}

impl<'t> Rows<'t> {
    /// Of these tables, of which only [`NEEDS`] and exits are read.
    pub fn new(tables: &'t Tables) -> Self {
        Rows::of(tables, Packed::of(tables))
    }

    /// Of rows that were [`Gathered`].
    pub fn of(tables: &'t Tables, mut packed: Packed) -> Self {
        packed.sort();
        let mut rows = Rows { packed, ..Rows::default() };
        rows.machines.extend(tables.machines.iter().map(|row| (row.machine_id, row)));
        for row in &tables.machines {
            if let Some((machine, tid)) = row.parent_id.zip(row.vmm_pid) {
                rows.vms.insert(ThreadId { machine, tid }, row.machine_id);
            }
        }
        for row in tables.lost.iter().filter(|row| is_late(&row.cause)) {
            let from = rows.recorded_from.entry(row.machine_id).or_insert(i64::MIN);
            *from = row.ts.saturating_add(row.dur).max(*from);
        }
        for row in &tables.threads {
            rows.names.insert(ThreadId { machine: row.machine_id, tid: row.tid }, row);
        }
        for row in &tables.cgroups {
            rows.groups.insert((row.machine_id, row.cgroup.as_str()), row);
        }
        for row in &tables.vcpus {
            let parent = rows.machines.get(&row.machine_id).and_then(|machine| machine.parent_id);
            if let Some((machine, tid)) = parent.zip(row.vmm_tid) {
                let thread = ThreadId { machine, tid };
                rows.threads_of_vcpus.insert((row.machine_id, row.vcpu), thread);
                rows.vcpus_of_threads.insert(thread, (row.machine_id, row.vcpu));
            }
        }
        rows.take_events(tables);
        rows.take_cpus();
        rows.quotas = Quotas::new(tables, |thread, see| {
            let states = rows.states_in(thread, i64::MIN, i64::MAX);
            states.for_each(|row| see(row.state, row.ts, row.end()));
        });
        rows
    }

    fn take_cpus(&mut self) {
        let mut of_all: Map<MachineId, Vec<(i64, i64)>> = Map::default();
        for (cpu, line) in &self.packed.slices {
            let idle = line.all().filter(Slice::is_idle);
            let spans: Vec<(i64, i64)> = idle.map(|row| (row.ts, row.end())).collect();
            of_all.entry(cpu.0).or_default().extend(&spans);
            self.idle.insert(*cpu, Spans::new(&spans));
            self.cpus.entry(cpu.0).or_default().push(cpu.1);
        }
        self.idle_of_all = of_all.iter().map(|(id, spans)| (*id, Spans::new(spans))).collect();
        self.cpus.values_mut().for_each(|cpus| cpus.sort_unstable());
    }

    fn take_events(&mut self, tables: &'t Tables) {
        for row in tables.locks.iter().filter(|row| row.dur.is_some_and(|dur| dur > 0)) {
            let of = ThreadId { machine: row.machine_id, tid: row.tid };
            self.locks.entry(of).or_default().push(row);
        }
        for row in tables.reclaims.iter().filter(|row| row.dur.is_some_and(|dur| dur > 0)) {
            let of = ThreadId { machine: row.machine_id, tid: row.tid };
            self.reclaims.entry(of).or_default().push(row);
        }
        for row in &tables.throttles {
            self.throttles.entry((row.machine_id, row.cpu)).or_default().push(row);
        }
        self.locks.values_mut().for_each(Moments::sort);
        self.reclaims.values_mut().for_each(Line::sort);
    }

    /// The machine.
    pub fn machine(&self, id: MachineId) -> Option<&'t Machine> {
        self.machines.get(&id).copied()
    }

    /// The machine that carries its requests and packets.
    pub fn carrier(&self, id: MachineId) -> Option<MachineId> {
        self.machine(id)?.carrier(self.machines.values().copied())
    }

    /// Is it one whose vCPUs another one schedules?
    pub fn is_guest(&self, id: MachineId) -> bool {
        self.machine(id).is_some_and(|machine| machine.kind == MachineKind::Guest)
    }

    /// What is known of a thread besides its states.
    pub fn thread(&self, id: ThreadId) -> Option<&'t Thread> {
        self.names.get(&id).copied()
    }

    /// From when to when something is known of threads or vCPUs; none if nothing is.
    pub fn extent(&self) -> Option<(i64, i64)> {
        let threads = self.packed.states.values().filter_map(Line::span);
        let vcpus = self.packed.vcpus.values().filter_map(Line::span);
        threads.chain(vcpus).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The exits of one vCPU after another.
    pub(crate) fn exits(&self) -> Vec<(VcpuOf, &[Exited])> {
        self.packed.exits.by_vcpu()
    }

    /// The runs of handlers of interrupts, each with its CPU.
    pub(crate) fn interrupts(&self) -> impl Iterator<Item = (Cpu, Handler)> {
        let lines = self.packed.handlers.iter().filter(|((_, softirq), _)| !softirq);
        lines.flat_map(|((cpu, _), line)| line.all().map(|row| (*cpu, row)))
    }

    /// What wakes threads.
    pub(crate) fn wakings(&self) -> impl Iterator<Item = (ThreadId, Origin)> {
        self.packed.wakes.iter().flat_map(|(of, all)| all.all().map(|row| (*of, row)))
    }

    /// What is injected into vCPUs.
    pub(crate) fn injections(&self) -> impl Iterator<Item = (VcpuOf, Origin)> {
        self.packed.injections.iter().flat_map(|(of, all)| all.all().map(|row| (*of, row)))
    }

    /// The threads that have states.
    pub fn threads(&self) -> Vec<ThreadId> {
        let mut all: Vec<ThreadId> = self.packed.states.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The vCPUs, and the host's threads that run them.
    pub fn vcpu_threads(&self) -> Vec<((MachineId, VcpuId), ThreadId)> {
        let mut all: Vec<_> = self.threads_of_vcpus.iter().map(|(v, t)| (*v, *t)).collect();
        all.sort_unstable();
        all
    }

    /// The vCPUs whose threads are not known (Xen).
    pub fn vcpus_without_threads(&self) -> Vec<VcpuOf> {
        let without =
            self.packed.vcpus.keys().filter(|vcpu| !self.threads_of_vcpus.contains_key(*vcpu));
        let mut all: Vec<VcpuOf> = without.copied().collect();
        all.sort_unstable();
        all
    }

    /// All that can be explained: the threads, and the vCPUs whose threads are not known.
    pub fn actors(&self) -> Vec<Actor> {
        let threads = self.threads().into_iter().map(Actor::Thread);
        let vcpus = self.vcpus_without_threads().into_iter();
        threads.chain(vcpus.map(|(vm, vcpu)| Actor::Vcpu(vm, vcpu))).collect()
    }

    /// The vCPU that the thread runs.
    pub fn vcpu_of_thread(&self, id: ThreadId) -> Option<(MachineId, VcpuId)> {
        self.vcpus_of_threads.get(&id).copied()
    }

    /// The host's thread that runs the vCPU.
    pub fn vcpu_thread(&self, machine: MachineId, vcpu: VcpuId) -> Option<ThreadId> {
        self.thread_of_vcpu((machine, vcpu))
    }

    /// When the states of the thread or vCPU begin, as far as its machine is recorded, and end.
    pub fn span(&self, actor: Actor) -> Option<(i64, i64)> {
        let (from, until) = self.whole_span(actor)?;
        let from = self.recorded_from(actor).map_or(from, |recorded| from.max(recorded));
        (from < until).then_some((from, until))
    }

    /// Since when its machine is recorded, if that began later than its host.
    pub(crate) fn recorded_from(&self, actor: Actor) -> Option<i64> {
        match actor {
            Actor::Thread(id) => self.recorded_from.get(&id.machine).copied(),
            // A vCPU is recorded by its host.
            Actor::Vcpu(..) => None,
        }
    }

    fn whole_span(&self, actor: Actor) -> Option<(i64, i64)> {
        match actor {
            Actor::Thread(id) => self.packed.states.get(&id)?.span(),
            Actor::Vcpu(machine, vcpu) => self.packed.vcpus.get(&(machine, vcpu))?.span(),
        }
    }

    /// The VM of whose VMM's process the thread is, else its own machine.
    pub(crate) fn works_for(&self, id: ThreadId) -> MachineId {
        let pid = self.thread(id).and_then(|thread| thread.pid);
        let vm = pid.and_then(|pid| self.vms.get(&ThreadId { tid: pid, ..id }).copied());
        vm.unwrap_or(id.machine)
    }

    /// Does the thread work in a VMM for whoever wants something, rather than run a vCPU?
    pub(crate) fn is_of_vmm(&self, id: ThreadId) -> bool {
        !self.vms.is_empty()
            && !self.vcpus_of_threads.contains_key(&id)
            && self.works_for(id) != id.machine
    }

    /// Has one of the groups above the thread a quota? None if that was not recorded.
    pub(crate) fn has_quota(&self, id: ThreadId) -> Option<bool> {
        let path = self.thread(id)?.cgroup.as_deref()?;
        if path == "/" {
            return Some(false);
        }
        let groups: Vec<&Cgroup> =
            groups_of(path).filter_map(|group| self.group(id.machine, group)).collect();
        if groups.iter().any(|group| group.cpu_quota_ns.is_some()) {
            return Some(true);
        }
        // A group without the controller has no quota, but tells nothing of it either.
        groups.iter().any(|group| group.cpu_period_ns.is_some()).then_some(false)
    }

    /// May the thread run on the CPU? None if that was not recorded.
    pub(crate) fn may_run_on(&self, id: ThreadId, cpu: CpuId) -> Option<bool> {
        Some(is_in_list(self.thread(id)?.allowed_cpus.as_deref()?, cpu))
    }

    pub(crate) fn group(&self, machine: MachineId, path: &str) -> Option<&'t Cgroup> {
        self.groups.get(&(machine, path)).copied()
    }

    pub(crate) fn states(&self, id: ThreadId) -> Option<&Line<State>> {
        self.packed.states.get(&id)
    }

    pub(crate) fn vcpu_states(&self, vcpu: VcpuOf) -> Option<&Line<OfVcpu>> {
        self.packed.vcpus.get(&vcpu)
    }

    pub(crate) fn slices(&self, cpu: Cpu) -> Option<&Line<Slice>> {
        self.packed.slices.get(&cpu)
    }

    pub(crate) fn state(&self, id: ThreadId, t: i64) -> Before<State> {
        self.packed.states.get(&id).map_or(Before::Gap(i64::MIN), |line| line.before(t))
    }

    pub(crate) fn states_in(
        &self,
        id: ThreadId,
        from: i64,
        to: i64,
    ) -> impl Iterator<Item = State> {
        self.packed.states.get(&id).into_iter().flat_map(move |line| line.within(from, to))
    }

    pub(crate) fn vcpu_states_in(
        &self,
        vcpu: VcpuOf,
        from: i64,
        to: i64,
    ) -> impl Iterator<Item = OfVcpu> {
        self.packed.vcpus.get(&vcpu).into_iter().flat_map(move |line| line.within(from, to))
    }

    /// How long the CPU was idle.
    pub(crate) fn idle(&self, cpu: Cpu, from: i64, to: i64) -> i64 {
        self.idle.get(&cpu).map_or(0, |spans| spans.within(from, to))
    }

    /// When the CPUs of the machine were idle, all together.
    pub(crate) fn idle_of_all(&self, machine: MachineId) -> Option<&Spans> {
        self.idle_of_all.get(&machine)
    }

    pub(crate) fn cpus(&self, machine: MachineId) -> &[CpuId] {
        self.cpus.get(&machine).map_or(&[], Vec::as_slice)
    }

    /// The vCPU that a guest's CPU is, if its states are known: CPUs of a guest are numbered as its vCPUs.
    pub(crate) fn vcpu_of_cpu(&self, (machine, cpu): Cpu) -> Option<VcpuOf> {
        let vcpu = (machine, VcpuId(cpu.0));
        self.packed.vcpus.contains_key(&vcpu).then_some(vcpu)
    }

    pub(crate) fn vcpu(&self, vcpu: VcpuOf, t: i64) -> Before<OfVcpu> {
        self.packed.vcpus.get(&vcpu).map_or(Before::Gap(i64::MIN), |line| line.before(t))
    }

    pub(crate) fn thread_of_vcpu(&self, vcpu: VcpuOf) -> Option<ThreadId> {
        self.threads_of_vcpus.get(&vcpu).copied()
    }

    /// The handler that runs at `t`: the one that began last, if several do.
    pub(crate) fn handler(&self, cpu: Cpu, context: Context, t: i64) -> Option<Handler> {
        let line = self.packed.handlers.get(&(cpu, context == Context::Softirq))?;
        // Handlers nest at most as deep as this.
        line.begun(t).take(16).find(|row| row.end() >= t)
    }

    /// What wakes the thread, and kicks of guests for which it is woken.
    pub(crate) fn wakes(&self, id: ThreadId) -> Option<&Moments<Origin>> {
        self.packed.wakes.get(&id)
    }

    /// What made the handler run that began on the CPU at `t`.
    pub(crate) fn to_handler(&self, cpu: Cpu, kind: CauseKind, t: i64) -> Option<Origin> {
        self.packed.to_handlers.get(&cpu)?.at(t).find(|cause| cause.kind == kind)
    }

    /// What was injected into the vCPU at `t`.
    pub(crate) fn injection(&self, vcpu: VcpuOf, t: i64) -> Option<Origin> {
        self.packed.injections.get(&vcpu)?.at(t).next()
    }

    /// What was injected into the vCPU right before the stretch in guest mode that it is in at `t`, and when.
    pub(crate) fn injected_for(&self, vcpu: VcpuOf, t: i64) -> Option<Origin> {
        let line = self.packed.vcpus.get(&vcpu)?;
        let Before::Row(guest) = line.before(t) else { return None };
        let Before::Row(before) = line.before(guest.ts) else { return None };
        let began = before.ts.min(guest.ts);
        (guest.state == VcpuState::Guest).then_some(())?;
        self.packed.injections.get(&vcpu)?.last_in(began.saturating_sub(1), t)
    }

    /// Is it the last that is known of the thread?
    pub(crate) fn is_last(&self, id: ThreadId, row: &State) -> bool {
        self.packed.states.get(&id).and_then(Line::last).is_some_and(|last| last.ts == row.ts)
    }

    /// The packet of another machine that came at `t`.
    pub(crate) fn packet(&self, machine: MachineId, t: i64) -> Option<Origin> {
        self.packed.packets.get(&machine)?.at(t).next()
    }

    /// The request that was done at `t`.
    pub(crate) fn request(&self, machine: MachineId, t: i64) -> Option<Request> {
        self.packed.requests.get(&machine)?.at(t).next()
    }

    /// The flush that was done in the handler on the CPU that did at `t` what waited for it: a write without sectors that was
    /// never issued, and has no row (block/blk-flush.c).
    pub(crate) fn flush(&self, cpu: Cpu, t: i64) -> Option<Request> {
        let mut handlers =
            [Context::Softirq, Context::Irq].into_iter().filter_map(|of| self.handler(cpu, of, t));
        let from = handlers.next()?.ts;
        let is_it = |row: &Request| row.op == BlockOp::Flush && row.complete_cpu == Some(cpu.1);
        self.packed.requests.get(&cpu.0)?.latest(from, t).find(is_it)
    }

    /// The fork in which a thread began at `t`.
    pub(crate) fn fork(&self, id: ThreadId, t: i64) -> Option<Origin> {
        let Before::Row(first) = self.state(id, t.saturating_add(1)) else { return None };
        // It is made first, and woken for the first time a moment later.
        let cause = self.packed.wakes.get(&id)?.from(t).next()?;
        let is_birth = cause.kind == CauseKind::Fork && first.ts == t && cause.ts <= first.end();
        is_birth.then_some(cause)
    }

    /// The wait for a lock that ended last after `from`, up to `to`.
    pub(crate) fn lock(&self, id: ThreadId, from: i64, to: i64) -> Option<&'t LockWait> {
        self.locks.get(&id)?.last_in(from, to)
    }

    /// Whether memory was reclaimed for the thread right before the moment, and since when that is so, down to `lo`.
    pub(crate) fn reclaims(&self, id: ThreadId, t: i64, lo: i64) -> (bool, i64) {
        match self.reclaims.get(&id).map(|line| line.before(t)) {
            Some(Before::Row(row)) => (true, row.ts.max(lo)),
            Some(Before::Gap(since)) => (false, since.max(lo)),
            None => (false, lo),
        }
    }

    /// The threads for which memory was reclaimed, each with how often and for how long in the time from `from` to `to`.
    pub(crate) fn reclaimers(
        &self,
        from: i64,
        to: i64,
    ) -> impl Iterator<Item = (ThreadId, u64, i64)> {
        let sums = self.reclaims.iter().map(move |(thread, line)| {
            let count = line.within(from, to).count();
            (*thread, u64::try_from(count).unwrap_or(u64::MAX), line.covered(from, to))
        });
        sums.filter(|(_, count, _)| *count > 0)
    }

    /// Had a group above the thread used its quota in the wait, from its begin to its end, of which something lasts from `from`? Only
    /// where ends of quotas are not recorded.
    pub(crate) fn has_used_its_quota(
        &self,
        id: ThreadId,
        wait: impl FnOnce() -> (i64, i64),
        from: i64,
    ) -> bool {
        self.quotas.is_used(id, wait, from)
    }

    /// Of a group of the machine, was the quota of the CPU used up for at least half of the time?
    pub(crate) fn is_throttled(&self, cpu: Cpu, from: i64, to: i64) -> bool {
        let covers = |row: &&Throttle| {
            let end = row.dur.map_or(i64::MAX, |dur| row.ts.saturating_add(dur));
            end.min(to).saturating_sub(row.ts.max(from)).saturating_mul(2) >= to - from
        };
        self.throttles.get(&cpu).is_some_and(|rows| rows.iter().copied().any(|row| covers(&row)))
    }
}

/// Is it no loss, but the time before a guest was recorded?
pub(crate) fn is_late(cause: &str) -> bool {
    cause == "guest_not_started"
}

/// Is the CPU in a list such as `0-3,8`?
fn is_in_list(list: &str, cpu: CpuId) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.trim().parse().ok().zip(last.trim().parse().ok());
        bounds.is_some_and(|(first, last): (u32, u32)| (first..=last).contains(&cpu.0))
    })
}
