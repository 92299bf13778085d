//! An explanation as rows, for programs: what its columns are, and how rows are made.

use crate::{
    alike::Kind,
    blame::{Blame, Level, blame},
    detect::Finding,
    piece::{By, Piece},
    root::{Carried, Root, charged},
    rows::Rows,
    sums::{Layer, Sum},
    words::{findings, names, sentences},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    exit::ExitReason,
    ids::{CpuId, MachineId, Tid, VcpuId},
    record_type,
    stage::{Stage, Staged},
    table::TableDoc,
    time::TimeUnit,
};

/// The lists of an explanation.
pub const LISTS: [TableDoc; 6] = [
    PathLine::TABLE,
    SumLine::TABLE,
    StageLine::TABLE,
    FindingLine::TABLE,
    BlameLine::TABLE,
    SentenceLine::TABLE,
];

record_type! {
    /// One stage of a block request or packet.
    StageLine in "stages" {
        /// The events with which it begins and ends, as the columns of io_requests or packets without _ts.
        stage: String,
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
    }
}

impl StageLine {
    /// The stages of what a root is, in order.
    pub fn of(carried: Option<&Carried>) -> Vec<Self> {
        match carried {
            Some(Carried::Request(row)) => Self::of_way(&**row).collect(),
            Some(Carried::Packet(row)) => Self::of_way(&**row).collect(),
            None => Vec::new(),
        }
    }

    fn of_way<R: Staged>(row: &R) -> impl Iterator<Item = Self> {
        let line =
            |Stage { from, to, ts, ns }| StageLine { stage: R::stage_name(from, to), ts, dur: ns };
        row.stages().map(line)
    }
}

record_type! {
    /// One piece of a path.
    PathLine in "critical_path" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// Number of causes that lead from the root to this piece; 0 is the root itself.
        depth: u32,
        /// guest, host, device, timer, outside, asleep or unknown.
        layer: &'static str,
        /// The machine.
        machine_id: MachineId,
        /// The thread; null in an interrupt or device.
        tid: Option<Tid>,
        /// The vCPU, where one is concerned.
        vcpu: Option<VcpuId>,
        /// The CPU of the machine.
        cpu: Option<CpuId>,
        /// running, exit, user, halt_poll, runnable, vcpu_wait, handler, delivery, device, timer, reclaim, lock, outside, unrecorded, offline, asleep or unknown.
        state: &'static str,
        /// For exit, user and halt_poll: reason of the exit.
        reason: Option<ExitReason>,
        /// For runnable and vcpu_wait: machine of the antagonist.
        by_machine_id: Option<MachineId>,
        /// The antagonist; 0 while the CPU leaves its idle state.
        by_tid: Option<Tid>,
        /// The antagonist, if it is a vCPU.
        by_vcpu: Option<VcpuId>,
        /// throttled, class, affinity, weight, share or leaving_idle.
        why: Option<&'static str>,
        /// Kind of the cause that leads to this piece, as in the table causes; null at depth 0.
        cause: Option<CauseKind>,
        /// The weakest evidence of the causes up to this piece: id, context or order.
        evidence: Evidence,
        /// Error bound of its ends, ns; null if unknown.
        error_ns: Option<u64>,
    }
}

