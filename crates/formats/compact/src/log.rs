//! Writing a log as the BPF programs do: chunks, deltas, pending pairs, lost events.
//!
//! For whoever has core events and no kernel memory: the guest module's user side, converters,
//! generators of large recordings, tests. What comes out is what the collector would have written.

use crate::{
    encode,
    error::LogId,
    exits::Exits,
    kind::{CURRENT, DEVICE_NAME, KVM_EXIT_ENTRY_S, LOST, SYNC, TIME},
    record::{
        A_BITS, CHUNK_BYTES, CHUNK_WORDS, DELTA_LIMIT_NS, Raw, SYNC_FIRST, SYNC_SIDE, WORD_BYTES,
    },
};
use transect_model::{
    event::{CoreEvent, DeviceName},
    ids::Tid,
};

/// Consecutive words of one chunk of one log: what a collector finds between tail and head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    /// Whose.
    pub log: LogId,
    /// Stream position of the first byte: bytes ever written to the log before it.
    pub position: u64,
    /// Stamp of the chunk's SYNC, in ns.
    pub sync_ns: u64,
    /// Events this log lost so far.
    pub lost: u64,
    /// Whole records, little-endian; at most [`CHUNK_BYTES`].
    pub words: &'a [u8],
}

/// Where slices go: a file, a channel, a test. Closures over [`Slice`] are sinks too.
pub trait SliceSink {
    /// Why a slice could not be taken.
    type Error;
    /// Takes one slice; slices of a log come in order of position, without gaps.
    fn slice(&mut self, slice: Slice<'_>) -> Result<(), Self::Error>;
}

impl<E, F: FnMut(Slice<'_>) -> Result<(), E>> SliceSink for F {
    type Error = E;
    fn slice(&mut self, slice: Slice<'_>) -> Result<(), E> {
        self(slice)
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It is in the log, or waits for its END to be folded with.
    Whole,
    /// It is, but a value was too large for its field and was cut to the largest that fits.
    Saturated,
    /// The format has no record for it (`sched_wakeup`).
    No,
}

/// Writes the events of one CPU as a log.
///
/// Events are given in order of time; the writer folds pairs, writes what a reader needs to start
/// at any chunk, and hands out each chunk when it is full. [`LogWriter::flush`] gives out what
/// there is of the last one.
#[derive(Clone, Debug)]
pub struct LogWriter {
    log: LogId,
    /// The chunk being written, from its SYNC on.
    chunk: Vec<u8>,
    /// Position of the chunk's first byte.
    chunk_position: u64,
    /// Bytes of the chunk that were handed out.
    handed_bytes: usize,
    sync_ns: u64,
    last_ns: u64,
    current: Tid,
    pending: Option<(u64, Tid, CoreEvent)>,
    rip_high: Option<u32>,
    /// VM exits that this chunk has told.
    exits: Exits,
    lost: u64,
    untold: Option<Untold>,
    /// Devices whose name stands in this chunk.
    named: Vec<(u64, DeviceName)>,
}

/// Lost events that no LOST record tells of yet.
#[derive(Clone, Copy, Debug)]
struct Untold {
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

impl LogWriter {
    /// A log at position 0.
    pub fn new(log: LogId) -> Self {
        LogWriter {
            log,
            chunk: Vec::with_capacity(CHUNK_BYTES),
            chunk_position: 0,
            handed_bytes: 0,
            sync_ns: 0,
            last_ns: 0,
            current: Tid::IDLE,
            pending: None,
            rip_high: None,
            exits: Exits::default(),
            lost: 0,
            untold: None,
            named: Vec::new(),
        }
    }

    /// Bytes written so far, what is still held back included (but no BEGIN that waits).
    pub fn position(&self) -> u64 {
        self.chunk_position + self.chunk.len() as u64
    }

    /// Writes an event that happened at `ts_ns` while `tid` was current.
    pub fn event<S: SliceSink>(
        &mut self,
        ts_ns: u64,
        tid: Tid,
        event: &CoreEvent,
        out: &mut S,
    ) -> Result<Carried, S::Error> {
        if let Some((begin_ns, owner, begin)) = self.pending.take() {
            if owner == tid && self.fold((begin_ns, owner, &begin), ts_ns, event, out)? {
                return Ok(Carried::Whole);
            }
            self.write_event(begin_ns, owner, &begin, out)?;
        }
        if encode::is_begin(event) && self.log.side == 0 {
            let saturated = encode::single(event, tid, |_| 0).is_some_and(|e| e.saturated);
            self.pending = Some((ts_ns, tid, *event));
            return Ok(if saturated { Carried::Saturated } else { Carried::Whole });
        }
        self.write_event(ts_ns, tid, event, out)
    }

    /// Notes that `count` events between these stamps found no room. They are told of before the
    /// next record.
    pub fn lost(&mut self, count: u64, first_ns: u64, last_ns: u64) {
        self.lost += count;
        match &mut self.untold {
            Some(untold) => {
                untold.count += count;
                untold.last_ns = last_ns;
            }
            None => self.untold = Some(Untold { count, first_ns, last_ns }),
        }
    }

    /// Hands out everything, a BEGIN that waits for its END included.
    pub fn finish<S: SliceSink>(&mut self, out: &mut S) -> Result<(), S::Error> {
        if let Some((begin_ns, owner, begin)) = self.pending.take() {
            self.write_event(begin_ns, owner, &begin, out)?;
        }
        self.flush(out)
    }

    /// Hands out the records that are complete; a BEGIN may still wait for its END.
    pub fn flush<S: SliceSink>(&mut self, out: &mut S) -> Result<(), S::Error> {
        if self.handed_bytes == self.chunk.len() {
            return Ok(());
        }
        let slice = Slice {
            log: self.log,
            position: self.chunk_position + self.handed_bytes as u64,
            sync_ns: self.sync_ns,
            lost: self.lost,
            words: &self.chunk[self.handed_bytes..],
        };
        self.handed_bytes = self.chunk.len();
        out.slice(slice)
    }

    fn fold<S: SliceSink>(
        &mut self,
        begin: (u64, Tid, &CoreEvent),
        end_ns: u64,
        end: &CoreEvent,
        out: &mut S,
    ) -> Result<bool, S::Error> {
        let (begin_ns, tid, begin) = begin;
        let Some(dur_ns) = end_ns.checked_sub(begin_ns) else { return Ok(false) };
        let Some(widest) = encode::folded(begin, end, dur_ns, None) else { return Ok(false) };
        self.prepare(begin_ns, tid, widest.words(), true, out)?;
        let raw = encode::folded(begin, end, dur_ns, self.rip_high).unwrap_or(widest);
        self.put_exit(begin_ns, &raw, begin);
        self.last_ns = end_ns;
        Ok(true)
    }

    fn write_event<S: SliceSink>(
        &mut self,
        ts_ns: u64,
        tid: Tid,
        event: &CoreEvent,
        out: &mut S,
    ) -> Result<Carried, S::Error> {
        let device = match event {
            CoreEvent::NetXmit { device, .. } | CoreEvent::NetReceive { device, .. } => {
                Some(*device)
            }
            _ => None,
        };
        let Some(likely) = encode::single(event, self.current, |_| 0) else {
            return Ok(Carried::No);
        };
        let is_switch = matches!(event, CoreEvent::SchedSwitch { .. });
        let words = likely.words() + usize::from(is_switch) + if device.is_some() { 3 } else { 0 };
        self.prepare(ts_ns, tid, words, !is_switch, out)?;
        let number = device.map_or(0, |name| self.tell_device(ts_ns, name));
        // The chunk may be a new one, with another thread current.
        let encoded = encode::single(event, self.current, |_| number).unwrap_or(likely);
        self.put_exit(ts_ns, &encoded.raw, event);
        if let Some(more) = &encoded.more {
            self.put(ts_ns, more);
        }
        if let CoreEvent::SchedSwitch { next, .. } = event {
            self.current = *next;
        }
        Ok(if encoded.saturated { Carried::Saturated } else { Carried::Whole })
    }

    /// Makes room for a record of so many words, and writes what has to stand before it.
    fn prepare<S: SliceSink>(
        &mut self,
        ts_ns: u64,
        tid: Tid,
        words: usize,
        tell_current: bool,
        out: &mut S,
    ) -> Result<(), S::Error> {
        // SYNC or LOST, TIME and CURRENT, whether needed or not: a chunk may end a little early.
        const BEFORE: usize = 3 + 3 + 2 + 1;
        let left = CHUNK_WORDS - self.chunk.len() / WORD_BYTES;
        if self.chunk.is_empty() || left < words + BEFORE {
            self.next_chunk(ts_ns, tid, out)?;
        } else if self.log.side > 0 {
            self.put_sync(ts_ns, tid, 0);
        }
        if let Some(untold) = self.untold.take() {
            let count = untold.count.min((1 << A_BITS) - 1);
            self.put_words(&Raw::new(LOST, count, untold.first_ns, untold.last_ns), 0);
            self.last_ns = untold.last_ns;
        }
        if tell_current && tid != self.current {
            self.put(ts_ns, &Raw::new(CURRENT, tid_bits(tid), 0, 0));
            self.current = tid;
        }
        Ok(())
    }

    fn next_chunk<S: SliceSink>(
        &mut self,
        ts_ns: u64,
        tid: Tid,
        out: &mut S,
    ) -> Result<(), S::Error> {
        let first = if self.position() == 0 { SYNC_FIRST } else { 0 };
        if !self.chunk.is_empty() {
            self.chunk.resize(CHUNK_BYTES, 0);
            self.flush(out)?;
            self.chunk_position += CHUNK_BYTES as u64;
            self.chunk.clear();
            self.handed_bytes = 0;
        }
        self.sync_ns = ts_ns;
        self.put_sync(ts_ns, tid, first);
        Ok(())
    }

    fn put_sync(&mut self, ts_ns: u64, tid: Tid, flags: u64) {
        let side = if self.log.side > 0 { SYNC_SIDE } else { 0 };
        let a = tid_bits(tid) | (flags | side) << 22;
        self.put_words(&Raw::new(SYNC, a, ts_ns, self.lost), 0);
        self.last_ns = ts_ns;
        self.current = tid;
        self.rip_high = None;
        self.exits.clear();
        self.named.clear();
    }

    /// The number of a device; its name is told once per chunk.
    fn tell_device(&mut self, ts_ns: u64, name: DeviceName) -> u64 {
        if let Some((number, _)) = self.named.iter().find(|(_, known)| *known == name) {
            return *number;
        }
        // From the name, so that every log of a file calls a device the same.
        let mut number = u64::from(crc32fast::hash(name.as_bytes())) & 0x3fff;
        while self.named.iter().any(|(taken, _)| *taken == number) {
            number = (number + 1) & 0x3fff;
        }
        self.named.push((number, name));
        self.put(ts_ns, &encode::name(DEVICE_NAME, number, name));
        number
    }

    /// Writes a record; that of a VM exit shorter if the chunk has told all of it before.
    fn put_exit(&mut self, ts_ns: u64, raw: &Raw, event: &CoreEvent) {
        let CoreEvent::KvmExit { rip, .. } = event else { return self.put(ts_ns, raw) };
        let exit = encode::told(raw, *rip);
        if let Some(raw) = exit.and_then(|exit| encode::again(raw, exit, &self.exits)) {
            return self.put(ts_ns, &raw);
        }
        self.put(ts_ns, raw);
        if raw.kind != KVM_EXIT_ENTRY_S {
            self.rip_high = u32::try_from(rip >> 32).ok();
        }
        if let Some(exit) = exit {
            self.exits.take(exit);
        }
    }

    /// Writes a record, with a TIME before it where its delta has too few bits.
    fn put(&mut self, ts_ns: u64, raw: &Raw) {
        let delta_ns = match ts_ns.checked_sub(self.last_ns) {
            Some(delta_ns) if delta_ns < DELTA_LIMIT_NS => delta_ns,
            _ => {
                self.put_words(&Raw::new(TIME, 0, ts_ns, 0), 0);
                0
            }
        };
        self.put_words(raw, delta_ns);
        self.last_ns = ts_ns;
    }

    fn put_words(&mut self, raw: &Raw, delta_ns: u64) {
        self.chunk.extend_from_slice(&raw.first(delta_ns).to_le_bytes());
        for word in &raw.rest[..raw.words() - 1] {
            self.chunk.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// A thread id's 22 bits (`PID_MAX_LIMIT` is 2^22).
fn tid_bits(tid: Tid) -> u64 {
    u64::from(tid.0.unsigned_abs()).min((1 << 22) - 1)
}
