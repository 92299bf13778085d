//! Where records go.

use std::io;

use transect_model::ids::CpuId;

/// Takes slices of logs, in order of position within each log.
pub trait LogSink: Send {
    /// One slice: whole records, never across the end of a chunk (32 KiB of positions).
    ///
    /// `side`: 0 for the CPU's main log, else the number of the side log. `position`: stream position of the first byte, that is bytes
    /// ever written to the log before it; a gap to the end of the slice before is overwritten or
    /// lost data. `sync_ns`: stamp of the SYNC at the chunk's start (CLOCK_MONOTONIC). `lost`: events
    /// that log has lost so far. `words` is the kernel's memory itself, valid during the call.
    ///
    /// # Errors
    /// Taking ends at the first error, which [`crate::Consumer::finish`] reports.
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()>;

    /// All CPUs have been looked at, and a pause follows: a good moment to flush.
    ///
    /// # Errors
    /// As for a slice.
    fn round_done(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes everything and keeps nothing.
pub(crate) struct Discard;

impl LogSink for Discard {
    fn slice(&mut self, _: CpuId, _: u8, _: u64, _: u64, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
