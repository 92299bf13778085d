//! The stacks of a recording, found by event, and their frames as text.

use crate::frame::{KERNEL, NOT_KEPT, SEPARATOR, frame_from_name};
use crate::points::StackedEvent;
use std::cmp::Reverse;
use std::collections::HashMap;
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_model::stack::{MAX_FRAMES, StackPoint};
use transect_model::table::{Stack, StackSample, Tables};

/// The stack at an event: samples with equal keys have the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StackKey {
    machine: MachineId,
    tid: Tid,
    kernel: Option<u32>,
    user: Option<u32>,
}

/// Samples in the order in which they are looked up, frames in the order in which they are printed.
pub(crate) struct Samples<'t> {
    samples: Vec<&'t StackSample>,
    frames: Vec<&'t Stack>,
    threads: HashMap<(MachineId, Tid), &'t str>,
}

/// The place of a sample in the order of look-ups; samples with one time are in the order of their events.
fn order(sample: &StackSample) -> (MachineId, StackPoint, Option<i64>, i64, CpuId) {
    (sample.machine_id, sample.point, sample.stage_ts, sample.ts, sample.cpu)
}

impl<'t> Samples<'t> {
    pub(crate) fn new(tables: &'t Tables) -> Self {
        let mut samples: Vec<&StackSample> =
            tables.stack_samples.iter().filter(|sample| sample.stage_ts.is_some()).collect();
        samples.sort_by_key(|sample| order(sample));
        let is_kept = |frame: &&Stack| usize::try_from(frame.depth).is_ok_and(|at| at < MAX_FRAMES);
        let mut frames: Vec<&Stack> = tables.stacks.iter().filter(is_kept).collect();
        frames.sort_by_key(|frame| (frame.machine_id, frame.stack_id, Reverse(frame.depth)));
        let threads = tables.threads.iter();
        let threads = threads.map(|row| ((row.machine_id, row.tid), row.name.as_str())).collect();
        Samples { samples, frames, threads }
    }

    /// The stack at the event of that time. Of several wakings, that of the expected thread, or else the first.
    pub(crate) fn find(&self, event: StackedEvent, ts: i64) -> Option<StackKey> {
        let key = (event.machine, event.point, Some(ts));
        let place = |sample: &StackSample| (sample.machine_id, sample.point, sample.stage_ts);
        let begin = self.samples.partition_point(|sample| place(sample) < key);
        let mut at_event = self.samples[begin..].iter().take_while(|sample| place(sample) == key);
        let first = *at_event.clone().next()?;
        let expected = event
            .woken
            .and_then(|woken| at_event.find(|sample| sample.woken_tid == Some(woken)).copied());
        let sample = expected.unwrap_or(first);
        Some(StackKey {
            machine: sample.machine_id,
            tid: sample.tid,
            kernel: sample.kernel_stack_id,
            user: sample.user_stack_id,
        })
    }

    /// Are the frames in the kernel known?
    pub(crate) fn is_kept(&self, key: StackKey) -> bool {
        key.kernel.is_some_and(|id| !self.frames_of(key.machine, id).is_empty())
    }

    /// Thread, frames of the program and frames in the kernel, the outermost first, as a folded stack.
    pub(crate) fn folded(&self, key: StackKey) -> String {
        let mut folded = self.thread(key.machine, key.tid);
        let mut push = |name: &str, mark: &str| {
            folded.push(SEPARATOR);
            folded.push_str(name);
            folded.push_str(mark);
        };
        let frames = |id: Option<u32>| {
            id.map(|id| self.frames_of(key.machine, id)).unwrap_or_default().iter()
        };
        frames(key.user).for_each(|frame| push(&frame_from_name(&frame.symbol), ""));
        if self.is_kept(key) {
            frames(key.kernel).for_each(|frame| push(&frame_from_name(&frame.symbol), KERNEL));
        } else {
            push(NOT_KEPT, "");
        }
        folded
    }

    fn frames_of(&self, machine: MachineId, id: u32) -> &[&'t Stack] {
        let key = (machine, id);
        let place = |frame: &Stack| (frame.machine_id, frame.stack_id);
        let begin = self.frames.partition_point(|frame| place(frame) < key);
        let count = self.frames[begin..].partition_point(|frame| place(frame) == key);
        &self.frames[begin..begin + count]
    }

    fn thread(&self, machine: MachineId, tid: Tid) -> String {
        match self.threads.get(&(machine, tid)) {
            _ if tid.is_idle() => "idle".to_owned(),
            Some(name) if !name.is_empty() => frame_from_name(name),
            _ => format!("tid {tid}"),
        }
    }
}
