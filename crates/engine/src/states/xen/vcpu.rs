//! Where a Xen vCPU is: its runstate, refined by what Xen records of its guest's ways in and out.
//!
//! - **running** is `guest` and `exit` (with its reason) where the guest's VM entries and exits are
//!   recorded (HVM, PVH). Of a PV guest Xen records only the way in: `hypercall` and `trap` reach
//!   from that record to the last one that can only come from within it (a multicall's calls, the
//!   emulation of an exception, the vCPU's giving its pCPU up), and all the rest is `running`.
//! - **runnable** is `preempted` after running, else `waking`. Who was runnable when the records
//!   began counts as preempted. Whoever had the pCPU that it then got is whom it waited for
//!   (`history.rs`).
//! - **blocked** is `halted` if the guest did so because it had nothing to do (HLT, or `sched_op`
//!   block), else `blocked`; **offline** is `offline`.
//!
//! Facts this rests on (Xen 4.17, `xen/common/sched/core.c`): a switch writes `sched_switch`, then
//! the runstate changes of who leaves and who comes; a runstate change names the state before, so
//! the first one about a vCPU tells what it was in since records are complete. Only the pCPU a vCPU
//! runs on writes that it leaves; any may write that it wakes, or comes to run.
//!
//! **Boundary state.** The runstate, the open exit and the open way into Xen.

use crate::states::{
    Env,
    exits::OpenExit,
    vcpu::{By, Key, Segment, emit},
};
use serde::{Deserialize, Serialize};
use transect_model::{
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, VcpuId},
    state::{EffectiveState, VcpuState},
    xen::{Runstate, XenCall},
};

/// `__HYPERVISOR_sched_op`, and before it `sched_op_compat`.
const SCHED_OPS: [u32; 2] = [29, 6];
/// `SCHEDOP_block`.
const SCHEDOP_BLOCK: u32 = 1;

/// Where it is in Xen's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Not known; records are complete from this stamp on.
    Unknown { known_from: i64 },
    /// Known.
    In { runstate: Runstate, woken: bool },
}

impl Place {
    fn new(runstate: Runstate, woken: bool) -> Self {
        Place::In { runstate, woken: woken && runstate == Runstate::Runnable }
    }

    fn runstate(self) -> Option<Runstate> {
        match self {
            Place::Unknown { .. } => None,
            Place::In { runstate, .. } => Some(runstate),
        }
    }
}

/// What its guest does while it has a pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Mode {
    Untold,
    Guest,
    Exit(ExitReason),
}

/// A PV guest's way into Xen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WayIn {
    state: VcpuState,
    reason: ExitReason,
    at: i64,
    /// It was still in Xen then.
    proof: i64,
    /// It gives its pCPU up, so that it will be in Xen until it leaves it.
    gives_up: bool,
    /// It has nothing to do.
    halts: bool,
}

/// A change of runstate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The pCPU that recorded it.
    pub(crate) cpu: CpuId,
    pub(crate) old: Runstate,
    pub(crate) new: Runstate,
    /// Who takes its pCPU.
    pub(crate) by: By,
    /// Other pCPUs' records may be missing up to here.
    pub(crate) holes_until: i64,
}

/// What a change did to the vCPU's runstate, for its domain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// It was in this one before, since then: not known until now.
    pub(crate) learned: Option<(i64, Runstate)>,
    /// Something else was thought.
    pub(crate) contradicts: bool,
}

/// One vCPU between two records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Vcpu {
    pub(crate) index: usize,
    /// Place of its domain in the list of domains.
    pub(crate) domain: usize,
    machine: MachineId,
    id: VcpuId,
    place: Place,
    mode: Mode,
    /// The pCPU it is on or was last on.
    cpu: Option<CpuId>,
    key: Key,
    since: i64,
    way_in: Option<WayIn>,
    exit: Option<OpenExit>,
    /// Time on pCPUs so far, ns, without the current stretch.
    on_cpu_ns: i64,
    on_since: Option<i64>,
    /// Does its domain count it yet?
    pub(crate) counted: bool,
}

impl Vcpu {
    pub(crate) fn new(
        (index, domain): (usize, usize),
        machine: MachineId,
        id: VcpuId,
        start: i64,
        known_from: i64,
    ) -> Self {
        Vcpu {
            index,
            domain,
            machine,
            id,
            place: Place::Unknown { known_from },
            mode: Mode::Untold,
            cpu: None,
            key: Key::UNKNOWN,
            since: start,
            way_in: None,
            exit: None,
            on_cpu_ns: 0,
            on_since: None,
            counted: false,
        }
    }

