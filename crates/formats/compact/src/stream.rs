//! Streams: the events of one CPU in order of time.

use crate::{
    block::{FLAG_COLUMNS, FLAG_ZSTD},
    decode::{Context, Limit, State, Stop},
    error::{LogId, Problem, What},
    kind::SYNC,
    read::BlockRef,
    record::{CHUNK_BYTES, WORD_BYTES},
    squeeze,
};
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    time::{Source, Timestamp},
};

/// Takes what a stream gives: implement it to get events straight where they are wanted.
pub trait Sink {
    /// An event, while thread `tid` was current on the stream's CPU. Stamps are ns of the file's
    /// clock (`CLOCK_MONOTONIC`).
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent);
    /// Events are missing between the one before and the one after.
    fn lost(&mut self, lost: Lost);
    /// Something could not be read; a [`Sink::lost`] follows where events are missing for it.
    fn problem(&mut self, problem: Problem);
}

/// One step of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// A core event.
    Event {
        /// When, in ns of the file's clock.
        ts: Timestamp<Source>,
        /// The thread that was current.
        tid: Tid,
        /// What happened.
        event: CoreEvent,
    },
    /// Events are missing here.
    Lost(Lost),
    /// Something could not be read here.
    Problem(Problem),
}

impl Sink for Vec<Item> {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        self.push(Item::Event { ts, tid, event });
    }

    fn lost(&mut self, lost: Lost) {
        self.push(Item::Lost(lost));
    }

    fn problem(&mut self, problem: Problem) {
        self.push(Item::Problem(problem));
    }
}

/// A hole in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many events, where the writer counted.
    pub count: Option<u64>,
    /// Stamps of the first and the last of them, where the writer noted them.
    pub span: Option<(Timestamp<Source>, Timestamp<Source>)>,
    /// Why.
    pub cause: LostCause,
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostCause {
    /// They found no room in the log.
    LogFull,
    /// Bytes of the log are not in the file.
    Missing,
    /// The flight recorder that wrote the log has overwritten its beginning.
    Overwritten,
    /// Bytes of the log in the file are damaged.
    Damaged,
    /// The file ends within a block of this log.
    Truncated,
}

/// Why a fill came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    /// So many events as were asked for.
    Full,
    /// The next event is later than was asked for.
    Until,
    /// The log has no more.
    End,
}

/// One log of one CPU.
#[derive(Clone, Debug)]
pub struct LogStream<'d> {
    file: &'d [u8],
    log: LogId,
    blocks: &'d [BlockRef],
    /// What the log must come to: events lost, and why its last block cannot be read.
    lost_total: u64,
    tail: Option<LostCause>,
    /// What its first block is when it does not begin at position 0: the middle of a log that is read
    /// from there on purpose (none), or a log without its beginning.
    headless: Option<LostCause>,
    context: Context,
    state: State,
    /// Payload of the current block, where it is not the file's own bytes.
    buffer: Vec<u8>,
    /// Where the current block's payload is.
    payload: Payload,
    /// Byte of the file the current block's payload is at.
    at_bytes: u64,
    /// Position in the log of the payload's first byte.
    base: u64,
    /// Next word to be decoded, and the end of its chunk or of the payload, in words.
    at: usize,
    end: usize,
    /// Position up to which the log was read or given up; `None` before the first block.
    position: Option<u64>,
    place: Place,
    ended: bool,
}

/// How far a log can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing was read yet; what comes before the first chunk is not missed.
    Start,
    /// Words follow those before.
    Reading,
    /// Skipping to the next chunk; that something is missing was told.
    Hole,
}

#[derive(Clone, Copy, Debug)]
enum Payload {
    File { from: usize, to: usize },
    Buffer,
}

impl<'d> LogStream<'d> {
    pub(crate) fn new(
        file: &'d [u8],
        log: LogId,
        blocks: &'d [BlockRef],
        context: Context,
    ) -> Self {
        LogStream {
            file,
            log,
            blocks,
            lost_total: 0,
            tail: None,
            headless: None,
            context,
            state: State::new(),
            buffer: Vec::new(),
            payload: Payload::File { from: 0, to: 0 },
            at_bytes: 0,
            base: 0,
            at: 0,
            end: 0,
            position: None,
            place: Place::Start,
            ended: false,
        }
    }

    /// The log is read from its beginning, which is position 0: what is not there is lost. A log that
    /// `overwrites` has lost it to itself.
    pub(crate) fn begun(mut self, overwrites: bool) -> Self {
        self.headless = Some(if overwrites { LostCause::Overwritten } else { LostCause::Missing });
        self
    }

    /// Takes out that the log's beginning is missing: why, and the first stamp of what is there, ns.
    fn take_head(&mut self) -> Option<(LostCause, u64)> {
        let cause = self.headless.take()?;
        let first = self.blocks.first().filter(|block| block.position != 0)?;
        Some((cause, first.sync_ns))
    }

