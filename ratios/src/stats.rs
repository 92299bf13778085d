//! Medians, spreads and an order of play. Nothing here assumes a distribution: what disturbs a
//! timing on a shared machine is rare and large, which a median does not see.

/// The median; `None` of nothing. Of an even number of values, the mean of the middle two.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(half.checked_sub(1)?).map(|lower| f64::midpoint(*lower, upper))
}

/// The smallest and the largest value; `None` of nothing.
#[must_use]
pub fn spread(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values);
    Some([*sorted.first()?, *sorted.last()?])
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Two things measured in the same rounds: what is compared is the ratio within a round, because
/// the machine drifts between rounds and less within one.
#[derive(Clone, Debug, Default)]
pub struct Paired {
    /// Ours and the peer's, one pair a round.
    pub rounds: Vec<(f64, f64)>,
}

impl Paired {
    /// Adds a round in which both were measured.
    pub fn push(&mut self, ours: f64, peer: f64) {
        self.rounds.push((ours, peer));
    }

    /// Median of ours.
    #[must_use]
    pub fn ours(&self) -> Option<f64> {
        median(&self.rounds.iter().map(|round| round.0).collect::<Vec<_>>())
    }

    /// Median of the peer's.
    #[must_use]
    pub fn peer(&self) -> Option<f64> {
        median(&self.rounds.iter().map(|round| round.1).collect::<Vec<_>>())
    }

    /// Ours over the peer's, a round each. Rounds in which the peer's is not positive have no ratio:
    /// a cost is a difference of two timings and can come out as nothing.
    #[must_use]
    pub fn ratios(&self) -> Vec<f64> {
        self.rounds.iter().filter(|round| round.1 > 0.0).map(|round| round.0 / round.1).collect()
    }
}

/// A seeded order, so that who comes after whom differs between rounds and a run can be repeated.
pub fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        // SplitMix64 (Steele, Lea, Flood 2014): enough for an order of play.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let place = mixed % (last as u64 + 1);
        items.swap(last, usize::try_from(place).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some([1.0, 3.0]));
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let mut paired = Paired::default();
        paired.push(1.0, 2.0);
        paired.push(10.0, 20.0);
        paired.push(3.0, 0.0);
        assert_eq!(paired.ratios(), [0.5, 0.5]);
        assert_eq!((paired.ours(), paired.peer()), (Some(3.0), Some(2.0)));
    }

    #[test]
    fn an_order_is_a_permutation_and_depends_on_the_seed() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
