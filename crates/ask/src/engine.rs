//! One child process of the engine: start, queries, cancellation, end.

use crate::answer::Answer;
use crate::error::AskError;
use crate::protocol::{
    self, End, HEAD_BYTES, Hello, Kind, Part, Query, Refusal, Request, parse, parse_head,
};
use crate::spawner;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Limit for a child to open the tables.
const START: Duration = Duration::from_secs(30);
/// Added to a query's time limit before the child is killed: the child reports the timeout itself.
const GRACE: Duration = Duration::from_secs(1);
/// Limit for a child to acknowledge a cancellation.
const STOP: Duration = Duration::from_millis(500);
/// Interval at which cancellation and deadline are checked.
const TURN: Duration = Duration::from_millis(100);
/// Limit of an answer as it is sent: IPC metadata comes on top of its byte limit, which is of columns in memory.
fn frame_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 4).saturating_add(1 << 20)
}

/// Limit of a frame without rows.
const MAX_MESSAGE_BYTES: u32 = 64 << 10;
/// Time of queries after which a child is replaced. Its CPU time has a limit over its life.
const RETIREMENT: Duration = Duration::from_secs(20 * 60);
/// Requested capacity of the pipe.
const PIPE_BYTES: usize = 1 << 20;

/// Resources of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory that queries may use for sorting, grouping and joining before they spill, bytes.
    pub memory_bytes: usize,
    /// Threads, and partitions of every query.
    pub threads: usize,
    /// Refuse to start a child around which a wall is missing.
    pub require_sandbox: bool,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { memory_bytes: 1 << 30, threads, require_sandbox: false }
    }
}

/// Cancellation of a query by the caller.
#[derive(Clone, Copy)]
pub struct Patience<'p> {
    /// Returns false once the answer is no longer needed. Called ten times a second.
    pub wanted: &'p dyn Fn() -> bool,
}

impl Default for Patience<'_> {
    fn default() -> Self {
        Patience { wanted: &|| true }
    }
}

/// A child process with a recording's tables open. Dropping it kills the process.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    /// None once its end is wanted: the child ends with its input.
    to: Option<ChildStdin>,
    from: ChildStdout,
    queries: u64,
    /// Time that queries took.
    worked: Duration,
    /// When cancellation and deadline were checked.
    checked: Instant,
    is_lost: bool,
}

impl Engine {
    /// Starts `program` on the folder `tables` and waits for its [`Hello`].
    ///
    /// # Errors
    /// It cannot be started, is of another version, or cannot read the tables.
    pub fn start(program: &Path, tables: &Path, options: &Options) -> Result<Self, AskError> {
        let failed = |source| AskError::Start { path: program.to_owned(), source };
        let mut command = Command::new(program);
        command.arg("--pipe");
        command.arg(format!("--memory={}", options.memory_bytes));
        command.arg(format!("--threads={}", options.threads));
        if options.require_sandbox {
            command.arg("--require-sandbox");
        }
        command.arg("--").arg(tables);
        // The caller's environment may hold secrets. Without RUST_BACKTRACE the last line on stderr is the reason of an
        // exit.
        command.env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawner::spawn(command).map_err(failed)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        // A smaller one is slower, no more.
        let _ = rustix::pipe::fcntl_setpipe_size(&from, PIPE_BYTES);
        let mut engine = Engine {
            child,
            to: Some(to),
            from,
            queries: 0,
            worked: Duration::ZERO,
            checked: Instant::now(),
            is_lost: false,
        };
        engine.read_hello(program)?;
        Ok(engine)
    }

    fn read_hello(&mut self, program: &Path) -> Result<(), AskError> {
        let until = Instant::now().checked_add(START);
        let mut bytes = Vec::new();
        let part = match self.read_frame(protocol::MAX_REQUEST_BYTES, until, &|| true, &mut bytes) {
            Err(AskError::TooLong(_)) => {
                let why = format!("the tables were not open after {} s", START.as_secs());
                return Err(AskError::Ended(why));
            }
            other => other?,
        };
        match part {
            Part::Hello => {
                let theirs: Hello = parse(&bytes).map_err(AskError::Confused)?;
                if theirs.fits(&Hello::ours()) {
                    return Ok(());
                }
                let text =
                    |hello: &Hello| format!("{} (protocol {})", hello.version, hello.protocol);
                let path = PathBuf::from(program);
                Err(AskError::Version { path, theirs: text(&theirs), ours: text(&Hello::ours()) })
            }
            Part::Refusal => Err(AskError::Refused(parse(&bytes).map_err(AskError::Confused)?)),
            other => Err(AskError::Confused(format!("unexpected {other:?} frame at start"))),
        }
    }

    /// True if it can answer another query.
    pub fn is_usable(&self) -> bool {
        !self.is_lost && self.worked < RETIREMENT
    }

