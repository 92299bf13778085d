//! Simulated activity beside the scheduler: KVM, system calls, work items, block requests, packets.

use super::{
    simulate::{Pick, Simulator},
    system::{HOST, Kvm, Phase, Thread, TrueVcpuState},
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, CoreEvent},
    exit::{ExitReason, Isa},
    ids::{MachineId, VcpuId},
};

/// Exit reasons of SVM (arch/x86/include/uapi/asm/svm.h).
const HLT: u64 = 0x78;
const IO: u64 = 0x7b;
const HYPERCALL: u64 = 0x81;
const REASONS: [u64; 5] = [0x60, IO, HYPERCALL, 0x7c, 0x400];

/// Sectors that requests are made for; a sector has one open request at most.
const SECTORS: u64 = 4;

/// Work items; one is queued once until it begins.
const WORKS: std::ops::Range<u64> = 0x1000..0x1002;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    OtherKind,
    EnterSyscall,
    LeaveSyscall,
    RaiseSoftirq,
    QueueWork(u64),
    StartWork,
    EndWork,
    InsertRequest,
    IssueNewRequest,
    IssueRequest(usize),
    CompleteRequest(usize),
    SendPacket,
    ReceivePacket,
    EnterGuest,
    TraceLateExit,
    LeaveToUser,
    ReportDetail,
    EndHalt,
    ChangePollWindow,
}

fn reason_from(code: u64) -> ExitReason {
    ExitReason { isa: Isa::Svm, code: code as u32 }
}

impl Simulator {
    /// May the running thread go to sleep here?
    pub fn can_sleep(&self, thread: &Thread) -> bool {
        match thread.kvm {
            Kvm::User => true,
            Kvm::Guest | Kvm::Left => false,
            Kvm::Exit { reason, slept, woke, .. } => !reason.is_halt() || (!slept && !woke),
        }
    }

    /// The activities that are possible on a CPU, with their weights.
    pub fn activities(&self, m: usize, c: usize, add: &mut dyn FnMut(Activity, usize)) {
        let kernel = &self.kernels[m];
        let cpu = &kernel.cpus[c];
        if self.plan.full {
            add(Activity::OtherKind, 1);
        }
        if !cpu.handlers.is_empty() || cpu.current.is_some() {
            add(Activity::RaiseSoftirq, 1);
            for work in WORKS.filter(|work| !kernel.queued.contains(work)) {
                add(Activity::QueueWork(work), 1);
            }
        }
        if !cpu.handlers.is_empty() {
            let issued = kernel.requests.iter().enumerate().filter(|(_, (_, issued))| *issued);
            issued.for_each(|(at, _)| add(Activity::CompleteRequest(at), 3));
            return add(Activity::ReceivePacket, 2);
        }
        let Some(thread) = cpu.current.map(|at| &kernel.threads[at]) else { return };
        if thread.child.is_some() || thread.exiting {
            return;
        }
        if thread.vcpu.is_some() {
            return self.kvm_activities(thread, add);
        }
        match (thread.work, thread.syscall) {
            (Some(_), _) => add(Activity::EndWork, 2),
            (_, Some(_)) => add(Activity::LeaveSyscall, 2),
            (None, None) => {
                add(Activity::EnterSyscall, 1);
                add(Activity::StartWork, 1);
            }
        }
        if kernel.requests.len() < SECTORS as usize {
            add(Activity::InsertRequest, 1);
            add(Activity::IssueNewRequest, 1);
        }
        let queued = kernel.requests.iter().enumerate().filter(|(_, (_, issued))| !*issued);
        queued.for_each(|(at, _)| add(Activity::IssueRequest(at), 2));
        add(Activity::SendPacket, 2);
    }

    fn kvm_activities(&self, thread: &Thread, add: &mut dyn FnMut(Activity, usize)) {
        match thread.kvm {
            Kvm::User => add(Activity::EnterGuest, 8),
            Kvm::Guest => {}
            Kvm::Left => add(Activity::TraceLateExit, 8),
            Kvm::Exit { reason, woke: false, .. } if reason.is_halt() => {
                add(Activity::EndHalt, 6);
                add(Activity::ChangePollWindow, 1);
            }
            Kvm::Exit { reason, .. } => {
                add(Activity::EnterGuest, 8);
                let code = u64::from(reason.code);
                if code == IO {
                    add(Activity::LeaveToUser, 3);
                }
                if code == IO || code == HYPERCALL {
                    add(Activity::ReportDetail, 2);
                }
            }
        }
    }

