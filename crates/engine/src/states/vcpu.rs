//! Where a KVM vCPU is: its thread's place in the host's scheduler, times what KVM does in it.
//!
//! ```text
//!            kvm_entry              kvm_exit                kvm_userspace_exit
//!   Exit ───────────────▶ Guest ───────────────▶ Exit(reason) ─────────────────▶ User(reason)
//!     ▲                                             │                               │
//!     └────────────────────── (next kvm_entry) ─────┴───────────────────────────────┘
//! ```
//!
//! On a CPU the KVM mode is the state; off the CPU the scheduler's place is: asleep after a halt
//! exit is `halted`, asleep otherwise `blocked`, runnable is `preempted` or, after a wakeup,
//! `waking`.
//!
//! Facts about kernels this rests on (Linux 6.1, `virt/kvm/kvm_main.c` and `arch/x86/kvm`):
//! - `kvm_exit` may come late: SVM traces it in `svm_handle_exit`, after preemption was enabled
//!   again. A thread switched out "in guest mode" has therefore left the guest already, for a
//!   reason told only later: its mode becomes `Exit(None)` and the reason is filled in.
//! - `kvm_vcpu_wakeup` is traced at the end of `kvm_vcpu_halt` with the whole time from its start
//!   (`ns`), polling included, and whether it slept (`waited`). It comes after the switch-in, so
//!   segments are kept `pending` until the next entry and are named by it.
//!
//! **Boundary state.** The thread's place, the KVM mode, the open exit and the pending segments.
//! What the first event tells about the time before it is used only where it is certain: a
//! `kvm_exit` as the first event says `guest` since the streams are complete, provided that this
//! recording has `kvm_entry` at all, which the next entry proves.

use super::{
    Env,
    exits::OpenExit,
    thread::{Deduced, Place},
};
use serde::{Deserialize, Serialize};
use transect_model::{
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
    state::{CounterName, EffectiveState, VcpuState},
    table::{Row, VcpuStateRow},
};

/// Segments kept back at most; a vCPU that switches this often without an entry is shown as is.
const MAX_PENDING: usize = 1024;

/// What KVM does in the vCPU's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Mode {
    Unknown,
    Guest,
    /// The reason is none while `kvm_exit` is still to come.
    Exit(Option<ExitReason>),
    User(Option<ExitReason>),
}

impl Mode {
    fn reason(self) -> Option<ExitReason> {
        match self {
            Mode::Exit(reason) | Mode::User(reason) => reason,
            Mode::Unknown | Mode::Guest => None,
        }
    }
}

/// What `kvm_vcpu_wakeup` says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct HaltEnd {
    /// How long the halt took; none if trace time is in other units than the kernel's nanoseconds.
    pub(crate) ns: Option<u64>,
    /// Did it sleep (else it only polled)?
    pub(crate) waited: bool,
}

/// Who has the CPU a vCPU waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct By {
    pub(crate) machine: Option<MachineId>,
    pub(crate) tid: Option<Tid>,
}

/// Everything a row says but its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) state: VcpuState,
    pub(crate) cpu: Option<CpuId>,
    pub(crate) reason: Option<ExitReason>,
    pub(crate) by: By,
}

impl Key {
    pub(crate) const UNKNOWN: Key = Key {
        state: VcpuState::Unknown,
        cpu: None,
        reason: None,
        by: By { machine: None, tid: None },
    };

    fn of(place: Place, mode: Mode, by: By) -> Key {
        let (state, reason) = match (place, mode) {
            (Place::Unknown, _) => (VcpuState::Unknown, None),
            (Place::Gone, _) => (VcpuState::Offline, None),
            (Place::OnCpu(_), Mode::Unknown) => (VcpuState::Running, None),
            (Place::OnCpu(_), Mode::Guest) => (VcpuState::Guest, None),
            (Place::OnCpu(_), Mode::Exit(reason)) => (VcpuState::Exit, reason),
            (Place::OnCpu(_), Mode::User(reason)) => (VcpuState::User, reason),
            (Place::Asleep { .. }, Mode::Exit(Some(reason))) if reason.is_halt() => {
                (VcpuState::Halted, Some(reason))
            }
            (Place::Asleep { .. }, _) => (VcpuState::Blocked, None),
            (Place::Waiting { woken: true, .. }, _) => (VcpuState::Waking, None),
            (Place::Waiting { woken: false, .. }, _) => (VcpuState::Preempted, None),
        };
        let by = if matches!(place, Place::Waiting { .. }) { by } else { By::default() };
        Key { state, cpu: place.cpu(), reason, by }
    }
}

