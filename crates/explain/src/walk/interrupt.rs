//! Interrupts on the path: their handlers, their way into a guest, and what they were about.

use super::{place::Place, state::Walk};
use crate::{
    piece::{Doing, Piece, ThreadId},
    rows::{Before, Origin},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{CpuId, MachineId, Tid, VcpuId},
    interrupt::{Context, IrqSource, VectorSource},
    state::VcpuState,
};

/// Interrupts that lead to one another without a thread between, at most.
const MAX_INTERRUPTS: usize = 64;
/// `TIMER_SOFTIRQ` and `HRTIMER_SOFTIRQ`.
const TIMER_SOFTIRQS: [Option<i32>; 2] = [Some(1), Some(8)];
const OWN_TIMER: IrqSource = IrqSource::Vector(VectorSource::LocalTimer);

/// An interrupt that did something at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupt {
    pub(super) machine: MachineId,
    pub(super) cpu: CpuId,
    pub(super) context: Option<Context>,
    pub(super) vector: Option<i32>,
    /// What it was about.
    pub(super) kind: CauseKind,
    /// Since when it was.
    pub(super) since: i64,
}

impl Walk<'_, '_> {
    /// The time down to `lo` is that of an interrupt, and of what it was about.
    pub(super) fn interrupted(
        &mut self,
        thread: ThreadId,
        first: Interrupt,
        cause: &Origin,
        lo: i64,
    ) {
        let (evidence, error_ns) = (cause.evidence, cause.error_ns());
        let mut interrupt = first;
        for _ in 0..MAX_INTERRUPTS {
            if self.t <= lo {
                return;
            }
            let cpu = (interrupt.machine, interrupt.cpu);
            let context = interrupt.context.unwrap_or(Context::Irq);
            let handler = self.rows.handler(cpu, context, self.t);
            let begun = handler.map_or(interrupt.since.min(self.t), |row| row.ts);
            let vector = interrupt.vector.or(handler.map(|row| row.vector));
            let is_own_timer = handler.is_some_and(|row| row.source == OWN_TIMER);
            if is_own_timer && interrupt.kind == CauseKind::Wakeup {
                // Such as the softirq of RCU, which it raised.
                interrupt.kind = CauseKind::Timer;
            }
            self.on_cpu(begun.max(lo), interrupt, Doing::Handler, evidence);
            if self.t <= lo {
                return;
            }
            // A packet that another machine sent, under its number.
            if interrupt.kind == CauseKind::Packet
                && let Some(packet) = self.rows.packet(interrupt.machine, interrupt.since)
                && packet.ts <= self.t
                && let Some(sender) = packet.thread()
            {
                self.on_cpu(packet.ts.max(lo), interrupt, Doing::Delivery, packet.evidence);
                let (evidence, error_ns) = (packet.evidence, packet.error_ns());
                return self.push(sender, lo, CauseKind::Packet, evidence, error_ns);
            }
            if context == Context::Softirq {
                let raise = self.rows.to_handler(cpu, CauseKind::Softirq, begun);
                let Some(raise) = raise.filter(|raise| raise.ts <= self.t) else {
                    return self.ends(thread, interrupt, vector, lo);
                };
                self.on_cpu(raise.ts.max(lo), interrupt, Doing::Delivery, raise.evidence);
                let is_timer = TIMER_SOFTIRQS.contains(&vector);
                let kind = if is_timer { CauseKind::Timer } else { interrupt.kind };
                match raise.thread() {
                    Some(raiser) if !is_timer && interrupt.kind != CauseKind::Completion => {
                        return self.push(raiser, lo, CauseKind::Softirq, raise.evidence, Some(0));
                    }
                    Some(_) => return self.ends(thread, Interrupt { kind, ..interrupt }, None, lo),
                    None => {
                        // What the softirq was about is what the interrupt was about that raised it.
                        interrupt = Interrupt {
                            context: raise.context.filter(|context| *context != Context::Softirq),
                            vector: raise.vector(),
                            kind,
                            ..interrupt
                        };
                        if raise.context == Some(Context::Softirq) || raise.context.is_none() {
                            return self.ends(thread, interrupt, None, lo);
                        }
                    }
                }
                continue;
            }
            // A guest's: on its way from the host.
            let vcpu = (interrupt.machine, VcpuId(interrupt.cpu.0));
            let line = self.rows.to_handler(cpu, CauseKind::Line, begun);
            let injected = match line.filter(|line| line.ts <= self.t) {
                Some(line) => Some((line.ts, line.evidence, line.error_ns())),
                // Without its handler, the last interrupt that the vCPU got.
                None if handler.is_none() => {
                    let last = self.rows.injected_for(vcpu, self.t);
                    last.map(|last| (last.at(), Evidence::Order, error_ns))
                }
                None => None,
            };
            let Some((at, by_line, line_error)) = injected else {
                return self.ends(thread, interrupt, vector, lo);
            };
            let evidence = by_line.max(evidence);
            self.on_cpu(at.max(lo), interrupt, Doing::Delivery, evidence);
            let Some(sent) = self.rows.injection(vcpu, at).filter(|i| i.ts <= self.t) else {
                return self.ends(thread, interrupt, vector, lo);
            };
            self.on_cpu(sent.ts.max(lo), interrupt, Doing::Delivery, sent.evidence);
            if sent.kind == CauseKind::Timer {
                self.late_timer(interrupt, lo, evidence);
                return self.timer(thread, lo);
            }
            match (sent.thread(), sent.cpu()) {
                (Some(sender), _) => {
                    let (kind, evidence) = (sent.kind, sent.evidence.max(evidence));
                    let error_ns = error_ns.zip(line_error).map(|(a, b)| a.saturating_add(b));
                    return self.push(sender, lo, kind, evidence, error_ns);
                }
                (None, Some(cpu)) => {
                    interrupt = Interrupt {
                        machine: sent.machine,
                        cpu,
                        context: sent.context,
                        vector: None,
                        kind: CauseKind::Wakeup,
                        since: sent.ts,
                    };
                }
                (None, None) => return self.unknown(lo),
            }
        }
        self.walked.refused += 1;
        self.unknown(lo);
    }

