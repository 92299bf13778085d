//! The command that is recorded, if one is.

use std::{
    env,
    ffi::OsString,
    fmt, io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

/// How long a command gets to end after a signal.
const END_PATIENCE: Duration = Duration::from_secs(3);
/// How often a command is looked at that outlives its recording.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Exit codes of shells: the command was found and cannot be executed; it was not found.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// A running command.
pub(super) struct Recorded {
    child: Child,
    name: String,
    status: Option<ExitStatus>,
}

/// A command that cannot be started.
#[derive(Debug)]
pub(super) struct CannotStart {
    name: String,
    reason: String,
    /// As shells report it.
    pub(super) exit_code: u8,
}

impl fmt::Display for CannotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotStart { name, reason, .. } = self;
        write!(f, "cannot start the command {name:?}: {reason}; nothing was recorded")
    }
}

impl std::error::Error for CannotStart {}

impl CannotStart {
    fn not_found(name: &str) -> Self {
        let reason = match name.contains('/') {
            true => "no such file",
            false => "not found in the directories of PATH",
        };
        CannotStart { name: name.to_owned(), reason: reason.to_owned(), exit_code: NOT_FOUND }
    }

    fn from_error(name: &str, error: &io::Error) -> Self {
        let exit_code = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => CANNOT_EXECUTE,
        };
        CannotStart { name: name.to_owned(), reason: error.to_string(), exit_code }
    }
}

/// Checks that the program exists, before anything is set up.
pub(super) fn check(words: &[OsString]) -> Result<(), CannotStart> {
    let Some(program) = words.first() else { return Ok(()) };
    let path = Path::new(program);
    let has_directory = path.components().count() > 1 || path.is_absolute();
    let places = env::var_os("PATH").unwrap_or_default();
    let exists = match has_directory {
        true => path.exists(),
        false => env::split_paths(&places).any(|dir| dir.join(path).is_file()),
    };
    exists.then_some(()).ok_or_else(|| CannotStart::not_found(&program.to_string_lossy()))
}

impl Recorded {
    /// Starts it.
    pub(super) fn start(words: &[OsString]) -> Result<Option<Self>, CannotStart> {
        let Some((program, args)) = words.split_first() else { return Ok(None) };
        let name = program.to_string_lossy().into_owned();
        let child = Command::new(program)
            .args(args)
            .spawn()
            .map_err(|error| CannotStart::from_error(&name, &error))?;
        Ok(Some(Recorded { child, name, status: None }))
    }

    /// Did it end?
    pub(super) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Did it end, and not well?
    pub(super) fn has_failed(&mut self) -> bool {
        self.has_ended() && !self.status.is_some_and(|status| status.success())
    }

    /// Its name and process id.
    pub(super) fn label(&self) -> String {
        format!("{} (pid {})", self.name, self.child.id())
    }

    /// Sends it SIGTERM and waits for its end. Returns a line for the user.
    pub(super) fn kill(&mut self) -> Option<String> {
        if self.has_ended() {
            return None;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        Some(match self.ends_within(END_PATIENCE) {
            true => format!("recording ended: terminated {} with SIGTERM", self.name),
            false => {
                format!("recording ended, but {} ignores SIGTERM and still runs", self.label())
            }
        })
    }

    /// Waits for its end, which a signal to the whole foreground group also brings about. Returns a line for the user
    /// if it runs on.
    pub(super) fn leave(&mut self) -> Option<String> {
        let is_over = self.ends_within(END_PATIENCE / 10);
        (!is_over).then(|| format!("{} still runs", self.label()))
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        while !self.has_ended() {
            if start.elapsed() >= patience {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
        true
    }

    /// Its exit code as shells tell it: 128 + signal if one killed it; 0 while it runs.
    pub(super) fn exit_code(&self) -> u8 {
        let Some(status) = self.status else { return 0 };
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }

    /// For people: how it ended.
    pub(super) fn describe(&self) -> Option<String> {
        let status = self.status?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("{} exited with code {code}", self.name),
            (_, Some(signal)) => format!("{} was killed by signal {signal}", self.name),
            _ => format!("{} ended", self.name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_found_out_before_it_is_started() {
        let words = |word: &str| vec![OsString::from(word)];
        assert!(
            check(&[]).is_ok() && check(&words("sh")).is_ok() && check(&words("/bin/sh")).is_ok()
        );
        for word in ["no-such-program-here", "/bin/no-such-program-here", "./no-such-program-here"]
        {
            assert_eq!(check(&words(word)).unwrap_err().exit_code, NOT_FOUND, "{word}");
        }
        // Found, and no program.
        let error = Recorded::start(&words("/etc/passwd")).err().unwrap();
        assert_eq!(error.exit_code, CANNOT_EXECUTE);
    }
}
