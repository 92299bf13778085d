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
    states::lost::Hole,
    stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey},
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use transect_model::{
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

/// Items of one stream in order, and the trace time of each.
///
/// The items lie where the stream put them; aligning them adds their times and does not move them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// Each item's place in the order of the merge: an event's stamp, or where the hole begins.
    pub(crate) times: Vec<i64>,
    pub(crate) items: Vec<StreamItem>,
    /// For every [`StreamItem::Lost`] in `items`, in their order, what it hides.
    pub(crate) holes: Vec<Hole>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.times.clear();
        self.items.clear();
        self.holes.clear();
    }

    /// The stamp of the first event told of.
    pub(crate) fn first_event(&self) -> Option<i64> {
        match self.items.first()? {
            StreamItem::Event { .. } | StreamItem::Other { .. } => self.times.first().copied(),
            StreamItem::Lost(_) => self.holes.first()?.until,
        }
    }

    fn push(&mut self, aligned: Item) {
        self.times.push(aligned.t);
        self.items.push(aligned.item);
        self.holes.extend(aligned.hole);
    }
}

/// One aligned item, off the fast way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Item {
    t: i64,
    item: StreamItem,
    hole: Option<Hole>,
}

/// What has to be known of a stream to go on in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The last event's stamp; none before the first.
    last: Option<i64>,
    /// Stamps that went backwards, and the furthest of them.
    backwards: u64,
    furthest_back_ns: i64,
    /// Stamps that are no time at all.
    implausible: u64,
}

/// How to go on in a stream of which other shards had the items before `from`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    pub(crate) place: Place,
    pub(crate) from: i64,
}

/// An aligned stream.
pub(crate) struct Aligned<S, C> {
    pub(crate) key: StreamKey,
    stream: S,
    clock: C,
    /// Items read ahead to judge a jump.
    ahead: VecDeque<StreamItem>,
    /// The event to be given next, and the stamp of the last one before it: behind a hole.
    behind: Option<(Item, Option<i64>)>,
    place: Place,
    /// Where to go on, before the first item is given.
    resume: Option<Resume>,
    /// Items from this stamp on are another shard's.
    cut: i64,
    /// The place at the cut, once it is reached.
    at_cut: Option<Place>,
}

impl<S: EventStream, C: ToTrace> Aligned<S, C> {
    pub(crate) fn new(input: Input<S, C>, resume: Option<Resume>, cut: i64) -> Self {
        Aligned {
            key: input.key,
            stream: input.stream,
            clock: input.clock,
            ahead: VecDeque::new(),
            behind: None,
            place: Place::default(),
            resume,
            cut,
            at_cut: None,
        }
    }

    /// Drops what the stream gives again of what other shards had.
    #[cold]
    fn go_on(&mut self, Resume { place, from }: Resume) {
        self.place = place;
        while let Some((item, last_before)) = self.next() {
            if item.t >= from {
                self.behind = Some((item, last_before));
                return;
            }
            // Its oddities were counted by the shard that had it.
            self.place = Place { last: self.place.last, ..place };
        }
    }

    /// Where the stream is: at the cut, or at its end.
    pub(crate) fn place(&self) -> Place {
        self.at_cut.unwrap_or(self.place)
    }

    /// Appends about `limit` items to `out`; nothing at the end. The stream ends behind the first
    /// item at or beyond the cut; that one is given so that the cut can be seen.
    pub(crate) fn fill(&mut self, out: &mut Batch, limit: usize) {
        if let Some(resume) = self.resume.take() {
            self.go_on(resume);
        }
        out.items.reserve(limit);
        out.times.reserve(limit);
        while out.items.len() < limit && self.at_cut.is_none() {
            if self.behind.is_some() || !self.ahead.is_empty() {
                self.slow(out);
                continue;
            }
            let begin = out.items.len();
            self.stream.next_batch(&mut out.items, limit - begin);
            if out.items.len() == begin {
                return;
            }
            self.fast(out, begin);
        }
    }

    /// Aligns the new items as long as nothing is odd about them; keeps the rest for the slow way.
    fn fast(&mut self, out: &mut Batch, begin: usize) {
        let mut plain = 0;
        if let Some(mut last) = self.place.last {
            let new = &out.items[begin..];
            out.times.reserve(new.len());
            for item in new {
                let Some(t) = self.plain(item, last) else { break };
                out.times.push(t);
                last = t;
                plain += 1;
            }
            self.place.last = Some(last);
        }
        self.ahead.extend(out.items.drain(begin + plain..));
    }

    /// The time of an event whose stamp simply goes on from `last`, before the cut.
    #[inline]
    fn plain(&mut self, item: &StreamItem, last: i64) -> Option<i64> {
        let t = self.clock.follow(event_stamp(item)?)?.get();
        let goes_on = last <= t && t <= last.saturating_add(JUMP_NS) && t <= MAX_TRACE_NS;
        (goes_on && t < self.cut).then_some(t)
    }

