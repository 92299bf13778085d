//! From a stream's own clock to trace time, one stream at a time.
//!
//! A ring buffer's events are in order. Where converted stamps go backwards all the same (a clock
//! that was stepped), the order of the stream is kept and the stamp is raised to the one before;
//! each such case is counted and told, never silently reordered.
//!
//! Broken bytes are another matter: one damaged time-extend record throws the rest of its
//! sub-buffer years ahead, until the next sub-buffer's header has a good stamp again. Believing it
//! would stretch the recording's span, so a jump of more than `JUMP_NS` is looked into: if the
//! stream comes back within `LOOK_AHEAD` items, what lies between becomes a hole (`corrupt_page`).
//! So does what follows a jump of more than `LONG_JUMP_NS` if it is the stream's last sub-buffer,
//! which nothing comes after to tell.
//! Stamps outside any plausible time become holes, too.

use crate::{
    merge,
    states::lost::Hole,
    stream::{EventStream, LostCause, StreamItem, StreamKey},
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

/// No CPU with any scheduler or timer event is silent for longer than this (a day).
const LONG_JUMP_NS: i64 = 86_400_000_000_000;

/// Items looked at after a jump: more than a compressed chunk of ten 4 KiB sub-buffers holds.
const LOOK_AHEAD: usize = 16_384;
/// The same for a stream's first event, which every stream has: more than one sub-buffer holds.
const LOOK_AHEAD_FIRST: usize = 1024;

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
    /// The event behind the hole that is the head.
    behind: Option<(i64, Item)>,
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
            behind: None,
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
        self.head = match self.behind.take() {
            Some(head) => Some(head),
            None => self.pull().map(|item| self.align(item)),
        };
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
                Err(count) => self.hole(count, LostCause::CorruptPage),
            },
            StreamItem::Other { ts, tid } => match self.stamp(ts) {
                Ok(t) => (t, Item::Other { t, tid }),
                Err(count) => self.hole(count, LostCause::CorruptPage),
            },
            StreamItem::Lost(lost) => self.hole(lost.count, lost.cause),
        }
    }

    /// A hole from the last event to the next that can be believed, with all holes in between.
    #[cold]
    fn hole(&mut self, mut count: Option<u64>, cause: LostCause) -> (i64, Item) {
        let from = self.last.unwrap_or(i64::MIN);
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let until = loop {
            let Some(item) = self.pull() else { break None };
            let (ts, tid, event) = match item {
                StreamItem::Event { ts, tid, event } => (ts, tid, Some(event)),
                StreamItem::Other { ts, tid } => (ts, tid, None),
                StreamItem::Lost(lost) => {
                    count = add(count, lost.count);
                    continue;
                }
            };
            match self.stamp(ts) {
                Ok(t) => {
                    let item = match event {
                        Some(event) => Item::Event { t, tid, event },
                        None => Item::Other { t, tid },
                    };
                    self.behind = Some((t, item));
                    break Some(t);
                }
                Err(cut) => count = add(count, cut),
            }
        };
        let cause = match cause {
            LostCause::CorruptPage if until.is_none() => LostCause::TruncatedFile,
            cause => cause,
        };
        (from, Item::Lost(Hole { from, until, count, cause: cause.as_str() }))
    }

    fn convert(&self, ts: Timestamp<Source>) -> Option<i64> {
        plausible(self.clock.to_trace(ts)?)
    }

    /// The next event's trace time; if it cannot be believed, it is cut out with those after it that
    /// cannot either, and the error says how many.
    #[inline]
    fn stamp(&mut self, ts: Timestamp<Source>) -> Result<i64, Option<u64>> {
        let Some(t) = self.clock.follow(ts).and_then(plausible) else {
            return Err(self.cut_out(None));
        };
        let jumps = self.last.is_none_or(|last| t - last > JUMP_NS);
        if jumps && self.is_damage(t) {
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

    /// Is a jump to `t` one that the stream returns from, or that only its very end would show?
    #[cold]
    fn is_damage(&mut self, t: i64) -> bool {
        if self.ahead.iter().any(|item| self.is_back(item, t)) {
            return true;
        }
        let limit = if self.last.is_some() { LOOK_AHEAD } else { LOOK_AHEAD_FIRST };
        while self.ahead.len() < limit {
            let Some(item) = self.stream.next_item() else {
                return self.last.is_some_and(|last| t - last > LONG_JUMP_NS);
            };
            let back = self.is_back(&item, t);
            self.ahead.push_back(item);
            if back {
                return true;
            }
        }
        false
    }

    /// Is the item where the stream was before it jumped to `t`?
    fn is_back(&self, item: &StreamItem, t: i64) -> bool {
        let at = event_stamp(item).and_then(|ts| self.convert(ts));
        at.is_some_and(|at| t - at > JUMP_NS && self.last.is_none_or(|last| at >= last))
    }

    /// Cuts the event in hand out of the stream, with those after it that jumped like it (`t`) or
    /// are as implausible. Says how many.
    #[cold]
    fn cut_out(&mut self, t: Option<i64>) -> Option<u64> {
        let mut count = Some(1u64);
        while let Some(item) = self.pull() {
            let good = match (t, event_stamp(&item)) {
                (Some(t), _) => self.is_back(&item, t),
                (None, Some(ts)) => self.convert(ts).is_some(),
                (None, None) => false,
            };
            if good {
                self.ahead.push_front(item);
                break;
            }
            let own = match item {
                StreamItem::Lost(lost) => lost.count,
                StreamItem::Event { .. } | StreamItem::Other { .. } => Some(1),
            };
            count = count.and_then(|count| count.checked_add(own?));
        }
        self.implausible = self.implausible.saturating_add(count.unwrap_or(1));
        count
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
