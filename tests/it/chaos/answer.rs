//! What a program answered: its end, its messages and its parts.

use anyhow::{Context, Result, ensure};
use std::{
    fmt,
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A program that takes longer hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
    Hang,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Code(code) => write!(f, "exit code {code}"),
            End::Signal(number) => write!(f, "signal {number}"),
            End::Hang => write!(f, "no end within {DEADLINE:?}"),
        }
    }
}

/// A file, standard output, or a response of a server with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) end: End,
    pub(crate) messages: String,
    pub(crate) parts: Vec<Part>,
}

impl Answer {
    pub(crate) fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.part(name).map(|p| String::from_utf8_lossy(&p.body).into_owned()).unwrap_or_default()
    }

    /// The messages that the other answer lacks.
    pub(crate) fn messages_beyond(&self, other: &Answer) -> Vec<&str> {
        let known: Vec<&str> = other.messages.lines().collect();
        self.messages.lines().filter(|line| !known.contains(line)).collect()
    }
}

/// Runs a program to its end. Its output goes to files beside the directory in which it runs.
pub(crate) fn run(command: &mut Command, scratch: &Path) -> Result<Answer> {
    let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let end = end_of(&mut child, DEADLINE)?;
    let body = fs::read(out)?;
    let messages = String::from_utf8_lossy(&fs::read(err)?).into_owned();
    Ok(Answer { end, messages, parts: vec![Part { name: "stdout", status: 200, body }] })
}

pub(crate) fn end_of(child: &mut Child, deadline: Duration) -> Result<End> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            let signal = || End::Signal(status.signal().unwrap_or_default());
            return Ok(status.code().map_or_else(signal, End::Code));
        }
        if begun.elapsed() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(End::Hang);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// An answer of a whole recording must be a success.
pub(crate) fn ensure_success(answer: &Answer, what: &str) -> Result<()> {
    ensure!(answer.end == End::Code(0), "{what}: {}: {}", answer.end, answer.messages);
    let refused = answer.parts.iter().find(|part| part.status != 200);
    ensure!(refused.is_none(), "{what}: {refused:?}");
    Ok(())
}