    /// If the CPU is in guest mode, the guest's kernel has the turn, or guest mode ends.
    pub fn pass_to_guest(&mut self, m: usize, c: usize, pick: &mut Pick) -> bool {
        let Some(current) = self.kernels[m].cpus[c].current else { return false };
        let thread = &self.kernels[m].threads[current];
        let (Some((vm, vcpu)), Kvm::Guest) = (thread.vcpu, thread.kvm) else { return false };
        match pick.action(8) {
            0..=4 if self.plan.guests => self.take_turn(vm, vcpu, *pick),
            7 => self.kernels[m].threads[current].kvm = Kvm::Left,
            _ => {
                let halts = self.is_guest_idle(vm, vcpu) && pick.detail(2) == 0;
                let code = if halts { HLT } else { REASONS[pick.detail(REASONS.len())] };
                self.exit(m, c, current, reason_from(code));
            }
        }
        true
    }

    fn is_guest_idle(&self, vm: usize, vcpu: usize) -> bool {
        self.kernels[vm].cpus.get(vcpu).is_none_or(|cpu| {
            let is_busy = cpu.current.is_some() || !cpu.queue.is_empty() || cpu.leaving.is_some();
            !is_busy && cpu.handlers.is_empty() && cpu.rest.is_empty() && cpu.arrivals.is_empty()
        })
    }

    fn exit(&mut self, m: usize, c: usize, thread: usize, reason: ExitReason) {
        let thread = &mut self.kernels[m].threads[thread];
        thread.kvm = Kvm::Exit { reason, at: self.now, slept: false, woke: false };
        let vcpu = thread.vcpu.map(|(_, vcpu)| VcpuId(vcpu as u32));
        self.emit(m, c, CoreEvent::KvmExit { vcpu, reason, rip: 0x1000, info1: 0, info2: 0 });
    }

    pub fn act(&mut self, m: usize, c: usize, activity: Activity, pick: &mut Pick) {
        match activity {
            Activity::OtherKind => return self.emit(m, c, None),
            Activity::ReceivePacket => return self.receive_packet(m, c, pick),
            Activity::SendPacket => return self.send_packet(m, c),
            Activity::RaiseSoftirq => {
                let context = self.context(m, c);
                return self.emit(m, c, CoreEvent::SoftirqRaise { vector: 1, context });
            }
            Activity::QueueWork(work) => {
                self.kernels[m].queued.insert(work);
                let context = self.context(m, c);
                return self.emit(m, c, CoreEvent::WorkQueue { work, function: work, context });
            }
            Activity::CompleteRequest(at) => {
                let (request, _) = self.kernels[m].requests.remove(at);
                return self.emit(m, c, CoreEvent::BlockComplete { request, error: 0 });
            }
            _ => {}
        }
        if let Some(current) = self.kernels[m].cpus[c].current {
            let event = self.act_as_thread(m, c, current, activity, pick);
            if let Some(event) = event {
                self.emit(m, c, event);
            }
        }
    }