    /// The next item, whatever is odd about it.
    fn slow(&mut self, out: &mut Batch) {
        let Some((item, last_before)) = self.next() else { return };
        if item.t >= self.cut {
            self.at_cut = Some(Place { last: last_before, ..self.place });
        }
        out.push(item);
    }

    fn next(&mut self) -> Option<(Item, Option<i64>)> {
        if let Some(behind) = self.behind.take() {
            return Some(behind);
        }
        let last_before = self.place.last;
        self.pull().map(|item| (self.align(item), last_before))
    }

    fn pull(&mut self) -> Option<StreamItem> {
        if self.ahead.is_empty() {
            return self.stream.next_item();
        }
        let item = self.ahead.pop_front();
        if self.ahead.is_empty() {
            // Thousands of streams must not each keep the room that one jump needed.
            self.ahead = VecDeque::new();
        }
        item
    }

    fn align(&mut self, item: StreamItem) -> Item {
        match item {
            StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => match self.stamp(ts) {
                Ok(t) => Item { t, item, hole: None },
                Err(count) => self.hole(count, LostCause::CorruptPage),
            },
            StreamItem::Lost(lost) => self.hole(lost.count, lost.cause),
        }
    }

    /// A hole from the last event to the next that can be believed, with all holes in between. The end of an unfinished
    /// recording is a hole of its own: the events before it may be missing for another reason.
    #[cold]
    fn hole(&mut self, mut count: Option<u64>, cause: LostCause) -> Item {
        let last = self.place.last;
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let until = loop {
            let Some(item) = self.pull() else { break None };
            match item {
                StreamItem::Lost(lost) if lost.cause != cause && lost.cause.is_unfinished() => {
                    self.ahead.push_front(item);
                    break None;
                }
                StreamItem::Lost(lost) => count = add(count, lost.count),
                StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => {
                    match self.stamp(ts) {
                        Ok(t) => {
                            self.behind = Some((Item { t, item, hole: None }, last));
                            break Some(t);
                        }
                        Err(cut) => count = add(count, cut),
                    }
                }
            }
        };
        let cause = match cause {
            LostCause::CorruptPage if until.is_none() => LostCause::TruncatedFile,
            cause => cause,
        };
        let from = last.unwrap_or(i64::MIN);
        let item = StreamItem::Lost(LostEvents { count, cause });
        Item { t: from, item, hole: Some(Hole { from, until, count, cause }) }
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
        let jumps = self.place.last.is_none_or(|last| t - last > JUMP_NS);
        if jumps && self.is_damage(t) {
            return Err(self.cut_out(Some(t)));
        }
        let last = self.place.last.unwrap_or(t);
        if t < last {
            self.place.backwards += 1;
            self.place.furthest_back_ns = self.place.furthest_back_ns.max(last - t);
        }
        let t = t.max(last);
        self.place.last = Some(t);
        Ok(t)
    }

    /// Is a jump to `t` one that the stream returns from, or that only its very end would show?
    #[cold]
    fn is_damage(&mut self, t: i64) -> bool {
        let limit = if self.place.last.is_some() { LOOK_AHEAD } else { LOOK_AHEAD_FIRST };
        if self.ahead.iter().take(limit).any(|item| self.is_back(item, t)) {
            return true;
        }
        while self.ahead.len() < limit {
            let Some(item) = self.stream.next_item() else {
                return self.place.last.is_some_and(|last| t - last > LONG_JUMP_NS);
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
        at.is_some_and(|at| t - at > JUMP_NS && self.place.last.is_none_or(|last| at >= last))
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
                StreamItem::Event { quiet, .. } | StreamItem::Other { quiet, .. } => {
                    Some(1 + u64::from(quiet))
                }
            };
            count = count.and_then(|count| count.checked_add(own?));
        }
        self.place.implausible = self.place.implausible.saturating_add(count.unwrap_or(1));
        count
    }

    /// What the stream itself had to say.
    pub(crate) fn problems(&self) -> Vec<ImportLog> {
        self.stream.problems()
    }

    /// What the log should say about this stream's time, whose unit is `time_unit`.
    pub(crate) fn complaints(&self, time_unit: &str) -> Vec<String> {
        let name = format!("machine {} CPU {}", self.key.machine, self.key.cpu);
        let mut complaints = Vec::new();
        if self.place.backwards > 0 {
            complaints.push(format!(
                "{name}: {} timestamps went backwards, by up to {} {time_unit}; the stream's order was kept",
                self.place.backwards, self.place.furthest_back_ns
            ));
        }
        if self.place.implausible > 0 {
            complaints.push(format!(
                "{name}: {} events had invalid timestamps and were skipped",
                self.place.implausible
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
