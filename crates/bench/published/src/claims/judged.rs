//! What was found about a claim.

use crate::model::{Agreement, Ours};

/// What was found about a claim.
pub(super) struct Judged {
    pub(super) ours: Option<Ours>,
    pub(super) agrees: Agreement,
    pub(super) note: String,
}

/// Nothing of ours is beside it.
pub(super) fn silent(agrees: Agreement) -> Judged {
    Judged { ours: None, agrees, note: String::new() }
}
