//! Interrupts that come all the time: timers, and those that other CPUs send.

use super::finding::{Confidence, Detail, Detector, Finding, Range};
use crate::{
    blame::Party,
    piece::ThreadId,
    rows::{Lasts as _, Origin, Rows},
};
use rustc_hash::FxHashMap;
use transect_model::{
    cause::CauseKind,
    ids::{CpuId, MachineId, VcpuId},
    interrupt::{IrqSource, VectorSource},
};

/// Eight times the ticks of a kernel with 250 of them per second.
const TIMERS_PER_SECOND: u64 = 2_000;
const IPIS_PER_SECOND: u64 = 5_000;

#[derive(Default)]
struct Storm {
    /// Handlers that ran, and how long.
    handlers: u64,
    handling: i64,
    /// Interrupts that the host injected: for guests whose handlers were not recorded.
    injected: u64,
    /// The threads that timers woke, or that interrupted.
    threads: FxHashMap<ThreadId, u64>,
}

pub(super) fn find(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let mut all: FxHashMap<(MachineId, CpuId, Detector), Storm> = FxHashMap::default();
    for ((machine, cpu), row) in rows.interrupts().filter(|(_, row)| range.has(row.ts)) {
        let Some(detector) = detector(row.source) else { continue };
        let storm = all.entry((machine, cpu, detector)).or_default();
        storm.handlers += 1;
        storm.handling += range.of((row.ts, row.end()));
    }
    for (of, cause) in rows.wakings().filter(|(_, cause)| range.has(cause.ts)) {
        let Some((detector, cpu)) = of_cause(&cause).zip(cause.cpu()) else { continue };
        let storm = all.entry((of.machine, cpu, detector)).or_default();
        let thread = match detector {
            Detector::TimerStorm => Some(of),
            _ => cause.thread(),
        };
        storm.note(thread);
    }
    for ((machine, vcpu), cause) in rows.injections().filter(|(_, cause)| range.has(cause.ts)) {
        let Some(detector) = of_cause(&cause) else { continue };
        let storm = all.entry((machine, CpuId(vcpu.0), detector)).or_default();
        storm.injected += 1;
        storm.note(cause.thread().filter(|_| detector == Detector::IpiStorm));
    }
    let mut found = Vec::new();
    for ((machine, cpu, detector), storm) in all {
        let count = storm.handlers.max(storm.injected);
        let limit = match detector {
            Detector::TimerStorm => TIMERS_PER_SECOND,
            _ => IPIS_PER_SECOND,
        };
        if !range.is_often(count, limit) {
            continue;
        }
        let most = storm.threads.into_iter().max_by_key(|(thread, count)| (*count, *thread));
        found.push(Finding {
            detector,
            subject: match rows.is_guest(machine) {
                true => Party::Vcpu(machine, VcpuId(cpu.0)),
                false => Party::Machine(machine),
            },
            held_ns: storm.handling,
            of_ns: range.length(),
            count,
            confidence: Confidence::Certain,
            detail: Detail::Interrupts { cpu, thread: most.map(|(thread, _)| thread) },
        });
    }
    found
}

impl Storm {
    fn note(&mut self, thread: Option<ThreadId>) {
        if let Some(thread) = thread {
            *self.threads.entry(thread).or_default() += 1;
        }
    }
}

fn of_cause(cause: &Origin) -> Option<Detector> {
    match cause.kind {
        CauseKind::Timer => Some(Detector::TimerStorm),
        CauseKind::Ipi => Some(Detector::IpiStorm),
        _ => None,
    }
}

fn detector(source: IrqSource) -> Option<Detector> {
    let IrqSource::Vector(source) = source else { return None };
    match source {
        VectorSource::LocalTimer => Some(Detector::TimerStorm),
        VectorSource::Reschedule
        | VectorSource::CallFunction
        | VectorSource::CallFunctionSingle => Some(Detector::IpiStorm),
        _ => None,
    }
}