impl Key {
    /// What is certain about it, given what the machine's sources record.
    fn certain(self, env: &Env<'_>) -> Key {
        use VcpuState::{Exit, Guest, User};
        if !env.deduce {
            // It may be switched out at any time but in guest mode.
            let lasts = self.state == Guest && env.seen_exit && !env.partial_exits;
            return if lasts { Key { cpu: None, ..self } } else { Key::UNKNOWN };
        }
        let lasts = match self.state {
            Guest => env.seen_exit && !env.partial_exits,
            // It has left the guest, and its `kvm_exit` is still to come.
            Exit if self.reason.is_none() => env.seen_exit && !env.partial_exits,
            Exit | User => env.seen_entry && !env.partial_kvm,
            _ => true,
        };
        if lasts { self } else { Key { state: VcpuState::Running, reason: None, ..self } }
    }
}

/// A closed interval that later events may still rename.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) key: Key,
}

/// One vCPU between two events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Vcpu {
    pub(crate) index: usize,
    pub(crate) machine: MachineId,
    pub(crate) id: VcpuId,
    pub(crate) vmm_tid: Option<Tid>,
    pub(crate) place: Place,
    mode: Mode,
    key: Key,
    pub(crate) since: i64,
    /// The current interval began where the streams did, not at an event.
    from_head: bool,
    /// A pending `guest` segment rests on this recording having `kvm_entry`; this is its start.
    guess: Option<i64>,
    pending: Vec<Segment>,
    exit: Option<OpenExit>,
    /// Time on CPUs so far, ns, without the current stretch.
    on_cpu_ns: i64,
    on_since: Option<i64>,
    /// When it was last seen to be switched in; none if the switch was not seen.
    slice_since: Option<i64>,
    /// The halt-polling window of the current or next halt, where `kvm_halt_poll_ns` told it.
    poll_window_ns: Option<u32>,
    /// The window of the halts after that.
    next_poll_window_ns: Option<u32>,
    /// Does the counters table's last row about the window still hold?
    poll_told: bool,
}

impl Vcpu {
    pub(crate) fn new(
        index: usize,
        machine: MachineId,
        id: VcpuId,
        vmm_tid: Option<Tid>,
        start: i64,
    ) -> Self {
        Vcpu {
            index,
            machine,
            id,
            vmm_tid,
            place: Place::Unknown,
            mode: Mode::Unknown,
            key: Key::UNKNOWN,
            since: start,
            from_head: false,
            guess: None,
            pending: Vec::new(),
            exit: None,
            on_cpu_ns: 0,
            on_since: None,
            slice_since: None,
            poll_window_ns: None,
            next_poll_window_ns: None,
            poll_told: false,
        }
    }

    /// The thread's place changes at `t`.
    pub(crate) fn moved(
        &mut self,
        t: i64,
        deduced: Option<Deduced>,
        new: Place,
        by: By,
        env: &mut Env<'_>,
    ) {
        // A thread that waited may have been preempted or woken before.
        let certain = |deduced: &Deduced| !matches!(deduced.told, Place::Waiting { .. });
        let deduced = deduced.filter(|_| self.place == Place::Unknown).filter(certain);
        if let Some(Deduced { from, told }) = deduced {
            self.head(from, told, env);
        }
        if let Some(since) = self.on_since.take() {
            self.on_cpu_ns += t - since;
        }
        if matches!(self.place, Place::OnCpu(_)) && self.place != new {
            self.left_cpu(t, new, env);
        }
        if matches!((self.place, new), (Place::Asleep { .. }, Place::OnCpu(_))) {
            // The waking was not recorded: it slept and then waited.
            self.key = Key::UNKNOWN;
        }
        if matches!(new, Place::OnCpu(_)) {
            self.on_since = Some(t);
        }
        self.place = new;
        self.retune(t, Key::of(new, self.mode, by), env);
    }

