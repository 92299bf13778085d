//! Why a limiter is not halved here.

use transect_bench_core::{Kind, Refusal};

/// A refusal for what this machine is or has.
pub(super) fn refuse(why: impl Into<String>) -> Refusal {
    Refusal::new(Kind::NotHere, "confirmation by perturbation", why)
}
