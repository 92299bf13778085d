//! From a stream's own clock to trace time, one stream at a time.
//!
//! A ring buffer's events are in order. Where converted stamps go backwards all the same (a clock
//! that was stepped), the order of the stream is kept and the stamp is raised to the one before;
//! each such case is counted and told, never silently reordered.
//!
//! Broken bytes are another matter: one damaged time-extend record throws the rest of its
//! sub-buffer years ahead, until the next sub-buffer's header has a good stamp again. Believing it
//! would stretch the recording's span, so a jump of more than [`JUMP_NS`] is looked into: if the
//! stream comes back within [`LOOK_AHEAD`] items, what lies between becomes a hole (`corrupt_page`).
//! Stamps outside any plausible time become holes, too.

use crate::{
    merge,
    states::lost::Hole,
    stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey},
};
use std::collections::VecDeque;
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    table::ImportLog,
    time::{Source, Timestamp, Trace},
};

/// Trace time beyond ±146 years is broken input; within it, differences cannot overflow.
const MAX_TRACE_NS: i64 = 1 << 62;

/// A CPU can be silent for longer than this; only then is it asked whether the stream comes back.
const JUMP_NS: i64 = 10_000_000_000;

/// Items looked at after a jump: more than a 4 KiB sub-buffer can hold.
const LOOK_AHEAD: usize = 1024;

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
    /// Items read ahead to judge a jump.
    ahead: VecDeque<StreamItem>,
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
            ahead: VecDeque::new(),
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

    #[inline]
    fn advance(&mut self) {
        self.head = self.pull().map(|item| self.align(item));
    }

    #[inline]
    fn pull(&mut self) -> Option<StreamItem> {
        if self.ahead.is_empty() { self.stream.next_item() } else { self.ahead.pop_front() }
    }

    #[inline]
    fn align(&mut self, item: StreamItem) -> (i64, Item) {
        match item {
            StreamItem::Event { ts, tid, event } => match self.stamp(ts) {
                Ok(t) => (t, Item::Event { t, tid, event }),
                Err(hole) => (hole.from, Item::Lost(hole)),
            },
            StreamItem::Other { ts, tid } => match self.stamp(ts) {
                Ok(t) => (t, Item::Other { t, tid }),
                Err(hole) => (hole.from, Item::Lost(hole)),
            },
            StreamItem::Lost(lost) => {
                let hole = self.hole(lost);
                (hole.from, Item::Lost(hole))
            }
        }
    }

    fn convert(&self, ts: Timestamp<Source>) -> Option<i64> {
        plausible(self.clock.to_trace(ts)?)
    }

    /// The next event's trace time, or the hole that it and its like are.
    #[inline]
    fn stamp(&mut self, ts: Timestamp<Source>) -> Result<i64, Hole> {
        let Some(t) = self.clock.follow(ts).and_then(plausible) else {
            return Err(self.cut_out(None));
        };
        let jumps = self.last.is_none_or(|last| t - last > JUMP_NS);
        if jumps && self.comes_back(t) {
            return Err(self.cut_out(Some(t)));
        }
        let last = self.last.unwrap_or(t);
        if t < last {
            self.backwards += 1;
            self.furthest_back_ns = self.furthest_back_ns.max(last - t);
        }
        let t = t.max(last);
        self.last = Some(t);
        Ok(t)
    }

    /// Does the stream return from a jump to `t`?
    #[cold]
    fn comes_back(&mut self, t: i64) -> bool {
        while self.ahead.len() < LOOK_AHEAD {
            let Some(item) = self.stream.next_item() else { break };
            self.ahead.push_back(item);
        }
        self.ahead.iter().any(|item| self.is_back(item, t))
    }

    /// Is the item where the stream was before it jumped to `t`?
    fn is_back(&self, item: &StreamItem, t: i64) -> bool {
        let at = event_stamp(item).and_then(|ts| self.convert(ts));
        at.is_some_and(|at| t - at > JUMP_NS && self.last.is_none_or(|last| at >= last))
    }

    /// Cuts the event in hand out of the stream, with those after it that jumped like it (`t`) or
    /// are as implausible.
    #[cold]
    fn cut_out(&mut self, t: Option<i64>) -> Hole {
        let mut count = 1;
        let mut until = None;
        while let Some(item) = self.pull() {
            let at = event_stamp(&item).and_then(|ts| self.convert(ts));
            let good = match t {
                Some(t) => self.is_back(&item, t),
                None => at.is_some(),
            };
            if good {
                until = at;
                self.ahead.push_front(item);
                break;
            }
            count += 1;
        }
        self.implausible += count;
        let from = self.last.unwrap_or(i64::MIN);
        let cause = LostCause::CorruptPage.as_str();
        Hole { from, until: until.map(|t| t.max(from)), count: Some(count), cause }
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
                "{name}: {} events had stamps that cannot be and were left out",
                self.implausible
            ));
        }
        complaints
    }
}

fn event_stamp(item: &StreamItem) -> Option<Timestamp<Source>> {
    match item {
        StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => Some(*ts),
        StreamItem::Lost(_) => None,
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
