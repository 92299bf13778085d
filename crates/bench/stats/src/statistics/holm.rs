//! Many questions at once.

/// S. Holm's step-down correction ("A simple sequentially rejective multiple test procedure", Scandinavian Journal of
/// Statistics 6(2), 1979): probabilities that may each be held against the level, so that one wrong "yes" in the whole
/// family is no more likely than the level. In the order given; assumes nothing of how the questions depend on each
/// other.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut adjusted, mut largest) = (vec![0.0; p.len()], 0.0_f64);
    for (done, at) in order.into_iter().enumerate() {
        largest = largest.max(p[at] * (p.len() - done) as f64).min(1.0);
        adjusted[at] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::holm;

    #[test]
    fn the_smallest_is_multiplied_most() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, wanted) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - wanted).abs() < 1e-15, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), [0.0; 0]);
        assert_eq!(holm(&[0.7, 0.9]), [1.0, 1.0]);
    }
}
