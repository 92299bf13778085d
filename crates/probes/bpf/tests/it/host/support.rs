//! Threads that the tests record, and whether they can.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(unsafe_code, reason = "a thread's number and its CPU are the kernel's to give")]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::JoinHandle,
};
use transect_bpf::{Filters, LogSink, can_run};
use transect_compact::{BlockWriter, LogId, Slice, SliceSink as _};
use transect_model::ids::{CpuId, Tid};

/// A thread that does as it is told, one thing after the other.
pub(crate) struct Load {
    pub(crate) tid: u32,
    orders: mpsc::SyncSender<Box<dyn FnOnce() + Send>>,
    done: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start() -> Self {
        let (orders, inbox) = mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(1);
        let (report, done) = mpsc::sync_channel(1);
        let (say_tid, hear_tid) = mpsc::sync_channel(1);
        let thread = std::thread::spawn(move || {
            // Both ends of a call on one CPU, or they are not one record.
            stay_on_cpu_0();
            // SAFETY: no arguments, no effects.
            let tid = unsafe { libc::gettid() };
            say_tid.send(tid.cast_unsigned()).unwrap();
            for order in inbox {
                order();
                report.send(()).unwrap();
            }
        });
        Self { tid: hear_tid.recv().unwrap(), orders, done, thread: Some(thread) }
    }

    pub(crate) fn run(&self, order: impl FnOnce() + Send + 'static) {
        self.orders.send(Box::new(order)).unwrap();
        self.done.recv().unwrap();
    }

    pub(crate) fn only(&self) -> Filters {
        Filters { tids: vec![self.tid], ..Filters::default() }
    }

    #[allow(dead_code, reason = "not every file of tests looks for the thread's own records")]
    pub(crate) fn tid(&self) -> Tid {
        Tid(self.tid.cast_signed())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let (nobody, _) = mpsc::sync_channel(1);
        self.orders = nobody;
        self.thread.take().map(JoinHandle::join);
    }
}

/// Keeps the calling thread on the first CPU.
fn stay_on_cpu_0() {
    // SAFETY: a zeroed set is an empty one, CPU 0 is within it, and the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

/// Keeps CPU 0 from idling: not every kernel reports the switches between a thread and idleness.
pub(crate) struct Busy(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Busy {
    pub(crate) fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let theirs = ends.clone();
        let thread = std::thread::spawn(move || {
            stay_on_cpu_0();
            while !theirs.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy(ends, Some(thread))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

/// Why the test cannot run here, said; the test then passes.
pub(crate) fn is_skipped() -> bool {
    let why = can_run().err();
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_some()
}

/// Slices as a file in memory.
pub(super) struct Memory(pub(super) BlockWriter<Vec<u8>>);

impl LogSink for Memory {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.0.slice(Slice { log: LogId { cpu, side }, position, sync_ns, lost, words })
    }
}
