//! What the user chooses about clocks.

/// What the user may decide about clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOptions {
    /// Use the exact TSC offsets where there are any. Without them the estimate from exchanges is
    /// used, so that it can be compared with the exact edge.
    pub use_tsc_offset: bool,
    /// The reference TSC's frequency, for files that do not tell it (`--tsc-hz`). Wins over the
    /// recording's own rate.
    pub tsc_hz: Option<u64>,
    /// Clocks of one kind drift apart by at most this unless exchanges prove otherwise.
    pub drift_limit_ppm: u32,
}

impl Default for ClockOptions {
    fn default() -> Self {
        ClockOptions {
            use_tsc_offset: true,
            tsc_hz: None,
            drift_limit_ppm: crate::exchange::DRIFT_LIMIT_PPM,
        }
    }
}
