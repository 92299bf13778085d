//! The windows that can be looked at: those that were seen, or those of a log.

mod log;
mod ring;

pub use log::{Log, LogError};
pub use ring::Ring;

use crate::moment::Moment;
use std::rc::Rc;

/// Windows by number. Numbers stay: of a ring the oldest go away.
pub enum Past {
    /// What was seen since the start, as far as memory is allowed for it.
    Seen(Ring),
    /// A log on disk.
    Log(Box<Log>),
}

impl Past {
    /// The first number that can be had, and the one behind the last.
    pub fn range(&self) -> std::ops::Range<u64> {
        match self {
            Past::Seen(ring) => ring.range(),
            Past::Log(log) => 0..log.len(),
        }
    }

    /// A window; why it cannot be shown, if it is broken; none if there is none of that number.
    pub fn get(&self, at: u64) -> Option<Result<Rc<Moment>, String>> {
        match self {
            Past::Seen(ring) => ring.get(at).map(Ok),
            Past::Log(log) => log.get(at),
        }
    }

    /// Up to `count` windows, of which the last is number `at`; oldest first. Broken ones are left out.
    pub fn until(&self, at: u64, count: u64) -> Vec<Rc<Moment>> {
        let first = (at + 1).saturating_sub(count).max(self.range().start);
        (first..=at).filter_map(|at| self.get(at)?.ok()).collect()
    }
}
