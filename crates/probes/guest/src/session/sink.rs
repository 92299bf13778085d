//! Where a session's events go.

use crate::{
    exchange::Bracket,
    proto::{CpuStats, MachineFacts, Started, Words},
    serve::MetaFile,
    stamp::TscReading,
};
use transect_model::untrusted::Untrusted;

/// An error of the recording side (disk full, …).
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Why no events of the guest exist in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapCause {
    /// The connection broke: the guest died or rebooted, its agent or its VMM ended.
    Disconnected,
    /// The connection stood, but nothing came for longer than [`Limits::stall`](super::Limits::stall).
    Stalled,
    /// It sent what it may not send, or more than its [`Bounds`](crate::bounds::Bounds): it is recorded no more.
    CutOff,
    /// The host recorded already, and the guest did not yet.
    NotStarted,
}

impl GapCause {
    /// The word in manifest and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            GapCause::Disconnected => "guest_disconnected",
            GapCause::Stalled => "guest_stalled",
            GapCause::CutOff => "guest_cut_off",
            GapCause::NotStarted => "guest_not_started",
        }
    }
}

/// An interval without events of the guest, in raw stamps of the host's trace clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Everything up to here has arrived.
    pub from: u64,
    /// From here on it arrives again; none if it never did.
    pub to: Option<u64>,
    /// Why.
    pub cause: GapCause,
}

/// What a link set up, before its first page.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// The machine.
    pub facts: &'a MachineFacts,
    /// The agent's version.
    pub agent: &'a Untrusted<String>,
    /// What is recorded. With [`Started::compact`], slices of logs come ([`GuestSink::words`]), else
    /// pages.
    pub started: &'a Started,
    /// Descriptive files: formats, page header, …; of a compact guest what [`crate::describe`] reads.
    pub meta: &'a [MetaFile],
    /// True if pages go on where the last link stopped (same boot, same formats); false for the
    /// first link and after a reboot, where they need a source of their own. Always false for a
    /// compact guest: each link has logs of its own, which begin at position 0.
    pub continues: bool,
    /// Does this boot's clock go on from the last link? False for the first one, and after a reboot.
    pub same_boot: bool,
}

/// Takes what a guest sends. All calls come from the session's thread, in order; nothing but notes
/// comes before the first [`GuestSink::begin`].
pub trait GuestSink: Send {
    /// A link records now.
    ///
    /// # Errors
    /// Ends the session.
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError>;

    /// Whole sub-buffers of one CPU.
    ///
    /// # Errors
    /// Ends the session.
    fn pages(&mut self, cpu: u32, pages: &[u8]) -> Result<(), SinkError>;

    /// A slice of a log of a compact guest; returns how many events it holds. Slices of a log
    /// come in order; a gap between two is lost data.
    ///
    /// # Errors
    /// Ends the session. By default, because whoever asks for compact recording must take it.
    fn words(&mut self, slice: &Words<'_>) -> Result<u64, SinkError> {
        let bytes = slice.words.len();
        Err(format!("received {bytes} bytes of compact records without a consumer").into())
    }

    /// The guest's clock read beside its TSC.
    ///
    /// # Errors
    /// Ends the session.
    fn reading(&mut self, reading: &TscReading) -> Result<(), SinkError> {
        let _ = reading;
        Ok(())
    }

    /// One clock exchange.
    ///
    /// # Errors
    /// Ends the session.
    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError>;

    /// Events are missing here.
    ///
    /// # Errors
    /// Ends the session.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// The source begun last is complete; `meta` are descriptive files known only at the end (of a
    /// compact guest: names and totals for [`crate::describe`]), empty if the guest was lost. `cpus`
    /// are the kernel's counters for that source.
    ///
    /// # Errors
    /// Ends the session.
    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError>;

    /// Something worth a line to the user, who watches `guest` record. Texts of the guest in it are escaped.
    fn note(&mut self, text: &str);
}
