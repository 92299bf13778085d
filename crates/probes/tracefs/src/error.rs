//! What the kernel may refuse, each with what to do about it.

use std::{io, path::PathBuf};
use transect_model::ids::CpuId;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracefsError {
    /// No tracefs, and none could be mounted.
    #[error("no tracefs found and mounting it at {} failed: {source}; run as root: mount -t tracefs nodev {}", path.display(), path.display())]
    Mount {
        /// Where it was to be mounted.
        path: PathBuf,
        /// What mount(2) said.
        source: io::Error,
    },
    /// tracefs is there, but not for this user.
    #[error("{}: permission denied: recording kernel events needs root (sudo transect record …) or CAP_DAC_OVERRIDE + CAP_SYS_ADMIN", .0.display())]
    Permission(PathBuf),
    /// A file of tracefs or procfs could not be read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of tracefs says something that makes no sense.
    #[error("{}: unexpected content {text:?}: expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it holds (its relevant line).
        text: String,
        /// What it should.
        expected: &'static str,
    },
    /// The kernel refused a setting.
    #[error("{}: the kernel refused {value:?}: {source}{mend}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// What the kernel said.
        source: io::Error,
        /// What to do, starting with "; ", or empty.
        mend: String,
    },
    /// The kernel refused a filter or a trigger's condition; its own words are included.
    #[error("{what} of {event}: the kernel refused {expression:?}:\n{kernel}")]
    Expression {
        /// "filter" or "trigger".
        what: &'static str,
        /// `system:event`.
        event: String,
        /// The expression.
        expression: String,
        /// The kernel's own explanation, with its caret line.
        kernel: String,
    },
    /// An event that was asked for by name is not there.
    #[error("no event {pattern:?} on this kernel{near}")]
    NoEvent {
        /// As asked for.
        pattern: String,
        /// What there is, or what to do; starts with a separator, or is empty.
        near: String,
    },
    /// An event or filter specification that cannot be understood.
    #[error("{spec:?}: {reason}; write {expected}")]
    Spec {
        /// As given.
        spec: String,
        /// What is wrong.
        reason: &'static str,
        /// How it should look.
        expected: &'static str,
    },
    /// A clock this kernel does not offer.
    #[error("this kernel has no trace clock {asked:?}; it offers: {offered}")]
    NoClock {
        /// As asked for.
        asked: String,
        /// What there is.
        offered: String,
    },
    /// Reading a CPU's buffer failed.
    #[error("cpu {cpu}: cannot {action}: {source}")]
    Drain {
        /// The CPU.
        cpu: CpuId,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Whoever takes the pages could not.
    #[error("cpu {cpu}: cannot store the events: {source}")]
    Sink {
        /// The CPU.
        cpu: CpuId,
        /// Why.
        source: io::Error,
    },
    /// Our instance would not go away.
    #[error("{}: cannot remove the tracing instance: {source}; remove it manually: rmdir {}", path.display(), path.display())]
    Remove {
        /// The instance's directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TracefsError {
    /// Is this the disk being full? (Then what was written stays, and recording ends.)
    pub fn is_storage_full(&self) -> bool {
        matches!(self, TracefsError::Sink { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}