    /// Its runstate, if known.
    pub(crate) fn runstate(&self) -> Option<Runstate> {
        self.place.runstate()
    }

    /// The pCPU it is on or was last on.
    pub(crate) fn cpu(&self) -> Option<CpuId> {
        self.cpu
    }

    /// Does it run on this pCPU?
    pub(crate) fn runs_on(&self, cpu: CpuId) -> bool {
        self.runstate() == Some(Runstate::Running) && self.cpu == Some(cpu)
    }

    /// `sched_runstate_change`.
    pub(crate) fn change(&mut self, t: i64, change: Change, env: &mut Env<'_>) -> Outcome {
        let Change { cpu, old, new, by, holes_until } = change;
        let outcome = self.was(t, cpu, old, env);
        if old == Runstate::Running {
            self.leaves(t, new, env);
        }
        self.place = match new {
            // Nobody else can tell that it leaves this pCPU again.
            Runstate::Running => Place::new(new, false),
            _ if holes_until > t => Place::Unknown { known_from: holes_until },
            _ => Place::new(new, old != Runstate::Running),
        };
        if new == Runstate::Running {
            self.cpu = Some(cpu);
            self.on_since = Some(t);
            env.check.guest_mode_begins(self.index, t);
        }
        if new == Runstate::Offline {
            self.close_exit(None, env);
        }
        let by = if new == Runstate::Runnable { by } else { By::default() };
        self.retune(t, self.key(by), env);
        if new == Runstate::Running {
            // What was before went to the pCPU it was on then.
            env.windows.vcpu_on(self.index, cpu);
            env.windows.execution(self.index, t);
        }
        if new != Runstate::Blocked {
            self.way_in = None;
        }
        outcome
    }

    /// Since when it waits for this pCPU, which it is about to get or was last on. A preempted vCPU that
    /// goes to another one waited behind who took its own.
    pub(crate) fn waits_for(&self, cpu: CpuId) -> Option<i64> {
        match self.place {
            Place::In { runstate: Runstate::Runnable, woken } => {
                (woken || self.cpu == Some(cpu)).then_some(self.since)
            }
            _ => None,
        }
    }

    /// Was its pCPU taken from it?
    pub(crate) fn is_preempted(&self) -> bool {
        self.place == Place::new(Runstate::Runnable, false)
    }

    /// Whom it waits for if the pCPU was this one's: where that is not known, who took its own.
    pub(crate) fn behind(&self, by: By) -> By {
        if by == By::default() { self.key.by } else { by }
    }

    /// Until `to` it waited behind `by`.
    pub(crate) fn waited_behind(&mut self, to: i64, by: By, env: &mut Env<'_>) {
        self.emit(to, Key { by, ..self.key }, env);
    }

    /// A record shows it to be running on this pCPU.
    pub(crate) fn runs(&mut self, t: i64, cpu: CpuId, env: &mut Env<'_>) -> Outcome {
        let known = self.runstate();
        let outcome = self.was(t, cpu, Runstate::Running, env);
        if known != Some(Runstate::Running) && outcome.learned.is_none() {
            self.place = Place::new(Runstate::Running, false);
            self.cpu = Some(cpu);
            self.on_since = Some(t);
            env.check.guest_mode_begins(self.index, t);
            self.retune(t, self.key(By::default()), env);
            env.windows.vcpu_on(self.index, cpu);
        }
        outcome
    }

    /// A record says what it has been until `t`.
    fn was(&mut self, t: i64, cpu: CpuId, told: Runstate, env: &mut Env<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        match self.place {
            Place::Unknown { known_from } if known_from <= t => {
                let from = known_from.max(self.since);
                self.place = Place::new(told, false);
                if told == Runstate::Running {
                    self.cpu = Some(cpu);
                    self.on_since = Some(from);
                    env.check.guest_mode_begins(self.index, from);
                }
                self.retune(from, self.key(By::default()), env);
                if told == Runstate::Running {
                    env.windows.vcpu_on(self.index, cpu);
                }
                outcome.learned = Some((from, told));
            }
            Place::In { runstate, .. } if runstate != told => {
                // It changed unseen, and nobody knows when.
                self.key = Key::UNKNOWN;
                self.mode = Mode::Untold;
                self.way_in = None;
                self.on_since = None;
                self.close_exit(None, env);
                env.check.interrupted(self.index);
                outcome.contradicts = true;
            }
            _ => {}
        }
        outcome
    }

