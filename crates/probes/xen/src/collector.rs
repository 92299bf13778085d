//! Keeps an `xentrace` running and moves what it sends to the sink.

use crate::{
    Ending, EventMask, How, TraceSink, XenError,
    framer::{Framer, TakeError},
    process::{CpuNs, Start, Xentrace, cpu_until_now_ns},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fd::{AsFd, OwnedFd},
    io::Errno,
    process::Signal,
    time::Timespec,
};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Xen's buffer for each pCPU: at a hundred thousand records a second, half a second's worth.
pub const DEFAULT_BUFFER_BYTES: usize = 1 << 20;
/// Where Xen has no memory for what was asked for: xentrace's own default, and what is little enough.
const LESS_BYTES: [usize; 2] = [128 << 10, 32 << 10];
/// Looks into the pipe this often, whatever `xentrace` writes: a wakeup for each of its writes would be two a window.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When a look found much, the next one comes sooner: the pipe holds 1 MiB.
const LOOK_SOON: Duration = Duration::from_millis(2);
const MUCH_BYTES: usize = 128 << 10;
/// An `xentrace` that lives so long without a record has nothing to say, but works.
const STARTED_AFTER: Duration = Duration::from_secs(1);
/// Told to end, it reads all of Xen's buffers twice.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// After it has closed its stream.
const REAP_PATIENCE: Duration = Duration::from_secs(5);
/// Ended so often in a row without a record, it will not get better.
const MAX_FRUITLESS: u32 = 5;
/// Waits before the next one, doubled each time.
const FIRST_REST: Duration = Duration::from_millis(50);

/// What to trace.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Path of `xentrace`.
    pub xentrace: PathBuf,
    /// Which records.
    pub mask: EventMask,
    /// Of each pCPU's buffer in Xen. Buffers are made once after a boot and never resized: if they are there
    /// already, this has no effect (`tb_set_size`, xen/common/trace.c of 4.17).
    pub buffer_bytes_per_cpu: usize,
}

/// The running collector.
#[derive(Debug)]
pub struct Collector {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Finished {
    /// Why it ended before its time.
    pub failure: Option<XenError>,
    /// How often `xentrace` was started.
    pub starts: u32,
    /// Bytes handed to the sink.
    pub bytes: u64,
    /// CPU time of all `xentrace` processes. The collector's own thread is in its process's.
    pub cpu: CpuNs,
    /// For people: what did not go as it should.
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct Shared {
    stop: OwnedFd,
    bytes: AtomicU64,
    starts: AtomicU32,
    /// The running one's pid; 0 if none runs.
    pid: AtomicI32,
    /// Of those that have ended.
    cpu: Mutex<CpuNs>,
    failure: Mutex<Option<XenError>>,
    notes: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    /// Starts `xentrace`; returns when it sends records (or has lived for a second).
    ///
    /// # Errors
    /// It cannot be started, or ended at once: what it said, with what to do.
    pub fn start(plan: TracePlan, sink: Box<dyn TraceSink>) -> Result<Self, XenError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| XenError::Stream { action: "make an eventfd", source: e.into() })?;
        let shared = Arc::new(Shared {
            stop,
            bytes: AtomicU64::new(0),
            starts: AtomicU32::new(0),
            pid: AtomicI32::new(0),
            cpu: Mutex::default(),
            failure: Mutex::default(),
            notes: Mutex::default(),
        });
        let (tell, told) = mpsc::sync_channel(1);
        let worker = Worker {
            plan,
            sink,
            framer: Framer::default(),
            shared: shared.clone(),
            tell: Some(tell),
            is_deaf: false,
        };
        let thread = thread::Builder::new()
            // 15 characters are what the kernel keeps; it shows up in dom0's trace.
            .name("transect-xen".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| XenError::Stream { action: "start its reader", source })?;
        let collector = Collector { thread: Some(thread), shared };
        match told.recv() {
            Ok(Ok(())) => Ok(collector),
            Ok(Err(error)) => Err(error),
            // The worker says something before it ends, whatever happens.
            Err(mpsc::RecvError) => {
                Err(XenError::NotStarted { said: "its reader ended".to_owned(), mend: "" })
            }
        }
    }

    /// Bytes handed to the sink so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// CPU time of all `xentrace` processes so far, ns.
    pub fn cpu_ns(&self) -> u64 {
        let running = match self.shared.pid.load(Relaxed) {
            0 => 0,
            pid => cpu_until_now_ns(pid),
        };
        let ended = *lock(&self.shared.cpu);
        ended.user_ns + ended.sys_ns + running
    }

