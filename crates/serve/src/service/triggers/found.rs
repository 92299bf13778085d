//! A finding as a condition: `starved`, `throttled >= 30%`.

use super::{comparison::Than, of::Of};
use transect_explain::detect::Detector;
use transect_live::FindingWindow;

/// The findings that windows have: about whom each is, and a column without which there are none.
const RULES: [(Detector, &[Of], &str); 6] = [
    (Detector::Starved, &[Of::Vcpu, Of::Cgroup], "waited_ns"),
    (Detector::Throttled, &[Of::Vcpu, Of::Cgroup], "throttled_ns"),
    (Detector::ExitStorm, &[Of::Vcpu], "exits"),
    (Detector::HaltPoll, &[Of::Vcpu], "poll_ns"),
    (Detector::PingPong, &[Of::Vm], "io_count"),
    (Detector::Reclaim, &[Of::Cgroup], "memory_some_ns"),
];

/// A rule, and the share of the time from which on it counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    text: String,
    pub(super) detector: Detector,
    pub(super) column: &'static str,
    least: Option<(Than, f64)>,
}

impl Found {
    /// None if the text begins with no rule's name.
    pub(super) fn parse(text: &str, of: Of) -> Option<Result<Self, String>> {
        let (name, least) = match Than::split(text) {
            Some((name, than, limit)) => (name, Some((than, limit))),
            None => (text.trim(), None),
        };
        let (detector, subjects, column) =
            RULES.into_iter().find(|(detector, ..)| detector.as_str() == name)?;
        if !subjects.contains(&of) {
            let of: Vec<_> = subjects.iter().map(|of| format!("{:?}", of.word())).collect();
            return Some(Err(format!("{name:?} is found with of = {}", of.join(" or "))));
        }
        let least = match least {
            None => None,
            Some((than, limit)) => match share(limit) {
                Some(share) => Some((than, share)),
                None => {
                    let what = "it must be compared with a share of the time (20%)";
                    return Some(Err(format!("{limit:?}; {what}")));
                }
            },
        };
        Some(Ok(Found { text: text.to_owned(), detector, column, least }))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn holds(&self, row: &FindingWindow) -> bool {
        row.detector == self.detector.as_str()
            && self.least.is_none_or(|(than, limit)| than.holds(row.share, limit))
    }
}

/// The names of the rules.
pub(super) fn names() -> Vec<&'static str> {
    RULES.iter().map(|(detector, ..)| detector.as_str()).collect()
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (percent.is_finite() && percent >= 0.0).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;

    #[test]
    fn a_rule_alone_or_with_a_share() {
        let parse = |text, of| Found::parse(text, of);
        assert_eq!(parse("starved", Of::Vcpu).unwrap().unwrap().least, None);
        let least = parse("throttled >= 30%", Of::Cgroup).unwrap().unwrap().least;
        assert_eq!(least, Some((Than::MoreOrEqual, 0.3)));
        assert_eq!(parse("waited_ns > 20%", Of::Vcpu), None);
        assert_eq!(parse("lost", Of::Vcpu), None, "windows have no such finding");
        for (bad, of) in [
            ("starved", Of::Vm),
            ("ping_pong", Of::Vcpu),
            ("starved > 5", Of::Vcpu),
            ("starved > 200ms", Of::Vcpu),
            ("starved > NaN%", Of::Vcpu),
            ("starved > -1%", Of::Vcpu),
            ("starved >", Of::Vcpu),
        ] {
            assert!(parse(bad, of).unwrap().is_err(), "{bad}");
        }
    }
}