    /// The log is read to its end: what it must come to there.
    pub(crate) fn ended_by(mut self, lost_total: u64, tail: Option<LostCause>) -> Self {
        self.lost_total = lost_total;
        self.tail = tail;
        self
    }

    /// Gives up to `events` events to the sink (one more where the last is an interval).
    /// Returns false when the log had come to its end before.
    pub fn fill<S: Sink>(&mut self, sink: &mut S, events: usize) -> bool {
        let had_ended = self.ended;
        let limit = Limit { events, until_ns: u64::MAX };
        self.fill_until(sink, limit, &mut 0) != Filled::End || !had_ended
    }

    fn fill_until<S: Sink>(&mut self, sink: &mut S, limit: Limit, made: &mut usize) -> Filled {
        loop {
            let words: &[[u8; WORD_BYTES]] = match self.payload {
                Payload::File { from, to } => self.file.get(from..to).unwrap_or_default(),
                Payload::Buffer => &self.buffer,
            }
            .as_chunks()
            .0;
            let words = &words[..self.end.min(words.len())];
            match self.state.decode(&mut self.context, words, &mut self.at, limit, made, sink) {
                Stop::Limit if *made >= limit.events => return Filled::Full,
                Stop::Limit => return Filled::Until,
                Stop::End => {}
                Stop::Bad(what) => self.give_up(what, sink),
            }
            if !self.next_chunk(sink) && !self.next_block(sink) {
                self.finish(sink);
                return Filled::End;
            }
        }
    }

    /// The rest of the chunk cannot be read.
    fn give_up<S: Sink>(&mut self, what: What, sink: &mut S) {
        let at_bytes = match self.payload {
            Payload::File { .. } => self.at_bytes + (self.at * WORD_BYTES) as u64,
            Payload::Buffer => self.at_bytes,
        };
        sink.problem(Problem { at_bytes, log: Some(self.log), what });
        self.hole(LostCause::Damaged, sink);
        self.at = self.end;
    }

    /// Events are missing until the next chunk that can be read.
    fn hole<S: Sink>(&mut self, cause: LostCause, sink: &mut S) {
        if self.place != Place::Hole {
            sink.lost(Lost { count: None, span: None, cause });
        }
        self.place = Place::Hole;
        self.state.forget();
    }

    fn payload_words(&self) -> usize {
        match self.payload {
            Payload::File { from, to } => (to - from) / WORD_BYTES,
            Payload::Buffer => self.buffer.len() / WORD_BYTES,
        }
    }

    fn word(&self, at: usize) -> Option<u64> {
        let bytes = match self.payload {
            Payload::File { from, to } => self.file.get(from..to)?,
            Payload::Buffer => &self.buffer,
        };
        crate::header::u64_at(bytes, at * WORD_BYTES)
    }

    /// Goes on to the next chunk within the payload.
    fn next_chunk<S: Sink>(&mut self, sink: &mut S) -> bool {
        while self.end < self.payload_words() {
            self.at = self.end;
            let position = self.base + (self.at * WORD_BYTES) as u64;
            let into_chunk = usize::try_from(position % CHUNK_BYTES as u64).unwrap_or(0);
            self.end =
                (self.at + (CHUNK_BYTES - into_chunk) / WORD_BYTES).min(self.payload_words());
            if into_chunk != 0 {
                if self.place != Place::Reading {
                    continue;
                }
                return true;
            }
            if self.word(self.at).is_some_and(|word| word & 63 == u64::from(SYNC)) {
                self.place = Place::Reading;
                return true;
            }
            self.give_up(What::NoSync, sink);
        }
        false
    }

    /// Goes on to the next block that can be read.
    fn next_block<S: Sink>(&mut self, sink: &mut S) -> bool {
        while let Some((block, rest)) = self.blocks.split_first() {
            self.blocks = rest;
            let end = block.position + u64::from(block.raw_bytes);
            if let Some(expected) = self.position {
                if block.position < expected {
                    let what = What::Position { position: block.position, expected };
                    self.problem(block, what, sink);
                    continue;
                }
                if block.position > expected {
                    self.hole(LostCause::Missing, sink);
                }
            }
            if self.position.is_none()
                && block.position != 0
                && let Some(cause) = self.headless
            {
                self.hole(cause, sink);
            }
            self.position = Some(end);
            if let Err(what) = self.load(block) {
                self.problem(block, what, sink);
                self.hole(LostCause::Damaged, sink);
                continue;
            }
            (self.at_bytes, self.base) = (block.payload_at, block.position);
            (self.at, self.end) = (0, 0);
            if self.next_chunk(sink) {
                return true;
            }
        }
        false
    }

    fn problem<S: Sink>(&self, block: &BlockRef, what: What, sink: &mut S) {
        sink.problem(Problem { at_bytes: block.payload_at, log: Some(self.log), what });
    }

