//! What can be wrong with the text files that describe a ring buffer.

use thiserror::Error;

/// A `format`, `header_page` or `header_event` file that cannot be used.
///
/// The message names the event and field; the caller adds the file and offset it came from.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The file is not text.
    #[error("format file is not UTF-8 text (bad byte at {at})")]
    NotText {
        /// Offset of the first bad byte in the file.
        at: usize,
    },
    /// A line every such file has is not there.
    #[error("format of {event}: no `{line}` line")]
    MissingLine {
        /// `system:name` as far as it is known.
        event: String,
        /// The missing line's key.
        line: &'static str,
    },
    /// A `field:` line lacks a part.
    #[error("format of {event}: field `{field}` has no `{part}:`")]
    MissingPart {
        /// `system:name`.
        event: String,
        /// The declaration, as printed.
        field: String,
        /// `offset` or `size`.
        part: &'static str,
    },
    /// A `field:` line that is not understood.
    #[error("format of {event}: cannot read `{line}`: {why}")]
    BadField {
        /// `system:name`.
        event: String,
        /// The line.
        line: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A number that does not fit or is no number.
    #[error("format of {event}: `{text}` is not a valid {what}")]
    BadNumber {
        /// `system:name`.
        event: String,
        /// The text found.
        text: String,
        /// What was expected there.
        what: &'static str,
    },
    /// The common fields are those by which a record is recognised; all events must agree on them.
    #[error("format of {event}: common field `{field}` is missing or differs from other events'")]
    CommonField {
        /// `system:name`.
        event: String,
        /// The field.
        field: &'static str,
    },
    /// Two events claim the same number.
    #[error("events {first} and {second} both have ID {id}")]
    DuplicateId {
        /// The number.
        id: u16,
        /// `system:name` of the one seen first.
        first: String,
        /// `system:name` of the one refused.
        second: String,
    },
    /// `header_page` does not describe a page this codec can walk.
    #[error("header_page: {0}")]
    HeaderPage(String),
    /// `header_event` describes another record encoding (Linux before 2.6.31 had one).
    #[error("header_event: {0}")]
    HeaderEvent(String),
}
