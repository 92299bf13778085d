//! A stream of events through the engine, window by window: for hosts without BPF and for Xen.
//!
//! ```text
//! items per CPU ─▶ Feed (the engine's states) ─▶ rows ─▶ Tally (one window's sums) ─▶ Snapshot
//! ```
//! `windows` rows are the engine's own, so they are those of a recording that ends with the window. The
//! rest is added up of the rows of the same run: waits, who was in whose way, exits, I/O.

mod assemble;
mod rivals;
mod tally;

use crate::{LiveError, snapshot::Snapshot};
use std::collections::BTreeSet;
use tally::{Part, Tally};
use transect_engine::{
    Feed, Options, StreamItem, StreamKey, ToTrace, Topology,
    topology::{MachineInfo, VcpuInfo},
};
use transect_model::{
    ids::MachineId,
    time::{Timestamp, Trace},
};

pub(crate) use assemble::Scene;

/// The run goes on this often, whatever the windows' length, so that few items wait.
pub(crate) const STEP_NS: i64 = 100_000_000;
/// vCPUs and control groups that there have been, gone ones too: beyond, everything begins anew.
const MOST_ACTORS: usize = 65_536;

/// An engine whose rows become windows.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) feed: Feed,
    tally: Tally,
    window_ns: i64,
    /// Where the window being made begins; none before the first edge.
    from: Option<i64>,
    has_begun: bool,
    /// Losses of engines that were begun anew.
    lost_before: u64,
}

impl Stream {
    pub(crate) fn new(topology: Topology, window_ns: i64) -> Self {
        Stream {
            feed: Feed::new(topology, Options { window_ns }),
            tally: Tally::default(),
            window_ns,
            from: None,
            has_begun: false,
            lost_before: 0,
        }
    }

    /// Takes items of a stream.
    pub(crate) fn push(
        &mut self,
        key: StreamKey,
        items: impl IntoIterator<Item = StreamItem>,
        clock: &impl ToTrace,
        now: i64,
    ) {
        self.feed.push(key, items, clock, Timestamp::new(now));
    }

    /// Adds a VM, or vCPUs of one.
    pub(crate) fn learn_vm(&mut self, info: &MachineInfo, vcpus: &[VcpuInfo]) -> Option<MachineId> {
        self.feed.learn_vm(info, vcpus, self.tally.takes(Part::Closed))
    }

    /// It is `t` now: windows begin at the next edge.
    pub(crate) fn begin(&mut self, t: i64) {
        if self.from.is_none() {
            let edge = (t.div_euclid(self.window_ns) + 1) * self.window_ns;
            self.from = Some(edge);
            self.tally.next_window(edge, edge + self.window_ns);
        }
    }

    /// The end of the window being made.
    pub(crate) fn edge(&self) -> Option<i64> {
        self.from.map(|from| from + self.window_ns)
    }

    /// Goes on to `t`, which is not beyond the window's end.
    pub(crate) fn advance(&mut self, t: i64) -> Result<(), LiveError> {
        let Some(from) = self.from else { return Ok(()) };
        let t = t.min(from + self.window_ns);
        if t >= from && !self.has_begun {
            // What was before the first window counts nowhere.
            self.step(from)?;
            self.feed.forget();
            self.tally.next_window(from, from + self.window_ns);
            self.has_begun = true;
        }
        self.step(t)
    }

    fn step(&mut self, t: i64) -> Result<(), LiveError> {
        self.feed.advance(Timestamp::<Trace>::new(t), self.tally.takes(Part::Closed))?;
        Ok(())
    }

    /// Ends the window: goes on to its end and gives its rows.
    pub(crate) fn window(&mut self, scene: &Scene<'_>) -> Result<Snapshot, LiveError> {
        let from = self.from.unwrap_or(0);
        let to = from + self.window_ns;
        self.advance(to)?;
        self.feed.peek(self.tally.takes(Part::Open));
        let snapshot = assemble::snapshot(&mut self.tally, &self.feed.machines(), scene);
        self.from = Some(to);
        self.feed.forget();
        self.tally.next_window(to, to + self.window_ns);
        Ok(snapshot)
    }

    /// Leaves out windows until the next one begins at or behind `t`; how many.
    pub(crate) fn skip_to(&mut self, t: i64) -> Result<u64, LiveError> {
        let mut skipped = 0;
        while let Some(from) = self.from.filter(|from| *from < t) {
            self.advance(from + self.window_ns)?;
            self.feed.forget();
            self.from = Some(from + self.window_ns);
            self.tally.next_window(from + self.window_ns, from + 2 * self.window_ns);
            skipped += 1;
        }
        Ok(skipped)
    }

    /// Have there been so many actors that it should begin anew?
    pub(crate) fn is_crowded(&self) -> bool {
        self.feed.actors() > MOST_ACTORS
    }

    /// Begins anew, with the same windows.
    pub(crate) fn begin_anew(&mut self, topology: Topology) {
        self.lost_before += self.feed.lost_events();
        self.feed = Feed::new(topology, Options { window_ns: self.window_ns });
        let (from, window_ns) = (self.from, self.window_ns);
        self.tally = Tally::default();
        if let Some(from) = from {
            self.tally.next_window(from, from + window_ns);
        }
    }

    /// Events lost since the start.
    pub(crate) fn lost_events(&self) -> u64 {
        self.lost_before + self.feed.lost_events()
    }

    /// Kinds of exits and requests without a place, since the start.
    pub(crate) fn no_room(&self) -> u64 {
        self.tally.no_room
    }

    /// Xen's PV guests, as far as they have shown.
    pub(crate) fn paravirtual(&self) -> &BTreeSet<MachineId> {
        &self.tally.paravirtual
    }
}