    /// It leaves its pCPU.
    fn leaves(&mut self, t: i64, new: Runstate, env: &mut Env<'_>) {
        if let Some(since) = self.on_since.take() {
            self.on_cpu_ns += t - since;
        }
        env.check.guest_mode_ends(self.index, t);
        if self.mode == Mode::Guest {
            // Xen has it; an exit without a record.
            self.mode = Mode::Untold;
        }
        if let Some(way_in) = &mut self.way_in
            && (way_in.gives_up || new == Runstate::Blocked)
        {
            way_in.proof = t;
        }
    }

    /// Records are missing from `t` to `until` that may be about it.
    pub(crate) fn lose(&mut self, t: i64, until: i64, env: &mut Env<'_>) {
        if let Some(since) = self.on_since.take() {
            self.on_cpu_ns += t - since;
        }
        let until = match self.place {
            Place::Unknown { known_from } => known_from.max(until),
            Place::In { .. } => until,
        };
        self.place = Place::Unknown { known_from: until };
        self.mode = Mode::Untold;
        self.retune(t, Key::UNKNOWN, env);
        self.way_in = None;
        self.close_exit(None, env);
        env.check.interrupted(self.index);
    }

    /// Its domain is gone.
    pub(crate) fn remove(&mut self, t: i64, env: &mut Env<'_>) {
        if self.runstate() == Some(Runstate::Running) {
            self.leaves(t, Runstate::Offline, env);
        }
        self.place = Place::new(Runstate::Offline, false);
        self.mode = Mode::Untold;
        self.retune(t, self.key(By::default()), env);
        self.way_in = None;
        self.close_exit(None, env);
    }

    /// `hvm_vmentry`.
    pub(crate) fn entry(&mut self, t: i64, env: &mut Env<'_>) {
        self.mode = Mode::Guest;
        self.retune(t, self.key(By::default()), env);
        self.close_exit(Some(t), env);
    }

    /// `hvm_vmexit`.
    pub(crate) fn exit(&mut self, t: i64, reason: ExitReason, rip: u64, env: &mut Env<'_>) {
        env.windows.exit(self.index, t);
        self.mode = Mode::Exit(reason);
        self.retune(t, self.key(By::default()), env);
        self.close_exit(None, env);
        let on_cpu_ns = self.on_cpu_at(t);
        let (to_user, detail) = (false, None);
        self.exit = Some(OpenExit { ts: t, reason, rip, to_user, detail, on_cpu_ns });
    }

    /// The number of the hypercall that the open exit is for.
    pub(crate) fn detail(&mut self, detail: u64) {
        if let Some(exit) = &mut self.exit {
            exit.detail.get_or_insert(detail);
        }
    }

    /// `pv_hypercall_v2`.
    pub(crate) fn hypercall(&mut self, t: i64, call: XenCall, env: &mut Env<'_>) {
        let reason = ExitReason { isa: Isa::XenHypercall, code: call.op };
        let halts = SCHED_OPS.contains(&call.op) && call.cmd == Some(SCHEDOP_BLOCK);
        self.enters(t, VcpuState::Hypercall, reason, halts, env);
        self.told_once(t, reason, 0, call.cmd.map(u64::from), env);
    }

    /// `pv_trap`, `pv_page_fault`.
    pub(crate) fn trap(
        &mut self,
        t: i64,
        vector: u16,
        rip: u64,
        addr: Option<u64>,
        env: &mut Env<'_>,
    ) {
        let reason = ExitReason { isa: Isa::XenTrap, code: u32::from(vector) };
        self.enters(t, VcpuState::Trap, reason, false, env);
        self.told_once(t, reason, rip, addr, env);
    }

    /// A row about a way in whose end nobody tells.
    fn told_once(
        &self,
        ts: i64,
        reason: ExitReason,
        rip: u64,
        detail: Option<u64>,
        env: &mut Env<'_>,
    ) {
        env.windows.exit(self.index, ts);
        let exit = OpenExit { ts, reason, rip, to_user: false, detail, on_cpu_ns: 0 };
        exit.close(self.machine, self.id, None, env);
    }

