//! The counting programs on this machine's kernel. Without BPF (no permission, no BTF) the tests say why
//! and pass.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]
#![allow(unsafe_code, reason = "thread numbers")]

use procfs::process::{Process, Status};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};
use transect_bpf::live::{Live, LivePlan, LiveWindow, ThreadWindow};

const WINDOW_NS: u64 = 200_000_000;

fn can_count() -> bool {
    match transect_bpf::can_run() {
        Ok(_) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

fn tid() -> u32 {
    // SAFETY: no arguments, no effects.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// A thread that does something until it is told to stop.
struct Load {
    tid: u32,
    stop: Arc<AtomicBool>,
    /// What a thread that does nothing waits for: that it is gone.
    leash: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(mut step: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, (say, hear)) = (stop.clone(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            say.send(tid()).unwrap();
            while !theirs.load(Relaxed) {
                step();
            }
        });
        Load { tid: hear.recv().unwrap(), stop, leash: None, thread: Some(thread) }
    }

    /// One that sleeps until it is told to stop, and sleeps already.
    fn asleep() -> Self {
        let (leash, wait) = mpsc::channel();
        let mut load = Load::start(move || {
            let _ = wait.recv();
        });
        load.leash = Some(leash);
        while !load.status().state.starts_with('S') {
            std::thread::sleep(Duration::from_millis(1));
        }
        load
    }

    /// What the kernel tells of it.
    fn status(&self) -> Status {
        let own = Process::myself().unwrap();
        own.task_from_tid(self.tid.cast_signed()).unwrap().status().unwrap()
    }

    /// How often it gave its CPU away so far.
    fn sleeps(&self) -> u64 {
        self.status().voluntary_ctxt_switches.unwrap()
    }

    fn of<'a>(&self, window: &'a LiveWindow) -> &'a ThreadWindow {
        window.threads.iter().find(|thread| thread.tid == self.tid).expect("its window")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.leash = None;
        self.thread.take().map(JoinHandle::join);
    }
}

/// Windows, one after the other.
struct Windows {
    live: Live,
    last_end: Option<u64>,
}

impl Windows {
    fn start() -> Self {
        let plan = LivePlan { window_ns: WINDOW_NS, ..LivePlan::default() };
        let mut live = Live::load(&plan).unwrap();
        live.start().unwrap();
        Windows { live, last_end: None }
    }

    fn take(&mut self) -> LiveWindow {
        let window = self.live.take().unwrap();
        assert_eq!(window.to_ns - window.from_ns, WINDOW_NS);
        assert_eq!(window.from_ns % WINDOW_NS, 0);
        let missed_ns = window.missed_windows * WINDOW_NS;
        assert!(self.last_end.is_none_or(|end| window.from_ns == end + missed_ns));
        self.last_end = Some(window.to_ns);
        // Only where this reader was held up until the next one was over.
        assert!(window.late_threads == 0 || monotonic_ns() >= window.to_ns + WINDOW_NS);
        window
    }

