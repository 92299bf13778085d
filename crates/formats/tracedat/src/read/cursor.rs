//! Bounded reading of the file's integers and strings.

use transect_ftrace::Endian;

/// The input ended at `at_bytes` before `what` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) at_bytes: u64,
    pub(crate) what: &'static str,
}

/// A place in a piece of the file.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes[0]` in the file, for messages.
    base: u64,
    pub(crate) endian: Endian,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64, endian: Endian) -> Self {
        Cursor { bytes, at: 0, base, endian }
    }

    /// Offset in the file (or, in decompressed data, behind the section's offset).
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Bytes from here to the end.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], Cut> {
        let cut = Cut { at_bytes: self.base + self.bytes.len() as u64, what };
        let len = usize::try_from(len).map_err(|_| cut)?;
        let taken = self.rest().get(..len).ok_or(cut)?;
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Cut> {
        Ok(self.take(1, what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, Cut> {
        let bytes = self.take(2, what)?;
        Ok(self.endian.u16(bytes, 0).unwrap_or_default())
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Cut> {
        let bytes = self.take(4, what)?;
        Ok(self.endian.u32(bytes, 0).unwrap_or_default())
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Cut> {
        let bytes = self.take(8, what)?;
        Ok(self.endian.u64(bytes, 0).unwrap_or_default())
    }

    /// A zero-terminated string, without its zero.
    pub(crate) fn cstr(&mut self, what: &'static str) -> Result<&'a [u8], Cut> {
        let rest = self.rest();
        let Some(len) = rest.iter().position(|b| *b == 0) else {
            return Err(Cut { at_bytes: self.base + self.bytes.len() as u64, what });
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    /// [`Cursor::cstr`] as text; the file format promises ASCII, names are shown as they come.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, Cut> {
        Ok(String::from_utf8_lossy(self.cstr(what)?).into_owned())
    }
}
