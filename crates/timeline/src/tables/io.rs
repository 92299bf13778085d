//! Handlers, calls, requests, packets, work items, losses, events.

use super::table_reader::{TableReader, plain};
use crate::collect::{Collector, Slots};
use crate::column::{Words, get, i32s, i64s, u32s, u64s};
use crate::error::TimelineError;
use crate::key::{Class, RawKey};
use crate::track::Kind;
use arrow::array::RecordBatch;
use rustc_hash::FxHashMap;
use std::ops::Range;
use transect_model::interrupt::{IrqSource, VectorSource, softirq_name};

/// `irqs`: handlers of a CPU; one within another is in the next lane.
pub(super) struct Irqs {
    slots: Slots,
    /// Numbers of the interrupts' names.
    names: FxHashMap<(IrqSource, i32), u32>,
}

impl Default for Irqs {
    fn default() -> Self {
        Irqs { slots: Slots::new(Kind::Irq), names: FxHashMap::default() }
    }
}

impl TableReader for Irqs {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "cpu", "source", "vector"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, cpu) = (u32s(batch, "machine_id")?, u32s(batch, "cpu")?);
        let (source, vector) = (Words::new(batch, "source")?, i32s(batch, "vector")?);
        let sources = source.values::<IrqSource>();
        let hard = plain(&mut into.keys, Class::Irq, "irq");
        let soft = plain(&mut into.keys, Class::Softirq, "softirq");
        for row in rows {
            let (machine, cpu) = (machine.value(row), cpu.value(row));
            let source = source.of(row, &sources);
            let source = source.unwrap_or(IrqSource::Vector(VectorSource::Other));
            let vector = vector.value(row);
            let name = self.names.entry((source, vector));
            let reason = *name.or_insert_with(|| into.keys.word(&interrupt_name(source, vector)));
            let is_soft = source == IrqSource::Softirq;
            let key = into.keys.key(RawKey { reason, ..if is_soft { soft } else { hard } });
            let slot = self.slots.of(machine, i64::from(cpu), into, |a| a.cpu = Some(cpu));
            into.add(slot, ts.value(row), dur.value(row), u64::from(key));
        }
        Ok(())
    }
}

/// An interrupt's name, as keys say it behind `irq` or `softirq`: a softirq's, the number of a line,
/// the source of a vector.
pub fn interrupt_name(source: IrqSource, vector: i32) -> String {
    let known = match source {
        IrqSource::Line => None,
        IrqSource::Softirq => softirq_name(vector),
        IrqSource::Vector(source) => Some(source.as_str()),
    };
    known.map_or_else(|| vector.to_string(), str::to_owned)
}

/// `syscalls`: a thread's calls by number. One that had not returned is an instant.
pub(super) struct Syscalls {
    slots: Slots,
    names: FxHashMap<i64, u32>,
}

impl Default for Syscalls {
    fn default() -> Self {
        Syscalls { slots: Slots::new(Kind::Syscall), names: FxHashMap::default() }
    }
}

impl TableReader for Syscalls {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "tid", "nr"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, tid) = (u32s(batch, "machine_id")?, i32s(batch, "tid")?);
        let nr = i64s(batch, "nr")?;
        let call = plain(&mut into.keys, Class::Syscall, "syscall");
        for row in rows {
            let (machine, tid, nr) = (machine.value(row), tid.value(row), nr.value(row));
            let name = self.names.entry(nr);
            let reason = *name.or_insert_with(|| into.keys.word(&nr.to_string()));
            let key = into.keys.key(RawKey { reason, ..call });
            let slot = self.slots.of(machine, i64::from(tid), into, |a| a.tid = Some(tid));
            into.add(slot, ts.value(row), get(dur, row).unwrap_or(0), u64::from(key));
        }
        Ok(())
    }
}

/// `block_io`: requests of a device; those under way at once are in several lanes.
pub(super) struct BlockIo(Slots);

impl Default for BlockIo {
    fn default() -> Self {
        BlockIo(Slots::new(Kind::Block))
    }
}

impl TableReader for BlockIo {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "tid", "device", "op"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, tid) = (u32s(batch, "machine_id")?, i32s(batch, "tid")?);
        let (device, op) = (Words::new(batch, "device")?, Words::new(batch, "op")?);
        for row in rows {
            let (machine, name) = (machine.value(row), device.text(row));
            let number = i64::from(into.keys.word(name));
            let slot = self.0.of(machine, number, into, |actor| actor.what = name.to_owned());
            let state = plain(&mut into.keys, Class::Block, op.text(row));
            let whose = RawKey { machine: Some(machine), tid: Some(tid.value(row)), ..state };
            let key = into.keys.key(whose);
            into.add(slot, ts.value(row), get(dur, row).unwrap_or(0), u64::from(key));
        }
        Ok(())
    }
}

