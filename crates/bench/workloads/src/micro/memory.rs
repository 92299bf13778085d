//! Memory read and written, past all caches of the CPU.

use crate::{
    looped::{Operation, timed},
    support::asked,
    workload::Place,
};
use std::{hint::black_box, io, time::Duration};
use transect_bench_core::{Fault, protocol::Param};

/// Words in one operation: 1 MiB.
pub(super) const CHUNK_WORDS: usize = 1 << 17;

pub(super) fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![("mib", Param::Int(64), "size of the memory, MiB; more than the CPU's caches")]
}

/// The sum of words; what the compiler makes of it reads each once.
pub(super) fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

struct Memory {
    words: Vec<u64>,
    chunk: usize,
    is_written: bool,
}

impl Memory {
    fn make(place: &Place<'_>, is_written: bool) -> Result<Box<dyn Operation>, Fault> {
        let mib = asked::number(place.job, "mib", 1..=1 << 16)?;
        let words = usize::try_from(mib).map_err(Fault::failed)? * CHUNK_WORDS;
        // Not zeros: the pages have to be there, each its own.
        Ok(Box::new(Self { words: vec![1; words], chunk: 0, is_written }))
    }
}

impl Operation for Memory {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        let chunks = self.words.len() / CHUNK_WORDS;
        timed(times, || {
            let from = self.chunk * CHUNK_WORDS;
            self.chunk = (self.chunk + 1) % chunks;
            let words = &mut self.words[from..from + CHUNK_WORDS];
            if self.is_written {
                let value = black_box(0x0102_0304_0506_0708);
                words.fill(value);
                black_box(words);
            } else {
                black_box(sum(black_box(words)));
            }
            Ok(())
        })
    }

    fn weight(&self) -> u64 {
        8 * CHUNK_WORDS as u64
    }
}

pub(super) fn make_read(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    Memory::make(place, false)
}

pub(super) fn make_write(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    Memory::make(place, true)
}