    /// A vCPU found in the middle of the recording: its thread was in `place` since `from`, which
    /// is where the streams began if `head`.
    pub(crate) fn adopt(&mut self, from: i64, place: Place, head: bool, env: &mut Env<'_>) {
        self.head(from, place, env);
        self.from_head &= head;
    }

    /// What the first event tells about the time since `from`.
    fn head(&mut self, from: i64, told: Place, env: &mut Env<'_>) {
        self.retune(from, Key::of(told, self.mode, By::default()), env);
        self.place = told;
        self.from_head = matches!(told, Place::OnCpu(_));
        self.on_since = self.from_head.then_some(self.since);
    }

    fn left_cpu(&mut self, t: i64, new: Place, env: &mut Env<'_>) {
        if self.mode == Mode::Guest {
            env.check.guest_mode_ends(self.index, t);
            self.mode = Mode::Exit(None);
        }
        if let Some(since) = self.slice_since.take()
            && matches!(new, Place::Waiting { woken: false, .. })
        {
            env.windows.slice(self.index, t, t - since);
        }
    }

    /// Its thread was seen to be switched in: an execution, and a slice begins.
    pub(crate) fn switched_in(&mut self, t: i64, env: &mut Env<'_>) {
        self.slice_since = Some(t);
        env.windows.execution(self.index, t);
    }

    /// Shows the state that could not be shown before the scheduler's first event.
    pub(crate) fn show(&mut self, t: i64, env: &mut Env<'_>) {
        if matches!(self.place, Place::OnCpu(_)) {
            self.retune(t, Key::of(self.place, self.mode, By::default()), env);
        }
    }

    /// Who has the CPU it waits for has changed.
    pub(crate) fn occupant_changed(&mut self, t: i64, by: By, env: &mut Env<'_>) {
        if matches!(self.place, Place::Waiting { .. }) {
            self.retune(t, Key::of(self.place, self.mode, by), env);
        }
    }

    /// Events are missing from `t` on, or it is not known any more what they would mean.
    pub(crate) fn lose(&mut self, t: i64, env: &mut Env<'_>) {
        self.forget_sleep(env);
        if let Some(since) = self.on_since.take() {
            self.on_cpu_ns += t - since;
        }
        self.place = Place::Unknown;
        self.mode = Mode::Unknown;
        self.slice_since = None;
        self.forget_halt();
        self.retune(t, Key::UNKNOWN, env);
        self.close_exit(None, env);
        env.check.interrupted(self.index);
        self.flush(env);
        (self.poll_window_ns, self.next_poll_window_ns) = (None, None);
        if std::mem::take(&mut self.poll_told) {
            self.tell_poll(t, None, env);
        }
    }

    /// Makes the thread known to be on `cpu` without the scheduler's help: for recordings without
    /// `sched_switch`, where a KVM event is the only sign of where the thread is.
    pub(crate) fn seen_on(&mut self, t: i64, cpu: CpuId, known_from: i64, env: &mut Env<'_>) {
        if self.place == Place::Unknown {
            self.cut(known_from.min(t), env);
            self.from_head = true;
            self.on_since = Some(t);
        }
        self.place = Place::OnCpu(cpu);
    }

    /// `kvm_entry`.
    pub(crate) fn entry(&mut self, t: i64, env: &mut Env<'_>) {
        self.guess = None;
        if self.mode == Mode::Guest {
            // An exit was not recorded: it is not known how long the guest ran.
            self.forget_mode(env);
        }
        if let (Mode::Exit(Some(reason)), VcpuState::Running) = (self.mode, self.key.state)
            && self.exit.is_some_and(|exit| exit.ts == self.since)
            && !env.partial_kvm
        {
            // The first entry of all: until now nothing proved that entries are recorded.
            self.key = Key { state: VcpuState::Exit, reason: Some(reason), ..self.key };
        }
        self.mode = Mode::Guest;
        if !env.seen_halt_end {
            self.forget_halt();
        }
        if !env.seen_exit {
            // The first exit will show that it is in guest mode from here on.
            self.cut(t, env);
        }
        self.retune(t, Key::of(self.place, self.mode, By::default()), env);
        // Without the scheduler's events it may have been on the CPU whose events are missing.
        let is_next = env.deduce || self.exit.is_none_or(|exit| exit.ts >= env.hidden_until);
        self.close_exit(is_next.then_some(t), env);
        env.check.guest_mode_begins(self.index, t);
        self.flush(env);
    }

