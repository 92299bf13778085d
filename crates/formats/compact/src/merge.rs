//! The logs of one CPU as one stream: merged by time, with the holes of all.

use crate::{
    decode::Limit,
    error::Problem,
    sink::{Item, Lost, LostCause, Sink},
    stream::{Filled, LogStream},
};
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    time::{Source, Timestamp},
};

/// The events of one CPU, those of its side logs merged in by time.
///
/// Where one of the logs has a hole, the events of the others are left out up to the next event of that log: a
/// [`Lost`] stands for the whole time in which anything is missing. Those of the side logs in a time in which the main log had no
/// room are given, as they are counted as recorded; behind each of them a [`Lost`] without events tells that the hole goes on.
#[derive(Clone, Debug)]
pub struct Stream<'d> {
    main: Merged<'d>,
    sides: [Merged<'d>; 2],
    /// The beginning is missing.
    head: Option<Head>,
    /// Items for the iterator, in reverse.
    queue: Vec<Item>,
}

/// Counts events, and passes on what could not be read.
struct Unused<'s, S> {
    sink: &'s mut S,
    events: &'s mut u64,
}

impl<S: Sink> Sink for Unused<'_, S> {
    fn event(&mut self, _: Timestamp<Source>, _: Tid, _: CoreEvent) {
        *self.events += 1;
    }

    fn lost(&mut self, _: Lost) {}

    fn problem(&mut self, problem: Problem) {
        self.sink.problem(problem);
    }
}

/// A log's beginning is missing.
#[derive(Clone, Copy, Debug)]
struct Head {
    cause: LostCause,
    /// From when on all logs are there, ns.
    from_ns: u64,
    /// Events before the first blocks of the logs; none if not counted.
    count: Option<u64>,
}

/// Items the iterator and side logs are read ahead by.
const AHEAD: usize = 64;

/// A hole for want of room.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// Stamp of the last event that is missing, if the writer noted it.
    last: Option<Timestamp<Source>>,
}

impl Full {
    fn of(lost: &Lost) -> Option<Self> {
        (!hides_others(lost)).then(|| Full { last: lost.span.map(|(_, last)| last) })
    }

    /// It goes on behind an event of another log.
    fn behind(self, ts: Timestamp<Source>) -> Lost {
        let span = self.last.map(|last| (ts, last.max(ts)));
        Lost { count: Some(0), span, cause: LostCause::LogFull }
    }
}

/// One of the logs, looked into.
#[derive(Clone, Debug)]
struct Merged<'d> {
    log: Option<LogStream<'d>>,
    /// Its next items, in reverse.
    next: Vec<Item>,
    /// Events are missing before its next one.
    in_hole: bool,
    /// There was no room for events before its next one.
    full: Option<Full>,
    /// Of a side log, before its first event: none of it is earlier, ns. A hole that it begins with hides nothing before.
    begins_ns: Option<u64>,
}

impl<'d> Merged<'d> {
    fn new(log: Option<LogStream<'d>>) -> Self {
        let in_hole = log.as_ref().is_some_and(LogStream::begins_within_chunk);
        Merged { log, next: Vec::new(), in_hole, full: None, begins_ns: None }
    }

    fn side(log: Option<LogStream<'d>>) -> Self {
        let begins_ns = log.as_ref().and_then(|log| log.begins_ns);
        Merged { begins_ns, ..Merged::new(log) }
    }

    fn has_ended(&self) -> bool {
        self.log.is_none() && self.next.is_empty()
    }

    /// Stamp of its next event, or of the hole that it begins with; passes on what has no stamp.
    fn until<S: Sink>(&mut self, sink: &mut S) -> Option<u64> {
        loop {
            match self.next.last() {
                Some(Item::Event { ts, .. }) => return Some(ts.get()),
                Some(Item::Lost(_)) if self.begins_ns.is_some() => return self.begins_ns,
                Some(_) => self.pass(sink),
                None => {
                    let log = self.log.as_mut()?;
                    if !log.fill(&mut self.next, AHEAD) {
                        self.log = None;
                    }
                    self.next.reverse();
                }
            }
        }
    }

