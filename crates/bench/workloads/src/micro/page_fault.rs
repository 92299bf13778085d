//! First touches of anonymous pages.

use crate::{looped::Operation, support::mapped::Mapped, workload::Place};
use std::{
    io,
    time::{Duration, Instant},
};
use transect_bench_core::Fault;

/// Pages that are touched in a row.
const PAGES: usize = 256;

struct Faults(Mapped);

impl Operation for Faults {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        let mut took = Duration::ZERO;
        for _ in 0..times {
            // Giving them back is no fault, and is not measured.
            self.0.forget()?;
            let from = Instant::now();
            self.0.touch();
            took += from.elapsed();
        }
        Ok(took)
    }

    fn weight(&self) -> u64 {
        PAGES as u64
    }
}

pub(super) fn make(_: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let mapped = Mapped::anonymous(PAGES * rustix::param::page_size());
    Ok(Box::new(Faults(mapped.map_err(|error| Fault::failed(format!("mmap: {error}")))?)))
}
