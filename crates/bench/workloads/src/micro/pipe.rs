//! Bytes through a pipe.

use crate::{
    looped::{Operation, timed},
    support::forked::Forked,
    workload::Place,
};
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    time::Duration,
};
use transect_bench_core::Fault;

/// Bytes of one transfer, as LMbench's `bw_pipe`: also what a pipe holds.
const TRANSFER_BYTES: usize = 64 << 10;

struct Pipe {
    from: PipeReader,
    buffer: Vec<u8>,
    /// Writes until it is killed.
    _writer: Forked,
}

impl Operation for Pipe {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        timed(times, || self.from.read_exact(&mut self.buffer))
    }

    fn weight(&self) -> u64 {
        TRANSFER_BYTES as u64
    }
}

fn write_for_ever(mut to: PipeWriter, buffer: &[u8]) -> i32 {
    while to.write_all(buffer).is_ok() {}
    0
}

pub(super) fn make(_: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let start = || {
        let (from, to) = io::pipe()?;
        let buffer = vec![1; TRANSFER_BYTES];
        let writer = Forked::start(|| write_for_ever(to, &buffer))?;
        Ok(Pipe { from, buffer, _writer: writer })
    };
    let pipe = start().map_err(|error: io::Error| Fault::failed(format!("a pipe: {error}")))?;
    Ok(Box::new(pipe))
}
