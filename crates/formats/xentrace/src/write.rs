//! Writing xentrace files, as xentrace lays them out.

use crate::{
    encode::encode,
    event::XenEvent,
    stream::Record,
    word::{CPU_CHANGE_HEAD, EVENT_MASK, Head, MAX_CPUS, MAX_EXTRA_WORDS},
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};
use thiserror::Error;
use transect_model::ids::CpuId;

/// Why a record cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// More words than a header can say.
    #[error("a record of event {event:#x} has {words} words: the maximum is 7")]
    Words {
        /// Its event number.
        event: u32,
        /// Its words.
        words: usize,
    },
    /// An event number that does not fit in a header.
    #[error("event number {event:#x} has more than 28 bits")]
    Event {
        /// The number.
        event: u32,
    },
    /// More CPUs than Xen can have.
    #[error("invalid CPU {cpu}: Xen has at most 16384")]
    Cpu {
        /// The CPU.
        cpu: CpuId,
    },
    /// [`XenEvent::Other`] has no record of its own.
    #[error("a generic event cannot be written: write its record")]
    Other,
    /// The output failed.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Writes windows: records are collected by CPU, and when so many bytes of one are there, those of
/// all are written, in the order of the CPUs.
///
/// That is how xentrace's polls do it: windows of different CPUs overlap in time, and only within a
/// CPU are records in order. xenalyze relies on it; give records in the order of their stamps if it
/// is to read the file, for it gives up where a CPU's first window comes much later than the others.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    window_bytes: usize,
    cpus: BTreeMap<u32, Vec<u8>>,
}

/// What xentrace's buffers hold by default: 32 pages (`DEFAULT_TBUF_SIZE`).
pub const DEFAULT_WINDOW_BYTES: usize = 32 * 4096;

impl<W: Write> Writer<W> {
    /// Windows of at most `window_bytes`, but always of a record at least.
    pub fn new(out: W, window_bytes: usize) -> Writer<W> {
        Writer { out, window_bytes, cpus: BTreeMap::new() }
    }

    /// A record with these words.
    ///
    /// # Errors
    /// If it has more words or a larger number than fit, or the output fails.
    pub fn record(
        &mut self,
        cpu: CpuId,
        tsc: Option<u64>,
        event: u32,
        words: &[u32],
    ) -> Result<(), WriteError> {
        if words.len() > MAX_EXTRA_WORDS {
            return Err(WriteError::Words { event, words: words.len() });
        }
        if event & !EVENT_MASK != 0 {
            return Err(WriteError::Event { event });
        }
        let head = Head::new(event, words.len(), tsc.is_some());
        let window = self.window(cpu, head.bytes())?;
        window.extend_from_slice(&head.0.to_le_bytes());
        if let Some(tsc) = tsc {
            window.extend_from_slice(&tsc.to_le_bytes());
        }
        for word in words {
            window.extend_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    /// A typed event, with a stamp if Xen gives it one. Exits without an `isa` become those of Xen
    /// up to 4.18.
    ///
    /// # Errors
    /// [`WriteError::Other`] for an event that has no record, and if the output fails.
    pub fn event(&mut self, cpu: CpuId, tsc: u64, event: &XenEvent) -> Result<(), WriteError> {
        let encoded = encode(event).ok_or(WriteError::Other)?;
        let tsc = encoded.stamped.then_some(tsc);
        self.record(cpu, tsc, encoded.event, &encoded.words[..encoded.used])
    }

    /// A record read from another file, word for word.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn copy(&mut self, cpu: CpuId, record: &Record<'_>) -> Result<(), WriteError> {
        let mut words = [0; MAX_EXTRA_WORDS];
        let from = record.extra.chunks_exact(4);
        let used = from.len().min(MAX_EXTRA_WORDS);
        for (to, from) in words.iter_mut().zip(from) {
            *to = crate::word::word_at(from, 0);
        }
        let tsc = record.stamped.then_some(record.tsc);
        self.record(cpu, tsc, record.event, &words[..used])
    }

    /// The CPU's window, with room for so many bytes.
    fn window(&mut self, cpu: CpuId, bytes: usize) -> Result<&mut Vec<u8>, WriteError> {
        if cpu.0 >= MAX_CPUS {
            return Err(WriteError::Cpu { cpu });
        }
        let full =
            self.cpus.get(&cpu.0).is_some_and(|window| window.len() + bytes > self.window_bytes);
        if full {
            self.flush_all()?;
        }
        Ok(self.cpus.entry(cpu.0).or_default())
    }

    /// Writes what there is of a CPU.
    ///
    /// # Errors
    /// If the output fails.
    pub fn flush(&mut self, cpu: CpuId) -> Result<(), WriteError> {
        let Some(window) = self.cpus.get_mut(&cpu.0) else { return Ok(()) };
        if window.is_empty() {
            return Ok(());
        }
        let bytes = u32::try_from(window.len())
            .map_err(|_| io::Error::other("a window of more than 4 GiB"))?;
        for word in [CPU_CHANGE_HEAD, cpu.0, bytes] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(window)?;
        window.clear();
        Ok(())
    }

    /// Writes what there is of every CPU, in order, as a poll of xentrace does.
    ///
    /// # Errors
    /// If the output fails.
    pub fn flush_all(&mut self) -> Result<(), WriteError> {
        let cpus: Vec<u32> = self.cpus.keys().copied().collect();
        cpus.into_iter().try_for_each(|cpu| self.flush(CpuId(cpu)))
    }

    /// Writes the rest and gives the output back.
    ///
    /// # Errors
    /// If the output fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush_all()?;
        self.out.flush()?;
        Ok(self.out)
    }
}
