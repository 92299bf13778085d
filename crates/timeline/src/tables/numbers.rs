//! Numbers over time: counters, and what the windows say of each VM and vCPU.

use super::table_reader::TableReader;
use crate::collect::{Collector, Slot};
use crate::column::{Words, get, i64s, u32s, u64s};
use crate::error::TimelineError;
use crate::track::{Actor, Kind};
use crate::varint::zigzag;
use arrow::array::{Array, RecordBatch};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// `counters`: a number holds until the next row of the same subject.
#[derive(Default)]
pub(super) struct Counters {
    /// Of each subject, since when which value holds; none where it is not known.
    held: FxHashMap<Actor, (i64, Option<i64>)>,
}

impl Counters {
    fn close(actor: &Actor, held: (i64, Option<i64>), until: i64, into: &mut Collector) {
        let (since, Some(value)) = held else { return };
        // A length below zero is counted by the collector.
        let slot = into.slot(actor.clone(), Some(1.0));
        into.add(slot, since, until.wrapping_sub(since), zigzag(value));
    }
}

impl TableReader for Counters {
    fn columns(&self) -> &'static [&'static str] {
        &["ts", "machine_id", "vcpu", "cpu", "device", "name", "value"]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, machine) = (i64s(batch, "ts")?, u32s(batch, "machine_id")?);
        let (vcpu, cpu) = (u32s(batch, "vcpu")?, u32s(batch, "cpu")?);
        let (device, name) = (Words::new(batch, "device")?, Words::new(batch, "name")?);
        let value = i64s(batch, "value")?;
        for row in rows {
            let mut actor = Actor::of(machine.value(row), Kind::Counter);
            (actor.vcpu, actor.cpu) = (get(vcpu, row), get(cpu, row));
            actor.what = match device.text(row) {
                "" => name.text(row).to_owned(),
                device => format!("{} {device}", name.text(row)),
            };
            let now = (ts.value(row), get(value, row));
            if let Some(held) = self.held.insert(actor.clone(), now) {
                Self::close(&actor, held, now.0, into);
            }
        }
        Ok(())
    }

    fn end(&mut self, to: i64, into: &mut Collector) {
        let mut left: Vec<_> = self.held.drain().collect();
        left.sort();
        for (actor, held) in left {
            Self::close(&actor, held, to, into);
        }
    }
}

/// `windows`: shares and rates of each VM, vCPU and control group.
#[derive(Default)]
pub(super) struct Windows {
    /// By machine, vCPU, control group and measure.
    slots: FxHashMap<(u32, Option<u32>, Option<usize>, usize), Slot>,
    cgroups: FxHashMap<String, usize>,
    /// Times are in ticks of unknown length: there are no rates per second.
    in_ticks: bool,
}

impl Windows {
    pub(super) fn new(in_ticks: bool) -> Self {
        Windows { in_ticks, ..Windows::default() }
    }

    /// A control group's number; none for rows of a machine or vCPU.
    fn cgroup(&mut self, name: &str) -> Option<usize> {
        if name.is_empty() {
            return None;
        }
        if let Some(number) = self.cgroups.get(name) {
            return Some(*number);
        }
        let number = self.cgroups.len();
        self.cgroups.insert(name.to_owned(), number);
        Some(number)
    }
}

/// What the tracks are called, and what one unit of their stored values is.
const MEASURES: [(&str, f64); 4] =
    [("gotten %", 0.01), ("waited %", 0.01), ("exits/s", 1.0), ("I/O/s", 1.0)];

impl TableReader for Windows {
    fn columns(&self) -> &'static [&'static str] {
        &[
            "ts",
            "dur",
            "machine_id",
            "vcpu",
            "cpu",
            "cgroup",
            "gotten_ns",
            "waited_ns",
            "exits",
            "io_count",
        ]
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError> {
        let (ts, dur) = (i64s(batch, "ts")?, i64s(batch, "dur")?);
        let (machine, vcpu) = (u32s(batch, "machine_id")?, u32s(batch, "vcpu")?);
        let (cpu, cgroup) = (u32s(batch, "cpu")?, Words::new(batch, "cgroup")?);
        let (gotten, waited) = (i64s(batch, "gotten_ns")?, i64s(batch, "waited_ns")?);
        let (exits, io) = (u64s(batch, "exits")?, u64s(batch, "io_count")?);
        for row in rows {
            let dur = dur.value(row);
            let cgroup = cgroup.text(row);
            if cpu.is_valid(row) || cgroup == "/" || dur <= 0 {
                continue;
            }
            let (machine, vcpu) = (machine.value(row), get(vcpu, row));
            let per = |count: i128, unit: i128| {
                i64::try_from(count * unit / i128::from(dur)).unwrap_or(i64::MAX)
            };
            let values = [
                per(i128::from(gotten.value(row)), 10_000),
                per(i128::from(waited.value(row)), 10_000),
                per(i128::from(exits.value(row)), 1_000_000_000),
                per(i128::from(io.value(row)), 1_000_000_000),
            ];
            let of_cgroup = self.cgroup(cgroup);
            // Exits and I/O are of VMs.
            let has_rates = of_cgroup.is_none() && !self.in_ticks;
            let told = if has_rates { values.len() } else { 2 };
            for (at, value) in values.into_iter().enumerate().take(told) {
                let slot = *self.slots.entry((machine, vcpu, of_cgroup, at)).or_insert_with(|| {
                    let (what, scale) = MEASURES[at];
                    let mut actor = Actor::of(machine, Kind::Counter);
                    actor.vcpu = vcpu;
                    actor.what = match of_cgroup {
                        Some(_) => format!("{what}, {cgroup}"),
                        None => what.to_owned(),
                    };
                    into.slot(actor, Some(scale))
                });
                into.add(slot, ts.value(row), dur, zigzag(value));
            }
        }
        Ok(())
    }
}