    /// An interrupt that nothing is known to have sent: the time down to `lo` is that of what it was about.
    fn ends(&mut self, thread: ThreadId, interrupt: Interrupt, vector: Option<i32>, lo: i64) {
        match interrupt.kind {
            CauseKind::Timer => self.timer(thread, lo),
            CauseKind::Completion => {
                let cpu = (interrupt.machine, interrupt.cpu);
                let request = self.rows.request(interrupt.machine, interrupt.since);
                let request = request.or_else(|| self.rows.flush(cpu, interrupt.since));
                let Some(request) = request else { return self.outside(interrupt, lo) };
                let submitter = ThreadId { machine: interrupt.machine, tid: request.tid };
                // Who submitted it and sleeps does nothing about it until it is issued: it is in the queue.
                let from = match self.asked.contains(&submitter) || submitter == thread {
                    true => request.ts,
                    false => request.ts.saturating_add(request.issue_ns),
                };
                let piece = Piece { tid: None, ..self.of_cpu(interrupt, Doing::Device) };
                self.emit(from.min(self.t).max(lo), piece);
                self.push(submitter, lo, CauseKind::Completion, Evidence::Context, Some(0));
            }
            _ if interrupt.context == Some(Context::Softirq)
                && TIMER_SOFTIRQS.contains(&vector) =>
            {
                self.timer(thread, lo);
            }
            _ if interrupt.context.is_none() => self.unknown(lo),
            // Who raised it was not recorded.
            _ if interrupt.context == Some(Context::Softirq) => {
                self.of_interrupt(interrupt, lo, Doing::Unrecorded);
            }
            _ if interrupt.context == Some(Context::Irq) && vector.is_none() => {
                self.of_interrupt(interrupt, lo, Doing::Unrecorded);
            }
            _ => self.outside(interrupt, lo),
        }
    }

    /// A timer that was due while its vCPU did not run: the time from the wake of the vCPU's thread is no timer's.
    fn late_timer(&mut self, interrupt: Interrupt, lo: i64, evidence: Evidence) {
        let vcpu = (interrupt.machine, VcpuId(interrupt.cpu.0));
        while self.t > lo {
            let Before::Row(row) = self.vcpu(vcpu) else { return };
            let is_late = match row.state {
                VcpuState::Waking | VcpuState::Preempted => true,
                VcpuState::Exit | VcpuState::HaltPoll | VcpuState::User => row.ts > lo,
                _ => false,
            };
            if !is_late {
                return;
            }
            self.on_cpu(row.ts.max(lo), interrupt, Doing::Delivery, evidence);
        }
    }

    fn timer(&mut self, thread: ThreadId, lo: i64) {
        self.emit(lo, self.of_thread(thread, None, Doing::Timer));
    }

    fn outside(&mut self, interrupt: Interrupt, lo: i64) {
        self.of_interrupt(interrupt, lo, Doing::Outside);
    }

    fn of_interrupt(&mut self, interrupt: Interrupt, lo: i64, doing: Doing) {
        self.emit(lo, self.of_cpu(interrupt, doing));
    }

    /// Something in an interrupt on a CPU from `lo` to the moment, cut by the states of the vCPU that it is.
    fn on_cpu(&mut self, lo: i64, interrupt: Interrupt, doing: Doing, evidence: Evidence) {
        while self.t > lo {
            let (low, place) = self.place(interrupt.machine, Some(interrupt.cpu), lo);
            let evidence = self.weaker(evidence);
            let piece = Piece { evidence, ..self.of_cpu(interrupt, doing) };
            match place {
                // A delivery waits for the vCPU to run, asleep or not; what the vCPU does meanwhile is not for it.
                Place::Sleeps(_) | Place::Unknown | Place::Does(..) => self.emit(low, piece),
                place => self.put(low, place, piece),
            }
        }
    }

    fn of_cpu(&self, interrupt: Interrupt, doing: Doing) -> Piece {
        let nobody = ThreadId { machine: interrupt.machine, tid: Tid::IDLE };
        let piece = self.of_thread(nobody, Some(interrupt.cpu), doing);
        Piece { tid: None, cause: Some(interrupt.kind), ..piece }
    }
}
