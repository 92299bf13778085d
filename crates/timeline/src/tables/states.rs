//! Tables whose rows tile time: CPUs, vCPUs, threads, domains; and the exits.

use super::table_reader::{TableReader, plain};
use crate::collect::{Collector, Slot, Slots};
use crate::column::{Words, get, i32s, i64s, u32s};
use crate::cursor::{Cursor, cursors};
use crate::error::TimelineError;
use crate::key::{Class, Interner, RawKey};
use crate::track::Kind;
use crate::unit::Unit;
use arrow::array::RecordBatch;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use transect_model::state::EffectiveState;

/// `cpu_slices`: who has a CPU. Idle time is left empty.
pub(super) struct CpuSlices(Slots);

impl Default for CpuSlices {
    fn default() -> Self {
        CpuSlices(Slots::new(Kind::Cpu))
    }
}

impl TableReader for CpuSlices {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "cpu", "tid", "vcpu_machine_id", "vcpu"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, cpu) = (u32s(batch, "machine_id")?, u32s(batch, "cpu")?);
        let (tid, vcpu) = (i32s(batch, "tid")?, u32s(batch, "vcpu")?);
        let vm = u32s(batch, "vcpu_machine_id")?;
        let unknown = plain(&mut into.keys, Class::Unknown, "unknown");
        let of_thread = plain(&mut into.keys, Class::Thread, "thread");
        let of_vcpu = plain(&mut into.keys, Class::Vcpu, "vcpu");
        for row in rows {
            let (machine, cpu) = (machine.value(row), cpu.value(row));
            let key = match (get(tid, row), get(vm, row), get(vcpu, row)) {
                (tid, Some(vm), Some(vcpu)) => {
                    RawKey { machine: Some(vm), vcpu: Some(vcpu), tid, ..of_vcpu }
                }
                (Some(0), ..) => continue,
                (Some(tid), ..) => RawKey { machine: Some(machine), tid: Some(tid), ..of_thread },
                _ => unknown,
            };
            let key = into.keys.key(key);
            let slot = self.0.of(machine, i64::from(cpu), into, |actor| actor.cpu = Some(cpu));
            into.add(slot, ts.value(row), dur.value(row), u64::from(key));
        }
        Ok(())
    }
}

/// `vcpu_states`: what a vCPU does, and who keeps it waiting.
pub(super) struct VcpuStates(Slots);

impl Default for VcpuStates {
    fn default() -> Self {
        VcpuStates(Slots::new(Kind::Vcpu))
    }
}

impl TableReader for VcpuStates {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "vcpu", "state", "reason", "by_machine_id", "by_tid"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, vcpu) = (u32s(batch, "machine_id")?, u32s(batch, "vcpu")?);
        let (by_machine, by_tid) = (u32s(batch, "by_machine_id")?, i32s(batch, "by_tid")?);
        let (state, reason) = (Words::new(batch, "state")?, Words::new(batch, "reason")?);
        let states = Numbered::new(&state, &mut into.keys);
        let reasons = Numbered::new(&reason, &mut into.keys);
        let values = state.values();
        for row in rows {
            let (machine, vcpu) = (machine.value(row), vcpu.value(row));
            let key = into.keys.key(RawKey {
                class: Class::of_vcpu_state(state.of(row, &values)),
                state: states.of(row),
                reason: reasons.of(row),
                machine: get(by_machine, row),
                vcpu: None,
                tid: get(by_tid, row),
            });
            let slot = self.0.of(machine, i64::from(vcpu), into, |actor| actor.vcpu = Some(vcpu));
            into.add(slot, ts.value(row), dur.value(row), u64::from(key));
        }
        Ok(())
    }
}

/// Words of a batch and their numbers in the file of tiles.
struct Numbered<'w, 'b> {
    words: &'w Words<'b>,
    numbers: Vec<u32>,
}

impl<'w, 'b> Numbered<'w, 'b> {
    fn new(words: &'w Words<'b>, keys: &mut Interner) -> Self {
        Numbered { words, numbers: words.numbers(keys) }
    }

    /// The row's; 0, the empty word, where it is null.
    #[inline]
    fn of(&self, row: usize) -> u32 {
        self.words.place(row).map_or(0, |at| self.numbers[at])
    }
}

/// `thread_states`: what a thread does, and of a guest's thread that runs where it really is: what
/// its vCPU did meanwhile, with the reason of an exit and who had the CPU.
pub(super) struct ThreadStates {
    slots: Slots,
    vcpus: FxHashMap<(u32, u32), Cursor>,
}

impl ThreadStates {
    /// `vcpus` are the units of `vcpu_states`.
    pub(super) fn new(vcpus: &[Arc<Unit>]) -> Self {
        ThreadStates { slots: Slots::new(Kind::Thread), vcpus: cursors(vcpus, Kind::Vcpu) }
    }