    /// An activity in a thread's own context; none if it has recorded its event itself.
    fn act_as_thread(
        &mut self,
        m: usize,
        c: usize,
        current: usize,
        activity: Activity,
        pick: &mut Pick,
    ) -> Option<CoreEvent> {
        let now = self.now;
        let thread = &mut self.kernels[m].threads[current];
        let vcpu = thread.vcpu.map(|(_, vcpu)| VcpuId(vcpu as u32));
        Some(match activity {
            Activity::EnterSyscall => {
                let nr = pick.detail(3) as i64;
                thread.syscall = Some(nr);
                CoreEvent::SyscallEnter { nr }
            }
            Activity::LeaveSyscall => {
                let nr = thread.syscall.take()?;
                CoreEvent::SyscallExit { nr, ret: pick.detail(5) as i64 }
            }
            Activity::StartWork => {
                let work = WORKS.start + pick.detail(2) as u64;
                thread.work = Some(work);
                self.kernels[m].queued.remove(&work);
                CoreEvent::WorkStart { work, function: work }
            }
            Activity::EndWork => {
                let work = thread.work.take()?;
                CoreEvent::WorkEnd { work, function: work }
            }
            Activity::EnterGuest => {
                thread.kvm = Kvm::Guest;
                CoreEvent::KvmEntry { vcpu, rip: None }
            }
            Activity::TraceLateExit => {
                let reason = reason_from(REASONS[pick.detail(REASONS.len())]);
                self.exit(m, c, current, reason);
                return None;
            }
            Activity::LeaveToUser => {
                thread.kvm = Kvm::User;
                CoreEvent::KvmUserspaceExit { reason: 2, errno: 0 }
            }
            Activity::ReportDetail => match thread.kvm {
                Kvm::Exit { reason, .. } if u64::from(reason.code) == IO => CoreEvent::KvmPio {
                    access: Access::Write,
                    port: 0x3f8,
                    size: 1,
                    count: 1,
                    value: None,
                },
                _ => CoreEvent::KvmHypercall { nr: 5, args: [0; 4] },
            },
            Activity::EndHalt => {
                let Kvm::Exit { at, slept, woke, .. } = &mut thread.kvm else { return None };
                *woke = true;
                let ns = (now - *at - 1) as u64;
                CoreEvent::KvmVcpuWakeup { ns, waited: *slept, valid: true }
            }
            Activity::ChangePollWindow => {
                let new_ns = 20 * pick.detail(4) as u32;
                CoreEvent::KvmHaltPollNs { vcpu: vcpu?, new_ns, old_ns: 60 - new_ns }
            }
            Activity::IssueRequest(at) => {
                let (request, issued) = &mut self.kernels[m].requests[at];
                *issued = true;
                CoreEvent::BlockIssue(*request)
            }
            Activity::InsertRequest => CoreEvent::BlockInsert(self.new_request(m, false, pick)?),
            Activity::IssueNewRequest => CoreEvent::BlockIssue(self.new_request(m, true, pick)?),
            Activity::OtherKind
            | Activity::RaiseSoftirq
            | Activity::QueueWork(_)
            | Activity::ReceivePacket
            | Activity::SendPacket
            | Activity::CompleteRequest(_) => return None,
        })
    }

    /// Records the states of the vCPUs that the step has changed.
    pub fn record_vcpu_truth(&mut self) {
        for thread in &self.kernels[HOST].threads {
            let Some((vm, vcpu)) = thread.vcpu else { continue };
            let state = match (thread.phase, thread.kvm) {
                (Phase::OnCpu, Kvm::Guest) => TrueVcpuState::Guest,
                (Phase::OnCpu, Kvm::Left) => TrueVcpuState::Left,
                (Phase::OnCpu, Kvm::Exit { .. }) => TrueVcpuState::Exit,
                (Phase::OnCpu, Kvm::User) => TrueVcpuState::User,
                (Phase::Sleeping, Kvm::Exit { reason, .. }) if reason.is_halt() => {
                    TrueVcpuState::Halted
                }
                (Phase::Sleeping, _) => TrueVcpuState::Blocked,
                _ => TrueVcpuState::Runnable,
            };
            let actor = (MachineId(vm as u32), VcpuId(vcpu as u32));
            let states = self.recording.vcpu_truth.entry(actor).or_default();
            if states.last().is_none_or(|(_, last)| *last != state) {
                states.push((self.now, state));
            }
        }
    }

    fn new_request(&mut self, m: usize, issued: bool, pick: &mut Pick) -> Option<BlockRequest> {
        let requests = &mut self.kernels[m].requests;
        let is_free = |sector: u64| requests.iter().all(|(open, _)| open.sector != sector);
        let free: Vec<u64> = (0..SECTORS).map(|at| at * 8).filter(|at| is_free(*at)).collect();
        let sector = *free.get(pick.detail(free.len()))?;
        let request =
            BlockRequest { device: 254 << 20, sector, sectors: 8, op: BlockOp::Read, id: None };
        requests.push((request, issued));
        Some(request)
    }
}
