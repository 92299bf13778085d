//! The result of a session.

/// What a finished session says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Links made.
    pub links: u32,
    /// Gaps between them.
    pub gaps: u32,
    /// Bytes of pages received.
    pub bytes: u64,
    /// Events read in the guest.
    pub events: u64,
    /// Events its kernel lost.
    pub lost: u64,
    /// CPU time of the agent, ns.
    pub agent_cpu_ns: u64,
    /// Clock exchanges made.
    pub brackets: u64,
    /// Shortest round trip, in the unit of the host's clock.
    pub best_round_trip: Option<u64>,
    /// False if the guest was not there at the end, so that its last events are missing.
    pub complete: bool,
}
