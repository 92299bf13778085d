//! One child: it is started, asked, and ended.

use crate::answer::Answer;
use crate::error::AskError;
use crate::protocol::{
    self, End, HEAD_BYTES, Hello, Kind, Part, Query, Refusal, Request, parse, parse_head,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a child may take to open the tables.
const START: Duration = Duration::from_secs(30);
/// How long it may take, beyond its time, to say that the time is over.
const GRACE: Duration = Duration::from_secs(1);
/// How long it may take to stop.
const STOP: Duration = Duration::from_millis(500);
/// How often who waits looks whether the answer is still wanted.
const TURN: Duration = Duration::from_millis(100);
/// What an IPC stream has beside the columns.
const FRAMING_BYTES: u64 = 16 << 20;
/// Bytes that a pipe holds, if the kernel gives so many.
const PIPE_BYTES: usize = 1 << 20;

/// How a child works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory that queries may use for sorting, grouping and joining before they spill, bytes.
    pub memory_bytes: usize,
    /// Threads, and partitions of every query.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { memory_bytes: 1 << 30, threads }
    }
}

/// Who waits for an answer.
#[derive(Clone, Copy)]
pub struct Patience<'p> {
    /// Is the answer still wanted? Asked ten times a second.
    pub wanted: &'p dyn Fn() -> bool,
}

impl Default for Patience<'_> {
    fn default() -> Self {
        Patience { wanted: &|| true }
    }
}

/// A child that has a recording's tables open. It ends when this is dropped.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    queries: u64,
    is_lost: bool,
}

impl Engine {
    /// Starts `program` over the folder `tables`, and waits until it has them open.
    ///
    /// # Errors
    /// It cannot be started, is of another version, or cannot read the tables.
    pub fn start(program: &Path, tables: &Path, options: &Options) -> Result<Self, AskError> {
        let failed = |source| AskError::Start { path: program.to_owned(), source };
        let mut command = Command::new(program);
        command.arg("--pipe");
        command.arg(format!("--memory={}", options.memory_bytes));
        command.arg(format!("--threads={}", options.threads));
        command.arg("--").arg(tables);
        // Frames of a backtrace would hide why it ended.
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        // A smaller one is slower, no more.
        let _ = rustix::pipe::fcntl_setpipe_size(&from, PIPE_BYTES);
        let mut engine = Engine { child, to, from, queries: 0, is_lost: false };
        engine.greet(program)?;
        Ok(engine)
    }

    fn greet(&mut self, program: &Path) -> Result<(), AskError> {
        let until = Instant::now().checked_add(START);
        let mut bytes = Vec::new();
        let part = match self.frame(protocol::MAX_REQUEST_BYTES, until, &|| true, &mut bytes) {
            Err(AskError::TooLong(_)) => {
                let why = format!("it did not open the tables within {} s", START.as_secs());
                return Err(AskError::Ended(why));
            }
            other => other?,
        };
        match part {
            Part::Hello => {
                let theirs: Hello = parse(&bytes).map_err(AskError::Confused)?;
                if theirs == Hello::ours() {
                    return Ok(());
                }
                let text =
                    |hello: &Hello| format!("{} (protocol {})", hello.version, hello.protocol);
                let path = PathBuf::from(program);
                Err(AskError::Version { path, theirs: text(&theirs), ours: text(&Hello::ours()) })
            }
            Part::Refusal => Err(AskError::Refused(parse(&bytes).map_err(AskError::Confused)?)),
            other => Err(AskError::Confused(format!("with {other:?} at its start"))),
        }
    }

    /// Its process, while it lives.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Can it be asked again?
    pub fn is_usable(&self) -> bool {
        !self.is_lost
    }

    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// See [`AskError`]; after most of them it cannot be asked again ([`Engine::is_usable`]).
    pub fn ask(&mut self, query: &Query, patience: &Patience<'_>) -> Result<Answer, AskError> {
        self.queries += 1;
        let id = self.queries;
        let request = Request::Query { id, query: query.clone() };
        if protocol::write_json(&mut self.to, Part::Request, &request).is_err() {
            return Err(self.lost());
        }
        let time = Duration::from_millis(query.limits.ms);
        // Beyond what a clock counts there is no end.
        let until = time.checked_add(GRACE).and_then(|time| Instant::now().checked_add(time));
        let answered = self.answer(id, query.limits.bytes, until, patience);
        match answered {
            Ok(answer) => Ok(answer),
            Err(AskError::Refused(refusal)) => Err(match refusal.kind {
                Kind::Stopped => AskError::Stopped,
                Kind::Time => AskError::TooLong(time),
                kind => {
                    self.is_lost |= kind == Kind::Tables;
                    AskError::Refused(refusal)
                }
            }),
            Err(AskError::Stopped) => {
                self.stop(id);
                Err(AskError::Stopped)
            }
            Err(AskError::TooLong(_)) => {
                self.end();
                Err(AskError::TooLong(time))
            }
            Err(error) => {
                self.end();
                Err(error)
            }
        }
    }

