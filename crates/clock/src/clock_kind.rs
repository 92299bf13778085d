//! What the names in `trace_clock` mean for alignment.
//!
//! Source: `trace_clocks[]` in `kernel/trace/trace.c` (Linux 6.18).

/// What a trace clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// `x86-tsc`: the CPU's counter, steady, same in every kernel up to offset and scaling.
    Tsc,
    /// Nanoseconds a kernel keeps: `local`, `global`, `perf`, `mono`, `mono_raw`, `boot`, `tai`;
    /// its rate may be steered.
    Nanoseconds,
    /// `counter`, `uptime` or a name unknown here: no time one could align.
    Other,
}

/// The kind of a clock by its `trace_clock` name.
pub fn clock_kind(name: &str) -> ClockKind {
    match name {
        "x86-tsc" => ClockKind::Tsc,
        "local" | "global" | "perf" | "mono" | "mono_raw" | "boot" | "tai" => {
            ClockKind::Nanoseconds
        }
        _ => ClockKind::Other,
    }
}