    fn load(&mut self, block: &BlockRef) -> Result<(), What> {
        let stored = block.stored(self.file)?;
        if block.flags & FLAG_ZSTD == 0 {
            let from = usize::try_from(block.payload_at).unwrap_or(self.file.len());
            self.payload = Payload::File { from, to: from + stored.len() };
            return Ok(());
        }
        let columns = block.flags & FLAG_COLUMNS != 0;
        self.payload = Payload::Buffer;
        squeeze::expand(stored, block.raw_bytes as usize, columns, &mut self.buffer)
            .ok_or(What::Compressed)
    }

    fn finish<S: Sink>(&mut self, sink: &mut S) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if let Some(cause) = self.tail {
            self.hole(cause, sink);
            return;
        }
        // Lost after the last record: no record came to tell of them.
        if let Some(count) = self.lost_total.checked_sub(self.state.lost_told)
            && count > 0
            && self.place != Place::Hole
        {
            sink.lost(Lost { count: Some(count), span: None, cause: LostCause::LogFull });
        }
    }
}

/// The events of one CPU, those of its side logs merged in by time.
#[derive(Clone, Debug)]
pub struct Stream<'d> {
    main: Option<LogStream<'d>>,
    sides: [Side<'d>; 2],
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

/// A side log, looked into.
#[derive(Clone, Debug)]
struct Side<'d> {
    log: Option<LogStream<'d>>,
    /// Its next items, in reverse.
    next: Vec<Item>,
}

impl Side<'_> {
    fn has_ended(&self) -> bool {
        self.log.is_none() && self.next.is_empty()
    }

    /// Stamp of its next event; passes on what has no stamp.
    fn until<S: Sink>(&mut self, sink: &mut S, made: &mut usize) -> Option<u64> {
        loop {
            match self.next.last() {
                Some(Item::Event { ts, .. }) => return Some(ts.get()),
                Some(_) => self.pass(sink, made),
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

    fn pass<S: Sink>(&mut self, sink: &mut S, made: &mut usize) {
        match self.next.pop() {
            Some(Item::Event { ts, tid, event }) => {
                sink.event(ts, tid, event);
                *made += 1;
            }
            Some(Item::Lost(lost)) => sink.lost(lost),
            Some(Item::Problem(problem)) => sink.problem(problem),
            None => {}
        }
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
        let sides = sides.map(|log| Side { log, next: Vec::new() });
        Stream { main, sides, head, queue: Vec::new() }
    }

    /// Reports the missing beginning. Events from before the last of the logs begins are incomplete
    /// and count as lost, too.
    fn begin<S: Sink>(&mut self, head: Head, sink: &mut S) {
        let Head { cause, from_ns, count } = head;
        let mut skipped = 0;
        if let Some(before_ns) = from_ns.checked_sub(1) {
            let limit = Limit { events: usize::MAX, until_ns: before_ns };
            let mut unused = Unused { sink: &mut *sink, events: &mut skipped };
            if let Some(main) = &mut self.main
                && main.fill_until(&mut unused, limit, &mut 0) == Filled::End
            {
                self.main = None;
            }
            for side in &mut self.sides {
                while side.until(&mut unused, &mut 0).is_some_and(|ns| ns < from_ns) {
                    side.pass(&mut unused, &mut 0);
                }
            }
        }
        sink.lost(Lost { count: count.map(|count| count + skipped), span: None, cause });
    }

    /// How many blocks are still to be read, to tell how far it is.
    pub fn left_blocks(&self) -> usize {
        let logs = self.main.iter().chain(self.sides.iter().filter_map(|side| side.log.as_ref()));
        logs.map(|log| log.blocks.len()).sum()
    }

    /// Gives up to `events` events to the sink (one more where the last is an interval).
    /// Returns false when the stream had come to its end before, and nothing was given.
    ///
    /// A sink gets events without a copy in between; [`Stream::next_batch`] is for whoever has
    /// none. Do not mix with the iterator, which reads ahead.
    pub fn fill<S: Sink>(&mut self, sink: &mut S, events: usize) -> bool {
        if self.main.is_none() && self.sides.iter().all(Side::has_ended) {
            return false;
        }
        if let Some(head) = self.head.take() {
            self.begin(head, sink);
        }
        let mut made = 0;
        while made < events {
            // The side log that is next, if any, and the stamp of its next event.
            let mut next: Option<(u64, &mut Side<'d>)> = None;
            for side in &mut self.sides {
                if let Some(ns) = side.until(sink, &mut made)
                    && next.as_ref().is_none_or(|(first, _)| ns < *first)
                {
                    next = Some((ns, side));
                }
            }
            let until_ns = next.as_ref().map_or(u64::MAX, |(ns, _)| *ns);
            let reached = match &mut self.main {
                Some(main) => main.fill_until(sink, Limit { events, until_ns }, &mut made),
                None => Filled::Until,
            };
            match (reached, next) {
                (Filled::Full, _) | (Filled::Until, None) => return true,
                (Filled::Until, Some((_, side))) => side.pass(sink, &mut made),
                (Filled::End, _) => self.main = None,
            }
        }
        true
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