    /// The next one of which all is known.
    fn whole(&mut self) -> LiveWindow {
        let found = (0..50).map(|_| self.take()).find(|window| window.late_threads == 0);
        found.expect("a window that was read in time")
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure only.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Keeps this process's pages from being taken away: a thread that computes sleeps while one comes back.
fn stay_in_memory() {
    // SAFETY: locks what is mapped as it is touched, nothing else.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
}

fn parts(thread: &ThreadWindow) -> u64 {
    thread.running_ns
        + thread.preempted_ns
        + thread.waking_ns
        + thread.asleep_ns
        + thread.halted_ns
        + thread.offline_ns
        + thread.unknown_ns
}

#[test]
fn every_thread_s_states_fill_the_window_to_the_nanosecond() {
    if !can_count() {
        return;
    }
    stay_in_memory();
    let busy = Load::start(std::hint::spin_loop);
    let sleeps = busy.sleeps();
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = ticks.clone();
    let sleepy = Load::start(move || {
        std::thread::sleep(Duration::from_millis(2));
        counted.fetch_add(1, Relaxed);
    });
    let mut windows = Windows::start();
    let mut unwaited = 0;
    for _ in 0..5 {
        let window = windows.whole();
        assert_eq!(window.untracked_events, 0);
        for thread in window.threads.iter().filter(|thread| thread.tid != 0) {
            assert_eq!(parts(thread), WINDOW_NS, "{thread:?}");
            let blamed: u64 = thread.rivals.iter().map(|rival| rival.ns).sum();
            let waited = thread.preempted_ns + thread.waking_ns;
            assert_eq!(blamed + thread.others_ns + thread.unattributed_ns, waited, "{thread:?}");
        }
        let spinning = &busy;
        let busy = busy.of(&window);
        // It is on its CPU's queue all the time; where the kernel did not trace a switch, that is not known.
        let queued_ns = busy.running_ns + busy.preempted_ns + busy.unknown_ns;
        let slept_ns = busy.asleep_ns + busy.waking_ns;
        assert!(queued_ns + slept_ns == WINDOW_NS && busy.running_ns > 0, "{busy:?}");
        assert!(slept_ns == 0 || spinning.sleeps() > sleeps, "{busy:?}");
        let sleepy = sleepy.of(&window);
        assert!(sleepy.asleep_ns > 0 && sleepy.executions > 0, "{sleepy:?}");
        let waits: u32 = sleepy.waits.as_ref().map_or(0, |waits| waits.iter().sum());
        // Where a switch was not traced, what it did before is not known to have been a wait.
        if sleepy.unknown_ns == 0 {
            unwaited += sleepy.executions.saturating_sub(u64::from(waits));
        }
        // Wakings in interrupts of this very program are not handed over, and counted by the kernel; others that were
        // not seen are counted where a sleeping thread is switched in.
        let unseen = window.missed_events + window.unseen_wakings;
        assert!(unwaited <= unseen, "{unwaited} without a wait, {unseen} unseen, {sleepy:?}");
        let cpus = window.threads.iter().filter(|thread| thread.tid == 0).count();
        assert!(cpus > 0);
    }
    assert!(ticks.load(Relaxed) > 0);
}

#[test]
fn a_thread_that_only_sleeps_is_known_from_the_start() {
    if !can_count() {
        return;
    }
    let asleep = Load::asleep();
    let window = Windows::start().whole();
    let seen = asleep.of(&window);
    assert_eq!((seen.asleep_ns, seen.executions, seen.unknown_ns), (WINDOW_NS, 0, 0), "{seen:?}");
}

#[test]
fn threads_that_come_and_go_are_born_and_buried() {
    if !can_count() {
        return;
    }
    let mut windows = Windows::start();
    let me = std::process::id();
    // Fewer than there are slots in a window.
    let _forks = Load::start(|| {
        drop(std::thread::spawn(|| {}).join());
        std::thread::sleep(Duration::from_micros(200));
    });
    let (mut born, mut offline) = (0, 0);
    // As fast as the machine makes them; and then they go on.
    let mut more = 50;
    while more > 0 && (born <= 100 || offline <= 100) {
        more -= 1;
        let window = windows.take();
        assert_eq!(window.untracked_events, 0);
        for thread in window.threads.iter().filter(|thread| thread.tgid == me) {
            assert_eq!(parts(thread), WINDOW_NS, "{thread:?}");
            born += u64::from(thread.parent_tgid == Some(me));
            offline += u64::from(thread.offline_ns > 0);
        }
    }
    assert!(born > 100 && offline > 100, "{born} {offline}");
}

#[test]
fn a_reader_that_comes_late_says_how_much_it_missed() {
    if !can_count() {
        return;
    }
    let mut windows = Windows::start();
    windows.take();
    std::thread::sleep(Duration::from_nanos(WINDOW_NS * 5));
    let late = windows.take();
    assert!(late.missed_windows >= 3, "{}", late.missed_windows);
    // And nothing of it again: the next one follows.
    windows.take();
}
