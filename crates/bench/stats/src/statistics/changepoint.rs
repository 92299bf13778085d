//! Does a sequence begin otherwise than it goes on?
//!
//! For each head of 1, 2, … runs the rank sum of the head is put beside what chance makes of it (A. Pettitt, "A
//! non-parametric approach to the change-point problem", Applied Statistics 28(2), 1979, standardised so that short
//! heads count as much as long ones). How unusual the largest is, is asked of shuffled sequences, which need no
//! assumption about how the values are distributed.

use super::{random::Random, ranks::doubled_midranks};
use serde::{Deserialize, Serialize};

/// Shuffles that the largest is compared with.
const SHUFFLES: usize = 1999;

/// A beginning unlike the rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// How many values it has.
    pub length: usize,
    /// The share of shuffled sequences (this one included) with a head at least as unusual.
    pub p: f64,
}

/// The most unusual head of at most `longest` values; `None` if there are fewer than twice as many values, or all are
/// equal.
#[must_use]
pub fn head(values: &[f64], longest: usize, seed: u64) -> Option<Head> {
    if longest == 0 || values.len() < 2 * longest {
        return None;
    }
    let (mut ranks, _) = doubled_midranks(values);
    let (length, unusual) = most_unusual(&ranks, longest);
    if unusual <= 0.0 {
        return None;
    }
    let mut random = Random::new(seed);
    let as_unusual = (0..SHUFFLES)
        .filter(|_| {
            random.shuffle(&mut ranks);
            most_unusual(&ranks, longest).1 >= unusual
        })
        .count();
    Some(Head { length, p: (as_unusual + 1) as f64 / (SHUFFLES + 1) as f64 })
}

/// The head with the most unusual sum of (doubled) ranks, and how unusual: in standard deviations, but for a factor
/// that is the same for all.
fn most_unusual(ranks: &[usize], longest: usize) -> (usize, f64) {
    let n = ranks.len() as f64;
    let (mut sum, mut best) = (0.0, (0, 0.0));
    for (length, rank) in (1..=longest).zip(ranks) {
        sum += *rank as f64;
        let head = length as f64;
        let unusual = (sum - head * (n + 1.0)).abs() / (head * (n - head)).sqrt();
        if unusual > best.1 {
            best = (length, unusual);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_is_seen_and_a_level_sequence_is_not() {
        let mut random = Random::new(11);
        let level: Vec<f64> = (0..24).map(|_| 100.0 + random.normal()).collect();
        let mut slow = level.clone();
        slow[..4].iter_mut().for_each(|value| *value += 20.0);
        let found = head(&slow, 6, 1).unwrap();
        assert_eq!(found.length, 4);
        assert!(found.p < 0.01, "{found:?}");
        assert!(head(&level, 6, 1).unwrap().p > 0.05);
        assert_eq!(head(&[1.0; 24], 6, 1), None);
        assert_eq!(head(&slow[..8], 6, 1), None);
    }
}