    /// `kvm_exit`, the first event of the CPU since the vCPU is where it is if `is_first`.
    pub(crate) fn exit(
        &mut self,
        t: i64,
        is_first: bool,
        reason: ExitReason,
        rip: u64,
        env: &mut Env<'_>,
    ) {
        env.windows.exit(self.index, t);
        match self.mode {
            Mode::Guest => {
                env.check.guest_mode_ends(self.index, t);
                // VMX traces the exit with preemption off (vmx_vcpu_run), others may do so later:
                // without the scheduler's events the guest may have been left long before.
                if !env.deduce && (reason.isa != Isa::Vmx || self.since < env.hidden_until) {
                    self.key = Key::UNKNOWN;
                } else if self.key.state == VcpuState::Running && !env.partial_exits {
                    // The first exit of all: until now nothing proved that exits are recorded.
                    self.key.state = VcpuState::Guest;
                }
            }
            Mode::Exit(None) => {
                self.fill_reason(reason);
                if self.key.state == VcpuState::Running && !env.partial_exits {
                    // As above; it had left the guest when it was switched out.
                    self.key = Key { state: VcpuState::Exit, reason: Some(reason), ..self.key };
                }
            }
            // Where the exit is traced late, an event of the host before it shows that it had left the guest.
            Mode::Unknown if self.from_head && is_first => {
                let key = Key { state: VcpuState::Guest, ..self.key };
                self.key = key.certain(env);
                self.guess = Some(self.since);
            }
            // Switched in, then an exit without an entry: it had left the guest before.
            Mode::Unknown
                if self.key.state == VcpuState::Running
                    && self.slice_since == Some(self.since)
                    && env.seen_entry
                    && !env.partial_exits =>
            {
                self.key = Key { state: VcpuState::Exit, reason: Some(reason), ..self.key };
            }
            Mode::Unknown => {}
            Mode::Exit(Some(_)) | Mode::User(_) => self.missed_entry(env),
        }
        if !env.seen_entry {
            // The first entry will show that it is handled from here on.
            self.cut(t, env);
        }
        self.mode = Mode::Exit(Some(reason));
        self.retune(t, Key::of(self.place, self.mode, By::default()), env);
        self.close_exit(None, env);
        self.exit = Some(OpenExit {
            ts: t,
            reason,
            rip,
            to_user: false,
            detail: None,
            on_cpu_ns: self.on_cpu_at(t),
        });
    }

    /// `kvm_userspace_exit`.
    pub(crate) fn userspace_exit(&mut self, t: i64, env: &mut Env<'_>) {
        match self.mode {
            Mode::Guest => self.forget_mode(env),
            Mode::Exit(_) => {
                if let Some(exit) = &mut self.exit {
                    exit.to_user = true;
                }
            }
            Mode::Unknown | Mode::User(_) => {}
        }
        self.mode = Mode::User(self.mode.reason());
        self.retune(t, Key::of(self.place, self.mode, By::default()), env);
    }

    /// `kvm_vcpu_wakeup`: until `t` the thread was in `kvm_vcpu_halt`.
    pub(crate) fn wakeup(&mut self, t: i64, halt: HaltEnd, env: &mut Env<'_>) {
        self.cut(t, env);
        let reason = self.exit.map(|exit| exit.reason);
        let begun = halt.ns.and_then(|ns| t.checked_sub(i64::try_from(ns).ok()?));
        // Without the duration at least the sleep since the exit is known for what it was.
        let from = begun.or(self.exit.map(|exit| exit.ts)).unwrap_or(i64::MIN);
        let first = |states: &[VcpuState]| {
            self.pending.iter().position(|s| s.to > from && states.contains(&s.key.state))
        };
        let slept = first(&[VcpuState::Halted, VcpuState::Blocked]);
        // It slept, or was woken on its way to sleep: the waking is among what is missing.
        let left = slept.or_else(|| first(&[VcpuState::Unknown]));
        for segment in &mut self.pending {
            if halt.waited && segment.to > from && segment.key.state == VcpuState::Blocked {
                segment.key = Key { state: VcpuState::Halted, reason, ..segment.key };
            }
        }
        let window_ns = std::mem::replace(&mut self.poll_window_ns, self.next_poll_window_ns);
        let Some(begun) = begun else { return };
        let window_ns = window_ns.filter(|_| slept.is_some());
        let (poll_end, state) = match (halt.waited, left, window_ns) {
            (false, ..) => (t, VcpuState::HaltPoll),
            // It slept: what came before is polling as far as the window reaches.
            (true, Some(at), Some(window_ns)) => {
                let window_end = begun.checked_add(i64::from(window_ns)).unwrap_or(begun);
                (self.pending[at].from.min(window_end), VcpuState::HaltPoll)
            }
            (true, Some(at), None) => (self.pending[at].from, VcpuState::Running),
            (true, None, _) => (begun, VcpuState::HaltPoll),
        };
        self.rename(begun, poll_end, state);
    }

