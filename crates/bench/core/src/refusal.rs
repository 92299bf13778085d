//! What cannot be done, and why; and what went wrong.

use serde::{Deserialize, Serialize};

/// Why something is refused. The word is what scripts look at; people read [`Refusal::why`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A program or package is not installed.
    Missing,
    /// This machine cannot do it, whatever is installed (no hardware KVM, no vsock, no privileges).
    NotHere,
    /// The combination makes no sense (a cold cache for what reads no file).
    Senseless,
    /// Configurations that are to be compared differ in binaries, memory, CPUs or kernels where they must not.
    Different,
    /// The cache was not in the state that was asked for.
    UnverifiedCache,
    /// There is nothing to compare with: no reference arm, or no second reference (A/A).
    NoReference,
    /// The load generator was the limit, not what it loads.
    GeneratorLimited,
    /// Too few samples for the figure that is asked for.
    TooFewSamples,
    /// The plan is wrong.
    Plan,
}

/// Something that is not done, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}: {why}{}", mend.as_ref().map(|mend| format!(" ({mend})")).unwrap_or_default())]
pub struct Refusal {
    /// Why, as a word.
    pub kind: Kind,
    /// What is refused: "platform kvm", "workload dbench".
    pub what: String,
    /// The reason, for people.
    pub why: String,
    /// What to do about it, if anything can be done: "apt install dbench".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Refusal {
    /// A refusal without a remedy.
    pub fn new(kind: Kind, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind, what: what.into(), why: why.into(), mend: None }
    }

    /// There is none of this name; there are `all`.
    pub fn unknown<'a>(what: &str, name: &str, all: impl Iterator<Item = &'a str>) -> Self {
        let all: Vec<&str> = all.collect();
        let refusal = Self::new(Kind::Plan, format!("{what} {name}"), "no such name");
        refusal.mend(format!("there are {}", all.join(", ")))
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It is not done here, for a reason that will not go away by trying again.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It was tried and went wrong: what, where, and what the program said.
    #[error("{0}")]
    Failed(String),
}

impl Fault {
    /// It went wrong.
    pub fn failed(what: impl std::fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }
}
