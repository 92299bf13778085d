//! What went wrong, where: fatal errors of a file, and problems that leave the rest readable.

use std::fmt;
use thiserror::Error;
use transect_model::ids::CpuId;

/// The file cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not begin as a compact file does.
    #[error("not a compact file: it begins with {found}, expected \"TRNSCTC1\"")]
    Magic {
        /// The first bytes, printed.
        found: String,
    },
    /// The header is not whole.
    #[error("compact file is cut off at byte {at_bytes}, within its header: no events can be read")]
    Cut {
        /// The file's length.
        at_bytes: u64,
    },
    /// The header's text or length cannot be right.
    #[error("compact file header at byte {at_bytes}: {what}")]
    Header {
        /// Where the value is.
        at_bytes: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A version this codec does not know.
    #[error(
        "compact file version {version} is not supported (1 to 3 are): read it with a newer transect"
    )]
    Version {
        /// The version.
        version: u32,
    },
}

/// Which log of which CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    /// The CPU whose events it holds.
    pub cpu: CpuId,
    /// 0: its main log. Else a side log: 1 has events that came while the CPU was writing to its
    /// main log, 2 those that came while it was writing to that one.
    pub side: u8,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.side {
            0 => write!(f, "CPU {}", self.cpu),
            side => write!(f, "CPU {} side log {side}", self.cpu),
        }
    }
}

/// Something that could not be read although the rest could. Goes to the import log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Byte of the file it was found at (of compressed data: that of its block).
    pub at_bytes: u64,
    /// The log it is in, where that is known.
    pub log: Option<LogId>,
    /// What is wrong and what is therefore missing.
    pub what: What,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(log) = self.log {
            write!(f, "{log}: ")?;
        }
        write!(f, "byte {}: {}", self.at_bytes, self.what)
    }
}

/// What a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The file ends within a block.
    Truncated {
        /// Bytes of the block that are missing, as far as its header tells.
        missing_bytes: u64,
    },
    /// Bytes that are no block.
    NoBlock {
        /// How many bytes were skipped to the next block.
        skipped_bytes: u64,
    },
    /// A block whose payload does not have its checksum.
    Checksum,
    /// A block whose header contradicts itself.
    BlockHeader {
        /// What is wrong.
        what: &'static str,
    },
    /// A block of a kind this version does not know; it was left out.
    UnknownBlock {
        /// The block's kind.
        kind: u8,
    },
    /// Compressed data that does not decompress to what its header says.
    Compressed,
    /// A block that does not continue its log: it overlaps what came before.
    Position {
        /// Where in the log it claims to be.
        position: u64,
        /// The earliest position it could have.
        expected: u64,
    },
    /// A chunk that does not begin with SYNC.
    NoSync,
    /// A record of a kind neither this version nor the file's header knows.
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// A record that runs over the end of its block or chunk.
    CutRecord {
        /// Its kind.
        kind: u8,
    },
    /// A record that refers to a VM exit its chunk has not told.
    UntoldExit {
        /// Its kind.
        kind: u8,
    },
    /// Stamps beyond the 64 bits of a clock.
    Stamp,
    /// JSON of a note, of the totals, or text that is not what it should be.
    Text,
    /// So many names or notes that the rest is left out.
    TooMany {
        /// What there is too much of.
        what: &'static str,
    },
    /// The list ended here; this many more problems were found.
    More {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            What::Truncated { missing_bytes } => {
                write!(
                    f,
                    "the file ends within a block, {missing_bytes} bytes are missing; the block is skipped"
                )
            }
            What::NoBlock { skipped_bytes } => {
                write!(f, "{skipped_bytes} bytes are not a block and are skipped")
            }
            What::Checksum => f.write_str("the block's checksum is wrong; it is skipped"),
            What::BlockHeader { what } => write!(f, "block header: {what}; the block is skipped"),
            What::UnknownBlock { kind } => {
                write!(f, "block of unknown kind {kind} is skipped: read it with a newer transect")
            }
            What::Compressed => f.write_str("compressed data is damaged; the block is skipped"),
            What::Position { position, expected } => write!(
                f,
                "the block's position {position} in its log is before the earliest possible position \
                 {expected}; it is skipped"
            ),
            What::NoSync => f.write_str("the chunk does not begin with SYNC; it is skipped"),
            What::UnknownKind { kind } => write!(
                f,
                "record of kind {kind}, which is neither supported here nor listed in the file's \
                 header; the rest of the chunk is skipped"
            ),
            What::CutRecord { kind } => {
                write!(f, "record of kind {kind} is cut off; the rest of the chunk is skipped")
            }
            What::UntoldExit { kind } => write!(
                f,
                "record of kind {kind} refers to a VM exit that does not precede it in its chunk; the \
                 rest of the chunk is skipped"
            ),
            What::Stamp => f.write_str(
                "timestamp exceeds 64 bits of nanoseconds; the rest of the chunk is skipped",
            ),
            What::Text => f.write_str("the text is not the expected JSON; it is skipped"),
            What::TooMany { what } => write!(f, "too many {what}; the rest is skipped"),
            What::More { count } => write!(f, "and {count} more problems"),
        }
    }
}

/// Most problems a file's list keeps; a broken file can have as many as it has bytes.
const MAX_PROBLEMS: usize = 1000;

/// The problems of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, at_bytes: u64, log: Option<LogId>, what: What) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Problem { at_bytes, log, what });
        } else if let Some(Problem { what: last, .. }) = self.0.last_mut() {
            let count = if let What::More { count } = last { *count + 1 } else { 2 };
            *last = What::More { count };
        }
    }

    pub(crate) fn as_slice(&self) -> &[Problem] {
        &self.0
    }
}