    /// `kvm_halt_poll_ns`: at the end of a halt that polled for `old_ns` at most, before its
    /// `kvm_vcpu_wakeup` (`kvm_vcpu_halt` in virt/kvm/kvm_main.c).
    pub(crate) fn poll_window(&mut self, t: i64, new_ns: u32, old_ns: u32, env: &mut Env<'_>) {
        self.poll_window_ns = Some(old_ns);
        if self.next_poll_window_ns.replace(new_ns) != Some(new_ns) || !self.poll_told {
            self.poll_told = true;
            self.tell_poll(t, Some(i64::from(new_ns)), env);
        }
    }

    fn tell_poll(&self, t: i64, value: Option<i64>, env: &mut Env<'_>) {
        let of = Some((self.machine, self.id));
        env.counter(t, CounterName::HaltPollNs, of, None, value);
    }

    /// A hypercall's number or a port, if it is the open exit's first.
    pub(crate) fn detail(&mut self, detail: u64) {
        if let Some(exit) = &mut self.exit {
            exit.detail.get_or_insert(detail);
        }
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, end: i64, env: &mut Env<'_>) {
        self.forget_halt();
        self.forget_sleep(env);
        self.cut(end, env);
        self.close_exit(None, env);
        self.flush(env);
    }

    /// Nothing shows when a sleep ends, if wakings are not recorded.
    fn forget_sleep(&mut self, env: &Env<'_>) {
        if !env.deduce {
            // Only an exit shows that it was in guest mode until then.
            self.key = Key::UNKNOWN;
        }
        if matches!(self.place, Place::Asleep { .. }) && !env.wakings {
            self.key = Key::UNKNOWN;
        }
    }

    /// The end of a halt will not be seen, so nothing will tell polling from the rest of the exit.
    fn forget_halt(&mut self) {
        let current = std::iter::once(&mut self.key);
        for key in self.pending.iter_mut().map(|segment| &mut segment.key).chain(current) {
            let is_halt = key.reason.is_some_and(ExitReason::is_halt);
            if key.state == VcpuState::Exit && is_halt {
                *key = Key { state: VcpuState::Running, reason: None, ..*key };
            }
        }
    }

    fn on_cpu_at(&self, t: i64) -> i64 {
        self.on_cpu_ns + self.on_since.map_or(0, |since| t - since)
    }

    fn close_exit(&mut self, entry: Option<i64>, env: &mut Env<'_>) {
        if let Some(exit) = self.exit.take() {
            let entry = entry.map(|t| (t, self.on_cpu_at(t)));
            exit.close(self.machine, self.id, entry, env);
        }
    }

    /// The exit that ended guest mode before a switch-out now has its reason.
    fn fill_reason(&mut self, reason: ExitReason) {
        let current = std::iter::once(&mut self.key);
        for key in self.pending.iter_mut().map(|s| &mut s.key).chain(current) {
            if key.state == VcpuState::Exit && key.reason.is_none() {
                key.reason = Some(reason);
            }
        }
    }

    /// A second exit without an entry: guest mode lay between, it is not known where.
    fn missed_entry(&mut self, env: &Env<'_>) {
        self.reject_guess(env);
        if let Some(exit) = self.exit {
            self.rename(exit.ts, self.since, VcpuState::Running);
        }
        self.forget_mode(env);
    }

