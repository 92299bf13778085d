//! Looking at the data more than once.
//!
//! Whoever looks after every run and stops when the picture pleases is wrong more often than the interval says. So
//! there are few looks, fixed before, and each has an interval of more confidence. What decides is the interval's
//! width, never on which side of 1 it lies.

use serde::{Deserialize, Serialize};

/// When there is a look, and with which confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    /// Numbers of blocks, ascending.
    pub at: Vec<usize>,
    /// Confidence of the interval at every look, 0 to 1.
    pub confidence: f64,
}

impl Looks {
    /// At 10, 14, 20, 28 and 40 blocks with 97 %: whichever it ends at, it covers 95 % and more (`tests/it/slow/simulate.rs`
    /// prints how often).
    #[must_use]
    pub fn standard() -> Self {
        Self { at: vec![10, 14, 20, 28, 40], confidence: 0.97 }
    }

    /// One look with 95 %, after so many blocks.
    #[must_use]
    pub fn once(blocks: usize) -> Self {
        Self { at: vec![blocks], confidence: 0.95 }
    }

    /// The first look after so many blocks, if there is one.
    #[must_use]
    pub fn after(&self, blocks: usize) -> Option<usize> {
        self.at.iter().copied().find(|at| *at > blocks)
    }

    /// The last look.
    #[must_use]
    pub fn last(&self) -> usize {
        self.at.last().copied().unwrap_or(0)
    }
}
