//! Streams: the events of one log in order of time, and what is missing between them.

use crate::{
    block::{FLAG_COLUMNS, FLAG_ZSTD},
    block_ref::BlockRef,
    decode::{Context, Limit, State, Stop},
    error::{LogId, Problem, What},
    kind::SYNC,
    record::{CHUNK_BYTES, WORD_BYTES},
    sink::{Lost, LostCause, Sink},
    squeeze,
};

/// Why a fill came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
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
    pub(crate) log: LogId,
    pub(crate) blocks: &'d [BlockRef],
    /// What the log must come to: events lost, and why its last block cannot be read.
    lost_total: u64,
    tail: Option<LostCause>,
    /// What its first block is when it does not begin at position 0: the middle of a log that is read
    /// from there on purpose (none), or a log without its beginning.
    headless: Option<LostCause>,
    /// No event of it is earlier, ns.
    pub(crate) begins_ns: Option<u64>,
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
            begins_ns: blocks
                .first()
                .filter(|first| first.position == 0)
                .map(|first| first.sync_ns),
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

    /// No event was earlier, if its first block does not tell when it begins.
    pub(crate) fn begins_by(mut self, ns: Option<u64>) -> Self {
        self.begins_ns = self.begins_ns.or(ns);
        self
    }

    /// Takes out that the log's beginning is missing: why, and the first stamp of what is there, ns.
    pub(crate) fn take_head(&mut self) -> Option<(LostCause, u64)> {
        let cause = self.headless.take()?;
        let first = self.blocks.first().filter(|block| block.position != 0)?;
        Some((cause, first.sync_ns))
    }

    /// Does what is there of it begin within a chunk, of which nothing can be read without its beginning?
    pub(crate) fn begins_within_chunk(&self) -> bool {
        self.blocks.first().is_some_and(|block| block.position % CHUNK_BYTES as u64 != 0)
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

    pub(crate) fn fill_until<S: Sink>(
        &mut self,
        sink: &mut S,
        limit: Limit,
        made: &mut usize,
    ) -> Filled {
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
                    // Nothing of it can be read, by a later call either.
                    self.at = self.end;
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
