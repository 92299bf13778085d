//! What to record of one guest, and how long to wait for what.

use crate::{
    bounds::Bounds,
    proto::{CompactPlan, EventRequest},
    stamp::StampClock,
    transport::GuestSpec,
};
use std::time::Duration;

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the first link, connect to Started.
    pub start: Duration,
    /// Without a sign of life while recording, until the link is given up. Generous: as long as
    /// the link stands, the events of a paused or starved guest wait in its own buffers; giving it
    /// up throws them away.
    pub stall: Duration,
    /// After Stop, without a sign of life since.
    pub stop_idle: Duration,
    /// After Stop, in all.
    pub stop_total: Duration,
    /// After Stop, in all, once the owner is in a hurry.
    pub stop_hurried: Duration,
    /// First pause before a reconnect; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest pause before a reconnect.
    pub reconnect_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            start: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            stop_idle: Duration::from_secs(3),
            stop_total: Duration::from_secs(20),
            stop_hurried: Duration::from_secs(2),
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(2),
        }
    }
}

/// What to record of one guest.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Where it is.
    pub spec: GuestSpec,
    /// The recorder's version, for messages on the other side.
    pub recorder: String,
    /// The host's trace clock: what brackets are stamped with.
    pub host_clock: StampClock,
    /// Trace clocks for the guest, best first; the first it offers is taken.
    pub clocks: Vec<StampClock>,
    /// Ring buffer per CPU, bytes.
    pub buffer_bytes: u64,
    /// The events.
    pub events: Vec<EventRequest>,
    /// To be recorded compactly instead where the guest can; clocks, buffer and events above are then
    /// for a guest that cannot (or whose agent is older), which [`Started::why_full`](crate::proto::Started::why_full) tells.
    pub compact: Option<CompactPlan>,
    /// Time limits.
    pub limits: Limits,
    /// What the guest may use of this machine.
    pub bounds: Bounds,
}