    /// Cuts a row by what the vCPU did; what its track does not cover stays as the row says.
    fn fused(
        vcpu: &mut Cursor,
        slot: Slot,
        (ts, end): (i64, i64),
        key: u32,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let mut at = ts;
        vcpu.pieces(ts, end, |vcpu, from, to, of_vcpu| {
            if at < from {
                into.add(slot, at, from - at, u64::from(key));
            }
            let of_vcpu = vcpu.key(of_vcpu, &mut into.keys);
            into.add(slot, from, to - from, u64::from(of_vcpu));
            at = to;
        })?;
        if at < end {
            into.add(slot, at, end - at, u64::from(key));
        }
        Ok(())
    }
}

impl TableReader for ThreadStates {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "tid", "cpu", "state", "effective", "reason"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, tid) = (u32s(batch, "machine_id")?, i32s(batch, "tid")?);
        let cpu = u32s(batch, "cpu")?;
        let (state, reason) = (Words::new(batch, "state")?, Words::new(batch, "reason")?);
        let effective = Words::new(batch, "effective")?;
        let states = Numbered::new(&state, &mut into.keys);
        let effectives = Numbered::new(&effective, &mut into.keys);
        let reasons = Numbered::new(&reason, &mut into.keys);
        let (state_values, effective_values) = (state.values(), effective.values());
        for row in rows {
            let (machine, tid) = (machine.value(row), tid.value(row));
            let really = effective.of(row, &effective_values);
            let is = state.of(row, &state_values);
            // Where it really was is what the row shows; that its kernel had it running is not.
            let shown = match effectives.of(row) {
                0 => states.of(row),
                really => really,
            };
            let key = into.keys.key(RawKey {
                class: Class::of_thread_state(is, really, reason.text(row)),
                state: shown,
                reason: reasons.of(row),
                machine: None,
                vcpu: None,
                tid: None,
            });
            let slot = self.slots.of(machine, i64::from(tid), into, |actor| actor.tid = Some(tid));
            let (ts, dur) = (ts.value(row), dur.value(row));
            let is_elsewhere = match really {
                None | Some(EffectiveState::Running | EffectiveState::Unknown) => false,
                Some(
                    EffectiveState::VcpuPreempted
                    | EffectiveState::ExitHandling
                    | EffectiveState::VcpuHalted,
                ) => true,
            };
            let vcpu = get(cpu, row).filter(|_| is_elsewhere);
            match vcpu.and_then(|cpu| self.vcpus.get_mut(&(machine, cpu))) {
                Some(vcpu) if dur > 0 && ts.checked_add(dur).is_some() => {
                    Self::fused(vcpu, slot, (ts, ts + dur), key, into)?;
                }
                _ => into.add(slot, ts, dur, u64::from(key)),
            }
        }
        Ok(())
    }
}

/// `domain_states`: what a domain's vCPUs do together.
pub(super) struct DomainStates(Slots);

impl Default for DomainStates {
    fn default() -> Self {
        DomainStates(Slots::new(Kind::Domain))
    }
}

impl TableReader for DomainStates {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "state"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, state) = (u32s(batch, "machine_id")?, Words::new(batch, "state")?);
        let states = Numbered::new(&state, &mut into.keys);
        let values = state.values();
        for row in rows {
            let class = Class::of_domain_state(state.of(row, &values));
            let none = (None, None, None);
            let (machine_of, vcpu, tid) = none;
            let state = states.of(row);
            let raw = RawKey { class, state, reason: 0, machine: machine_of, vcpu, tid };
            let key = into.keys.key(raw);
            let slot = self.0.of(machine.value(row), 0, into, |_| ());
            into.add(slot, ts.value(row), dur.value(row), u64::from(key));
        }
        Ok(())
    }
}

/// `exits`: by reason. One that had not ended, and those of PV guests, are instants.
pub(super) struct Exits(Slots);

impl Default for Exits {
    fn default() -> Self {
        Exits(Slots::new(Kind::Exits))
    }
}

impl TableReader for Exits {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "vcpu", "reason"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, vcpu) = (u32s(batch, "machine_id")?, u32s(batch, "vcpu")?);
        let reason = Words::new(batch, "reason")?;
        let reasons = Numbered::new(&reason, &mut into.keys);
        let exit = plain(&mut into.keys, Class::Exit, "exit");
        for row in rows {
            let (machine, vcpu) = (machine.value(row), vcpu.value(row));
            let key = into.keys.key(RawKey { reason: reasons.of(row), ..exit });
            let slot = self.0.of(machine, i64::from(vcpu), into, |actor| actor.vcpu = Some(vcpu));
            into.add(slot, ts.value(row), get(dur, row).unwrap_or(0), u64::from(key));
        }
        Ok(())
    }
}
