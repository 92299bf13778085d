//! What a tracer reports, in the harness's process or in one of its own.

use serde::{Deserialize, Serialize};

/// Report of a tracer at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    /// Events written; `None` if only the file has it.
    pub events: Option<u64>,
    /// Events that happened and were not written.
    pub lost: Option<u64>,
    /// Bytes written.
    pub bytes: u64,
    /// CPU time of the tracer's process while it traced; `None` if unknown.
    pub cpu_s: Option<f64>,
}
