//! What an opened recording lacks.

/// Something worth a line in the import log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenProblem {
    /// The file.
    pub file: String,
    /// What was found, and what was done about it.
    pub message: String,
    /// Are events missing because of it?
    pub data_loss: bool,
}