    fn answer(
        &mut self,
        id: u64,
        bytes: u64,
        until: Option<Instant>,
        patience: &Patience<'_>,
    ) -> Result<Answer, AskError> {
        let most = bytes.saturating_add(FRAMING_BYTES);
        let mut arrow = Vec::new();
        loop {
            let begin = arrow.len();
            let left = most.saturating_sub(begin as u64);
            let part = match self.frame(left, until, patience.wanted, &mut arrow) {
                Err(AskError::TooLarge(_)) => return Err(AskError::TooLarge(bytes)),
                other => other?,
            };
            if part == Part::Arrow {
                continue;
            }
            let found = arrow.split_off(begin);
            match part {
                Part::End => {
                    let end: End = parse(&found).map_err(AskError::Confused)?;
                    return match end.id == id {
                        true => Ok(Answer { arrow, end }),
                        false => Err(AskError::Confused("another question".to_owned())),
                    };
                }
                Part::Refusal => {
                    let refusal: Refusal = parse(&found).map_err(AskError::Confused)?;
                    return Err(AskError::Refused(refusal));
                }
                other => return Err(AskError::Confused(format!("with {other:?}"))),
            }
        }
    }

    /// Has it stop what nobody wants; one that does not within a moment is ended.
    fn stop(&mut self, id: u64) {
        let until = Instant::now().checked_add(STOP);
        let cancel = Request::Cancel { id };
        if protocol::write_json(&mut self.to, Part::Request, &cancel).is_err() {
            return self.end();
        }
        loop {
            match self.frame(u64::MAX, until, &|| true, &mut Vec::new()) {
                Ok(Part::Arrow) => {}
                Ok(Part::End | Part::Refusal) => return,
                _ => return self.end(),
            }
        }
    }

    /// The next frame, of up to `most` bytes, which are added to `to`.
    fn frame(
        &mut self,
        most: u64,
        until: Option<Instant>,
        wanted: &dyn Fn() -> bool,
        to: &mut Vec<u8>,
    ) -> Result<Part, AskError> {
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head, until, wanted)?;
        let (part, length) = parse_head(head).map_err(AskError::Confused)?;
        if u64::from(length) > most {
            return Err(AskError::TooLarge(most));
        }
        let begin = to.len();
        to.resize(begin + length as usize, 0);
        self.fill(to.get_mut(begin..).unwrap_or_default(), until, wanted)?;
        Ok(part)
    }

    /// Reads as many bytes as there is room for.
    fn fill(
        &mut self,
        mut room: &mut [u8],
        until: Option<Instant>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<(), AskError> {
        while !room.is_empty() {
            self.wait(until, wanted)?;
            match self.from.read(room) {
                Ok(0) => return Err(self.lost()),
                Ok(read) => room = room.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(self.lost()),
            }
        }
        Ok(())
    }

    /// Until there is something to read.
    fn wait(&mut self, until: Option<Instant>, wanted: &dyn Fn() -> bool) -> Result<(), AskError> {
        loop {
            let left = until.map_or(TURN, |until| until.saturating_duration_since(Instant::now()));
            let turn = Timespec::try_from(left.min(TURN)).unwrap_or_default();
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut fds, Some(&turn)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(_) => return Err(self.lost()),
            }
            if !wanted() {
                return Err(AskError::Stopped);
            }
            if left.is_zero() {
                return Err(AskError::TooLong(Duration::ZERO));
            }
        }
    }

    fn end(&mut self) {
        self.is_lost = true;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, now that its pipe is closed.
    fn lost(&mut self) -> AskError {
        self.is_lost = true;
        let until = Instant::now() + GRACE;
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                // It closed its pipe and goes on.
                Ok(None) => {
                    let _ = self.child.kill();
                    break self.child.wait();
                }
                Ok(Some(status)) => break Ok(status),
                Err(error) => break Err(error),
            }
        };
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let mut said = Vec::new();
        if let Some(errors) = self.child.stderr.take() {
            let _ = errors.take(SAID_BYTES).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().map(str::trim).rfind(|line| is_reason(line));
        let plain = |line: &str| -> String {
            line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
        };
        AskError::Ended(match last {
            Some(line) => format!("{} ({how})", plain(line)),
            None => how,
        })
    }
}

/// Is it more than Rust's own advice about backtraces?
fn is_reason(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("stack backtrace")
}

/// Of what a child said before it ended.
const SAID_BYTES: u64 = 64 << 10;

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}
