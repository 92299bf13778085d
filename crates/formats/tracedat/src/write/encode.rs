//! Bytes of sections and options, sizes filled in behind the fact.

use super::spec::WriteError;
use crate::read::Compression;
use std::io::Write;
use transect_ftrace::Endian;

/// Of zstd; trace-cmd uses the same.
const ZSTD_LEVEL: i32 = 3;

/// A growing piece of the file.
pub(super) struct Encoder {
    endian: Endian,
    compression: Compression,
    /// Offset of the piece in the file.
    base: u64,
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(endian: Endian, compression: Compression, base: u64) -> Self {
        Encoder { endian, compression, base, bytes: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Offset in the file of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&self.endian.bytes_u16(value));
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&self.endian.bytes_u32(value));
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&self.endian.bytes_u64(value));
    }

    /// A zero-terminated string; a zero within would end it early, so it does.
    pub(super) fn cstr(&mut self, text: &str) {
        self.bytes(text.split('\0').next().unwrap_or_default().as_bytes());
        self.bytes.push(0);
    }

    /// Bytes with their length before them in 64 bits.
    pub(super) fn sized64(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// Bytes with their length before them in 32 bits (more than that is cut off).
    pub(super) fn sized32(&mut self, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.u32(len);
        self.bytes(&bytes[..len as usize]);
    }

    /// A number of `format` files and the files.
    pub(super) fn formats(&mut self, formats: &[Vec<u8>]) {
        self.u32(u32::try_from(formats.len()).unwrap_or(u32::MAX));
        for format in formats {
            self.sized64(format);
        }
    }

    /// Room for a number that is not known yet: its place in the piece.
    pub(super) fn reserve_u64(&mut self) -> usize {
        let at = self.bytes.len();
        self.u64(0);
        at
    }

    pub(super) fn patch_u64(&mut self, at: usize, value: u64) {
        let bytes = self.endian.bytes_u64(value);
        self.bytes[at..at + 8].copy_from_slice(&bytes);
    }

    /// A section's header. Gives the place of its size for [`Encoder::close_section`].
    pub(super) fn section(
        &mut self,
        id: u16,
        is_compressed: bool,
        description: u32,
        size: u64,
    ) -> usize {
        self.u16(id);
        self.u16(u16::from(is_compressed));
        self.u32(description);
        let at = self.reserve_u64();
        self.patch_u64(at, size);
        at
    }

    /// Sets a section's size to what has been written since its header.
    pub(super) fn close_section(&mut self, size_at: usize) {
        let size = self.bytes.len() - size_at - 8;
        self.patch_u64(size_at, size as u64);
    }

    /// A whole section of metadata, compressed if the file is.
    pub(super) fn metadata(
        &mut self,
        id: u16,
        description: u32,
        write: impl FnOnce(&mut Encoder) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut content = Encoder::new(self.endian, self.compression, 0);
        write(&mut content)?;
        let is_compressed = self.compression != Compression::None;
        let size = self.section(id, is_compressed, description, 0);
        if is_compressed {
            let packed = compress(self.compression, &content.bytes)?;
            self.u32(len32(&packed)?);
            self.u32(len32(&content.bytes)?);
            self.bytes(&packed);
        } else {
            self.bytes(&content.bytes);
        }
        self.close_section(size);
        Ok(())
    }

    /// One option.
    pub(super) fn option(
        &mut self,
        id: u16,
        write: impl FnOnce(&mut Encoder),
    ) -> Result<(), WriteError> {
        let mut content = Encoder::new(self.endian, self.compression, 0);
        write(&mut content);
        self.u16(id);
        self.u32(len32(&content.bytes)?);
        self.bytes(&content.bytes);
        Ok(())
    }
}

/// Length as the format's 32 bits.
pub(super) fn len32(bytes: &[u8]) -> Result<u32, WriteError> {
    u32::try_from(bytes.len())
        .map_err(|_| WriteError::Spec(format!("a part of {} bytes is too large", bytes.len())))
}

pub(super) fn compress(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>, WriteError> {
    Ok(match compression {
        Compression::None => bytes.to_vec(),
        Compression::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL)?,
        Compression::Zlib => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes)?;
            encoder.finish()?
        }
    })
}
