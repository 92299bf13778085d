//! The occupant of a CPU.

use super::slots::Slot;
use serde::{Deserialize, Serialize};
use transect_model::ids::Tid;

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Occupant {
    /// No knowledge; complete events from this stamp on.
    Unknown { known_from: i64 },
    /// The idle thread.
    Idle,
    /// A thread; its slot is none for numbers that cannot be threads (broken input).
    Thread { tid: Tid, slot: Option<Slot> },
    /// A vCPU that no thread runs (Xen), by its index.
    Vcpu(usize),
}

impl Occupant {
    pub(crate) fn tid(self) -> Option<Tid> {
        match self {
            Occupant::Unknown { .. } | Occupant::Vcpu(_) => None,
            Occupant::Idle => Some(Tid::IDLE),
            Occupant::Thread { tid, .. } => Some(tid),
        }
    }
}
