//! The header of a file: everything before its first section.

use super::{
    compress::Compression,
    cursor::{Cursor, Cut},
};
use crate::problem::{Error, Place};
use transect_ftrace::Endian;

/// The first bytes of every trace.dat file.
pub const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// What a file says about itself before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// 6 or 7.
    pub version: u32,
    /// Byte order of the file and of the traced machine.
    pub endian: Endian,
    /// Bytes of `long` in the program that wrote the file (the kernel's: see
    /// [`PageLayout::commit_bytes`](transect_ftrace::PageLayout::commit_bytes)).
    pub long_bytes: u8,
    /// Page size of the traced machine.
    pub page_bytes: u32,
    /// How sections are compressed.
    pub compression: Compression,
}

/// Reads up to the options' offset (version 7) or the first section (version 6).
pub(super) fn read_header(file: &[u8]) -> Result<(Header, Cursor<'_>), Error> {
    let cut = |cut: Cut| Error::Cut { at_bytes: cut.at_bytes, place: Place::Header };
    let mut cursor = Cursor::new(file, 0, Endian::Little);
    if !file.starts_with(MAGIC) {
        let is_short = MAGIC.starts_with(file) && !file.is_empty();
        if is_short {
            return Err(Error::Cut { at_bytes: file.len() as u64, place: Place::Header });
        }
        return Err(Error::Magic { found: first_bytes(file) });
    }
    cursor.take(MAGIC.len() as u64, "magic").map_err(cut)?;
    let version = cursor.string("version").map_err(cut)?;
    let version: u32 = match version.as_str() {
        "6" => 6,
        "7" => 7,
        _ => return Err(Error::Version { version: version.chars().take(20).collect() }),
    };
    let bad = |at_bytes: u64, what: String| Error::Header { at_bytes: at_bytes - 1, what };
    let endian = match cursor.u8("byte order").map_err(cut)? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(bad(cursor.offset(), format!("byte order is {other}, not 0 or 1"))),
    };
    cursor.endian = endian;
    let long_bytes = cursor.u8("size of long").map_err(cut)?;
    if !matches!(long_bytes, 4 | 8) {
        return Err(bad(cursor.offset(), format!("a long of {long_bytes} bytes, not 4 or 8")));
    }
    let page_bytes = cursor.u32("page size").map_err(cut)?;
    if !(64..=16 << 20).contains(&page_bytes) {
        return Err(bad(cursor.offset() - 3, format!("invalid page size of {page_bytes} bytes")));
    }
    let mut compression = Compression::None;
    if version == 7 {
        let name = cursor.string("compression name").map_err(cut)?;
        cursor.string("compression version").map_err(cut)?;
        compression =
            Compression::from_name(&name).ok_or(Error::Compression { name: clip(name) })?;
    }
    Ok((Header { version, endian, long_bytes, page_bytes, compression }, cursor))
}

fn clip(name: String) -> String {
    name.chars().take(40).collect()
}

fn first_bytes(file: &[u8]) -> String {
    if file.is_empty() {
        return "nothing (the file is empty)".into();
    }
    let hex: Vec<String> = file.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    hex.join(" ")
}
