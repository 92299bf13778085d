//! A conversation with a worker: each question has an answer in time, or an error that says what was said last.

use std::{
    io::{BufRead, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};
use transect_bench_core::{
    CacheProof, Fault, Job, RunResult,
    protocol::{FromWorker, PROTOCOL, ToWorker, WorkerFacts},
};
use transect_bench_platforms::Pipes;

/// A worker that is there.
pub(crate) struct Session {
    to: Box<dyn Write + Send>,
    answers: Receiver<Result<FromWorker, String>>,
    /// What it said of itself.
    pub(crate) facts: WorkerFacts,
    /// Who it is, for errors.
    who: String,
}

/// How long one waits before it is looked whether the machine is still there.
const GLANCE: Duration = Duration::from_millis(500);

/// Is the other side still there, and is its answer still wanted?
pub(crate) type Glance<'a> = &'a mut dyn FnMut() -> Result<(), Fault>;

impl Session {
    /// Waits for the worker's first word.
    pub(crate) fn begin(
        pipes: Pipes,
        who: String,
        within: Duration,
        glance: Glance<'_>,
    ) -> Result<Self, Fault> {
        let (said, answers) = sync_channel(16);
        let mut from = pipes.from;
        std::thread::spawn(move || {
            let mut line = String::new();
            loop {
                line.clear();
                let message = match from.read_line(&mut line) {
                    Ok(0) => return,
                    Ok(_) => parse(&line),
                    Err(error) => Err(format!("cannot be read: {error}")),
                };
                let is_over = message.is_err();
                if said.send(message).is_err() || is_over {
                    return;
                }
            }
        });
        let facts = WorkerFacts::default();
        let mut session = Self { to: pipes.to, answers, facts, who };
        match session.answer(within, glance)? {
            FromWorker::Hello(facts) if facts.protocol == PROTOCOL => session.facts = *facts,
            FromWorker::Hello(facts) => {
                let why = format!("speaks protocol {}, not {PROTOCOL}", facts.protocol);
                return Err(session.fault(&why));
            }
            other => return Err(session.fault(&format!("sent {other:?} as its first message"))),
        }
        Ok(session)
    }

    /// Has a job made ready: its ports, and what its caches are.
    pub(crate) fn prepare(
        &mut self,
        job: &Job,
        within: Duration,
        glance: Glance<'_>,
    ) -> Result<(Vec<u16>, CacheProof), Fault> {
        self.say(&ToWorker::Prepare(Box::new(job.clone())))?;
        match self.answer(within, glance)? {
            FromWorker::Prepared { ports, cache } => Ok((ports, cache)),
            FromWorker::Faulted(fault) => Err(fault),
            other => Err(self.fault(&format!("answered {other:?} to a job"))),
        }
    }

    pub(crate) fn go(&mut self) -> Result<(), Fault> {
        self.say(&ToWorker::Go)
    }

    pub(crate) fn cancel(&mut self) -> Result<(), Fault> {
        self.say(&ToWorker::Cancel)
    }

    /// What was measured.
    pub(crate) fn done(
        &mut self,
        within: Duration,
        glance: Glance<'_>,
    ) -> Result<RunResult, Fault> {
        match self.answer(within, glance)? {
            FromWorker::Done(result) => Ok(*result),
            FromWorker::Faulted(fault) => Err(fault),
            other => Err(self.fault(&format!("answered {other:?} instead of a result"))),
        }
    }

    /// Tells it to go. It may have gone already.
    pub(crate) fn end(mut self) {
        drop(self.say(&ToWorker::End));
        // Until it closes its end: what it cleans up is cleaned up then.
        let until = Instant::now() + Duration::from_secs(10);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if self.answers.recv_timeout(left).is_err() {
                return;
            }
        }
    }

    fn say(&mut self, message: &ToWorker) -> Result<(), Fault> {
        let mut line = serde_json::to_vec(message).map_err(Fault::failed)?;
        line.push(b'\n');
        let said = self.to.write_all(&line).and_then(|()| self.to.flush());
        said.map_err(|error| self.fault(&format!("no longer reads its input: {error}")))
    }

    fn answer(&mut self, within: Duration, glance: Glance<'_>) -> Result<FromWorker, Fault> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left.min(GLANCE)) {
                Ok(Ok(message)) => return Ok(message),
                Ok(Err(said)) => return Err(self.fault(&said)),
                Err(RecvTimeoutError::Disconnected) => {
                    // What killed the machine says more than that its worker is gone.
                    glance()?;
                    return Err(self.fault("ended unexpectedly"));
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Err(
                        self.fault(&format!("did not answer within {} s", within.as_secs()))
                    );
                }
                Err(RecvTimeoutError::Timeout) => glance()?,
            }
        }
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::failed(format!("the worker on {} {what}", self.who))
    }
}

fn parse(line: &str) -> Result<FromWorker, String> {
    serde_json::from_str(line).map_err(|error| {
        let shown: String = line.chars().take(200).collect();
        format!("sent a line that is not a message ({error}): {}", shown.trim_end())
    })
}