    /// No entry proves the guess about the time before the first exit.
    fn reject_guess(&mut self, env: &Env<'_>) {
        let Some(from) = self.guess.take() else { return };
        for segment in &mut self.pending {
            if segment.from == from && segment.key.state == VcpuState::Guest {
                segment.key = Key { state: VcpuState::Running, ..segment.key }.certain(env);
            }
        }
    }

    /// It is on a CPU, and its mode turns out not to be known.
    fn forget_mode(&mut self, env: &Env<'_>) {
        self.key = Key { state: VcpuState::Running, reason: None, ..self.key }.certain(env);
    }

    /// Renames pending time in [from, to) that was on a CPU and not in guest mode.
    fn rename(&mut self, from: i64, to: i64, state: VcpuState) {
        let mut at = 0;
        while at < self.pending.len() {
            let segment = self.pending[at];
            let (a, b) = (segment.from.max(from), segment.to.min(to));
            let on_cpu =
                matches!(segment.key.state, VcpuState::Exit | VcpuState::User | VcpuState::Running);
            if a >= b || !on_cpu {
                at += 1;
                continue;
            }
            let reason = segment.key.reason.filter(|_| state != VcpuState::Running);
            let key = Key { state, reason, ..segment.key };
            let renamed = Segment { from: a, to: b, key };
            let before = Segment { to: a, ..segment };
            let after = Segment { from: b, ..segment };
            let parts = [before, renamed, after];
            let kept = parts.iter().copied().filter(|s| s.from < s.to);
            let count = kept.clone().count();
            self.pending.splice(at..=at, kept);
            at += count;
        }
    }

    /// From `t` on the state is `key`, as far as that is certain.
    fn retune(&mut self, t: i64, key: Key, env: &mut Env<'_>) {
        let key = key.certain(env);
        if key != self.key {
            self.cut(t, env);
            self.key = key;
            self.from_head = false;
        }
    }

    /// Closes the current interval at `t`; another with the same key begins.
    fn cut(&mut self, t: i64, env: &mut Env<'_>) {
        if t <= self.since {
            return;
        }
        if self.pending.len() >= MAX_PENDING {
            self.flush(env);
        }
        self.pending.push(Segment { from: self.since, to: t, key: self.key });
        self.since = t;
        self.from_head = false;
    }

    /// Nothing can rename the pending segments any more: emits them.
    fn flush(&mut self, env: &mut Env<'_>) {
        if !env.seen_entry {
            self.reject_guess(env);
        }
        let mut last: Option<Segment> = None;
        for segment in self.pending.drain(..) {
            match &mut last {
                Some(last) if last.key == segment.key && last.to == segment.from => {
                    last.to = segment.to;
                }
                _ => {
                    if let Some(done) = last.replace(segment) {
                        emit(
                            self.index,
                            self.machine,
                            self.id,
                            &done,
                            EffectiveState::Unknown,
                            env,
                        );
                    }
                }
            }
        }
        if let Some(done) = &last {
            emit(self.index, self.machine, self.id, done, EffectiveState::Unknown, env);
        }
    }
}

/// Passes a finished interval on. `running` is what a guest's thread effectively does while its vCPU is
/// [`VcpuState::Running`]: KVM may be handling an exit, where its events do not say.
pub(crate) fn emit(
    index: usize,
    machine_id: MachineId,
    vcpu: VcpuId,
    segment: &Segment,
    running: EffectiveState,
    env: &mut Env<'_>,
) {
    let from = segment.from.max(env.start);
    if segment.to <= from {
        return;
    }
    let Key { state, cpu, reason, by } = segment.key;
    if env.wants.windows {
        env.windows.vcpu(index, state, from, segment.to, env.sink);
    }
    let effective = match state {
        VcpuState::Running => running,
        state => state.into(),
    };
    env.joins.vcpu_state(index, effective, from, segment.to, env.sink);
    if !env.wants.vcpu_states {
        return;
    }
    env.sink.row(Row::VcpuState(VcpuStateRow {
        ts: from,
        dur: segment.to - from,
        machine_id,
        vcpu,
        cpu,
        state,
        reason,
        by_machine_id: by.machine,
        by_tid: by.tid,
    }));
}