    fn pass<S: Sink>(&mut self, sink: &mut S) {
        match self.next.pop() {
            Some(Item::Event { ts, tid, event }) => {
                self.begins_ns = None;
                (self.in_hole, self.full) = (false, None);
                sink.event(ts, tid, event);
            }
            Some(Item::Lost(lost)) => {
                self.begins_ns = None;
                self.in_hole = hides_others(&lost);
                self.full = Full::of(&lost);
                sink.lost(lost);
            }
            Some(Item::Problem(problem)) => sink.problem(problem),
            None => {}
        }
    }

    /// Leaves out the events before a stamp.
    fn skip_to<S: Sink>(&mut self, ns: u64, sink: &mut S) {
        while self.until(sink).is_some_and(|next| next < ns) {
            self.pass(sink);
        }
    }
}

/// Are the events of the CPU's other logs left out, too? Not where a log had no room: its writer counted what is
/// missing, and the others' events are counted as recorded.
fn hides_others(lost: &Lost) -> bool {
    lost.cause != LostCause::LogFull
}

/// Passes on what a log gives, and notes whether events are missing at its end.
struct Watch<'s, S> {
    sink: &'s mut S,
    in_hole: bool,
    full: Option<Full>,
}

impl<S: Sink> Sink for Watch<'_, S> {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        (self.in_hole, self.full) = (false, None);
        self.sink.event(ts, tid, event);
    }

    fn lost(&mut self, lost: Lost) {
        self.in_hole = hides_others(&lost);
        self.full = Full::of(&lost);
        self.sink.lost(lost);
    }

    fn problem(&mut self, problem: Problem) {
        self.sink.problem(problem);
    }
}

/// Leaves out events, and passes on what is missing or could not be read.
struct NoEvents<'s, S>(&'s mut S);

impl<S: Sink> Sink for NoEvents<'_, S> {
    fn event(&mut self, _: Timestamp<Source>, _: Tid, _: CoreEvent) {}

    fn lost(&mut self, lost: Lost) {
        self.0.lost(lost);
    }

    fn problem(&mut self, problem: Problem) {
        self.0.problem(problem);
    }
}