    /// What is new to tell.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.notes))
    }

    /// Has it given up? What happened is told by [`Collector::stop`].
    pub fn has_failed(&self) -> bool {
        lock(&self.shared.failure).is_some()
    }

    /// Ends `xentrace` in order, which switches Xen's tracing off; what Xen's buffers hold until then is
    /// handed to the sink.
    pub fn stop(mut self) -> Finished {
        self.end();
        Finished {
            failure: lock(&self.shared.failure).take(),
            starts: self.shared.starts.load(Relaxed),
            bytes: self.bytes(),
            cpu: *lock(&self.shared.cpu),
            notes: self.take_notes(),
        }
    }

    fn end(&mut self) {
        // The counter stays up; one write of 1 cannot overflow it.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, its message is on stderr already.
            let _ = thread.join();
        }
    }
}

impl Drop for Collector {
    /// On an error path: Xen must not go on tracing.
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker {
    plan: TracePlan,
    sink: Box<dyn TraceSink>,
    framer: Framer,
    shared: Arc<Shared>,
    /// Until the first one works, or does not.
    tell: Option<mpsc::SyncSender<Result<(), XenError>>>,
    /// The sink takes no more.
    is_deaf: bool,
}

/// Why following a process ended.
enum Followed {
    /// The collector is to stop; it still runs.
    Told,
    /// It ended by itself.
    Ended(Ending),
}

impl Worker {
    fn run(mut self) {
        if let Err(error) = self.keep_running() {
            match self.tell.take() {
                Some(tell) => drop(tell.send(Err(error))),
                // The first failure is the cause.
                None => drop(lock(&self.shared.failure).get_or_insert(error)),
            }
        }
    }

    /// Runs one `xentrace` after the other until told to stop.
    fn keep_running(&mut self) -> Result<(), XenError> {
        let mut fruitless = 0;
        // What was traced before, by whomever, is not this recording's.
        let mut process = self.start(true)?;
        loop {
            let before = self.shared.bytes.load(Relaxed);
            let followed = self.follow(&mut process);
            let mut ending = match followed {
                Ok(Followed::Told) => return self.finish(process),
                Ok(Followed::Ended(ending)) => ending,
                Err(error) => {
                    self.is_deaf = true;
                    self.finish(process)?;
                    return Err(error);
                }
            };
            if self.tell.is_some() {
                process = self.start_with_less(&ending)?;
                continue;
            }
            fruitless = if self.shared.bytes.load(Relaxed) > before { 0 } else { fruitless + 1 };
            ending.final_one = fruitless >= MAX_FRUITLESS;
            self.sink.ended(&ending);
            if ending.final_one {
                return Err(XenError::KeepsEnding { times: fruitless, last: ending.to_string() });
            }
            let is_told = fruitless > 0 && self.rest(FIRST_REST * 2u32.pow(fruitless));
            process = self.start(false)?;
            if is_told {
                return self.finish(process);
            }
        }
    }

    fn start(&self, discard: bool) -> Result<Xentrace, XenError> {
        let process = Xentrace::start(&Start {
            xentrace: &self.plan.xentrace,
            mask: self.plan.mask,
            buffer_bytes_per_cpu: self.plan.buffer_bytes_per_cpu,
            discard,
        })?;
        self.shared.starts.fetch_add(1, Relaxed);
        self.shared.pid.store(process.pid(), Relaxed);
        Ok(process)
    }

    /// The first one ended before it worked. Where Xen had no memory for its buffers, smaller ones may do.
    fn start_with_less(&mut self, ending: &Ending) -> Result<Xentrace, XenError> {
        let asked = self.plan.buffer_bytes_per_cpu;
        let less = LESS_BYTES.into_iter().find(|bytes| *bytes < asked);
        match less.filter(|_| ending.said.contains("enable trace buffers")) {
            Some(bytes) => {
                self.plan.buffer_bytes_per_cpu = bytes;
                self.note(format!(
                    "Xen has no memory for trace buffers of {} KiB per pCPU: using {} KiB instead",
                    asked / 1024,
                    bytes / 1024
                ));
                self.start(true)
            }
            None => Err(not_started(ending)),
        }
    }

    /// Moves records until it ends or the collector is to.
    fn follow(&mut self, process: &mut Xentrace) -> Result<Followed, XenError> {
        let started = Instant::now();
        let mut pause = LOOK_SOON;
        loop {
            let is_told = self.rest(pause);
            let (bytes, open) = self.drain(process)?;
            match open {
                Open::Yes if is_told => return Ok(Followed::Told),
                Open::Yes => {}
                Open::Ended => return Ok(Followed::Ended(self.ending(process, None))),
                Open::OutOfStep => {
                    process.signal(Signal::KILL);
                    return Ok(Followed::Ended(self.ending(process, Some(How::OutOfStep))));
                }
            }
            if self.tell.is_some() && (bytes > 0 || started.elapsed() >= STARTED_AFTER) {
                self.tell.take().map(|tell| tell.send(Ok(())));
            }
            pause = if bytes >= MUCH_BYTES || self.tell.is_some() { LOOK_SOON } else { LOOK_EVERY };
        }
    }

