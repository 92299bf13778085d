//! Which tables a sink wants: asked once, so that a row nobody wants costs nothing.

use transect_model::table::{
    BlockIo, Cause, Counter, CpuSlice, DomainStateRow, Exit, IoRequest, Irq, IrqLine, LockWait,
    NetIo, Packet, Queue, Reclaim, StackSample, Syscall, TableSink, ThreadStateRow, Throttle,
    VcpuStateRow, Wakeup, Window, WorkItem,
};

/// One flag for every table whose rows come with the events. The others are small, and are always
/// made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each table")]
pub(crate) struct Wanted {
    pub(crate) cpu_slices: bool,
    pub(crate) vcpu_states: bool,
    pub(crate) thread_states: bool,
    pub(crate) exits: bool,
    pub(crate) wakeups: bool,
    pub(crate) irqs: bool,
    pub(crate) syscalls: bool,
    pub(crate) windows: bool,
    pub(crate) block_io: bool,
    pub(crate) io_requests: bool,
    pub(crate) net_io: bool,
    pub(crate) packets: bool,
    pub(crate) stack_samples: bool,
    pub(crate) work_items: bool,
    pub(crate) counters: bool,
    pub(crate) domain_states: bool,
    pub(crate) causes: bool,
    pub(crate) irq_lines: bool,
    pub(crate) queues: bool,
    pub(crate) locks: bool,
    pub(crate) throttles: bool,
    pub(crate) reclaims: bool,
}

impl Wanted {
    /// Asks the sink.
    pub(crate) fn by(sink: &dyn TableSink) -> Self {
        Wanted {
            cpu_slices: sink.wants(&CpuSlice::TABLE),
            vcpu_states: sink.wants(&VcpuStateRow::TABLE),
            thread_states: sink.wants(&ThreadStateRow::TABLE),
            exits: sink.wants(&Exit::TABLE),
            wakeups: sink.wants(&Wakeup::TABLE),
            irqs: sink.wants(&Irq::TABLE),
            syscalls: sink.wants(&Syscall::TABLE),
            windows: sink.wants(&Window::TABLE),
            block_io: sink.wants(&BlockIo::TABLE),
            io_requests: sink.wants(&IoRequest::TABLE),
            net_io: sink.wants(&NetIo::TABLE),
            packets: sink.wants(&Packet::TABLE),
            stack_samples: sink.wants(&StackSample::TABLE),
            work_items: sink.wants(&WorkItem::TABLE),
            counters: sink.wants(&Counter::TABLE),
            domain_states: sink.wants(&DomainStateRow::TABLE),
            causes: sink.wants(&Cause::TABLE),
            irq_lines: sink.wants(&IrqLine::TABLE),
            queues: sink.wants(&Queue::TABLE),
            locks: sink.wants(&LockWait::TABLE),
            throttles: sink.wants(&Throttle::TABLE),
            reclaims: sink.wants(&Reclaim::TABLE),
        }
    }

    /// Is anything wanted for which causes have to be followed on their way?
    pub(crate) fn follows_causes(&self) -> bool {
        self.causes
            || self.irq_lines
            || self.queues
            || self.io_requests
            || self.packets
            || self.stack_samples
    }
}
