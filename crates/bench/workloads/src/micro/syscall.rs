//! The cheapest system call.

use crate::{
    looped::{Operation, timed},
    workload::Place,
};
use std::{hint::black_box, io, time::Duration};
use transect_bench_core::Fault;

/// `getppid`: no library answers it from memory, and the kernel does next to nothing.
pub(crate) struct Getppid;

impl Operation for Getppid {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        timed(times, || {
            black_box(rustix::process::getppid());
            Ok(())
        })
    }
}

pub(super) fn make(_: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    Ok(Box::new(Getppid))
}
