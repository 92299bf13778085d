//! What held a run back: the *suspected limiter* of every result.
//!
//! # What
//! Gregg printed a "suspected limiter" beside each of his numbers, since a number without one says nothing of what was
//! tested (seed 004, *Network Throughput Results*). [`suspect`] names it by rules from
//! [`Samples`](transect_bench_core::samples::Samples); [`perturb`] says how to confirm it: halve the suspect, and see
//! whether the result follows.
//!
//! # Data flow
//! ```text
//! Samples of machine, host, generator + RunFacts ─▶ every rule ─▶ suspects ─▶ causes before symptoms ─▶ Limiter
//! ```
//!
//! # Design constraints
//! - All rules speak of one quantity, [`Suspect::held`]: the share of the measured time for which the run was held by the
//!   resource. So they can be ranked.
//! - A rule that fires says with which figures. One that cannot see says so in [`Limiter::blind`].
//! - When no rule fires the answer is [`LimiterKind::Unknown`], with what was looked at. There is no guess.
//! - Pure: no I/O but in [`perturb`].

mod limiter;
pub mod perturb;
mod rank;
mod rules;
pub mod sampling;
mod scene;
#[cfg(test)]
mod tests;
mod view;

pub use limiter::{Confidence, Limiter, LimiterKind, Place, Suspect};
pub use rules::{RULES, Rule};
pub use scene::{Offered, RunFacts, Scene};

/// Names the suspected limiter.
#[must_use]
pub fn suspect(scene: &Scene<'_>) -> Limiter {
    let suspects = RULES.iter().flat_map(|rule| (rule.check)(scene)).collect();
    let mut limiter = rank::rank(suspects);
    limiter.blind = view::blind(scene);
    if limiter.kind == LimiterKind::Unknown {
        limiter.evidence = view::looked_at(scene);
    }
    limiter
}
