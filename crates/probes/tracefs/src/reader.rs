//! Reading one CPU's buffer: whole sub-buffers by splice(2), the last partial one by read(2).
//!
//! splice on `trace_pipe_raw` hands over full sub-buffers only (kernel/trace/trace.c,
//! `tracing_buffers_splice_read` asks `ring_buffer_read_page` for `full` ones), by moving the page
//! itself into the pipe. The page being written stays; it is read once tracing is off.

use crate::{CpuSink, Instance, TracefsError};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, SpliceFlags, pipe_with, splice},
};
use std::time::Duration;
use transect_model::ids::CpuId;

/// Room in the pipe: the kernel's default limit for unprivileged users, 256 pages per splice.
const PIPE_BYTES: usize = 1 << 20;
/// Bytes handed to a [`CpuSink`] at a time: one frame of the guest channel.
const CHUNK_BYTES: usize = 64 << 10;

/// A reader of one CPU's buffer of an instance.
#[derive(Debug)]
pub struct CpuReader {
    cpu: CpuId,
    raw: OwnedFd,
    pipe_out: OwnedFd,
    pipe_in: OwnedFd,
    sub_buffer_bytes: usize,
    chunk: Vec<u8>,
    splice_to_file: bool,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is data, or it is time to look.
    Look,
    /// The stop descriptor is readable.
    Stop,
}

impl CpuReader {
    /// Opens the CPU's buffer.
    pub fn open(instance: &Instance, cpu: CpuId) -> Result<Self, TracefsError> {
        let path = instance.path().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let raw = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|source| crate::files::read_error(&path, source.into()))?;
        let (pipe_out, pipe_in) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| drain_error(cpu, "make a pipe", e))?;
        // A smaller pipe (many users, low limits) only means more calls.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe_in, PIPE_BYTES);
        let sub_buffer_bytes = instance.sub_buffer_bytes() as usize;
        let chunk =
            vec![0; CHUNK_BYTES.max(sub_buffer_bytes) / sub_buffer_bytes * sub_buffer_bytes];
        Ok(CpuReader { cpu, raw, pipe_out, pipe_in, sub_buffer_bytes, chunk, splice_to_file: true })
    }

    /// Waits until the buffer is as full as the instance's wakeup percentage, `timeout` passed or
    /// `stop` is readable.
    pub fn wait(&self, stop: BorrowedFd<'_>, timeout: Duration) -> Result<Woken, TracefsError> {
        let mut fds =
            [PollFd::new(&self.raw, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(drain_error(self.cpu, "wait for events", e)),
        }
        Ok(if fds[1].revents().is_empty() { Woken::Look } else { Woken::Stop })
    }

    /// Moves every full sub-buffer to the sink; returns their bytes. `moved` is told after every
    /// batch, so that a long drain shows progress.
    pub fn drain(
        &mut self,
        sink: &mut dyn CpuSink,
        moved: &mut dyn FnMut(u64),
    ) -> Result<u64, TracefsError> {
        let mut total = 0;
        loop {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            let bytes = match splice(&self.raw, None, &self.pipe_in, None, PIPE_BYTES, flags) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(total),
                Err(Errno::INTR) => continue,
                Ok(bytes) => bytes,
                Err(e) => return Err(drain_error(self.cpu, "splice its events", e)),
            };
            self.empty_pipe(bytes, sink)?;
            total += bytes as u64;
            moved(bytes as u64);
        }
    }

    /// Hands `bytes` of the pipe to the sink.
    fn empty_pipe(&mut self, mut bytes: usize, sink: &mut dyn CpuSink) -> Result<(), TracefsError> {
        while bytes > 0 && self.splice_to_file {
            let Some(file) = sink.file() else { break };
            match splice(&self.pipe_out, None, file.as_fd(), None, bytes, SpliceFlags::MOVE) {
                Ok(0) => break,
                Ok(done) => {
                    bytes -= done;
                    sink.spliced(done as u64);
                }
                Err(Errno::INTR) => {}
                // A file system that cannot be spliced into: copy from here on.
                Err(Errno::INVAL) => self.splice_to_file = false,
                Err(e) => {
                    sink.cut_back();
                    return Err(TracefsError::Sink { cpu: self.cpu, source: e.into() });
                }
            }
        }
        self.copy_pipe(bytes, sink)
    }

    fn copy_pipe(&mut self, mut bytes: usize, sink: &mut dyn CpuSink) -> Result<(), TracefsError> {
        while bytes > 0 {
            let want = bytes.min(self.chunk.len());
            let mut have = 0;
            while have < want {
                match rustix::io::read(&self.pipe_out, &mut self.chunk[have..want]) {
                    Ok(0) | Err(Errno::AGAIN) => {
                        return Err(drain_error(self.cpu, "read back its events", Errno::IO));
                    }
                    Err(Errno::INTR) => {}
                    Ok(done) => have += done,
                    Err(e) => return Err(drain_error(self.cpu, "read back its events", e)),
                }
            }
            let source = sink.pages(&self.chunk[..want]);
            source.map_err(|source| TracefsError::Sink { cpu: self.cpu, source })?;
            bytes -= want;
        }
        Ok(())
    }

    /// Reads what splice leaves: the last, partly filled sub-buffer. Tracing must be off, or this
    /// would chase the writer. Returns the bytes handed over.
    pub fn flush(&mut self, sink: &mut dyn CpuSink) -> Result<u64, TracefsError> {
        let mut total = 0;
        while self.read_page()? {
            let page = &self.chunk[..self.sub_buffer_bytes];
            sink.pages(page).map_err(|source| TracefsError::Sink { cpu: self.cpu, source })?;
            total += self.sub_buffer_bytes as u64;
        }
        Ok(total)
    }

    /// Reads what there is now while tracing goes on, partly filled sub-buffers too, and no more than
    /// `limit_bytes`: whoever writes as fast as this reads would never let it end. Costs a copy of every
    /// sub-buffer; for those who decode at once and do not keep them. Returns the bytes handed over.
    pub fn take_now(
        &mut self,
        sink: &mut dyn CpuSink,
        limit_bytes: u64,
    ) -> Result<u64, TracefsError> {
        let mut total = 0;
        while total < limit_bytes && self.read_page()? {
            let page = &self.chunk[..self.sub_buffer_bytes];
            sink.pages(page).map_err(|source| TracefsError::Sink { cpu: self.cpu, source })?;
            total += self.sub_buffer_bytes as u64;
        }
        Ok(total)
    }

    /// Reads one sub-buffer into the start of `chunk`; false if there is none.
    fn read_page(&mut self) -> Result<bool, TracefsError> {
        let mut have = 0;
        while have < self.sub_buffer_bytes {
            match rustix::io::read(&self.raw, &mut self.chunk[have..self.sub_buffer_bytes]) {
                Ok(0) | Err(Errno::AGAIN) if have == 0 => return Ok(false),
                Ok(0) | Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Ok(done) => have += done,
                Err(e) => return Err(drain_error(self.cpu, "read its last events", e)),
            }
        }
        // Never seen; a shorter page still is a page once it is padded.
        self.chunk[have..self.sub_buffer_bytes].fill(0);
        Ok(true)
    }
}

fn drain_error(cpu: CpuId, action: &'static str, source: Errno) -> TracefsError {
    TracefsError::Drain { cpu, action, source: source.into() }
}
