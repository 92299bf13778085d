//! Checksums of the files that transect writes, and what finds out that they are not what was written.
//!
//! **What.** A flipped bit in a file must not become a wrong number. Compact files and the frames of the
//! history have checksums of their own. Every other file gets one here:
//!
//! | file | its checksum |
//! |---|---|
//! | `host.dat`, `xen.bin`, `xen.json`, … of a recording | blocks, listed in `checksums.bin` ([`List`]) |
//! | Parquet files of `tables/` | blocks, listed in `tables/checksums.bin` |
//! | `manifest.json`, `stamp.json`; each line of `clocks.jsonl` | a seal, which is the last member of the object ([`seal`]) |
//!
//! **Data flow.**
//! ```text
//! writer ─▶ SummingWriter ─▶ file          file ─▶ CheckedFile ─▶ Parquet reader
//!               └─ FileSums ─▶ List ─▶ checksums.bin ─┘ (blocks are verified as they are read)
//! mapped file ─▶ FileSums::damage ─▶ the ranges that are not what was written
//! ```
//!
//! **Design constraints.** A block is 16 KiB and its checksum a CRC-32: found are all damages of up to
//! 32 bits in a row, and all but one of 2³² others. Reading verifies whole blocks, so that a reader of a
//! few pages pays for those alone. Lists are bounded by the lengths of the files that they are of.

mod checked;
mod damage;
mod folder;
mod list;
mod seal;
mod sums;
mod write;

pub use checked::CheckedFile;
pub use damage::{Damage, What, damage_in};
pub use folder::{Folder, KnownFile, ListSum, STAMP_FILE_NAME, Verified};
pub use list::{LIST_FILE_NAME, List, ListError};
pub use seal::{Seal, seal, seal_line, seal_of, seal_of_line};
pub use sums::{BLOCK_BYTES, FileSums};
pub use write::SummingWriter;
