//! What a result depends on besides what is measured: captured at the start, compared before results are.
//!
//! # What
//! [`Environment::capture`] writes down what this machine is; [`difference`] says how two differ and whether that forbids
//! comparing their results. "Repeated Research" found that a table compared kernels with and without SMP (seed 002,
//! section 3): that is a [`Refusal`] here.
//!
//! # Design constraints
//! - A flat map of names to texts: what is added later needs no new format, and old journals stay readable.
//! - What cannot be read is written down as `absent: REASON`, never left out.
//! - What must differ from block to block (load, uptime) is named [`Weight::Moves`] and never compared.
//! - The host's name is not in it, only a hash: results are published.

mod capture;
mod compare;
mod hash;

pub use capture::Subject;
pub use compare::{Difference, Scope, Weight, difference, refuse};
pub use hash::sha256_of;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a machine was at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// When, `CLOCK_REALTIME`, ns.
    pub captured_realtime_ns: u64,
    /// Names (`cpu.model`, `kernel.version`, `program.fio`) and what was found.
    pub facts: BTreeMap<String, String>,
}

impl Environment {
    /// A fact; `None` if it was not captured.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }
}
