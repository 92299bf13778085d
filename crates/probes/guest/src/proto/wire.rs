//! Integers and strings as bytes: little-endian, length first, every read bounds-checked.

use super::error::ProtoError;
use transect_model::untrusted::Untrusted;

/// Appends values to a payload.
pub(super) struct Put<'a>(pub(super) &'a mut Vec<u8>);

impl Put<'_> {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    /// A string of at most 65,535 bytes, its length before it.
    pub(super) fn str(&mut self, what: &'static str, value: &str) -> Result<(), ProtoError> {
        self.count(what, value.len())?;
        self.bytes(value.as_bytes());
        Ok(())
    }

    /// As [`Put::str`]: the text as it is.
    pub(super) fn text(
        &mut self,
        what: &'static str,
        value: &Untrusted<String>,
    ) -> Result<(), ProtoError> {
        self.str(what, value.raw_for_storage())
    }

    /// Texts, their number before them.
    pub(super) fn texts(
        &mut self,
        what: &'static str,
        list: &[Untrusted<String>],
    ) -> Result<(), ProtoError> {
        self.count(what, list.len())?;
        list.iter().try_for_each(|text| self.text(what, text))
    }

    /// Strings, their number before them.
    pub(super) fn strs(&mut self, what: &'static str, list: &[String]) -> Result<(), ProtoError> {
        self.count(what, list.len())?;
        list.iter().try_for_each(|text| self.str(what, text))
    }

    /// Numbers, their number before them.
    pub(super) fn u32s(&mut self, what: &'static str, list: &[u32]) -> Result<(), ProtoError> {
        self.count(what, list.len())?;
        list.iter().for_each(|value| self.u32(*value));
        Ok(())
    }

    /// The length of what follows, as `u16`.
    pub(super) fn count(&mut self, what: &'static str, count: usize) -> Result<(), ProtoError> {
        let max = usize::from(u16::MAX);
        let short =
            u16::try_from(count).map_err(|_| ProtoError::TooLong { what, len: count, max })?;
        self.u16(short);
        Ok(())
    }
}

/// Takes values off a payload; an error names what was being read and where.
pub(super) struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Take<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Take { bytes, at: 0 }
    }

    fn slice(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], ProtoError> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let slice = found.ok_or(ProtoError::Truncated { what, at: self.at })?;
        self.at += len;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ProtoError> {
        let at = self.at;
        self.slice(what, N)?.try_into().map_err(|_| ProtoError::Truncated { what, at })
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, ProtoError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, ProtoError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, ProtoError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, ProtoError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub(super) fn bool(&mut self, what: &'static str) -> Result<bool, ProtoError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(ProtoError::BadValue { what, value: u64::from(value) }),
        }
    }

    pub(super) fn str(&mut self, what: &'static str) -> Result<String, ProtoError> {
        let len = usize::from(self.u16(what)?);
        let bytes = self.slice(what, len)?;
        let text = std::str::from_utf8(bytes).map_err(|_| ProtoError::NotUtf8 { what })?;
        Ok(text.to_owned())
    }

    /// A string that the peer chose and people may read.
    pub(super) fn text(&mut self, what: &'static str) -> Result<Untrusted<String>, ProtoError> {
        self.str(what).map(Untrusted::new)
    }

    pub(super) fn texts(
        &mut self,
        what: &'static str,
    ) -> Result<Vec<Untrusted<String>>, ProtoError> {
        self.list(what, 2, |take| take.text(what))
    }

    /// A list whose elements each take at least `min_bytes`; the bound keeps a lying count from
    /// reserving memory that the payload cannot fill.
    pub(super) fn list<T>(
        &mut self,
        what: &'static str,
        min_bytes: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, ProtoError>,
    ) -> Result<Vec<T>, ProtoError> {
        let count = usize::from(self.u16(what)?);
        let room = (self.bytes.len() - self.at) / min_bytes.max(1);
        if count > room {
            return Err(ProtoError::Truncated { what, at: self.at });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    pub(super) fn strs(&mut self, what: &'static str) -> Result<Vec<String>, ProtoError> {
        self.list(what, 2, |take| take.str(what))
    }

    pub(super) fn u32s(&mut self, what: &'static str) -> Result<Vec<u32>, ProtoError> {
        self.list(what, 4, |take| take.u32(what))
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    pub(super) fn end(&self, what: &'static str) -> Result<(), ProtoError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            bytes => Err(ProtoError::Trailing { what, bytes }),
        }
    }
}
