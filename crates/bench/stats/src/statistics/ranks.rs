//! Ranks, shared where values are equal.

/// Twice the mid-rank of every value (so that it is a whole number), from 2 for the smallest; and the sizes of all
/// groups of equal values that have more than one member.
pub(super) fn doubled_midranks(values: &[f64]) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut ranks, mut ties) = (vec![0; values.len()], Vec::new());
    let mut before = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        for at in group {
            ranks[*at] = 2 * before + group.len() + 1;
        }
        if group.len() > 1 {
            ties.push(group.len());
        }
        before += group.len();
    }
    (ranks, ties)
}

/// `Σ (t³ − t)` over the groups of equal values.
pub(super) fn tie_term(ties: &[usize]) -> f64 {
    ties.iter().map(|ties| *ties as f64).map(|t| t * t * t - t).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_rank() {
        let (ranks, ties) = doubled_midranks(&[3.0, 1.0, 3.0, 2.0, 3.0, 1.0]);
        assert_eq!(ranks, [10, 3, 10, 6, 10, 3]);
        assert_eq!(ties, [2, 3]);
        assert_eq!(tie_term(&ties), 30.0);
    }
}