record_type! {
    /// What the same took in all pieces of a path.
    SumLine in "sums" {
        /// In words.
        what: String,
        /// Whether it is the root itself.
        own: bool,
        /// As in path.
        state: &'static str,
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

record_type! {
    /// What a rule found.
    FindingLine in "findings" {
        /// Name of the rule.
        detector: &'static str,
        /// Whom it is about.
        subject: String,
        /// The time that it took, ns.
        held_ns: i64,
        /// Share of the time that the rule states.
        share: f64,
        /// How often.
        count: u64,
        /// certain or likely.
        confidence: &'static str,
        /// In words.
        sentence: String,
        /// What one can try.
        hint: &'static str,
    }
}

record_type! {
    /// What waits cost whom.
    BlameLine in "blame" {
        /// thread, cgroup or machine.
        level: &'static str,
        /// Who waited.
        victim: String,
        /// Who had the CPU meanwhile.
        culprit: String,
        /// throttled, class, affinity, weight, share or leaving_idle.
        why: Option<&'static str>,
        /// Sum of the waits, ns.
        total_ns: i64,
        /// Number of waits.
        count: u64,
        /// The weakest evidence of them.
        evidence: Evidence,
    }
}

record_type! {
    /// One sentence of an explanation.
    SentenceLine in "explanation" {
        /// Its place, from 0.
        line: u32,
        /// The sentence.
        sentence: String,
    }
}

impl PathLine {
    /// Of a piece of a path.
    pub fn new(rows: &Rows<'_>, piece: &Piece) -> Self {
        let (by_machine_id, by_tid, by_vcpu) = match piece.by {
            Some(By::Thread(id)) => {
                let vcpu = rows.vcpu_of_thread(id).map(|(_, vcpu)| vcpu);
                (Some(id.machine), Some(id.tid), vcpu)
            }
            Some(By::Vcpu(machine, vcpu)) => (Some(machine), None, Some(vcpu)),
            Some(By::Idle) => (None, Some(Tid::IDLE), None),
            None => (None, None, None),
        };
        PathLine {
            ts: piece.ts,
            dur: piece.dur,
            depth: piece.depth,
            layer: Layer::of(rows, &Kind::from(piece)).as_str(),
            machine_id: piece.machine,
            tid: piece.tid,
            vcpu: piece.vcpu,
            cpu: piece.cpu,
            state: piece.doing.as_str(),
            reason: piece.reason,
            by_machine_id,
            by_tid,
            by_vcpu,
            why: piece.why.map(|why| why.as_str()),
            cause: piece.cause,
            evidence: piece.evidence,
            error_ns: piece.error_ns,
        }
    }
}

impl SumLine {
    /// Of a sum of the root's path.
    pub fn new(rows: &Rows<'_>, root: &Root, sum: &Sum) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a share of a length")]
        let share = sum.ns as f64 / root.length().max(1) as f64;
        SumLine {
            what: sentences::phrase(rows, sum),
            own: sum.is_own,
            state: sum.doing.as_str(),
            machine_id: sum.machine,
            tid: sum.tid,
            total_ns: sum.ns,
            share,
            count: sum.count,
            evidence: sum.evidence,
        }
    }
}

impl FindingLine {
    /// Of a finding.
    pub fn new(rows: &Rows<'_>, finding: &Finding, unit: TimeUnit) -> Self {
        FindingLine {
            detector: finding.detector.as_str(),
            subject: names::party(rows, &finding.subject),
            held_ns: finding.held_ns,
            share: finding.share(),
            count: finding.count,
            confidence: finding.confidence.as_str(),
            sentence: findings::sentence(rows, finding, unit),
            hint: findings::hint(finding),
        }
    }
}

impl BlameLine {
    /// What the waits of the roots cost whom, at every level.
    pub fn of_roots(rows: &Rows<'_>, roots: &[Root]) -> Vec<Self> {
        let of = |level| {
            let lines = blame(rows, charged(rows, roots), level).into_iter();
            lines.map(move |line| BlameLine::new(rows, level, &line))
        };
        Level::ALL.into_iter().flat_map(of).collect()
    }

    fn new(rows: &Rows<'_>, level: Level, line: &Blame) -> Self {
        BlameLine {
            level: level.as_str(),
            victim: names::party(rows, &line.victim),
            culprit: names::party(rows, &line.culprit),
            why: line.why.map(|why| why.as_str()),
            total_ns: line.ns,
            count: line.count,
            evidence: line.evidence,
        }
    }
}

impl SentenceLine {
    /// The sentences about a root, in order.
    pub fn of_root(rows: &Rows<'_>, root: &Root, unit: TimeUnit) -> Vec<Self> {
        let all = sentences::sentences(rows, root, unit).into_iter();
        all.zip(0..).map(|(sentence, line)| SentenceLine { line, sentence }).collect()
    }
}
