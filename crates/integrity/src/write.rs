//! Checksums made while a file is written.

use crate::sums::{BLOCK_BYTES, FileSums};
use crc32fast::Hasher;
use std::io::{self, Write};

/// Passes bytes on to a file that is written from its beginning to its end, and sums them up.
#[derive(Debug)]
pub struct SummingWriter<W> {
    inner: W,
    sums: FileSums,
    block: Hasher,
    /// Bytes of the block that is not complete.
    filled: usize,
}

impl<W: Write> SummingWriter<W> {
    /// Begins with an empty file.
    pub fn new(inner: W) -> Self {
        SummingWriter { inner, sums: FileSums::default(), block: Hasher::new(), filled: 0 }
    }

    /// The file.
    pub fn inner(&self) -> &W {
        &self.inner
    }

    /// The checksums of what has been written.
    pub fn sums(&self) -> FileSums {
        let mut sums = self.sums.clone();
        if self.filled > 0 {
            sums.blocks.push(self.block.clone().finalize());
        }
        sums
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.sums.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.filled));
            self.block.update(now);
            self.filled += now.len();
            if self.filled == BLOCK_BYTES {
                let block = std::mem::take(&mut self.block);
                self.sums.blocks.push(block.finalize());
                self.filled = 0;
            }
            bytes = later;
        }
    }
}

impl<W: Write> Write for SummingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.add(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_sum_up_to_the_whole(parts in prop::collection::vec(0..40_000_usize, 0..6)) {
            let mut writer = SummingWriter::new(Vec::new());
            for (number, part) in parts.iter().enumerate() {
                writer.write_all(&vec![number.to_le_bytes()[0]; *part]).unwrap();
            }
            prop_assert_eq!(writer.sums(), FileSums::of(writer.inner()));
        }
    }
}
