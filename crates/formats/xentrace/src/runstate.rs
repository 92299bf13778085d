//! The states of a vCPU, as Xen's scheduler has them.

use std::fmt;

/// `RUNSTATE_*` of `xen/include/public/vcpu.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runstate {
    /// On a pCPU.
    Running,
    /// Wants one.
    Runnable,
    /// Sleeps until an event.
    Blocked,
    /// Neither: paused, or not there.
    Offline,
}

impl Runstate {
    /// By Xen's number.
    pub fn new(number: u64) -> Option<Runstate> {
        Some(match number {
            0 => Runstate::Running,
            1 => Runstate::Runnable,
            2 => Runstate::Blocked,
            3 => Runstate::Offline,
            _ => return None,
        })
    }

    #[inline]
    pub(crate) fn at(event: u32, shift: u32) -> Runstate {
        match event >> shift & 3 {
            0 => Runstate::Running,
            1 => Runstate::Runnable,
            2 => Runstate::Blocked,
            _ => Runstate::Offline,
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Runstate::Running => 0,
            Runstate::Runnable => 1,
            Runstate::Blocked => 2,
            Runstate::Offline => 3,
        }
    }
}

impl fmt::Display for Runstate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runstate::Running => "running",
            Runstate::Runnable => "runnable",
            Runstate::Blocked => "blocked",
            Runstate::Offline => "offline",
        })
    }
}
