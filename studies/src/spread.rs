//! What repetitions gave: their median between their smallest and largest.

/// Repetitions of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub low: f64,
    /// The median; of an even number, the mean of the middle two.
    pub median: f64,
    /// The largest.
    pub high: f64,
}

/// Whether something holds, as far as repetitions can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// In every repetition.
    Yes,
    /// In none.
    No,
    /// Repetitions differ.
    Unresolved,
}

impl Spread {
    /// Of these values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { low, median, high })
    }

    /// Is all of it below all of the other?
    pub fn below(self, other: Self) -> Holds {
        match (self.high < other.low, self.low < other.high) {
            (true, _) => Holds::Yes,
            (_, false) => Holds::No,
            _ => Holds::Unresolved,
        }
    }

    /// Is all of it between two bounds, both included?
    pub fn within(self, from: f64, to: f64) -> Holds {
        match (self.low >= from && self.high <= to, self.high < from || self.low > to) {
            (true, _) => Holds::Yes,
            (_, true) => Holds::No,
            _ => Holds::Unresolved,
        }
    }

    /// With a function that keeps order applied to all of it.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), median: f(self.median), high: f(self.high) }
    }
}

impl Holds {
    /// Both hold.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unresolved,
        }
    }

    /// All hold; nothing to hold holds.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::Yes, Self::and)
    }

    /// One word for a table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "**no**",
            Self::Unresolved => "unresolved",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { low: 1.0, median: 2.0, high: 3.0 }));
        assert_eq!(Spread::of([1.0, 4.0]).map(|it| it.median), Some(2.5));
    }

    #[test]
    fn overlapping_repetitions_resolve_nothing() {
        let of = |values: [f64; 2]| Spread::of(values).unwrap();
        let (low, high, wide) = (of([1.0, 2.0]), of([3.0, 4.0]), of([1.5, 3.5]));
        assert_eq!(low.below(high), Holds::Yes);
        assert_eq!(high.below(low), Holds::No);
        assert_eq!(low.below(wide), Holds::Unresolved);
        assert_eq!(low.within(0.0, 2.0), Holds::Yes);
        assert_eq!(low.within(2.5, 3.0), Holds::No);
        assert_eq!(low.within(1.5, 3.0), Holds::Unresolved);
        assert_eq!(Holds::all([Holds::Yes, Holds::Unresolved]), Holds::Unresolved);
        assert_eq!(Holds::all([Holds::Unresolved, Holds::No]), Holds::No);
    }
}
