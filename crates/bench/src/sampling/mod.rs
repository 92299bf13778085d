//! What a machine did while a workload ran: the limiter's input.

use serde::{Deserialize, Serialize};

/// What the sampler saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {}
