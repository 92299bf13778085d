//! What the engine reads: one stream of stamped events per CPU of each machine and source.

use serde::{Deserialize, Serialize};
use transect_model::{
    event::CoreEvent,
    ids::{CpuId, MachineId, Tid},
    table::ImportLog,
    time::{Source, Timestamp},
};

/// Which CPU of which machine a stream tells about. Streams of several sources (trace buffer
/// instances) of one CPU share a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamKey {
    /// The machine whose kernel wrote the events.
    pub machine: MachineId,
    /// Its CPU (in a guest: the CPU as the guest numbers it).
    pub cpu: CpuId,
}

/// Why events are missing. The words are those of the `lost` table's `cause` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LostCause {
    /// The ring buffer was full, or overwrote its oldest events before they were read.
    BufferOverrun,
    /// A flight recorder overwrote its oldest events: the stream begins later than the recording.
    Overwritten,
    /// The channel to the guest was down.
    GuestDisconnected,
    /// The guest did not send in time.
    GuestStalled,
    /// The guest exceeded its bounds and is not recorded any more.
    GuestCutOff,
    /// The host recorded already, the guest did not yet.
    GuestNotStarted,
    /// Xen's tracing was off: its `xentrace` had been told to end by someone else.
    XentraceEnded,
    /// A flight recorder's earlier snapshot was being taken.
    Snapshot,
    /// The disk was full.
    DiskFull,
    /// The recorder ended before it wrote the events that its buffers held: it was killed, or failed.
    NotWritten,
    /// The file ends in the middle of the stream.
    TruncatedFile,
    /// Bytes that cannot be events.
    CorruptPage,
}

impl LostCause {
    /// Is it the end of a recorder that could not write its last events?
    pub(crate) fn is_unfinished(self) -> bool {
        matches!(self, LostCause::DiskFull | LostCause::NotWritten)
    }

    /// The word in the `lost` table.
    pub fn as_str(self) -> &'static str {
        match self {
            LostCause::BufferOverrun => "buffer_overrun",
            LostCause::Overwritten => "overwritten",
            LostCause::GuestDisconnected => "guest_disconnected",
            LostCause::GuestStalled => "guest_stalled",
            LostCause::GuestCutOff => "guest_cut_off",
            LostCause::GuestNotStarted => "guest_not_started",
            LostCause::XentraceEnded => "xentrace_ended",
            LostCause::Snapshot => "snapshot",
            LostCause::DiskFull => "disk_full",
            LostCause::NotWritten => "not_written",
            LostCause::TruncatedFile => "truncated_file",
            LostCause::CorruptPage => "corrupt_page",
        }
    }
}

/// A hole in one stream, between the events before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEvents {
    /// How many events, where the source counted.
    pub count: Option<u64>,
    /// Why.
    pub cause: LostCause,
}

/// One step of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamItem {
    /// A core event, written while thread `tid` was current on the stream's CPU.
    Event {
        /// When, in the stream's own clock.
        ts: Timestamp<Source>,
        /// The thread that was current (`common_pid`); interrupts borrow whom they interrupt.
        tid: Tid,
        /// Events right before it that are no items of their own: they tell nothing but that they
        /// were there (a hypervisor's, which has no threads).
        quiet: u32,
        /// What happened.
        event: CoreEvent,
    },
    /// An event of a kind that moves no state machine. It still shows who was on the CPU, belongs
    /// to the recording's span and takes part in the causality check.
    Other {
        /// When, in the stream's own clock.
        ts: Timestamp<Source>,
        /// The thread that was current.
        tid: Tid,
        /// As above.
        quiet: u32,
    },
    /// Events are missing here.
    Lost(LostEvents),
}

/// One CPU's events in the order they were written.
pub trait EventStream {
    /// The next item, or none at the end. Errors inside the stream are items ([`LostEvents`]), so
    /// that the other streams go on.
    fn next_item(&mut self) -> Option<StreamItem>;

    /// Appends the next items to `items`, about `limit` of them; nothing only at the end.
    ///
    /// This is what the engine calls, so that a stream pays for its virtual calls, its look-ups and
    /// the switch between reader and engine once in hundreds of items. A stream that decodes in
    /// units (a folded record, a chunk) may finish the one it is in and go over the limit by it.
    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        for _ in 0..limit {
            let Some(item) = self.next_item() else { return };
            items.push(item);
        }
    }

    /// What went wrong in the items given so far, for the import log.
    fn problems(&self) -> Vec<ImportLog> {
        Vec::new()
    }

    /// How much is still to be read, for whoever tells people how far it is: in units of the
    /// source's own (bytes, blocks), 0 at the end, and always where that is not known.
    fn left(&self) -> u64 {
        0
    }
}

impl<S: EventStream + ?Sized> EventStream for Box<S> {
    fn next_item(&mut self) -> Option<StreamItem> {
        (**self).next_item()
    }

    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        (**self).next_batch(items, limit);
    }

    fn problems(&self) -> Vec<ImportLog> {
        (**self).problems()
    }

    fn left(&self) -> u64 {
        (**self).left()
    }
}

/// A stream held in memory: for tests, and for sources that decode in one go.
impl EventStream for std::vec::IntoIter<StreamItem> {
    fn next_item(&mut self) -> Option<StreamItem> {
        self.next()
    }
}
