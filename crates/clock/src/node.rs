//! The nodes of the clock graph: the clocks of machines.

use crate::clock_kind::{ClockKind, clock_kind};
use transect_model::ids::MachineId;

/// One clock of one machine: that which stamps its streams, or its TSC. They are the same node if
/// the TSC stamps the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) machine: MachineId,
    is_tsc: bool,
}

impl Node {
    /// A machine's counter.
    pub(crate) fn tsc(machine: MachineId) -> Node {
        Node { machine, is_tsc: true }
    }

    /// The clock, by its name, that stamps a machine's streams.
    pub(crate) fn source(machine: MachineId, clock: &str) -> Node {
        Node { machine, is_tsc: clock_kind(clock) == ClockKind::Tsc }
    }

    pub(crate) fn is_tsc(self) -> bool {
        self.is_tsc
    }
}
