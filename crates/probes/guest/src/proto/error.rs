//! Why bytes are not a frame.

use thiserror::Error;

/// Why bytes are not a frame, or a frame cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtoError {
    /// In the middle of a session something that is no header; the peer's state is unknown.
    #[error("byte {offset} of the session: invalid frame header ({why}); reconnect")]
    BadHeader {
        /// Byte of the incoming stream, counted from the start of the connection.
        offset: u64,
        /// Which check failed.
        why: &'static str,
    },
    /// A frame type this version does not know.
    #[error("unknown frame type {0}: the peer uses a newer protocol; update this side")]
    UnknownKind(u8),
    /// The payload ends inside a field.
    #[error("payload ends at byte {at}, inside {what}")]
    Truncated {
        /// The field.
        what: &'static str,
        /// Byte of the payload.
        at: usize,
    },
    /// The payload goes on after its last field.
    #[error("{bytes} trailing bytes after {what}")]
    Trailing {
        /// The frame.
        what: &'static str,
        /// How many.
        bytes: usize,
    },
    /// A string that is not UTF-8.
    #[error("{what} is not UTF-8")]
    NotUtf8 {
        /// The field.
        what: &'static str,
    },
    /// A number outside its range.
    #[error("{what}: invalid value {value}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// What was there.
        value: u64,
    },
    /// Too much for one frame.
    #[error("{what} is {len} bytes long, the limit is {max}")]
    TooLong {
        /// The field.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
}
