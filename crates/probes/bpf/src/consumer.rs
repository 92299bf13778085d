//! The thread that takes records out of the logs.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    BpfError,
    memory::{Memory, Take},
    sink::LogSink,
};

/// Shortest and longest pause between rounds. The longest is for bursts that follow calm; the
/// shortest for logs that fill within milliseconds.
const PAUSE_MS: (u64, u64) = (1, 50);
/// How often everything is taken. A kill costs what came since, of each CPU at most half a chunk
/// (16 KiB) and a pause.
const LONGEST: Duration = Duration::from_millis(250 - PAUSE_MS.1);
/// Niceness of the thread: it works seldom and shortly, and what it comes late for is lost.
const NICE: i32 = -15;
/// A round that found a log this full (percent) halves the pause; below the first, it grows.
const FILL: (u64, u64) = (5, 20);

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    bell: Condvar,
}

impl Stop {
    /// Waits; true: asked to stop.
    fn wait(&self, pause: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked {
            return true;
        }
        let waited = self.bell.wait_timeout(asked, pause).unwrap_or_else(PoisonError::into_inner);
        *waited.0
    }

    fn ask(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}

/// The running consumer. Dropping it stops the thread; [`Consumer::finish`] also gives the sink back.
pub struct Consumer<S: LogSink + 'static> {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<(S, io::Result<()>)>>,
}

impl<S: LogSink + 'static> Consumer<S> {
    pub(crate) fn start(memory: Arc<Memory>, mut sink: S) -> Result<Self, BpfError> {
        let stop = Arc::new(Stop::default());
        let theirs = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("transect-logs".into())
            .spawn(move || {
                let result = run(&memory, &theirs, &mut sink);
                (sink, result)
            })
            .map_err(BpfError::system("cannot start the thread that drains the logs"))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Has taking ended before it was asked to? Then the sink has failed.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Takes what there is, ends the thread, gives the sink back, and what went wrong with it.
    ///
    /// # Errors
    /// The thread is gone with the sink (it panicked: a defect of the sink).
    pub fn finish(mut self) -> Result<(S, io::Result<()>), BpfError> {
        self.stop.ask();
        let joined = self.thread.take().and_then(|thread| thread.join().ok());
        joined.ok_or_else(|| {
            BpfError::Sink(io::Error::other("the thread that drains the logs has died"))
        })
    }
}

impl<S: LogSink + 'static> Drop for Consumer<S> {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(memory: &Memory, stop: &Stop, sink: &mut dyn LogSink) -> io::Result<()> {
    // Refused without CAP_SYS_NICE: then it takes its turn as everybody does.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut pause_ms = 10;
    let mut all_taken = Instant::now();
    loop {
        let take = if all_taken.elapsed() >= LONGEST { Take::All } else { Take::Worthwhile };
        let fill = memory.drain_all(take, sink)?;
        if take == Take::All {
            all_taken = Instant::now();
        }
        pause_ms = next_pause_ms(pause_ms, fill);
        sink.round_done()?;
        if stop.wait(Duration::from_millis(pause_ms)) {
            return memory.drain_all(Take::All, sink).map(drop);
        }
    }
}

fn next_pause_ms(pause_ms: u64, fill_percent: u64) -> u64 {
    let next = match fill_percent {
        fill if fill > 50 => PAUSE_MS.0,
        fill if fill > FILL.1 => pause_ms / 2,
        fill if fill < FILL.0 => pause_ms + pause_ms / 4 + 1,
        _ => pause_ms,
    };
    next.clamp(PAUSE_MS.0, PAUSE_MS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_follows_the_fill() {
        let settle = |fill: u64| (0..50).fold(10, |pause, _| next_pause_ms(pause, fill));
        assert_eq!(settle(0), PAUSE_MS.1);
        assert_eq!(settle(30), 1);
        assert_eq!(next_pause_ms(50, 90), 1);
        assert_eq!(next_pause_ms(40, 10), 40);
    }
}
