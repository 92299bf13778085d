//! The story of one CPU: who gets it, and what happens while they have it.

use super::planned::Planned;
use crate::stream::{EventStream, StreamItem};
use std::collections::VecDeque;
use transect_model::{
    event::{Access, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::Context,
    time::Timestamp,
};

/// SVM exit codes (arch/x86/include/uapi/asm/svm.h) and how often of 100 they come.
const EXITS: [(u32, u64); 5] =
    [(SVM_MSR, 35), (SVM_NPF, 25), (SVM_INTR, 20), (SVM_IO, 12), (SVM_HYPERCALL, 8)];
const SVM_INTR: u32 = 0x60;
const SVM_HLT: u32 = 0x78;
const SVM_IO: u32 = 0x7b;
const SVM_MSR: u32 = 0x7c;
const SVM_HYPERCALL: u32 = 0x81;
const SVM_NPF: u32 = 0x400;

/// `KVM_EXIT_IO`: the reason user space sees.
const KVM_EXIT_IO: u32 = 2;
/// Threads on a CPU's run queue at most: however many VMs there are, a usable host's are short.
const MAX_WAITING: usize = 4;
const TIMER_SOFTIRQ: u32 = 1;
const DEVICE_IRQ: i32 = 24;

/// Something of ordinary threads, and of vCPU threads.
#[derive(Clone, Debug, Default)]
struct ByKind<T> {
    tasks: T,
    vcpus: T,
}

impl<T> ByKind<T> {
    fn of(&mut self, thread: Planned) -> &mut T {
        if thread.vcpu.is_some() { &mut self.vcpus } else { &mut self.tasks }
    }
}

/// The events of one CPU, made as they are asked for.
#[derive(Clone, Debug)]
pub struct Story {
    random: Random,
    cpu: CpuId,
    threads: Vec<Planned>,
    /// Numbers of the threads that wait for the CPU, and of those that sleep.
    runnable: VecDeque<usize>,
    asleep: ByKind<Vec<usize>>,
    current: Option<usize>,
    /// Events made so far while the current thread was of this kind.
    events: ByKind<u64>,
    now_ns: u64,
    made: VecDeque<StreamItem>,
    left: u64,
}

impl Story {
    pub(super) fn new(seed: u64, cpu: u32, threads: Vec<Planned>, events: u64) -> Self {
        let mut asleep = ByKind::<Vec<usize>>::default();
        threads.iter().enumerate().for_each(|(at, thread)| asleep.of(*thread).push(at));
        Story {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(cpu) << 32)),
            cpu: CpuId(cpu),
            runnable: VecDeque::new(),
            asleep,
            threads,
            current: None,
            events: ByKind::default(),
            now_ns: 1_000_000_000,
            made: VecDeque::new(),
            left: events,
        }
    }

    fn tid(&self, thread: Option<usize>) -> Tid {
        thread.map_or(Tid::IDLE, |at| self.threads[at].tid)
    }

    /// Something happens `after_ns` (on average) after the event before.
    fn event(&mut self, after_ns: u64, event: CoreEvent) {
        self.now_ns += 100 + self.random.below(2 * after_ns);
        let (ts, tid) = (Timestamp::new(self.now_ns), self.tid(self.current));
        if let Some(at) = self.current {
            *self.events.of(self.threads[at]) += 1;
        }
        self.made.push_back(StreamItem::Event { ts, tid, quiet: 0, event });
    }

    /// Somebody's turn, and the switch to the next one.
    fn turn(&mut self) {
        match self.current.map(|at| self.threads[at].vcpu) {
            None => self.idle(),
            Some(None) => self.task(),
            Some(Some((_, vcpu))) => self.guest(VcpuId(vcpu)),
        }
    }

    fn idle(&mut self) {
        self.now_ns += self.random.below(200_000);
        self.interrupt();
        self.wake();
        self.switch(false);
    }

    /// A thread of the host: some calls, perhaps it wakes another, then it sleeps or has to go.
    fn task(&mut self) {
        for _ in 0..1 + self.random.below(8) {
            let nr = [0, 1, 7, 39, 202, 232][self.random.index(6)];
            self.event(3_000, CoreEvent::SyscallEnter { nr });
            if self.random.chance(20) {
                self.wake();
            }
            let ret = self.random.below(512).cast_signed();
            self.event(800, CoreEvent::SyscallExit { nr, ret });
        }
        if self.random.chance(15) {
            self.interrupt();
        }
        let preempted = self.random.chance(20);
        self.switch(preempted);
    }

    /// A vCPU: in and out of the guest, until it halts or is preempted.
    fn guest(&mut self, vcpu: VcpuId) {
        for _ in 0..1 + self.random.below(30) {
            self.event(900, CoreEvent::KvmEntry { vcpu: Some(vcpu), rip: None });
            let reason = self.reason();
            self.exit(vcpu, reason);
            match reason {
                SVM_INTR => self.interrupt(),
                SVM_HYPERCALL => {
                    let nr = self.random.below(12);
                    self.event(300, CoreEvent::KvmHypercall { nr, args: [0; 4] });
                }
                SVM_IO => self.port(),
                _ => {}
            }
            if self.random.chance(5) {
                self.wake();
            }
        }
        if self.random.chance(25) {
            self.event(900, CoreEvent::KvmEntry { vcpu: Some(vcpu), rip: None });
            self.exit(vcpu, SVM_INTR);
            self.interrupt();
            self.switch(true);
        } else {
            self.event(900, CoreEvent::KvmEntry { vcpu: Some(vcpu), rip: None });
            self.exit(vcpu, SVM_HLT);
            self.switch(false);
        }
    }

    fn reason(&mut self) -> u32 {
        let mut at = self.random.below(100);
        for (reason, share) in EXITS {
            if at < share {
                return reason;
            }
            at -= share;
        }
        SVM_INTR
    }

    fn exit(&mut self, vcpu: VcpuId, code: u32) {
        let rip = 0xffff_ffff_8100_0000 + self.random.below(4096) * 16;
        let reason = ExitReason { isa: Isa::Svm, code };
        let exit = CoreEvent::KvmExit { vcpu: Some(vcpu), reason, rip, info1: 0, info2: 0 };
        self.event(12_000, exit);
    }

    /// A port access: every other one goes to user space.
    fn port(&mut self) {
        let port = CoreEvent::KvmPio {
            access: Access::Write,
            port: 0x3f8,
            size: 1,
            count: 1,
            value: None,
        };
        self.event(400, port);
        if self.random.chance(50) {
            self.event(600, CoreEvent::KvmUserspaceExit { reason: KVM_EXIT_IO, errno: 0 });
        }
    }

    fn interrupt(&mut self) {
        if self.random.chance(40) {
            self.event(200, CoreEvent::IrqEntry { irq: DEVICE_IRQ, name: Comm::default() });
            self.event(900, CoreEvent::IrqExit { irq: DEVICE_IRQ, handled: true });
        }
        self.event(200, CoreEvent::SoftirqEntry { vector: TIMER_SOFTIRQ });
        if self.random.chance(50) {
            self.wake();
        }
        self.event(700, CoreEvent::SoftirqExit { vector: TIMER_SOFTIRQ });
    }

    /// Wakes a sleeping thread, unless enough of them wait already: one of the kind that has made
    /// fewer events, so that however many VMs there are, half of the events are theirs.
    fn wake(&mut self) {
        let ByKind { tasks, vcpus } = &mut self.asleep;
        let vcpus_first = self.events.vcpus <= self.events.tasks;
        let (first, second) = if vcpus_first { (vcpus, tasks) } else { (tasks, vcpus) };
        let asleep = if first.is_empty() { second } else { first };
        if asleep.is_empty() || self.runnable.len() >= MAX_WAITING {
            return;
        }
        let at = self.random.index(asleep.len());
        let thread = asleep.swap_remove(at);
        let tid = self.threads[thread].tid;
        let waking = CoreEvent::SchedWaking {
            tid,
            comm: Comm::default(),
            prio: 120,
            target_cpu: self.cpu,
            context: Some(Context::Task),
        };
        self.event(300, waking);
        self.runnable.push_back(thread);
    }

    fn switch(&mut self, preempted: bool) {
        let next = self.runnable.pop_front();
        if next.is_none() && (preempted || self.current.is_none()) {
            // Nobody else wants the CPU.
            return;
        }
        let runs_on = preempted || self.current.is_none();
        let prev_state = PrevState(if runs_on { 0 } else { 1 });
        let switch = CoreEvent::SchedSwitch {
            prev: self.tid(self.current),
            prev_comm: Comm::default(),
            prev_prio: 120,
            prev_state,
            next: self.tid(next),
            next_comm: Comm::default(),
            next_prio: 120,
        };
        self.event(700, switch);
        match self.current {
            Some(thread) if preempted => self.runnable.push_back(thread),
            Some(thread) => self.asleep.of(self.threads[thread]).push(thread),
            None => {}
        }
        self.current = next;
        self.halt_ends();
    }

    /// A vCPU that halted says so when it has the CPU again. Here every vCPU that slept did halt.
    fn halt_ends(&mut self) {
        let vcpu = self.current.and_then(|at| self.threads[at].vcpu);
        if vcpu.is_some() && self.random.chance(60) {
            let ns = 1_000 + self.random.below(100_000);
            self.event(300, CoreEvent::KvmVcpuWakeup { ns, waited: true, valid: true });
        }
    }
}

impl EventStream for Story {
    fn next_item(&mut self) -> Option<StreamItem> {
        self.left = self.left.checked_sub(1)?;
        while self.made.is_empty() {
            self.turn();
        }
        self.made.pop_front()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, `end`.
    fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    fn chance(&mut self, of_100: u64) -> bool {
        self.below(100) < of_100
    }
}