    /// Sends a query and reads the whole answer.
    ///
    /// # Errors
    /// See [`AskError`]. Check [`Engine::is_usable`] before the next query.
    pub fn ask(&mut self, query: &Query, patience: &Patience<'_>) -> Result<Answer, AskError> {
        self.queries += 1;
        let id = self.queries;
        let request = Request::Query { id, query: query.clone() };
        if self.send(&request).is_err() {
            return Err(self.exit_error());
        }
        let time = Duration::from_millis(query.limits.ms);
        // A limit that does not fit an `Instant` is no limit.
        let until = time.checked_add(GRACE).and_then(|time| Instant::now().checked_add(time));
        let begun = Instant::now();
        let answered = self.read_answer(id, query, until, patience);
        self.worked += begun.elapsed();
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
                self.cancel(id, query.limits.bytes);
                Err(AskError::Stopped)
            }
            Err(AskError::TooLong(_)) => {
                self.kill();
                Err(AskError::TooLong(time))
            }
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let to = self.to.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        protocol::write_json(to, Part::Request, request)
    }

    fn read_answer(
        &mut self,
        id: u64,
        query: &Query,
        until: Option<Instant>,
        patience: &Patience<'_>,
    ) -> Result<Answer, AskError> {
        let most = frame_bytes(query.limits.bytes);
        let mut bytes = Vec::new();
        loop {
            let begin = bytes.len();
            let left = most.saturating_sub(begin as u64);
            let part = match self.read_frame(left, until, patience.wanted, &mut bytes) {
                Err(AskError::TooLarge(_)) => return Err(AskError::TooLarge(query.limits.bytes)),
                other => other?,
            };
            if part == query.form.part() {
                // Frames without bytes would never reach a limit.
                if bytes.len() == begin {
                    return Err(AskError::Confused("empty frame".to_owned()));
                }
                continue;
            }
            let found = bytes.split_off(begin);
            match part {
                Part::End => {
                    let end: End = parse(&found).map_err(AskError::Confused)?;
                    return match end.id == id {
                        true => Ok(Answer { bytes, end }),
                        false => Err(AskError::Confused("answer to another query".to_owned())),
                    };
                }
                Part::Refusal => {
                    let refusal: Refusal = parse(&found).map_err(AskError::Confused)?;
                    return Err(AskError::Refused(refusal));
                }
                other => return Err(AskError::Confused(format!("unexpected {other:?} frame"))),
            }
        }
    }

    /// Cancels a query; kills a child that does not acknowledge within [`STOP`].
    fn cancel(&mut self, id: u64, bytes: u64) {
        if self.is_lost {
            return self.kill();
        }
        let until = Instant::now().checked_add(STOP);
        let cancel = Request::Cancel { id };
        if self.send(&cancel).is_err() {
            return self.kill();
        }
        loop {
            match self.read_frame(frame_bytes(bytes), until, &|| true, &mut Vec::new()) {
                Ok(Part::Arrow | Part::Json) => {}
                Ok(Part::End | Part::Refusal) => return,
                _ => return self.kill(),
            }
        }
    }

    /// Reads the next frame, of up to `most` bytes, and appends its body to `to`. If it is interrupted within
    /// the body, the stream has no frame boundary any more and the child is killed.
    fn read_frame(
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
        let is_rows = matches!(part, Part::Arrow | Part::Json);
        if !is_rows && length > MAX_MESSAGE_BYTES {
            return Err(AskError::Confused(format!("{part:?} frame of {length} bytes")));
        }
        let begin = to.len();
        to.resize(begin + length as usize, 0);
        let body = to.get_mut(begin..).unwrap_or_default();
        self.fill(body, until, wanted).inspect_err(|_| self.is_lost = true)?;
        Ok(part)
    }

    /// Fills `room` from the pipe.
    fn fill(
        &mut self,
        mut room: &mut [u8],
        until: Option<Instant>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<(), AskError> {
        while !room.is_empty() {
            self.wait_readable(until, wanted)?;
            match self.from.read(room) {
                Ok(0) => return Err(self.exit_error()),
                Ok(read) => room = room.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(self.exit_error()),
            }
        }
        Ok(())
    }

    /// Waits until the pipe is readable.
    fn wait_readable(
        &mut self,
        until: Option<Instant>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<(), AskError> {
        let mut is_readable = false;
        loop {
            let left = until.map_or(TURN, |until| until.saturating_duration_since(Instant::now()));
            let turn = Timespec::try_from(left.min(TURN)).unwrap_or_default();
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut fds, Some(&turn)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // A child that always has bytes ready must still meet the deadline.
                Ok(_) if self.checked.elapsed() < TURN => return Ok(()),
                Ok(_) => is_readable = true,
                Err(_) => return Err(self.exit_error()),
            }
            self.checked = Instant::now();
            if !wanted() {
                return Err(AskError::Stopped);
            }
            if left.is_zero() {
                return Err(AskError::TooLong(Duration::ZERO));
            }
            if is_readable {
                return Ok(());
            }
        }
    }

    fn kill(&mut self) {
        self.is_lost = true;
        // A daemon without CAP_KILL cannot signal a child of another user. That child ends with its input.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.wait_a_while();
    }

    /// Waits for the child's end, as long as [`GRACE`].
    fn wait_a_while(&mut self) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + GRACE;
        loop {
            match self.child.try_wait()? {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                ended => return Ok(ended),
            }
        }
    }

    /// Collects the exit status and the reason after the pipe was closed.
    fn exit_error(&mut self) -> AskError {
        self.is_lost = true;
        let mut status = self.wait_a_while();
        if matches!(status, Ok(None)) {
            // The pipe is closed but the process still runs.
            self.kill();
            status = self.child.try_wait();
        }
        let how = match status {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "the process cannot be killed".to_owned(),
            Err(error) => error.to_string(),
        };
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

/// False for empty lines and Rust's hints about backtraces.
fn is_reason(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("stack backtrace")
}

/// Bytes of stderr that are searched for the reason.
const SAID_BYTES: u64 = 64 << 10;

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}
