//! Why a guest cannot be recorded.

use super::sink::SinkError;
use crate::{bounds::Excess, proto::ProtoError, transport::ConnectError};
use std::io;
use thiserror::Error;
use transect_model::untrusted::Untrusted;

/// Why a guest cannot be recorded (any more).
#[derive(Debug, Error)]
pub enum SessionError {
    /// No channel.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The channel broke.
    #[error("guest {guest}: channel failed: {source}")]
    Channel {
        /// Which guest.
        guest: String,
        /// Why.
        source: io::Error,
    },
    /// The agent went away.
    #[error("guest {guest}: the agent closed the connection")]
    Closed {
        /// Which guest.
        guest: String,
    },
    /// Something is there but does not answer.
    #[error("guest {guest}: no data from the agent for {secs} s; {mend}")]
    Silent {
        /// Which guest.
        guest: String,
        /// How long it was waited for.
        secs: u64,
        /// What to do.
        mend: &'static str,
    },
    /// The stream makes no sense.
    #[error("guest {guest}: {source}")]
    Proto {
        /// Which guest.
        guest: String,
        /// What is wrong.
        source: ProtoError,
    },
    /// It sent what it may not send, or more than it may.
    #[error("guest {guest}: cut off: {source}; its recording ends here, the others go on")]
    Excess {
        /// Which guest.
        guest: String,
        /// What.
        source: Excess,
    },
    /// The agent cannot do what was asked.
    #[error("guest {guest}: {}", text.terminal())]
    Refused {
        /// Which guest.
        guest: String,
        /// One sentence of the guest.
        text: Untrusted<String>,
    },
    /// This recorder cannot use what the agent offers.
    #[error("guest {guest}: {why}")]
    Unusable {
        /// Which guest.
        guest: String,
        /// One sentence; texts of the guest in it are escaped.
        why: String,
    },
    /// It was stopped before it recorded.
    #[error("guest {guest}: stopped before its recording started")]
    Cancelled {
        /// Which guest.
        guest: String,
    },
    /// The recording side failed.
    #[error("guest {guest}: cannot store its events: {source}")]
    Sink {
        /// Which guest.
        guest: String,
        /// Why.
        source: SinkError,
    },
}
