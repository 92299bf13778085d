//! What was found of one file.

/// What was found of a file or a folder.
#[derive(Debug, serde::Serialize)]
pub(super) struct Line {
    /// From the directory on.
    pub(super) file: String,
    pub(super) bytes: Option<u64>,
    pub(super) state: State,
    /// What is wrong, and where.
    pub(super) places: Vec<String>,
    /// What to do, if something is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is what was written.
    Whole,
    /// It was damaged, and is not any more.
    Repaired,
    /// Nothing tells.
    Unverified,
    /// It is not what was written.
    Damaged,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Whole => "whole",
            State::Repaired => "repaired",
            State::Unverified => "not verified",
            State::Damaged => "damaged",
        }
    }
}

impl Line {
    pub(super) fn whole(file: impl Into<String>, bytes: Option<u64>) -> Self {
        Line { file: file.into(), bytes, state: State::Whole, places: Vec::new(), remedy: None }
    }

    pub(super) fn damaged(
        file: impl Into<String>,
        places: Vec<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Line { file: file.into(), bytes: None, state: State::Damaged, places, remedy }
    }

    pub(super) fn unverified(file: impl Into<String>, why: impl Into<String>) -> Self {
        let (file, places) = (file.into(), vec![why.into()]);
        Line { file, bytes: None, state: State::Unverified, places, remedy: None }
    }

    pub(super) fn repaired(self) -> Self {
        Line { state: State::Repaired, remedy: None, ..self }
    }
}