impl<'d> Stream<'d> {
    pub(crate) fn new(
        mut main: Option<LogStream<'d>>,
        mut sides: [Option<LogStream<'d>>; 2],
        overwritten: [Option<u64>; 3],
    ) -> Self {
        let logs = main.iter_mut().chain(sides.iter_mut().flatten());
        let heads: Vec<_> = logs.filter_map(|log| Some((log.log.side, log.take_head()?))).collect();
        let of_log = |(side, _): &(u8, _)| *overwritten.get(usize::from(*side))?;
        let count = heads.iter().map(of_log).sum();
        let latest = heads.into_iter().map(|(_, head)| head).max_by_key(|(_, from_ns)| *from_ns);
        let head = latest.map(|(cause, from_ns)| Head { cause, from_ns, count });
        let (main, sides) = (Merged::new(main), sides.map(Merged::side));
        Stream { main, sides, head, queue: Vec::new() }
    }

    fn logs(&mut self) -> [&mut Merged<'d>; 3] {
        let [first, second] = &mut self.sides;
        [&mut self.main, first, second]
    }

    /// Goes on where all logs have events again: the others' events until then are left out.
    #[cold]
    fn cross_hole<S: Sink>(&mut self, sink: &mut S) {
        let mut none = NoEvents(sink);
        while self.logs().iter().any(|log| log.in_hole) {
            let mut whole_from = 0;
            for log in self.logs().into_iter().filter(|log| log.in_hole) {
                // A log that ends with a hole has no next event.
                whole_from = log.until(&mut none).unwrap_or(u64::MAX).max(whole_from);
                log.in_hole = false;
            }
            for log in self.logs() {
                log.skip_to(whole_from, &mut none);
            }
        }
    }

    /// Reports the missing beginning. Events from before the last of the logs begins are incomplete
    /// and count as lost, too.
    fn begin<S: Sink>(&mut self, head: Head, sink: &mut S) {
        let Head { cause, from_ns, count } = head;
        let mut skipped = 0;
        let mut unused = Unused { sink: &mut *sink, events: &mut skipped };
        self.logs().into_iter().for_each(|log| log.skip_to(from_ns, &mut unused));
        sink.lost(Lost { count: count.map(|count| count + skipped), span: None, cause });
    }

    /// How many blocks are still to be read, to tell how far it is.
    pub fn left_blocks(&self) -> usize {
        let logs = std::iter::once(&self.main).chain(&self.sides);
        logs.filter_map(|merged| Some(merged.log.as_ref()?.blocks.len())).sum()
    }

    /// Gives up to `events` events to the sink (one more where the last is an interval).
    /// Returns false when the stream had come to its end before, and nothing was given.
    ///
    /// A sink gets events without a copy in between; [`Stream::next_batch`] is for whoever has
    /// none. Do not mix with the iterator, which reads ahead.
    pub fn fill<S: Sink>(&mut self, sink: &mut S, events: usize) -> bool {
        if self.logs().iter().all(|log| log.has_ended()) {
            return false;
        }
        if let Some(head) = self.head.take() {
            self.begin(head, sink);
        }
        let mut made = 0;
        while made < events {
            // The side log that is next, if any, and the stamp of its next event.
            let mut next: Option<(u64, usize)> = None;
            for (number, side) in self.sides.iter_mut().enumerate() {
                if let Some(ns) = side.until(sink)
                    && next.is_none_or(|(first, _)| ns < first)
                {
                    next = Some((ns, number));
                }
            }
            if self.logs().iter().any(|log| log.in_hole) {
                self.cross_hole(sink);
                continue;
            }
            let until_ns = next.map_or(u64::MAX, |(ns, _)| ns);
            let reached = self.fill_main(sink, Limit { events, until_ns }, &mut made);
            match (reached, next) {
                // Events of the others are missing behind it, too.
                _ if self.main.in_hole => {}
                (Filled::Full, _) | (Filled::Until, None) => return true,
                (Filled::Until, Some((_, number))) => {
                    if let Some(side) = self.sides.get_mut(number) {
                        let at = match side.next.last() {
                            Some(Item::Event { ts, .. }) => Some(*ts),
                            _ => None,
                        };
                        side.pass(sink);
                        made += 1;
                        if let (Some(ts), Some(full)) = (at, self.main.full) {
                            sink.lost(full.behind(ts));
                        }
                    }
                }
                (Filled::End, _) => {}
            }
            if self.logs().iter().all(|log| log.has_ended()) {
                return true;
            }
        }
        true
    }

    /// Gives the events of the main log up to a limit.
    fn fill_main<S: Sink>(&mut self, sink: &mut S, limit: Limit, made: &mut usize) -> Filled {
        // What was looked into to cross a hole comes first.
        while !self.main.next.is_empty() {
            match self.main.until(sink) {
                _ if self.main.in_hole => return Filled::Until,
                Some(ns) if ns > limit.until_ns => return Filled::Until,
                Some(_) if *made >= limit.events => return Filled::Full,
                Some(_) => {
                    self.main.pass(sink);
                    *made += 1;
                }
                None => return Filled::End,
            }
        }
        let Some(main) = &mut self.main.log else { return Filled::Until };
        let mut watch = Watch { sink, in_hole: false, full: self.main.full };
        let reached = main.fill_until(&mut watch, limit, made);
        (self.main.in_hole, self.main.full) = (watch.in_hole, watch.full);
        if reached == Filled::End {
            self.main.log = None;
        }
        reached
    }

    /// Appends up to `events` events, and what is lost or wrong between them. Returns false when
    /// the stream had come to its end before.
    pub fn next_batch(&mut self, batch: &mut Vec<Item>, events: usize) -> bool {
        self.fill(batch, events)
    }
}

impl Iterator for Stream<'_> {
    type Item = Item;

    #[inline]
    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.queue.pop() {
                return Some(item);
            }
            let mut queue = std::mem::take(&mut self.queue);
            let more = self.fill(&mut queue, AHEAD);
            queue.reverse();
            self.queue = queue;
            if !more && self.queue.is_empty() {
                return None;
            }
        }
    }
}