/// `net_io`: packets of a device, as instants.
pub(super) struct NetIo(Slots);

impl Default for NetIo {
    fn default() -> Self {
        NetIo(Slots::new(Kind::Net))
    }
}

impl TableReader for NetIo {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "machine_id", "device", "direction"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, machine) = (i64s(batch, "ts")?, u32s(batch, "machine_id")?);
        let (device, direction) = (Words::new(batch, "device")?, Words::new(batch, "direction")?);
        for row in rows {
            let (machine, name) = (machine.value(row), device.text(row));
            let number = i64::from(into.keys.word(name));
            let slot = self.0.of(machine, number, into, |actor| actor.what = name.to_owned());
            let key = plain(&mut into.keys, Class::Net, direction.text(row));
            let key = into.keys.key(key);
            into.add(slot, ts.value(row), 0, u64::from(key));
        }
        Ok(())
    }
}

/// `work_items`: what a CPU's kernel workers run.
pub(super) struct WorkItems {
    slots: Slots,
    names: FxHashMap<u64, u32>,
}

impl Default for WorkItems {
    fn default() -> Self {
        WorkItems { slots: Slots::new(Kind::Work), names: FxHashMap::default() }
    }
}

impl TableReader for WorkItems {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "cpu", "function"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, cpu) = (u32s(batch, "machine_id")?, u32s(batch, "cpu")?);
        let function = u64s(batch, "function")?;
        let work = plain(&mut into.keys, Class::Running, "work");
        for row in rows {
            let (machine, cpu) = (machine.value(row), cpu.value(row));
            let function = function.value(row);
            let name = self.names.entry(function);
            let reason = *name.or_insert_with(|| into.keys.word(&format!("{function:#x}")));
            let key = into.keys.key(RawKey { reason, ..work });
            let slot = self.slots.of(machine, i64::from(cpu), into, |a| a.cpu = Some(cpu));
            into.add(slot, ts.value(row), get(dur, row).unwrap_or(0), u64::from(key));
        }
        Ok(())
    }
}

/// `lost`: what is hidden, of a CPU or of a whole machine.
pub(super) struct Lost(Slots);

impl Default for Lost {
    fn default() -> Self {
        Lost(Slots::new(Kind::Lost))
    }
}

impl TableReader for Lost {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "dur", "machine_id", "cpu", "cause"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, cpu) = (u32s(batch, "machine_id")?, u32s(batch, "cpu")?);
        let cause = Words::new(batch, "cause")?;
        let lost = plain(&mut into.keys, Class::Lost, "lost");
        for row in rows {
            let (machine, cpu) = (machine.value(row), get(cpu, row));
            let reason = into.keys.word(cause.text(row));
            let key = into.keys.key(RawKey { reason, ..lost });
            let number = cpu.map_or(-1, i64::from);
            let slot = self.0.of(machine, number, into, |actor| actor.cpu = cpu);
            into.add(slot, ts.value(row), dur.value(row), u64::from(key));
        }
        Ok(())
    }
}

/// `events/name=…`: every event of that name, as instants.
pub(super) struct Events {
    slots: Slots,
    name: String,
}

impl Events {
    pub(super) fn new(name: &str) -> Self {
        Events { slots: Slots::new(Kind::Ticks), name: name.to_owned() }
    }

    /// The class an event is drawn as: that of what it is about.
    fn class(&self) -> Class {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|p| self.name.starts_with(p));
        match () {
            () if starts(&["sched_", "task_"]) => Class::Thread,
            () if starts(&["kvm_", "vmexit", "hvm_"]) => Class::Exit,
            () if starts(&["softirq"]) => Class::Softirq,
            () if starts(&["irq", "local_timer", "ipi"]) => Class::Irq,
            () if starts(&["block_", "nvme"]) => Class::Block,
            () if starts(&["net", "napi"]) => Class::Net,
            () if starts(&["sys_"]) => Class::Syscall,
            () if starts(&["hypercall", "pv_hypercall"]) => Class::Hypercall,
            () => Class::Others,
        }
    }
}

impl TableReader for Events {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "machine_id"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, machine) = (i64s(batch, "ts")?, u32s(batch, "machine_id")?);
        let key = plain(&mut into.keys, self.class(), &self.name);
        let key = u64::from(into.keys.key(key));
        for row in rows {
            let name = &self.name;
            let slot = self.slots.of(machine.value(row), 0, into, |a| a.what.clone_from(name));
            into.add(slot, ts.value(row), 0, key);
        }
        Ok(())
    }
}