    fn enters(
        &mut self,
        at: i64,
        state: VcpuState,
        reason: ExitReason,
        halts: bool,
        env: &mut Env<'_>,
    ) {
        self.settle(i64::MAX, env);
        self.way_in = Some(WayIn { state, reason, at, proof: at, gives_up: false, halts });
    }

    /// It is still where it went in: in a hypercall or, if `trap`, in the handling of an exception.
    pub(crate) fn still_in(&mut self, t: i64, trap: bool) {
        let state = if trap { VcpuState::Trap } else { VcpuState::Hypercall };
        if let Some(way_in) = self.way_in.as_mut().filter(|way_in| way_in.state == state) {
            way_in.proof = t;
        }
    }

    /// It gives its pCPU up of its own will.
    pub(crate) fn gives_up(&mut self, t: i64) {
        if let Some(way_in) = &mut self.way_in
            && way_in.state == VcpuState::Hypercall
        {
            way_in.proof = t;
            way_in.gives_up = true;
        }
    }

    /// Which hypercall it is in, as far as known.
    pub(crate) fn in_hypercall(&self) -> Option<u32> {
        self.way_in.filter(|w| w.state == VcpuState::Hypercall).map(|w| w.reason.code)
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, end: i64, env: &mut Env<'_>) {
        self.cut(end, env);
        self.close_exit(None, env);
    }

    fn on_cpu_at(&self, t: i64) -> i64 {
        self.on_cpu_ns + self.on_since.map_or(0, |since| t - since)
    }

    fn close_exit(&mut self, entry: Option<i64>, env: &mut Env<'_>) {
        if let Some(exit) = &self.exit {
            let entry = entry.map(|t| (t, self.on_cpu_at(t)));
            exit.close(self.machine, self.id, entry, env);
            self.exit = None;
        }
    }

    #[inline(always)]
    fn key(&self, by: By) -> Key {
        let Place::In { runstate, woken } = self.place else {
            return Key { cpu: self.cpu, ..Key::UNKNOWN };
        };
        let (state, reason) = match (runstate, self.mode) {
            (Runstate::Running, Mode::Untold) => (VcpuState::Running, None),
            (Runstate::Running, Mode::Guest) => (VcpuState::Guest, None),
            (Runstate::Running, Mode::Exit(reason)) => (VcpuState::Exit, Some(reason)),
            (Runstate::Runnable, _) if woken => (VcpuState::Waking, None),
            (Runstate::Runnable, _) => (VcpuState::Preempted, None),
            (Runstate::Blocked, Mode::Exit(reason)) if reason.is_halt() => {
                (VcpuState::Halted, Some(reason))
            }
            (Runstate::Blocked, _) => match self.way_in.filter(|way_in| way_in.halts) {
                Some(way_in) => (VcpuState::Halted, Some(way_in.reason)),
                None => (VcpuState::Blocked, None),
            },
            (Runstate::Offline, _) => (VcpuState::Offline, None),
        };
        Key { state, cpu: self.cpu, reason, by }
    }

    /// From `t` on the state is `key`. To be inlined: a key is compared and stored part by part, and
    /// nowhere else put together.
    #[inline(always)]
    fn retune(&mut self, t: i64, key: Key, env: &mut Env<'_>) {
        if key != self.key {
            self.cut(t, env);
            self.key = key;
        }
    }

    /// Closes the current interval at `t`.
    fn cut(&mut self, t: i64, env: &mut Env<'_>) {
        if self.way_in.is_some() {
            self.settle(t, env);
        }
        self.emit(t, self.key, env);
    }

    /// Emits the current interval up to the last proof that the vCPU was in Xen, if there is one.
    fn settle(&mut self, t: i64, env: &mut Env<'_>) {
        let Some(way_in) = self.way_in else { return };
        let to = way_in.proof.min(t);
        if self.key.state == VcpuState::Running && way_in.at < to && self.since < to {
            self.emit(way_in.at, self.key, env);
            let key = Key { state: way_in.state, reason: Some(way_in.reason), ..self.key };
            self.emit(to, key, env);
        }
    }

    fn emit(&mut self, to: i64, key: Key, env: &mut Env<'_>) {
        if to > self.since {
            let segment = Segment { from: self.since, to, key };
            emit(self.index, self.machine, self.id, &segment, EffectiveState::Running, env);
            self.since = to;
        }
    }
}
