//! Interrupts that come all the time: timers, and those that other CPUs send.

use super::finding::{Confidence, Detail, Detector, Finding, Range};
use crate::{blame::Party, piece::ThreadId, rows::Rows};
use std::collections::BTreeMap;
use transect_model::{
    cause::CauseKind,
    ids::{CpuId, MachineId, VcpuId},
    interrupt::{IrqSource, VectorSource},
    table::Tables,
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
    threads: BTreeMap<ThreadId, u64>,
}

pub(super) fn find(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<(MachineId, CpuId, Detector), Storm> = BTreeMap::new();
    for row in tables.irqs.iter().filter(|row| range.has(row.ts)) {
        let Some(detector) = detector(row.source) else { continue };
        let storm = all.entry((row.machine_id, row.cpu, detector)).or_default();
        storm.handlers += 1;
        storm.handling += range.of((row.ts, row.ts.saturating_add(row.dur)));
    }
    for cause in tables.causes.iter().filter(|cause| range.has(cause.ts)) {
        let detector = match cause.kind {
            CauseKind::Timer => Detector::TimerStorm,
            CauseKind::Ipi => Detector::IpiStorm,
            _ => continue,
        };
        let (cpu, thread) = match (cause.to_vcpu, detector) {
            (Some(vcpu), _) => {
                (Some(CpuId(vcpu.0)), cause.tid.filter(|_| detector == Detector::IpiStorm))
            }
            (None, Detector::TimerStorm) => (cause.cpu, cause.to_tid),
            (None, _) => (cause.cpu, cause.tid),
        };
        let Some(cpu) = cpu else { continue };
        let storm = all.entry((cause.to_machine_id, cpu, detector)).or_default();
        storm.injected += u64::from(cause.to_vcpu.is_some());
        let machine = match detector {
            Detector::TimerStorm => cause.to_machine_id,
            _ => cause.machine_id,
        };
        if let Some(tid) = thread {
            *storm.threads.entry(ThreadId { machine, tid }).or_default() += 1;
        }
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
        let most = storm.threads.into_iter().max_by_key(|(_, count)| *count);
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
