//! What is drawn: slices, instants and counter values, each of one row of the tables.

use crate::CounterUnit;

/// Which row of the tables a slice, instant or counter value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    VcpuState(u32),
    DomainState(u32),
    Exit(u32),
    CpuSlice(u32),
    /// A guest's slice, cut to the host's slice of its vCPU that it is drawn in.
    GuestSlice(u32),
    ThreadState(u32),
    Wakeup(u32),
    Irq(u32),
    Syscall(u32),
    Lost(u32),
    Window(u32, Metric),
}

/// A column of `windows`, drawn as a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Metric {
    Gotten,
    Waited,
    Blocked,
    Unknown,
    Exits,
    Io,
}

impl Metric {
    pub(crate) const ALL: [Metric; 6] = [
        Metric::Gotten,
        Metric::Waited,
        Metric::Blocked,
        Metric::Unknown,
        Metric::Exits,
        Metric::Io,
    ];

    /// The column of `windows`.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Metric::Gotten => "gotten_ns",
            Metric::Waited => "waited_ns",
            Metric::Blocked => "blocked_ns",
            Metric::Unknown => "unknown_ns",
            Metric::Exits => "exits",
            Metric::Io => "io_count",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Metric::Gotten => "gotten",
            Metric::Waited => "waited",
            Metric::Blocked => "blocked",
            Metric::Unknown => "unknown",
            Metric::Exits => "exits",
            Metric::Io => "I/O",
        }
    }

    pub(crate) fn unit(self) -> CounterUnit {
        match self {
            Metric::Exits | Metric::Io => CounterUnit::Count,
            _ => CounterUnit::TimeNs,
        }
    }
}

/// Something to draw, in trace time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) ts: i64,
    /// Equal to `ts` for instants and counter values.
    pub(crate) end: i64,
    pub(crate) row: Row,
    pub(crate) shape: Shape,
}

/// How it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Slice,
    Instant,
    Counter,
}
