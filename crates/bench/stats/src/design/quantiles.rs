//! Whether a quantile may be given.

use crate::statistics::quantile;
use transect_bench_core::{Kind, Refusal};

/// Refuses a quantile that rests on too few operations: without an interval of its own (95 %, by order statistics) it
/// is one operation's luck. p99 takes 368, p99.9 takes 3,688.
///
/// # Errors
/// [`Kind::TooFewSamples`].
pub fn check_quantile(what: &str, q: f64, samples: u64) -> Result<(), Refusal> {
    let needed = quantile::values_needed(q, 0.95);
    if samples >= needed {
        return Ok(());
    }
    let percentile = q * 100.0;
    Err(Refusal::new(
        Kind::TooFewSamples,
        format!("p{percentile} of {what}"),
        format!("it requires {needed} operations, and only {samples} were measured"),
    )
    .mend("measure longer, or ask for a lower quantile"))
}
