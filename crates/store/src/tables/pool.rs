//! Encoding threads: buffers of rows in, row groups out to their lanes.
//!
//! The queue is bounded, so whoever makes rows waits when encoding cannot keep up: memory stays
//! that of a few row groups. The first error stops all further work and is told at the end.

use super::group::{GroupEncoder, RowGroup};
use super::lane::Lane;
use crate::error::{StoreError, of_tables};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// A buffer that a thread can turn into a row group.
pub(crate) trait Rows: Send {
    fn len(&self) -> usize;
    /// Writes every column of the layout, rows in order of time.
    fn encode(&mut self, group: &mut GroupEncoder<'_>) -> Result<(), StoreError>;
}

/// A full buffer on its way to a thread.
pub(crate) struct Job {
    pub(crate) rows: Box<dyn Rows>,
    pub(crate) lane: Arc<Lane>,
    /// Its place in the lane.
    pub(crate) number: u64,
    /// Is it the lane's last?
    pub(crate) last: bool,
}

pub(crate) struct Pool {
    queue: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    failed: AtomicBool,
    error: Mutex<Option<StoreError>>,
}

impl Pool {
    /// One thread per core that this process may use.
    pub(crate) fn new() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(16);
        let (queue, jobs) = sync_channel(1);
        let (jobs, shared) = (Arc::new(Mutex::new(jobs)), Arc::new(Shared::default()));
        let threads = (0..threads).filter_map(|at| {
            let (jobs, shared) = (Arc::clone(&jobs), Arc::clone(&shared));
            let name = format!("tables-{at}");
            thread::Builder::new().name(name).spawn(move || work(&jobs, &shared)).ok()
        });
        Pool { threads: threads.collect(), queue: Some(queue), shared }
    }

    /// Hands a buffer over; waits while all threads are busy. After an error buffers are dropped.
    pub(crate) fn submit(&self, job: Job) {
        if self.has_failed() || job.rows.len() == 0 && !job.last {
            return;
        }
        match &self.queue {
            Some(queue) if !self.threads.is_empty() => {
                // All threads gone means that one panicked over a bug: `finish` tells.
                let _ = queue.send(job);
            }
            _ => self.shared.run(job),
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Waits until all is written.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.queue = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.fail(StoreError::Encode {
                    table: "tables".into(),
                    reason: "an encoding thread panicked".into(),
                });
            }
        }
        let mut error = self.shared.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.take().map_or(Ok(()), |error| Err(of_tables(error)))
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, shared: &Shared) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => shared.run(job),
            Err(_) => return,
        }
    }
}

impl Shared {
    fn run(&self, mut job: Job) {
        let (group, error) = match self.encode(&mut job) {
            Ok(group) => (group, None),
            Err(error) => (None, Some(error)),
        };
        // The rows are not needed any more: their memory is for the next ones.
        drop(job.rows);
        let appended = job.lane.append(job.number, group, job.last);
        if let Some(error) = error.or(appended.err()) {
            self.fail(error);
        }
    }

    /// Panics are errors here: a lane whose turn never ends would hold up all others.
    fn encode(&self, job: &mut Job) -> Result<Option<RowGroup>, StoreError> {
        if self.failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        catch_unwind(AssertUnwindSafe(|| encode(job))).unwrap_or_else(|_| {
            let table = job.lane.layout().table.clone();
            Err(StoreError::Encode { table, reason: "the encoder panicked".into() })
        })
    }

    fn fail(&self, error: StoreError) {
        self.failed.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

fn encode(job: &mut Job) -> Result<Option<RowGroup>, StoreError> {
    let rows = job.rows.len();
    if rows == 0 {
        return Ok(None);
    }
    let mut group = GroupEncoder::new(job.lane.layout());
    job.rows.encode(&mut group)?;
    group.finish(rows).map(Some)
}
