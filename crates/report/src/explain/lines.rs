//! The columns of an explanation.

use crate::records::line;
use transect_model::{
    cause::{CauseKind, Evidence},
    exit::ExitReason,
    ids::{CpuId, MachineId, Tid, VcpuId},
};

/// The columns of each list, by its name in the JSON.
pub fn columns() -> [(&'static str, &'static [&'static str]); 4] {
    [
        ("path", PathLine::COLUMNS),
        ("sums", SumLine::COLUMNS),
        ("findings", FindingLine::COLUMNS),
        ("blame", BlameLine::COLUMNS),
    ]
}

line! {
    /// One piece of a path.
    PathLine {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// Number of causes that lead from the root to this piece; 0 is the root itself.
        depth: u32,
        /// guest, host, device, timer, outside, asleep or unknown.
        layer: String,
        /// The machine.
        machine_id: MachineId,
        /// The thread; null in an interrupt or device.
        tid: Option<Tid>,
        /// The vCPU, where one is concerned.
        vcpu: Option<VcpuId>,
        /// The CPU of the machine.
        cpu: Option<CpuId>,
        /// running, exit, user, halt_poll, runnable, vcpu_wait, handler, delivery, device, timer, lock, outside, unrecorded, offline, asleep or unknown.
        state: String,
        /// For exit, user and halt_poll: reason of the exit.
        reason: Option<ExitReason>,
        /// For runnable and vcpu_wait: machine of the antagonist.
        by_machine_id: Option<MachineId>,
        /// The antagonist; 0 while the CPU leaves its idle state.
        by_tid: Option<Tid>,
        /// The antagonist, if it is a vCPU.
        by_vcpu: Option<VcpuId>,
        /// throttled, class, affinity, weight, share or leaving_idle.
        why: Option<String>,
        /// Kind of the cause that leads to this piece, as in the table causes; null at depth 0.
        cause: Option<CauseKind>,
        /// The weakest evidence of the causes up to this piece: id, context or order.
        evidence: Evidence,
        /// Error bound of its ends, ns; null if unknown.
        error_ns: Option<u64>,
    }
}

line! {
    /// What the same took in all pieces of a path.
    SumLine {
        /// In words.
        what: String,
        /// Whether it is the root itself.
        own: bool,
        /// As in path.
        state: String,
        /// The machine.
        machine_id: MachineId,
        /// The thread.
        tid: Option<Tid>,
        /// Sum of the pieces, ns.
        total_ns: i64,
        /// Share of the window.
        share: f64,
        /// Number of pieces.
        count: u64,
        /// The weakest evidence of them.
        evidence: Evidence,
    }
}

line! {
    /// What a rule found.
    FindingLine {
        /// Name of the rule.
        detector: String,
        /// Whom it is about.
        subject: String,
        /// The time that it took, ns.
        held_ns: i64,
        /// Share of the time that the rule states.
        share: f64,
        /// How often.
        count: u64,
        /// certain or likely.
        confidence: String,
        /// In words.
        sentence: String,
        /// What one can try.
        hint: String,
    }
}

line! {
    /// What waits cost whom.
    BlameLine {
        /// thread, cgroup or machine.
        level: String,
        /// Who waited.
        victim: String,
        /// Who had the CPU meanwhile.
        culprit: String,
        /// throttled, class, affinity, weight, share or leaving_idle.
        why: Option<String>,
        /// Sum of the waits, ns.
        total_ns: i64,
        /// Number of waits.
        count: u64,
        /// The weakest evidence of them.
        evidence: Evidence,
    }
}
