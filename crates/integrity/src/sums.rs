//! The checksums of one file, block by block.

use std::ops::Range;

/// Bytes that one checksum is of; the last block of a file may be shorter.
pub const BLOCK_BYTES: usize = 16 << 10;
/// The same, for offsets in files.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// What a file was when it was written: its length and the CRC-32 of each block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSums {
    pub(crate) bytes: u64,
    pub(crate) blocks: Vec<u32>,
}

impl FileSums {
    /// Those of a file with this content.
    pub fn of(content: &[u8]) -> Self {
        let blocks = content.chunks(BLOCK_BYTES).map(crc32fast::hash).collect();
        FileSums { bytes: content.len() as u64, blocks }
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many blocks the file has.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// One number for all of them, for a list that only compares files.
    pub fn digest(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.bytes.to_le_bytes());
        self.blocks.iter().for_each(|sum| hasher.update(&sum.to_le_bytes()));
        hasher.finalize()
    }

    /// Is this block what was written?
    pub(crate) fn is_whole(&self, number: u64, content: &[u8]) -> bool {
        let sum = usize::try_from(number).ok().and_then(|number| self.blocks.get(number));
        sum == Some(&crc32fast::hash(content))
    }

    /// The ranges of a file that are not what was written, in order and apart from one another; their
    /// edges are those of blocks. Bytes that are missing or that were added at its end are such a range,
    /// too: no range means that the content is what was written.
    pub fn damage(&self, content: &[u8]) -> Vec<Range<u64>> {
        let found = content.len() as u64;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut add = |range: Range<u64>| match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        };
        for (number, (block, sum)) in content.chunks(BLOCK_BYTES).zip(&self.blocks).enumerate() {
            let start = number as u64 * BLOCK;
            // A last block that was cut or has grown is another one than was written.
            let end = (start + BLOCK).min(self.bytes);
            if start + block.len() as u64 != end || crc32fast::hash(block) != *sum {
                add(start..end.max(start + block.len() as u64));
            }
        }
        if found != self.bytes {
            add(found.min(self.bytes)..found.max(self.bytes));
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_possible_truncation,
        clippy::single_range_in_vec_init,
        reason = "lengths of small files, and lists of ranges"
    )]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn content_as_written_has_no_damage() {
        for bytes in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES] {
            let content = vec![7; bytes];
            let sums = FileSums::of(&content);
            assert_eq!(sums.damage(&content), []);
            assert_eq!(sums.blocks(), bytes.div_ceil(BLOCK_BYTES));
        }
    }

    #[test]
    fn damage_is_told_by_blocks() {
        let mut content = vec![7; 3 * BLOCK_BYTES + 100];
        let sums = FileSums::of(&content);
        let end = content.len() as u64;
        assert_eq!(sums.damage(&content[..BLOCK_BYTES]), [BLOCK..end]);
        assert_eq!(sums.damage(&content[..end as usize - 1]), [3 * BLOCK..end]);
        assert_eq!(sums.damage(&[]), [0..end]);
        content.push(1);
        assert_eq!(sums.damage(&content), [3 * BLOCK..end + 1]);
        content.truncate(end as usize);
        content[BLOCK_BYTES] ^= 1;
        content[2 * BLOCK_BYTES - 1] ^= 0x80;
        assert_eq!(sums.damage(&content), [BLOCK..2 * BLOCK]);
        content[2 * BLOCK_BYTES] ^= 1;
        assert_eq!(sums.damage(&content), [BLOCK..3 * BLOCK]);
        assert_eq!(FileSums::of(b"").damage(b"x"), [0..1]);
    }

    proptest! {
        #[test]
        fn every_flip_is_in_a_damaged_range(
            bytes in 1..4 * BLOCK_BYTES, at in any::<prop::sample::Index>(), bit in 0..8_u8,
        ) {
            let mut content: Vec<u8> = (0..bytes).map(|n| n.to_le_bytes()[0]).collect();
            let sums = FileSums::of(&content);
            let at = at.index(bytes);
            content[at] ^= 1 << bit;
            let ranges = sums.damage(&content);
            prop_assert!(ranges.len() == 1 && ranges[0].contains(&(at as u64)));
        }
    }
}
