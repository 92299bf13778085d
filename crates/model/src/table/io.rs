//! The table of I/O requests, with every stage of their way.

use crate::{
    cause::Evidence,
    column::{ColumnSource, ColumnVisitor, TableDoc},
    event::BlockOp,
    ids::{BlockDevice, MachineId, Tid},
    row::Columnar,
    stage::Staged,
};

table! {
    /// One request to a block device, with the time of every stage that was recorded: of a VM's
    /// request, from the guest's queue through the host and back. A stage that is not known is
    /// null and named in `missing`; none is guessed. The stages that are known are in the order of
    /// the columns, so that their lengths add up to `dur`.
    IoRequest in "io_requests" {
        /// Submission: the first event of the request, as in block_io, ns of trace time.
        ts: i64,
        /// Time until the last stage that is known: until the thread that waited for it ran, or
        /// until its waking or its completion, ns. Null if no completion was recorded.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The submitter: the thread that was current at the first event.
        tid: Tid,
        /// The device, as major:minor.
        device: BlockDevice,
        /// Name of the interrupt line that completed it; null if unknown.
        queue: Option<String>,
        /// read, write, flush, discard or other.
        op: BlockOp,
        /// First sector, of 512 bytes.
        sector: u64,
        /// Length, bytes.
        bytes: u64,
        /// The driver got the request (block_rq_issue), ns of trace time, as are all that follow.
        issue_ts: Option<i64>,
        /// The guest rang the queue's doorbell, and its vCPU left guest mode for it.
        kick_ts: Option<i64>,
        /// The back end got a CPU, woken by the doorbell; or the VMM's vCPU thread returned to user
        /// mode for it.
        pickup_ts: Option<i64>,
        /// The first event of the request that a thread of the VMM made to the host's device for it.
        host_submit_ts: Option<i64>,
        /// The driver of the host's device got that request.
        host_issue_ts: Option<i64>,
        /// The host's device answered.
        host_complete_ts: Option<i64>,
        /// The vCPU's interrupt controller took the interrupt (kvm_apic_accept_irq).
        signal_ts: Option<i64>,
        /// The interrupt was injected; null if the CPU delivers interrupts itself (APICv, AVIC).
        inject_ts: Option<i64>,
        /// The handler of the guest's interrupt line began.
        guest_irq_ts: Option<i64>,
        /// The driver ended the request (block_rq_complete).
        complete_ts: Option<i64>,
        /// The completion woke a thread.
        wake_ts: Option<i64>,
        /// That thread ran.
        run_ts: Option<i64>,
        /// That thread.
        wake_tid: Option<Tid>,
        /// The thread of the VMM that was woken by the doorbell.
        backend_tid: Option<Tid>,
        /// The device that the host's request went to, as major:minor.
        host_device: Option<BlockDevice>,
        /// 0 or a negative errno; null if there is no completion.
        error: Option<i32>,
        /// The weakest evidence by which events of guest and host were joined: id (doorbell, message
        /// and sectors are those of this queue), context (both happened in one VM exit or handler,
        /// or nothing else was possible) or order (time alone). Null if none were joined.
        evidence: Option<Evidence>,
        /// The stages that the way of such a request has and that are null, with a comma between
        /// them: as the columns without _ts; `host` for the three of the host's device, `wake` if
        /// no thread was woken.
        missing: String,
        /// Error bound of the lengths between guest and host, ns: that of both clocks. Null if unknown
        /// or if there are none.
        error_ns: Option<u64>,
    }
}

impl Staged for IoRequest {
    const CUTS: &'static [&'static str] = &[
        "submit",
        "issue",
        "kick",
        "pickup",
        "host_submit",
        "host_issue",
        "host_complete",
        "signal",
        "inject",
        "guest_irq",
        "complete",
        "wake",
        "run",
    ];

    fn cuts(&self) -> impl Iterator<Item = Option<i64>> {
        [
            Some(self.ts),
            self.issue_ts,
            self.kick_ts,
            self.pickup_ts,
            self.host_submit_ts,
            self.host_issue_ts,
            self.host_complete_ts,
            self.signal_ts,
            self.inject_ts,
            self.guest_irq_ts,
            self.complete_ts,
            self.wake_ts,
            self.run_ts,
        ]
        .into_iter()
    }
}
