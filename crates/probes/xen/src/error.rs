//! What can go wrong in dom0, each with what to do about it.

use std::{io, path::PathBuf, time::Duration};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XenError {
    /// One of Xen's tools is not there.
    #[error(
        "{tool} not found in {looked}; install Xen's tools: apt-get install xen-utils-{version}"
    )]
    NoTool {
        /// Its name.
        tool: String,
        /// Where it was looked for.
        looked: String,
        /// Xen's version, as packages are named.
        version: String,
    },
    /// A tool could not be started or watched.
    #[error("{}: cannot {action}: {source}", tool.display())]
    Tool {
        /// The tool.
        tool: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A tool said no.
    #[error("{command}: {how}: {said}")]
    Refused {
        /// The command line.
        command: String,
        /// How it ended.
        how: String,
        /// The last of what it wrote to its standard error.
        said: String,
    },
    /// A tool took too long and was killed.
    #[error("{command}: no answer within {} s; check that xenstored is running", limit.as_secs())]
    Slow {
        /// The command line.
        command: String,
        /// The deadline.
        limit: Duration,
    },
    /// xentrace did not begin.
    #[error("xentrace did not start: {said}{mend}")]
    NotStarted {
        /// What it said.
        said: String,
        /// What to do, starting with "; ", or empty.
        mend: &'static str,
    },
    /// xentrace ended again and again.
    #[error(
        "xentrace ended {times} times in a row without a record: {last}; Xen is not recorded from then on"
    )]
    KeepsEnding {
        /// How often it was started.
        times: u32,
        /// How it ended last.
        last: String,
    },
    /// Whoever takes the records could not.
    #[error("cannot store Xen's records: {0}")]
    Sink(#[source] io::Error),
    /// The stream could not be read.
    #[error("xentrace's stream: cannot {action}: {source}")]
    Stream {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A class of events nobody knows.
    #[error(
        "--xen-events {asked:?}: unknown class; known are {known}; or write a mask, e.g. 0x0002f000"
    )]
    Class {
        /// As given.
        asked: String,
        /// What there is.
        known: String,
    },
    /// xenstored could not be asked.
    #[error("xenstore: cannot {action}: {source}")]
    Store {
        /// What was tried.
        action: String,
        /// Why.
        source: io::Error,
    },
}

impl XenError {
    /// Is this the disk being full? (Then what was written stays, and recording ends.)
    pub fn is_storage_full(&self) -> bool {
        matches!(self, XenError::Sink(source) if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}
