//! What a row is to show.

use std::fmt;

/// The condition under which a row's promise is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Ours at most this many times the peer's.
    RatioAtMost(f64),
    /// Ours less than this many times the peer's.
    RatioBelow(f64),
    /// Ours at least this many times the peer's.
    RatioAtLeast(f64),
    /// The ratio of two things that should be equal lies between these.
    RatioWithin(f64, f64),
    /// Ours at least this, in the row's unit.
    AtLeast(f64),
    /// Ours at most this, in the row's unit.
    AtMost(f64),
    /// Ours is zero where the peer's is not.
    ZeroWherePeerIsNot,
}

impl Goal {
    /// Whether it is kept; `None` if what it is about was not measured.
    #[must_use]
    pub fn holds(self, ours: Option<f64>, peer: Option<f64>, ratio: Option<f64>) -> Option<bool> {
        Some(match self {
            Goal::RatioAtMost(most) => ratio? <= most,
            Goal::RatioBelow(most) => ratio? < most,
            Goal::RatioAtLeast(least) => ratio? >= least,
            Goal::RatioWithin(least, most) => (least..=most).contains(&ratio?),
            Goal::AtLeast(least) => ours? >= least,
            Goal::AtMost(most) => ours? <= most,
            Goal::ZeroWherePeerIsNot => ours? == 0.0 && peer? > 0.0,
        })
    }

    /// Whether it is about the ratio rather than about ours alone.
    #[must_use]
    pub fn is_about_ratio(self) -> bool {
        use Goal::{RatioAtLeast, RatioAtMost, RatioBelow, RatioWithin};
        matches!(self, RatioAtMost(_) | RatioBelow(_) | RatioAtLeast(_) | RatioWithin(..))
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::RatioAtMost(most) => write!(f, "<= {most}x"),
            Goal::RatioBelow(most) => write!(f, "< {most}x"),
            Goal::RatioAtLeast(least) => write!(f, ">= {least}x"),
            Goal::RatioWithin(least, most) => write!(f, "{least}..{most}x"),
            Goal::AtLeast(least) => write!(f, ">= {least}"),
            Goal::AtMost(most) => write!(f, "<= {most}"),
            Goal::ZeroWherePeerIsNot => f.write_str("0 where peer > 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_or_not_or_are_not_known() {
        assert_eq!(Goal::RatioAtMost(0.6).holds(None, None, Some(0.6)), Some(true));
        assert_eq!(Goal::RatioBelow(1.0).holds(None, None, Some(1.0)), Some(false));
        assert_eq!(Goal::RatioAtLeast(20.0).holds(None, None, Some(19.9)), Some(false));
        assert_eq!(Goal::RatioAtLeast(20.0).holds(Some(1.0), None, None), None);
        assert_eq!(Goal::AtLeast(8.0).holds(Some(8.5), None, None), Some(true));
        assert_eq!(Goal::AtMost(512.0).holds(Some(513.0), None, None), Some(false));
        assert_eq!(Goal::ZeroWherePeerIsNot.holds(Some(0.0), Some(7.0), None), Some(true));
        assert_eq!(Goal::ZeroWherePeerIsNot.holds(Some(0.0), Some(0.0), None), Some(false));
    }
}
