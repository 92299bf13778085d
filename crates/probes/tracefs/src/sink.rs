//! Who takes the pages: a file on the host, a channel in the guest.

use std::{fs::File, io};
use transect_model::ids::CpuId;

/// Takes the sub-buffers of one CPU, in order. Lives in that CPU's reader thread.
pub trait CpuSink: Send {
    /// A file to splice(2) into, so that events go from the ring buffer to the page cache without
    /// passing through this process. Must not be opened with O_APPEND. `None`: wants bytes.
    fn file(&self) -> Option<&File> {
        None
    }

    /// `bytes` (whole sub-buffers) went into [`CpuSink::file`].
    fn spliced(&mut self, _bytes: u64) {}

    /// Splicing stopped in the middle of a sub-buffer: cut the file back to its last whole one.
    fn cut_back(&mut self) {}

    /// Takes whole sub-buffers as bytes.
    ///
    /// # Errors
    /// Ends this CPU's reading; the recording is told.
    fn pages(&mut self, pages: &[u8]) -> io::Result<()>;
}

/// Makes a [`CpuSink`] for each CPU that comes online.
pub trait PageSink: Send + Sync {
    /// The sink of `cpu`; called once per CPU and collector.
    fn cpu(&self, cpu: CpuId) -> io::Result<Box<dyn CpuSink>>;
}
