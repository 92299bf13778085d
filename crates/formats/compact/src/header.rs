//! The file header: who wrote the file, on what machine, and what its records are made of.

use crate::{
    error::Error,
    kind::{KINDS, TABLE, WORDS},
    record::{CHUNK_BYTES, isa_of, isa_word},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, ops::RangeInclusive};
use transect_model::exit::Isa;

/// First bytes of a file.
pub const MAGIC: &[u8; 8] = b"TRNSCTC1";
/// Magic, length and checksum: what stands before the JSON.
const FIXED_BYTES: usize = 16;
/// Longest header accepted; ours are about 5 KiB.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// [`CHUNK_BYTES`], as the header holds it.
const CHUNK_BYTES_U32: u32 = 32 * 1024;
const _: () = assert!(CHUNK_BYTES_U32 as usize == CHUNK_BYTES);
/// The version this codec writes.
pub const VERSION: u32 = 3;
/// The versions it reads: each has all kinds of the one before.
pub const VERSIONS: RangeInclusive<u32> = 1..=VERSION;

/// What the JSON of a file header says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileHeader {
    /// Version of the format: one of [`VERSIONS`].
    pub version: u32,
    /// Clock of all stamps: `mono` (`CLOCK_MONOTONIC`, ns).
    pub clock: String,
    /// CPUs the machine can have (logs exist for those that wrote something).
    pub cpus: u32,
    /// Who numbers VM exit reasons: `vmx`, `svm`, `arm64`, `other`.
    pub isa: String,
    /// Kernel release and machine, as `uname -srm` prints them; empty if not known.
    #[serde(default)]
    pub uname: String,
    /// Bytes of a chunk: 32768.
    pub chunk_bytes: u32,
    /// A flight recorder's: a log that does not begin at position 0 was overwritten up to its first
    /// block.
    #[serde(default)]
    pub overwrite: bool,
    /// Every kind of record, so that a reader can skip those it does not know.
    pub kinds: Vec<KindRow>,
    /// What was recorded: one text per event (`sched:sched_switch`) or filter.
    #[serde(default)]
    pub events: Vec<String>,
    /// Whatever else the writer has to say; readers keep it.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// One kind of record, as a file header describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindRow {
    /// Number, 0 to 63.
    pub kind: u8,
    /// Name.
    pub name: String,
    /// Words per record.
    pub words: u8,
    /// Bit layout, for people and other readers.
    #[serde(default)]
    pub fields: String,
}

impl FileHeader {
    /// The header of a file of this version.
    pub fn new(cpus: u32, isa: Isa, uname: impl Into<String>) -> Self {
        FileHeader {
            version: VERSION,
            clock: "mono".into(),
            cpus,
            isa: isa_word(isa).into(),
            uname: uname.into(),
            chunk_bytes: CHUNK_BYTES_U32,
            overwrite: false,
            kinds: TABLE
                .iter()
                .map(|row| KindRow {
                    kind: row.kind,
                    name: row.name.into(),
                    words: row.words,
                    fields: row.fields.into(),
                })
                .collect(),
            events: Vec::new(),
            more: BTreeMap::new(),
        }
    }

    /// Who numbers VM exit reasons.
    pub fn isa(&self) -> Isa {
        isa_of(&self.isa)
    }

    /// The bytes a file begins with.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only strings, numbers and maps with string keys: JSON has a form for all of it.
        let mut json = serde_json::to_vec(self).unwrap_or_default();
        let padded = (FIXED_BYTES + json.len()).next_multiple_of(8);
        json.resize(padded - FIXED_BYTES, b' ');
        let mut bytes = Vec::with_capacity(padded);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::try_from(padded).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        bytes.extend_from_slice(&json);
        bytes
    }

    /// Reads the header and its length in bytes.
    pub(crate) fn parse(file: &[u8]) -> Result<(Self, usize), Error> {
        let cut = Error::Cut { at_bytes: file.len() as u64 };
        if !file.starts_with(&MAGIC[..file.len().min(MAGIC.len())]) || file.is_empty() {
            let found =
                String::from_utf8_lossy(&file[..file.len().min(8)]).escape_debug().to_string();
            return Err(Error::Magic { found: format!("\"{found}\"") });
        }
        let (Some(length), Some(crc)) = (u32_at(file, 8), u32_at(file, 12)) else {
            return Err(cut);
        };
        let bad = |at_bytes, what: String| Err(Error::Header { at_bytes, what });
        let length = length as usize;
        if !(FIXED_BYTES..=MAX_HEADER_BYTES).contains(&length) || !length.is_multiple_of(8) {
            return bad(8, format!("invalid length {length}"));
        }
        let Some(json) = file.get(FIXED_BYTES..length) else { return Err(cut) };
        if crc32fast::hash(json) != crc {
            return bad(12, "the checksum is wrong".into());
        }
        let version = serde_json::from_slice::<Versioned>(json).map(|v| v.version);
        if let Ok(version) = version
            && !VERSIONS.contains(&version)
        {
            return Err(Error::Version { version });
        }
        let header: FileHeader = match serde_json::from_slice(json) {
            Ok(header) => header,
            Err(err) => return bad(FIXED_BYTES as u64, err.to_string()),
        };
        header.check()?;
        Ok((header, length))
    }

    fn check(&self) -> Result<(), Error> {
        let bad = |what: String| Err(Error::Header { at_bytes: FIXED_BYTES as u64, what });
        if self.chunk_bytes as usize != CHUNK_BYTES {
            return bad(format!("chunk_bytes is {}, {CHUNK_BYTES} is supported", self.chunk_bytes));
        }
        for row in &self.kinds {
            let Some(ours) = WORDS.get(usize::from(row.kind)) else {
                return bad(format!("kind {} has more than 6 bits", row.kind));
            };
            if !(1..=3).contains(&row.words) || *ours != 0 && *ours != row.words {
                return bad(format!("kind {} ({}) has {} words", row.kind, row.name, row.words));
            }
        }
        Ok(())
    }

    /// Words per record of every kind this version or the file knows.
    pub(crate) fn words(&self) -> [u8; KINDS] {
        let mut words = WORDS;
        for row in &self.kinds {
            if let Some(slot) = words.get_mut(usize::from(row.kind)) {
                *slot = row.words;
            }
        }
        words
    }
}

/// The one field that is where it is in every version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A little-endian number, `None` beyond the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// A little-endian number, `None` beyond the end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