    /// Hands over everything that is in the pipe now.
    fn drain(&mut self, process: &Xentrace) -> Result<(usize, Open), XenError> {
        let mut total = 0;
        loop {
            let read = process.read(self.framer.space());
            let bytes =
                match read.map_err(|source| XenError::Stream { action: "read it", source })? {
                    None => return Ok((total, Open::Yes)),
                    Some(0) => return Ok((total, Open::Ended)),
                    Some(bytes) => bytes,
                };
            total += bytes;
            self.framer.add(bytes);
            let (sink, counter, is_deaf) = (&mut self.sink, &self.shared.bytes, self.is_deaf);
            let taken = self.framer.take(&mut |windows| {
                if is_deaf {
                    return Ok(());
                }
                sink.windows(windows)?;
                // usize is at most 64 bits wide on every target.
                counter.fetch_add(windows.len() as u64, Relaxed);
                Ok(())
            });
            match taken {
                Ok(()) => {}
                Err(TakeError::OutOfStep) => return Ok((total, Open::OutOfStep)),
                Err(TakeError::Sink(error)) => return Err(XenError::Sink(error)),
            }
        }
    }

    /// Its stream is at its end: how did it end?
    fn ending(&mut self, process: &mut Xentrace, how: Option<How>) -> Ending {
        self.shared.pid.store(0, Relaxed);
        let (ended, cpu) = process.reap(REAP_PATIENCE);
        let mut total = lock(&self.shared.cpu);
        total.user_ns += cpu.user_ns;
        total.sys_ns += cpu.sys_ns;
        drop(total);
        let torn_bytes = self.framer.end_process();
        let said = complaints(&process.last_words());
        Ending { how: how.unwrap_or(ended), said, torn_bytes, final_one: false }
    }

    /// Ends it in order. One that does not manage (a signal in the middle of a write is an error to it) leaves tracing
    /// on, and what it did not send in Xen's buffers: a second one gets both right.
    fn finish(&mut self, mut process: Xentrace) -> Result<(), XenError> {
        let ending = self.end_process(&mut process)?;
        if ending.how == How::Exited(0) {
            return Ok(());
        }
        let mut second = self.start(false)?;
        // Before it has come so far as to listen to signals, one would just kill it.
        let started = Instant::now();
        loop {
            let (bytes, open) = self.drain(&second)?;
            if bytes > 0 || !matches!(open, Open::Yes) || started.elapsed() >= STARTED_AFTER {
                break;
            }
            thread::sleep(LOOK_SOON);
        }
        let again = self.end_process(&mut second)?;
        if again.how != How::Exited(0) {
            self.note(format!(
                "{again}: Xen still traces into its buffers; to switch this off: xentrace -D -T 1 /dev/null"
            ));
        }
        Ok(())
    }

    fn end_process(&mut self, process: &mut Xentrace) -> Result<Ending, XenError> {
        self.drain(process)?;
        process.signal(Signal::TERM);
        let deadline = Instant::now() + END_PATIENCE;
        loop {
            let (_, open) = self.drain(process)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(open, Open::Yes) || left.is_zero() {
                break;
            }
            let limit = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            // A wait that is cut short is followed by another look.
            let _ = poll(&mut [PollFd::new(&process.stream(), PollFlags::IN)], Some(&limit));
        }
        if deadline <= Instant::now() {
            process.signal(Signal::KILL);
        }
        Ok(self.ending(process, None))
    }

    /// Waits; returns true, at once, if the collector is to stop.
    fn rest(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return false };
            match poll(&mut [PollFd::new(&self.shared.stop.as_fd(), PollFlags::IN)], Some(&timeout))
            {
                Ok(ready) => return ready > 0,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn note(&self, note: String) {
        lock(&self.shared.notes).push(note);
    }
}

/// What a look into the pipe found.
enum Open {
    Yes,
    Ended,
    OutOfStep,
}

/// Without what it says always.
fn complaints(said: &str) -> String {
    let lines = said.split("; ").filter(|line| !line.starts_with("change evtmask"));
    lines.collect::<Vec<_>>().join("; ")
}

fn not_started(ending: &Ending) -> XenError {
    let said = ending.said.as_str();
    let mend = if said.contains("VIRQ") {
        "; another xentrace holds Xen's trace buffers, and only one process can: end that one"
    } else if said.contains("enable trace buffers") {
        "; Xen has no memory for its trace buffers: free some (xl mem-set 0 …), or choose a smaller --xen-buffer"
    } else if said.contains("xenctrl interface") || said.contains("privcmd") {
        "; run as root in dom0, and see 'transect doctor'"
    } else {
        ""
    };
    XenError::NotStarted { said: ending.to_string(), mend }
}
