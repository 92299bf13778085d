//! What a run of the engine is to produce besides the tables: which windows.

use transect_clock::{ClockGraph, Unit};
use transect_engine::Options;
use transect_model::time::Span;

/// The engine's output options.
#[derive(Default)]
pub(crate) struct Plan {
    /// Requested length of the windows; none for the default.
    pub(crate) window_ns: Option<i64>,
    /// Windows of this stretch only.
    pub(crate) windows_in: Option<Span>,
    /// Windows begin at multiples of their length.
    pub(crate) are_aligned: bool,
}

impl Plan {
    /// # Errors
    /// A length of time was requested, and the length of the recording's ticks is unknown.
    pub(crate) fn options(&self, clocks: &ClockGraph) -> anyhow::Result<Options> {
        let Some(window_ns) = self.window_ns else { return Ok(Options::default()) };
        anyhow::ensure!(
            clocks.unit() == Unit::Nanoseconds,
            "--window: the recording's time is in ticks of unknown length, so that the whole recording is \
             one window: give the TSC frequency with --cpu-hz (xl info prints it as cpu_mhz)"
        );
        Ok(Options { window_ns })
    }
}
