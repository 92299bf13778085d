//! A recorder in a thread of its own.

use super::{
    driver::{Driver, Reply, Wake, look_every},
    numbers::Outcome,
    observer::Observer,
    plan::Ready,
    recorder::Recorder,
    window::SnapshotWindow,
};
use anyhow::{Context as _, anyhow};
use std::{
    panic,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Why a recording ended whose handle was stopped or dropped, for its manifest.
const ENDED_BY: &str = "stopped by its program";

/// A recorder that runs. It ends when this is stopped or dropped.
pub struct Running {
    /// Its end ends the recorder.
    requests: Option<Sender<SnapshotRequest>>,
    thread: Option<JoinHandle<anyhow::Result<Outcome>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

struct SnapshotRequest {
    window: Option<SnapshotWindow>,
    reply: Reply,
}

impl Recorder {
    /// Records in a thread of its own; returns once the recording has begun.
    ///
    /// # Errors
    /// The directory exists, this machine lacks something that is wanted, or recording cannot begin.
    pub fn start(self) -> anyhow::Result<Running> {
        let planned = self.plan()?;
        let mut notes = planned.warnings().to_vec();
        notes.extend(planned.why_full().map(|reason| format!("full collector: {reason}")));
        let ready = planned.set_up()?;
        notes.extend_from_slice(ready.notes());
        Running::start(ready, notes)
    }
}

impl Running {
    pub(super) fn start(ready: Ready, notes: Vec<String>) -> anyhow::Result<Self> {
        let (requests, received) = mpsc::channel();
        let (has_begun, begun) = mpsc::channel();
        let notes = Arc::new(Mutex::new(notes));
        let look_every = look_every(ready.flight.is_some());
        let mut driver = Requests { received, has_begun: Some(has_begun), look_every };
        let mut kept = Notes(notes.clone());
        let thread = thread::Builder::new()
            .name("transect-record".to_owned())
            .spawn(move || ready.run(&mut driver, &mut kept))
            .context("cannot start the recorder's thread")?;
        let running = Running { requests: Some(requests), thread: Some(thread), notes };
        // It hangs up without a word if it ends before.
        if begun.recv().is_ok() {
            return Ok(running);
        }
        let outcome = running.stop()?;
        Err(outcome.failure.unwrap_or_else(|| anyhow!("the recording ended: {}", outcome.ended_by)))
    }

    /// Flight recorder: writes what it holds as a recording, and returns that. The window is the plan's unless given.
    ///
    /// # Errors
    /// It is no flight recorder, the snapshot is not complete, or the recorder has ended.
    pub fn snapshot(&self, window: Option<SnapshotWindow>) -> anyhow::Result<PathBuf> {
        let (sender, answer) = mpsc::channel();
        let reply: Reply = Box::new(move |result| {
            let _ = sender.send(result.clone());
        });
        let request = SnapshotRequest { window, reply };
        let ended = || anyhow!("the recorder has ended");
        self.requests.as_ref().ok_or_else(ended)?.send(request).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?.map_err(anyhow::Error::msg)
    }

    /// Has it ended, by a failure or after its number of snapshots? [`Running::stop`] has the outcome.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What the user should know, since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the recording and completes it.
    ///
    /// # Errors
    /// As [`Ready::run`].
    pub fn stop(mut self) -> anyhow::Result<Outcome> {
        match self.end() {
            Some(Ok(outcome)) => outcome,
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            None => Err(anyhow!("the recorder has ended")),
        }
    }

    fn end(&mut self) -> Option<thread::Result<anyhow::Result<Outcome>>> {
        self.requests = None;
        Some(self.thread.take()?.join())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ends the recorder when its handle has gone.
struct Requests {
    received: Receiver<SnapshotRequest>,
    has_begun: Option<Sender<()>>,
    look_every: Duration,
}

impl Driver for Requests {
    fn next(&mut self) -> Wake {
        match self.received.recv_timeout(self.look_every) {
            Ok(SnapshotRequest { window, reply }) => Wake::Snapshot(window, Some(reply)),
            Err(RecvTimeoutError::Timeout) => Wake::Look,
            Err(RecvTimeoutError::Disconnected) => Wake::End(ENDED_BY.to_owned()),
        }
    }

    fn begun(&mut self) -> anyhow::Result<()> {
        if let Some(has_begun) = self.has_begun.take() {
            let _ = has_begun.send(());
        }
        Ok(())
    }
}

/// Keeps the notes for [`Running::take_notes`].
struct Notes(Arc<Mutex<Vec<String>>>);

impl Observer for Notes {
    fn note(&mut self, note: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{guests::GuestPlan, host::Host, xen::NoKernel};
    use std::path::Path;
    use transect_store::Manifest;

    /// A recorder of a kernel of which nothing is recorded: that needs no rights.
    fn start(output: &Path) -> anyhow::Result<Running> {
        let kernel = Box::new(NoKernel::new());
        let guests =
            GuestPlan { specs: Vec::new(), events: Vec::new(), buffer_kb: 64, compact: None };
        let host = Host::new(kernel, vec!["test".to_owned()], None);
        let ready =
            Ready { host, output: output.to_owned(), guests, flight: None, notes: Vec::new() };
        Running::start(ready, vec!["a note".to_owned()])
    }

    #[test]
    fn a_handle_ends_its_recording() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("r.transect");
        let running = start(&dir).unwrap();
        assert!(!running.is_over());
        assert!(!Manifest::read(&dir).unwrap().finished);
        let refused = running.snapshot(None).unwrap_err().to_string();
        assert!(refused.starts_with("not a flight recorder"), "{refused}");
        assert_eq!(running.take_notes(), ["a note"]);
        assert_eq!(running.take_notes(), [] as [String; 0]);
        let outcome = running.stop().unwrap();
        assert_eq!((outcome.dir.as_path(), outcome.ended_by.as_str()), (dir.as_path(), ENDED_BY));
        assert!(outcome.failure.is_none());
        let manifest = Manifest::read(&dir).unwrap();
        assert!(manifest.finished);
        assert_eq!(manifest.ended_by.as_deref(), Some(ENDED_BY));
    }

    #[test]
    fn a_handle_that_is_dropped_completes_its_recording() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("r.transect");
        drop(start(&dir).unwrap());
        assert!(Manifest::read(&dir).unwrap().finished);
    }

    #[test]
    fn what_cannot_begin_is_an_error_of_the_start() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("r.transect");
        start(&dir).unwrap().stop().unwrap();
        let error = start(&dir).err().unwrap().to_string();
        assert!(error.contains("r.transect"), "{error}");
        let error = Recorder::new(&dir).start().err().unwrap().to_string();
        assert!(error.contains("r.transect"), "{error}");
    }

    #[test]
    fn a_recorder_whose_directory_is_gone_is_over() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("r.transect");
        let running = start(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        while !running.is_over() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(running.snapshot(None).is_err());
        let error = transect_model::people::one_line(running.stop().err().unwrap().as_ref());
        assert!(error.contains("removed"), "{error}");
    }
}
