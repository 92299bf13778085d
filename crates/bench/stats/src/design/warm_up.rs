//! Was the machine still warming up? The one thing that takes values away: asked of the sentinels only, never of a cell.

use crate::statistics::changepoint::{self, Head};

/// How unusual a head must be to be called warm-up.
const WARM_UP_P: f64 = 0.01;
/// The shuffles are the same for everyone.
const WARM_UP_SEED: u64 = 0x7761_726d;

/// The warm-up of a sequence of sentinels, if it has one: its first `k ≤ n/4` values are unlike the rest, with
/// `p ≤ 0.01` (see [`changepoint`]). Faster beginnings count too: a burst allowance that is used up is no steady state.
#[must_use]
pub fn warm_up(sentinels: &[f64]) -> Option<Head> {
    changepoint::head(sentinels, sentinels.len() / 4, WARM_UP_SEED)
        .filter(|head| head.p <= WARM_UP_P)
}
