//! From a stream's own clock to trace time, one stream at a time.
//!
//! A ring buffer's events are in order. Where converted stamps go backwards all the same (a clock
//! that was stepped, broken bytes), the order of the stream is kept and the stamp is raised to the
//! one before; each such case is counted and told, never silently reordered. Stamps outside any
//! plausible time make a hole instead of an event.

use crate::{
    merge,
    states::lost::Hole,
    stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey},
};
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    table::ImportLog,
    time::{Source, Timestamp, Trace},
};

/// Trace time beyond ±146 years is broken input; within it, differences cannot overflow.
const MAX_TRACE_NS: i64 = 1 << 62;

/// Converts a stream's stamps to trace time.
pub trait ToTrace {
    /// The stamp in trace time; none if it cannot be converted.
    fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>>;

    /// The same for the next stamp of a stream read in order, for clocks whose conversion depends
    /// on where in the stream one is (a guest that was booted again).
    fn follow(&mut self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        self.to_trace(ts)
    }
}

/// A stream with its key and the conversion of its clock.
#[derive(Debug)]
pub struct Input<S, C> {
    /// The CPU it tells about.
    pub key: StreamKey,
    /// The events.
    pub stream: S,
    /// Its clock.
    pub clock: C,
}

/// An item in trace time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item {
    Event { t: i64, tid: Tid, event: CoreEvent },
    Other { t: i64, tid: Tid },
    Lost(Hole),
}

/// An aligned stream, one item ahead.
pub(crate) struct Aligned<S, C> {
    pub(crate) key: StreamKey,
    stream: S,
    clock: C,
    head: Option<(i64, Item)>,
    /// The last event's stamp; none before the first.
    last: Option<i64>,
    /// Stamps that went backwards, and the furthest of them.
    pub(crate) backwards: u64,
    pub(crate) furthest_back_ns: i64,
    /// Stamps that are no time at all.
    pub(crate) implausible: u64,
}

impl<S: EventStream, C: ToTrace> Aligned<S, C> {
    pub(crate) fn new(input: Input<S, C>) -> Self {
        let mut aligned = Aligned {
            key: input.key,
            stream: input.stream,
            clock: input.clock,
            head: None,
            last: None,
            backwards: 0,
            furthest_back_ns: 0,
            implausible: 0,
        };
        aligned.advance();
        aligned
    }

    /// The first event's stamp, asked before anything is taken.
    pub(crate) fn first(&self) -> Option<i64> {
        match self.head?.1 {
            Item::Event { t, .. } | Item::Other { t, .. } => Some(t),
            Item::Lost(hole) => hole.until,
        }
    }

    fn advance(&mut self) {
        self.head = loop {
            let Some(item) = self.stream.next_item() else { break None };
            if let Some(head) = self.align(item) {
                break Some(head);
            }
        };
    }

    fn align(&mut self, item: StreamItem) -> Option<(i64, Item)> {
        match item {
            StreamItem::Event { ts, tid, event } => {
                let t = self.stamp(ts)?;
                Some((t, Item::Event { t, tid, event }))
            }
            StreamItem::Other { ts, tid } => {
                let t = self.stamp(ts)?;
                Some((t, Item::Other { t, tid }))
            }
            StreamItem::Lost(lost) => {
                let hole = self.hole(lost);
                Some((hole.from, Item::Lost(hole)))
            }
        }
    }

    fn convert(&self, ts: Timestamp<Source>) -> Option<i64> {
        plausible(self.clock.to_trace(ts)?)
    }

    fn stamp(&mut self, ts: Timestamp<Source>) -> Option<i64> {
        let Some(t) = self.clock.follow(ts).and_then(plausible) else {
            self.implausible += 1;
            return None;
        };
        let last = self.last.unwrap_or(t);
        if t < last {
            self.backwards += 1;
            self.furthest_back_ns = self.furthest_back_ns.max(last - t);
        }
        let t = t.max(last);
        self.last = Some(t);
        Some(t)
    }

    /// A hole begins at the stream's last event, whatever the source says.
    fn hole(&mut self, lost: LostEvents) -> Hole {
        let after = self.last.or_else(|| lost.after.and_then(|ts| self.convert(ts)));
        let from = after.unwrap_or(i64::MIN);
        let until = lost.until.and_then(|ts| self.convert(ts)).map(|t| t.max(from));
        Hole { from, until, count: lost.count, cause: lost.cause.as_str() }
    }

    /// What the stream itself had to say.
    pub(crate) fn problems(&self) -> Vec<ImportLog> {
        self.stream.problems()
    }

    /// What the log should say about this stream's time.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let name = format!("machine {} CPU {}", self.key.machine, self.key.cpu);
        let mut complaints = Vec::new();
        if self.backwards > 0 {
            complaints.push(format!(
                "{name}: {} stamps went backwards, by up to {} ns; the stream's order was kept",
                self.backwards, self.furthest_back_ns
            ));
        }
        if self.implausible > 0 {
            complaints.push(format!(
                "{name}: {} events had stamps that are no time ({}) and were left out",
                self.implausible,
                LostCause::CorruptPage.as_str()
            ));
        }
        complaints
    }
}

fn plausible(t: Timestamp<Trace>) -> Option<i64> {
    (-MAX_TRACE_NS..=MAX_TRACE_NS).contains(&t.get()).then_some(t.get())
}

impl<S: EventStream, C: ToTrace> merge::Source for Aligned<S, C> {
    type Item = Item;

    fn key(&self) -> Option<i64> {
        self.head.map(|(t, _)| t)
    }

    fn take(&mut self) -> Option<Item> {
        let item = self.head.take().map(|(_, item)| item);
        self.advance();
        item
    }
}
