//! What a recorder waits for: the end, a snapshot, or the next look around.

use super::{command::Recorded, signals::Signals};
use crate::terminal::note;
use std::{
    ffi::OsString,
    path::PathBuf,
    time::{Duration, Instant},
};
use transect_recorder::{
    Driver, Hurry, Reply, Wake,
    control::{ControlServer, Pending, RecorderState, Request},
    look_every,
};

/// Everything that can wake a recorder.
pub(super) struct Watch<'a> {
    signals: Signals,
    server: ControlServer,
    /// The command to start.
    words: &'a [OsString],
    command: Option<Recorded>,
    /// End the command with the recording.
    kills: bool,
    /// When the duration began to count; none: not yet.
    started: Option<Instant>,
    duration: Option<Duration>,
    look_every: Duration,
    /// `transect stop` waits for the end of the recording.
    stopping: Vec<Pending>,
}

impl<'a> Watch<'a> {
    /// Starts listening, and makes the recorder known as `state`. `words` is the command that will be recorded.
    pub(super) fn start(
        signals: Signals,
        state: &RecorderState,
        words: &'a [OsString],
        duration: Option<Duration>,
        kills: bool,
    ) -> anyhow::Result<Self> {
        let look_every = look_every(state.flight_recorder);
        let server = ControlServer::start(state)?;
        let (started, stopping) = (None, Vec::new());
        let command = None;
        Ok(Watch {
            signals,
            server,
            words,
            command,
            kills,
            started,
            duration,
            look_every,
            stopping,
        })
    }

    /// The rest of the duration.
    fn left(&self) -> Option<Duration> {
        Some(self.duration?.saturating_sub(self.started?.elapsed()))
    }

    fn pending(&mut self) -> Option<Wake> {
        if let Some(signal) = self.signals.ending() {
            return Some(Wake::End(format!("interrupted by {signal}")));
        }
        if self.signals.take_snapshot() {
            return Some(Wake::Snapshot(None, None));
        }
        if let Some(pending) = self.server.next() {
            match pending.request {
                Request::Stop => {
                    self.stopping.push(pending);
                    return Some(Wake::End("stopped by transect stop".to_owned()));
                }
                Request::Snapshot(window) => {
                    let reply: Reply = Box::new(move |result| pending.reply(result));
                    return Some(Wake::Snapshot(window, Some(reply)));
                }
            }
        }
        if let Some(command) = &mut self.command
            && command.has_ended()
        {
            let how = command.describe().unwrap_or_default();
            return Some(Wake::End(format!("command ended: {how}")));
        }
        let over = self.left().is_some_and(|left| left.is_zero());
        over.then(|| Wake::End("duration elapsed".to_owned()))
    }

    /// Answers the clients that wait for the end. Returns the exit code: the command's, if there is one and the
    /// recording itself went well. For a command that outlives the recording it waits, unless a signal asked for the end.
    pub(super) fn finish(mut self, result: &Result<PathBuf, String>) -> u8 {
        for pending in std::mem::take(&mut self.stopping) {
            pending.reply(result);
        }
        let (mut signals, server) = (self.signals, self.server);
        if let Some(command) = &mut self.command
            && let Some(note) = wait_for_command(command, &mut signals, &server, self.kills)
        {
            note!("{note}");
        }
        match result {
            Ok(_) => self.command.map_or(0, |command| command.exit_code()),
            Err(_) => 1,
        }
    }
}

impl Driver for Watch<'_> {
    fn next(&mut self) -> Wake {
        if let Some(wake) = self.pending() {
            return wake;
        }
        let left = self.left();
        let timeout = left.map_or(self.look_every, |left| left.min(self.look_every));
        self.signals.wait(&self.server, timeout);
        self.pending().unwrap_or(Wake::Look)
    }

    /// Starts the command; it also ends the recording. The duration counts from here.
    fn begun(&mut self) -> anyhow::Result<()> {
        self.command = Recorded::start(self.words)?;
        self.started = Some(Instant::now());
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.signals.ending().is_some()
    }

    fn hurry(&self) -> Hurry {
        self.signals.hurry()
    }

    fn command_failed(&mut self) -> bool {
        self.command.as_mut().is_some_and(Recorded::has_failed)
    }

    /// Ends the command if it still runs and that is asked for. Its end is not part of the recording.
    fn tracing_ended(&mut self) -> Option<String> {
        self.command.as_mut().filter(|_| self.kills)?.kill()
    }
}

/// Waits for a command that runs on after its recording. Returns a line for the user if it is left running.
fn wait_for_command(
    command: &mut Recorded,
    signals: &mut Signals,
    server: &ControlServer,
    was_killed: bool,
) -> Option<String> {
    if signals.ending().is_some() {
        return command.leave();
    }
    if was_killed {
        return None;
    }
    let mut is_told = false;
    while !command.has_ended() {
        if signals.ending().is_some() {
            return command.leave();
        }
        if !std::mem::replace(&mut is_told, true) {
            note!("the recording has ended; waiting for {}", command.label());
        }
        // SIGCHLD ends the wait.
        signals.wait(server, look_every(false));
        if let Some(pending) = server.next() {
            pending.refuse("the recording has ended; the recorder waits for its command");
        }
    }
    None
}
