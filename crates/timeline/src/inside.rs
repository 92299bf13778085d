//! What ran inside a CPU's vCPUs: the guests' own threads, on the tracks of the host's CPUs.
//!
//! Where a vCPU has a CPU, the guest's own `cpu_slices` of that vCPU say which thread it ran. Both
//! are tracks already; here one is cut by the other.

use crate::collect::Collector;
use crate::cursor::{Cursor, cursors};
use crate::error::TimelineError;
use crate::track::{Actor, Kind};
use crate::unit::Unit;
use std::sync::Arc;

/// Fills `into` from the units of `cpu_slices`.
pub(crate) fn make(slices: &[Arc<Unit>], into: &mut Collector) -> Result<(), TimelineError> {
    let mut cpus: Vec<_> = cursors(slices, Kind::Cpu).into_iter().collect();
    cpus.sort_by_key(|(number, _)| *number);
    for ((machine, cpu), mut slices_of_cpu) in cpus {
        let mut guests = cursors(slices, Kind::Cpu);
        let actor = Actor { cpu: Some(cpu), ..Actor::of(machine, Kind::CpuGuest) };
        of_cpu(&mut slices_of_cpu, &actor, &mut guests, into)?;
    }
    Ok(())
}

type Guests = rustc_hash::FxHashMap<(u32, u32), Cursor>;

fn of_cpu(
    cpu: &mut Cursor,
    actor: &Actor,
    guests: &mut Guests,
    into: &mut Collector,
) -> Result<(), TimelineError> {
    let mut failed = Ok(());
    cpu.pieces(i64::MIN, i64::MAX, |cpu, from, to, key| {
        let vcpu = cpu.raw(key).and_then(|key| Some((key.machine?, key.vcpu?)));
        let Some(guest) = vcpu.and_then(|vcpu| guests.get_mut(&vcpu)) else { return };
        let slot = into.slot(actor.clone(), None);
        let done = guest.pieces(from, to, |guest, from, to, key| {
            let key = guest.key(key, &mut into.keys);
            into.add(slot, from, to - from, u64::from(key));
        });
        if done.is_err() && failed.is_ok() {
            failed = done;
        }
    })?;
    failed
}
