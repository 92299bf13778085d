//! The checksums of one file, block by block.

use std::ops::Range;

/// Bytes that one checksum is of; the last block of a file may be shorter.
pub const BLOCK_BYTES: usize = 16 << 10;
/// The same, for offsets in files.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// From this length on, several threads verify a file.
const LARGE_BYTES: usize = 8 << 20;

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
    ///
    /// Large content is read by several threads.
    pub fn damage(&self, content: &[u8]) -> Vec<Range<u64>> {
        let blocks = content.len().div_ceil(BLOCK_BYTES).min(self.blocks.len());
        let threads = match content.len() {
            0..LARGE_BYTES => 1,
            _ => std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(4)),
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut add = |range: Range<u64>| match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        };
        let part = blocks.div_ceil(threads).max(1);
        let parts: Vec<Range<usize>> =
            (0..blocks).step_by(part).map(|from| from..(from + part).min(blocks)).collect();
        if parts.len() <= 1 {
            self.differing(content, 0..blocks).into_iter().for_each(&mut add);
        } else {
            std::thread::scope(|scope| {
                let work = |part: Range<usize>| move || self.differing(content, part);
                let all: Vec<_> =
                    parts.into_iter().map(|part| scope.spawn(work(part.clone()))).collect();
                // A thread of this does not panic; one that did would leave its part unverified.
                let whole = Range { start: 0, end: u64::MAX };
                let found = all
                    .into_iter()
                    .map(|one| one.join().unwrap_or_else(|_| [whole.clone()].into()));
                found.flatten().for_each(&mut add);
            });
        }
        let found = content.len() as u64;
        if found != self.bytes {
            add(found.min(self.bytes)..found.max(self.bytes));
        }
        ranges
    }

    /// Those of the blocks that differ.
    fn differing(&self, content: &[u8], blocks: Range<usize>) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        let from = blocks.start * BLOCK_BYTES;
        let content = content.get(from..).unwrap_or_default();
        let sums = self.blocks.get(blocks.clone()).unwrap_or_default();
        for (number, (block, sum)) in content.chunks(BLOCK_BYTES).zip(sums).enumerate() {
            let start = (blocks.start + number) as u64 * BLOCK;
            // A last block that was cut or has grown is another one than was written.
            let end = (start + BLOCK).min(self.bytes);
            if start + block.len() as u64 != end || crc32fast::hash(block) != *sum {
                ranges.push(start..end.max(start + block.len() as u64));
            }
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

    /// Several threads find what one does.
    #[test]
    fn large_content_is_verified_in_parts() {
        let mut content: Vec<u8> = (0..LARGE_BYTES + 5).map(|n| n.to_le_bytes()[1]).collect();
        let sums = FileSums::of(&content);
        assert_eq!(sums.damage(&content), []);
        for block in [0, 1, 255, 256, 257, 511, 512] {
            content[block * BLOCK_BYTES] ^= 4;
        }
        let blocks = |from: u64, to: u64| from * BLOCK..(to * BLOCK).min(content.len() as u64);
        assert_eq!(sums.damage(&content), [blocks(0, 2), blocks(255, 258), blocks(511, 513)]);
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
