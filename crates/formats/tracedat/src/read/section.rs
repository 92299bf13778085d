//! Sections of version 7: a header, then bytes, compressed or not.

use super::{
    compress::Compression,
    cursor::{Cursor, Cut},
};
use std::borrow::Cow;
use transect_ftrace::Endian;

/// Section flag: compressed.
const COMPRESSED: u16 = 1;
/// Most that a section of metadata may hold decompressed. The largest, kallsyms, has about 5 MiB;
/// with many modules twenty.
const MAX_METADATA_BYTES: usize = 64 << 20;

/// A section's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) id: u16,
    pub(crate) is_compressed: bool,
    /// Offset in the file of its first byte behind the header.
    pub(crate) start: u64,
    /// Bytes in the file, as the header says.
    pub(crate) size: u64,
}

impl Section {
    /// Reads the header at `offset`.
    pub(crate) fn open(file: &[u8], offset: u64, endian: Endian) -> Result<Self, Cut> {
        let cut = Cut { at_bytes: file.len() as u64, what: "section header" };
        let start = usize::try_from(offset).map_err(|_| cut)?;
        let mut cursor = Cursor::new(file.get(start..).ok_or(cut)?, offset, endian);
        let id = cursor.u16("section id")?;
        let flags = cursor.u16("section flags")?;
        cursor.u32("section description")?;
        let size = cursor.u64("section size")?;
        Ok(Section { id, is_compressed: flags & COMPRESSED != 0, start: cursor.offset(), size })
    }

    /// First byte behind the section, `None` if the size is absurd.
    pub(crate) fn end(&self) -> Option<u64> {
        self.start.checked_add(self.size)
    }

    /// The bytes there are, decompressed, and what is wrong if that is not all of them.
    pub(crate) fn bytes<'a>(
        &self,
        file: &'a [u8],
        endian: Endian,
        compression: Compression,
    ) -> (Cow<'a, [u8]>, Option<String>) {
        let start = usize::try_from(self.start).unwrap_or(usize::MAX);
        let rest = file.get(start..).unwrap_or_default();
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let here = &rest[..size.min(rest.len())];
        let cut = (size > rest.len()).then(|| {
            format!("the file ends {} bytes before the section does", self.size - rest.len() as u64)
        });
        if !self.is_compressed || compression == Compression::None {
            return (Cow::Borrowed(here), cut);
        }
        let (bytes, error) = decompress(here, endian, compression);
        (Cow::Owned(bytes), cut.or(error))
    }
}

fn decompress(input: &[u8], endian: Endian, compression: Compression) -> (Vec<u8>, Option<String>) {
    let mut out = Vec::new();
    let mut cursor = Cursor::new(input, 0, endian);
    let (Ok(packed), Ok(unpacked)) = (cursor.u32("size"), cursor.u32("size")) else {
        return (out, Some("no room for the compression header".into()));
    };
    let unpacked = unpacked as usize;
    if unpacked > MAX_METADATA_BYTES {
        let what = format!("claims {unpacked} bytes decompressed, more than {MAX_METADATA_BYTES}");
        return (out, Some(what));
    }
    let data = cursor.rest();
    let data = &data[..data.len().min(packed as usize)];
    let error = compression.decompress(data, unpacked, &mut out).err();
    (out, error.map(|err| format!("decompression failed: {err}")))
}
