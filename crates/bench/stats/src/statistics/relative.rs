//! The two ways in which papers put a time beside its base.

/// LTTng-Xen's percentage of a time: `100·(2 − value/base)`, so that 3 % slower is 97 %. Twice as slow is 0 %, and
/// slower than that is negative: it is only fit for small differences.
#[must_use]
pub fn two_minus(value: f64, base: f64) -> f64 {
    100.0 * (2.0 - value / base)
}

/// How much of the base's speed is left, `100·base/value` of a time: 3 % slower is 97.09 %.
#[must_use]
pub fn speed_left(value: f64, base: f64) -> f64 {
    100.0 * base / value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_compile_row() {
        // LTTng-Xen, table 1: 6:04.93 native, 6:38.96 in dom0, printed as 90.67 %.
        assert!((two_minus(398.96, 364.93) - 90.67).abs() < 0.01);
        assert!((speed_left(398.96, 364.93) - 91.47).abs() < 0.01);
        assert!(two_minus(3.0, 1.0) < 0.0);
    }
}
