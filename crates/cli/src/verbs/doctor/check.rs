//! What a check finds.

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Works, tried.
    Ok,
    /// Works in part, or could not be tried to the end.
    Limited,
    /// Does not work.
    Missing,
}

/// One line of the doctor's answer.
#[derive(Debug, serde::Serialize)]
pub(super) struct Check {
    pub(super) facility: &'static str,
    pub(super) status: Status,
    /// The attempt and its result.
    pub(super) finding: String,
    /// The command or change that fixes it; empty if none is needed.
    pub(super) fix: String,
    /// The same as `fix`, under the name that 0.1.0 first had. Remove it after a release.
    mend: String,
    /// Without it nothing can be recorded on the host at all.
    #[serde(skip)]
    pub(super) essential: bool,
}

impl Check {
    pub(super) fn ok(facility: &'static str, finding: impl Into<String>) -> Self {
        Check::new(facility, Status::Ok, finding, "")
    }

    pub(super) fn limited(
        facility: &'static str,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Check::new(facility, Status::Limited, finding, fix)
    }

    pub(super) fn missing(
        facility: &'static str,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Check::new(facility, Status::Missing, finding, fix)
    }

    fn new(
        facility: &'static str,
        status: Status,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let fix = fix.into();
        let mend = fix.clone();
        Check { facility, status, finding: finding.into(), fix, mend, essential: false }
    }

    pub(super) fn essential(mut self) -> Self {
        self.essential = true;
        self
    }
}
