//! Everything that the worker waits for, in one queue.

use super::{WorkerError, one::OneSays};
use signal_hook::{consts::signal, low_level::pipe};
use std::{
    io::{BufRead, Read},
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Instant,
};
use transect_bench_core::protocol::ToWorker;

/// Messages that wait; who would send more waits too.
const QUEUE: usize = 16;
/// How much of a bad line is shown.
const SHOWN: usize = 60;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// The procedure said something.
    Said(ToWorker),
    /// The procedure said nonsense.
    Garbage(WorkerError),
    /// The procedure is gone.
    Closed,
    /// A signal asks the worker to end.
    Signal,
    /// The process of the job of this number said something; nonsense of it is its death too.
    One(u64, OneSays),
    /// The process of the job of this number is gone.
    OneGone(u64),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Events {
    sender: SyncSender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    /// Listens to the input and to signals.
    pub(crate) fn of(input: impl BufRead + Send + 'static) -> Result<Self, WorkerError> {
        let (sender, receiver) = sync_channel(QUEUE);
        let (mut signalled, by) = UnixStream::pair().map_err(WorkerError::system("make a pipe"))?;
        for number in [signal::SIGTERM, signal::SIGINT, signal::SIGHUP] {
            let by = by.try_clone().map_err(WorkerError::system("share a pipe"))?;
            pipe::register(number, by).map_err(WorkerError::system("block and receive signals"))?;
        }
        let to = sender.clone();
        thread::spawn(move || {
            while matches!(signalled.read(&mut [0]), Ok(1)) && to.send(Event::Signal).is_ok() {}
        });
        let to = sender.clone();
        thread::spawn(move || read_input(input, &to));
        Ok(Self { sender, receiver })
    }

    /// Listens to a job's process too.
    pub(crate) fn listen(&self, number: u64, from: impl BufRead + Send + 'static) {
        let to = self.sender.clone();
        thread::spawn(move || {
            for line in from.lines() {
                let said = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                let Some(said) = said else { break };
                if to.send(Event::One(number, said)).is_err() {
                    return;
                }
            }
            let _ = to.send(Event::OneGone(number));
        });
    }

    /// The next event; `None` when it takes longer than that.
    pub(crate) fn next(&self, until: Option<Instant>) -> Option<Event> {
        let Some(until) = until else { return Some(self.receiver.recv().unwrap_or(Event::Closed)) };
        match self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::Closed),
        }
    }
}

fn read_input(input: impl BufRead, to: &SyncSender<Event>) {
    let mut number = 0;
    for line in input.split(b'\n') {
        number += 1;
        let event = match line {
            Err(_) => break,
            Ok(line) => match serde_json::from_slice(&line) {
                Ok(said) => Event::Said(said),
                Err(error) => Event::Garbage(garbage(number, &line, &error)),
            },
        };
        let is_last = matches!(event, Event::Garbage(_) | Event::Said(ToWorker::End));
        if to.send(event).is_err() || is_last {
            return;
        }
    }
    let _ = to.send(Event::Closed);
}

fn garbage(line: u64, text: &[u8], error: &serde_json::Error) -> WorkerError {
    let begins = String::from_utf8_lossy(text).chars().take(SHOWN).collect();
    WorkerError::Garbage { line, why: error.to_string(), begins }
}
