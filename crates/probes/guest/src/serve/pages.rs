//! Collects sub-buffers of one CPU into frames; slices of logs are frames already.

use super::gate::Gate;
use crate::proto::{Frame, Words};
use std::io;

/// Pages of one CPU in one Data frame: enough to amortise the header, few enough for a Pong to
/// pass soon.
const FRAME_PAGES_BYTES: usize = 64 * 1024;

/// Where a [`super::TraceRun`] puts its pages, or the slices of its logs.
pub struct PageOut<'a> {
    gate: &'a Gate<'a>,
    cpu: u32,
    pages: Vec<u8>,
}

impl<'a> PageOut<'a> {
    pub(super) fn new(gate: &'a Gate<'a>) -> Self {
        PageOut { gate, cpu: 0, pages: Vec::with_capacity(FRAME_PAGES_BYTES) }
    }

    /// Takes one sub-buffer; pages of a CPU must come in order.
    ///
    /// # Errors
    /// The channel is gone, or a sub-buffer is larger than a frame holds.
    pub fn page(&mut self, cpu: u32, page: &[u8]) -> io::Result<()> {
        if page.len() > FRAME_PAGES_BYTES {
            let text = format!("a sub-buffer of {} bytes does not fit a frame", page.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if self.cpu != cpu || self.pages.len() + page.len() > FRAME_PAGES_BYTES {
            self.flush()?;
        }
        self.cpu = cpu;
        self.pages.extend_from_slice(page);
        Ok(())
    }

    /// Takes a slice of a log; slices of a log must come in order.
    ///
    /// # Errors
    /// The channel is gone, or it is no slice of one chunk.
    pub fn words(&mut self, slice: Words<'_>) -> io::Result<()> {
        self.gate.send(&Frame::Words(slice))
    }

    /// Sends what has been collected.
    ///
    /// # Errors
    /// The channel is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.pages.is_empty() {
            return Ok(());
        }
        let sent = self.gate.send(&Frame::Data { cpu: self.cpu, pages: &self.pages });
        self.pages.clear();
        sent
    }
}
