//! What a recorder waits for: the end, a snapshot, or the next look around.

use super::{
    command::Recorded,
    signals::{Hurry, Signals},
};
use crate::recorders::{ControlServer, Pending, RecorderState, Request, SnapshotWindow};
use crate::terminal::note;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// How often the recorder looks around.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A flight recorder looks more often: from the trigger to here, nothing is recorded.
const LOOK_EVERY_FLIGHT: Duration = Duration::from_millis(20);

/// Why the recorder woke.
pub(super) enum Wake {
    /// The recording is over, for this reason.
    End(String),
    /// A snapshot is requested, with a window or the default one; a client may wait for the reply.
    Snapshot(Option<SnapshotWindow>, Option<Pending>),
    /// Nothing particular: look around.
    Look,
}

/// Everything that can wake a recorder.
pub(super) struct Watch {
    signals: Signals,
    server: ControlServer,
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

impl Watch {
    /// Starts listening, and makes the recorder known as `state`.
    pub(super) fn start(
        signals: Signals,
        state: &RecorderState,
        duration: Option<Duration>,
        kills: bool,
    ) -> anyhow::Result<Self> {
        let look_every = if state.flight_recorder { LOOK_EVERY_FLIGHT } else { LOOK_EVERY };
        let server = ControlServer::start(state)?;
        let (started, stopping) = (None, Vec::new());
        let command = None;
        Ok(Watch { signals, server, command, kills, started, duration, look_every, stopping })
    }

    /// Also ends when this command does. The duration counts from here.
    pub(super) fn command(&mut self, command: Option<Recorded>) {
        self.command = command;
        self.started = Some(Instant::now());
    }

    /// Waits for the next reason to do something.
    pub(super) fn next(&mut self) -> Wake {
        if let Some(wake) = self.pending() {
            return wake;
        }
        let left = self.left();
        let timeout = left.map_or(self.look_every, |left| left.min(self.look_every));
        self.signals.wait(&self.server, timeout);
        self.pending().unwrap_or(Wake::Look)
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
                Request::Snapshot(window) => return Some(Wake::Snapshot(window, Some(pending))),
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

    /// Has a signal asked for the end? For waits before the recording has begun.
    pub(super) fn is_interrupted(&self) -> bool {
        self.signals.ending().is_some()
    }

    /// Whether the end must come soon, now and later.
    pub(super) fn hurry(&self) -> Hurry {
        self.signals.hurry()
    }

    /// Did the command fail?
    pub(super) fn command_failed(&mut self) -> bool {
        self.command.as_mut().is_some_and(Recorded::has_failed)
    }

    /// Ends the command if it still runs and that is asked for; returns a line for the user then. To be called once
    /// tracing is off: the end of the command is not part of the recording.
    pub(super) fn end_command(&mut self) -> Option<String> {
        self.command.as_mut().filter(|_| self.kills)?.kill()
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
        signals.wait(server, LOOK_EVERY);
        if let Some(pending) = server.next() {
            pending.refuse("the recording has ended; the recorder waits for its command");
        }
    }
    None
}
