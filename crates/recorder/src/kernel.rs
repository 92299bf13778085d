//! The ways to record a kernel, seen from the recorder: full (tracefs) and compact (BPF).
//!
//! The order of calls: [`HostKernel::begin`] puts a source into a new recording,
//! [`HostKernel::start`] … [`HostKernel::stop`] record into it, [`HostKernel::end_source`] adds what
//! is known only then. A flight recorder arms and freezes instead, and begins a recording for each
//! snapshot.

use std::{sync::Arc, time::Duration};
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_store::{RecordingWriter, StoreError};

/// What one recording of a kernel came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelTotals {
    /// Events recorded and kept.
    pub(super) events: u64,
    /// Events lost, per CPU that lost any.
    pub(super) lost: Vec<(CpuId, u64)>,
    /// Events recorded and not kept, per CPU that has any: they would follow the last one kept. None: not counted.
    pub(super) not_kept: Vec<(CpuId, Option<u64>)>,
}

impl KernelTotals {
    /// Events lost on all CPUs.
    pub(super) fn lost_events(&self) -> u64 {
        self.lost.iter().map(|(_, count)| count).sum()
    }

    /// The totals of a recording of which nothing is known but that it failed: any CPU may lack its last events.
    pub(super) fn of_failure(online: &[CpuId]) -> Self {
        let not_kept = online.iter().map(|cpu| (*cpu, None)).collect();
        KernelTotals { not_kept, ..KernelTotals::default() }
    }
}

/// Totals while recording goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelNumbers {
    pub(super) events: u64,
    pub(super) lost: u64,
    pub(super) bytes: u64,
}

/// One kernel, prepared to be recorded by one collector.
pub(super) trait HostKernel: Send {
    /// Name of the clock that stamps its events.
    fn clock(&self) -> &str;

    /// What the user should know about how it is recorded.
    fn notes(&self) -> &[String];

    /// The events switched on, as `system:event if filter`.
    fn events(&self) -> Vec<String>;

    /// Adds its source, and what it knows of its clock, to a new recording, in which it is the machine `host`.
    fn begin(&mut self, writer: &Arc<RecordingWriter>, host: MachineId) -> anyhow::Result<()>;

    /// Does it write readings of its clock beside the TSC while recording?
    fn takes_readings(&self) -> bool {
        false
    }

    /// Starts whoever moves events to disk; none are made yet.
    fn start(&mut self) -> anyhow::Result<()>;

    /// Switches events on.
    fn switch_on(&mut self) -> anyhow::Result<()>;

    /// Called a few times a second while recording.
    ///
    /// # Errors
    /// Recording cannot go on.
    fn look(&mut self) -> anyhow::Result<()>;

    /// Counts so far.
    fn numbers(&self) -> KernelNumbers;

    /// Switches events off and writes the rest. The failure, if there was one, does not keep the
    /// totals from being told.
    fn stop(&mut self) -> (KernelTotals, Option<anyhow::Error>);

    /// Adds to its source what is known only at the end.
    fn end_source(&mut self, writer: &RecordingWriter) -> Vec<StoreError>;

    /// Flight recorder: freezes what the trigger froze, or the buffers as they are now.
    fn freeze(&mut self) -> anyhow::Result<()>;

    /// Flight recorder: has the trigger frozen the buffers?
    fn is_triggered(&self) -> anyhow::Result<bool>;

    /// Flight recorder: of what it holds, only the last so much is written from now on; none: all of it.
    fn limit_dump(&mut self, _last: Option<Duration>) {}

    /// Flight recorder: since when it holds everything, ns of its clock; none: since it was switched on.
    fn held_since_ns(&self) -> Option<u64> {
        None
    }

    /// What its clock shows now, raw; none if the clock cannot be read from here.
    fn stamp_now(&self) -> Option<u64> {
        None
    }

    /// The stamp this long before another one.
    fn stamp_before(&self, _stamp: u64, _ago: Duration) -> Option<u64> {
        None
    }

    /// The time between two stamps of its clock, ns.
    fn ns_between(&self, from: u64, to: u64) -> u64 {
        to.saturating_sub(from)
    }

    /// Flight recorder: from when on it holds events, or would if its buffers were large enough, raw; none if
    /// that is not known.
    fn holds_from(&self) -> Option<u64> {
        None
    }

    /// Flight recorder: when it stopped writing events for the last dump, raw; none if that is not known.
    fn froze_at(&self) -> Option<u64> {
        None
    }

    /// Flight recorder: the CPUs whose oldest events were overwritten before the last dump, and from when on
    /// each holds all of its events, raw; none if that is known only from the events.
    fn reach(&self) -> Option<Vec<(CpuId, u64)>> {
        None
    }

    /// Threads, and processes by their first thread, that were moved to another control group so far, where
    /// that matters; none if that is not known.
    fn moved(&self) -> Option<Vec<Tid>> {
        Some(Vec::new())
    }

    /// Flight recorder: writes what the frozen buffers hold into the source begun last.
    fn dump(&mut self) -> anyhow::Result<KernelTotals>;
}
