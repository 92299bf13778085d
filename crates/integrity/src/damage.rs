//! What is wrong with a file, as an error that other errors can carry.

use crate::list::ListError;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A file that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// How it differs.
    pub what: What,
}

/// How a file differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is not there.
    Missing,
    /// It has another length.
    Length {
        /// Bytes that it has.
        found: u64,
        /// Bytes that were written.
        written: u64,
    },
    /// A block has another checksum.
    Block {
        /// Where the block begins.
        offset: u64,
    },
    /// It is not in the list of files.
    Unlisted,
    /// Its checksum, or the one that another file has of it, is wrong.
    Sum,
    /// It has no checksum: cut, or written by an earlier version.
    NoSum,
    /// It is no list of checksums.
    List(ListError),
    /// It was removed when damage was found in the files that it is about.
    Distrusted,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Missing => f.write_str("the file is missing"),
            What::Length { found, written } => {
                write!(f, "the file has {found} bytes; {written} were written")
            }
            What::Block { offset } => {
                write!(f, "byte {offset}: the checksum of the block is wrong")
            }
            What::Unlisted => f.write_str("the file is not in the list of checksums"),
            What::Sum => f.write_str("the checksum of the file is wrong"),
            What::NoSum => f.write_str("the file has no checksum"),
            What::List(error) => error.fmt(f),
            What::Distrusted => f.write_str("removed after damage was found in these files"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: damaged: {}", self.path.display(), self.what)
    }
}

impl Error for Damage {}

impl From<Damage> for io::Error {
    fn from(damage: Damage) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, damage)
    }
}

/// The damage that an error tells of, itself or by its causes: libraries put it into errors of their own.
pub fn damage_in<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Damage> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(damage) = error.downcast_ref::<Damage>() {
            return Some(damage);
        }
        // The cause of an I/O error is that of the error within it, which is passed over.
        if let Some(within) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(damage) = damage_in(within)
        {
            return Some(damage);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::errors::ParquetError;

    #[test]
    fn damage_is_found_in_the_errors_of_libraries() {
        let damage = Damage { path: "a/b".into(), what: What::Block { offset: 16384 } };
        assert_eq!(
            damage.to_string(),
            "a/b: damaged: byte 16384: the checksum of the block is wrong"
        );
        let io = io::Error::from(damage.clone());
        assert_eq!(damage_in(&io), Some(&damage));
        let twice = io::Error::other(io);
        assert_eq!(damage_in(&twice), Some(&damage));
        let parquet = ParquetError::from(twice);
        assert_eq!(damage_in(&parquet), Some(&damage));
        assert_eq!(damage_in(&io::Error::other("full")), None);
    }
}
