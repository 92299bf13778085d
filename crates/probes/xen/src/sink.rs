//! Who takes the records.

use std::{fmt, io};

/// Takes what Xen traced. Lives in the collector's thread.
pub trait TraceSink: Send {
    /// One or more whole windows, each a CPU_CHANGE record and the records of one pCPU, as `xentrace` writes them to
    /// a file: appended to one another they are such a file.
    ///
    /// # Errors
    /// Ends the collector; the recording is told.
    fn windows(&mut self, windows: &[u8]) -> io::Result<()>;

    /// `xentrace` ended before its time. It is started again; the windows that follow are its successor's.
    fn ended(&mut self, ending: &Ending);
}

/// How an `xentrace` ended that was not told to by the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How.
    pub how: How,
    /// The last of what it wrote to its standard error; often empty.
    pub said: String,
    /// Bytes of a window that was not sent to its end. Xen's buffer still has it, unless the buffers are gone too.
    pub torn_bytes: usize,
    /// Is it started again? If not, nothing comes any more.
    pub final_one: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It sent what is no trace, and was ended.
    OutOfStep,
}

impl How {
    /// Does Xen go on tracing into its buffers? Only an orderly end switches tracing off
    /// (`monitor_tbufs`, tools/xentrace/xentrace.c of 4.17); then what happened until it is
    /// switched on again was never recorded.
    pub fn tracing_goes_on(self) -> bool {
        self != How::Exited(0)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exited(0) => f.write_str("was ended by another process"),
            How::Exited(code) => write!(f, "failed with exit code {code}"),
            How::Killed(signal) => write!(f, "was killed by signal {signal}"),
            How::OutOfStep => f.write_str("wrote invalid trace data"),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xentrace {}", self.how)?;
        if !self.said.is_empty() {
            write!(f, " ({})", self.said)?;
        }
        Ok(())
    }
}
