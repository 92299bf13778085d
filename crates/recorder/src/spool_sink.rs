//! Lets the collector write into a recording's spools.

use super::ending::as_io;
use std::{fs::File, io};
use transect_model::ids::CpuId;
use transect_store::{CpuSpool, SourceSpool};
use transect_tracefs::{CpuSink, PageSink};

/// The spools of one source, as the collector wants them.
pub(super) struct SpoolSink(pub(super) SourceSpool);

impl PageSink for SpoolSink {
    fn cpu(&self, cpu: CpuId) -> io::Result<Box<dyn CpuSink>> {
        Ok(Box::new(CpuSpoolSink(self.0.cpu(cpu).map_err(as_io)?)))
    }
}

struct CpuSpoolSink(CpuSpool);

impl CpuSink for CpuSpoolSink {
    fn file(&self) -> Option<&File> {
        Some(self.0.file())
    }

    fn spliced(&mut self, bytes: u64) {
        self.0.spliced(bytes);
    }

    fn cut_back(&mut self) {
        self.0.cut_back();
    }

    fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
        self.0.append(pages).map_err(as_io)
    }
}
