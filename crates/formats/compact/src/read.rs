//! Reading a file: header, index of blocks, names, totals; streams are opened from here.

use crate::{
    block::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, BlockKind, FLAG_CHUNK_START, FLAG_ZSTD},
    block_ref::BlockRef,
    decode::Context,
    error::{Error, LogId, Problem, Problems, What},
    header::{FileHeader, u64_at},
    log::{Slice, SliceSink},
    merge::Stream,
    names::Names,
    record::CHUNK_BYTES,
    sink::LostCause,
    squeeze,
    stacks::StackNotes,
    stream::LogStream,
    totals::Totals,
};
use std::collections::BTreeMap;
use transect_model::{
    ids::CpuId,
    stack::{MAX_STACKS, Stacks},
    time::{Source, Timestamp},
};

/// Most notes kept of one file.
const MAX_NOTES: usize = 10_000;

/// A block's payload, one slice per chunk.
fn slices_of<S: SliceSink>(
    log: LogId,
    block: &BlockRef,
    mut words: &[u8],
    out: &mut S,
) -> Result<(), S::Error> {
    let mut position = block.position;
    let mut sync_ns = block.sync_ns;
    while !words.is_empty() {
        let into_chunk = usize::try_from(position % CHUNK_BYTES as u64).unwrap_or(0);
        if into_chunk == 0 {
            sync_ns = u64_at(words, 8).unwrap_or(sync_ns);
        }
        let (slice, rest) = words.split_at(words.len().min(CHUNK_BYTES - into_chunk));
        out.slice(Slice { log, position, sync_ns, lost: block.lost, words: slice })?;
        position += slice.len() as u64;
        words = rest;
    }
    Ok(())
}

/// The blocks of one log.
#[derive(Clone, Debug, Default)]
struct Log {
    blocks: Vec<BlockRef>,
    lost: u64,
    /// Why blocks after those listed cannot be read, if there are any.
    tail: Option<LostCause>,
    /// No event of it was earlier, if that is known although its first block is not there.
    begins_ns: Option<u64>,
}

/// A chunk a stream can begin at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    /// Stamp of its SYNC: no event in it is earlier, in ns.
    pub sync: Timestamp<Source>,
    /// Its position in the log.
    pub position: u64,
    /// Bytes of the chunk, and of those after it that come compressed with it.
    pub raw_bytes: u32,
    block: usize,
}

/// A compact file.
#[derive(Clone, Debug)]
pub struct Compact<'d> {
    file: &'d [u8],
    header: FileHeader,
    logs: BTreeMap<LogId, Log>,
    names: Names,
    notes: Vec<String>,
    totals: Option<Totals>,
    problems: Problems,
    stacks_from: u32,
}

impl<'d> Compact<'d> {
    /// Reads the header and the headers of all blocks. Payloads of logs are looked at only when
    /// they are streamed, so that this takes time by the number of blocks.
    ///
    /// Errors: nothing can be read at all. All else is in [`Compact::problems`].
    pub fn parse(file: &'d [u8]) -> Result<Self, Error> {
        let (header, length) = FileHeader::parse(file)?;
        let mut compact = Compact {
            file,
            header,
            logs: BTreeMap::new(),
            names: Names::default(),
            notes: Vec::new(),
            totals: None,
            problems: Problems::default(),
            stacks_from: 0,
        };
        compact.index(length);
        Ok(compact)
    }

    /// The same file, which is known to lack its end, and to have had these logs, each with a stamp before which it has no
    /// event. Of a log without blocks, all events are missing. Totals tell that by themselves.
    #[must_use]
    pub fn with_logs(mut self, logs: impl IntoIterator<Item = (LogId, Timestamp<Source>)>) -> Self {
        if self.totals.is_none() {
            for (id, begins) in logs {
                let log = self.logs.entry(id).or_default();
                log.tail = log.tail.or(Some(LostCause::Truncated));
                log.begins_ns = Some(begins.get());
            }
        }
        self
    }

    /// The same file as the source of this number in a recording: no other source's stacks have the same numbers.
    #[must_use]
    pub fn as_source(mut self, number: usize) -> Self {
        let first = u32::try_from(number).ok().and_then(|number| number.checked_mul(MAX_STACKS));
        self.stacks_from = first.unwrap_or(u32::MAX);
        self
    }

    /// The frames of stacks by number, the innermost first.
    pub fn stacks(&self) -> Stacks {
        let mut notes = StackNotes::default();
        self.notes.iter().for_each(|note| notes.read(note));
        notes
            .into_stacks()
            .into_iter()
            .filter_map(|(id, frames)| Some((id.checked_add(self.stacks_from)?, frames)))
            .collect()
    }

    /// What the file's header says.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The names known when recording began. Later ones come as
    /// [`TaskRename`](transect_model::event::CoreEvent::TaskRename) in the streams.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The writer's notes, each a JSON text.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the writer counted; `None` if the file was not ended in order.
    pub fn totals(&self) -> Option<&Totals> {
        self.totals.as_ref()
    }

    /// What is wrong with the file outside of the logs' payloads, in order of offset.
    pub fn problems(&self) -> &[Problem] {
        self.problems.as_slice()
    }

    /// CPUs that have a log.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> {
        let mut last = None;
        self.logs
            .keys()
            .filter_map(move |log| (last.replace(log.cpu) != Some(log.cpu)).then_some(log.cpu))
    }

    /// Logs of the file, side logs included.
    pub fn logs(&self) -> impl Iterator<Item = LogId> {
        self.logs.keys().copied()
    }

    /// Bytes of words the file holds, decompressed. For progress and for dividing work.
    pub fn raw_bytes(&self, log: LogId) -> u64 {
        let blocks = self.logs.get(&log).map_or(&[][..], |log| &log.blocks);
        blocks.iter().map(|block| u64::from(block.raw_bytes)).sum()
    }

    /// The events of one CPU, its side logs merged in; `None` if it has no log.
    ///
    /// Names are not repeated in events: a `comm` is empty unless the record itself tells it, and
    /// priorities are [`crate::PRIO_UNKNOWN`] where no record told them.
    pub fn stream(&self, cpu: CpuId) -> Option<Stream<'_>> {
        let [main, first, second] = [0, 1, 2].map(|side| self.log_stream(LogId { cpu, side }));
        if main.is_none() && first.is_none() && second.is_none() {
            return None;
        }
        let overwritten = [0, 1, 2].map(|side| {
            self.totals.as_ref().and_then(|totals| totals.overwritten(LogId { cpu, side }))
        });
        Some(Stream::new(main, [first, second], overwritten))
    }

    /// One log by itself.
    pub fn log_stream(&self, id: LogId) -> Option<LogStream<'_>> {
        let log = self.logs.get(&id)?;
        let stream = LogStream::new(self.file, id, &log.blocks, self.context());
        let stream = stream.begins_by(log.begins_ns);
        let told = self.totals.as_ref().and_then(|totals| totals.lost(id)).unwrap_or(0);
        Some(stream.begun(self.header.overwrite).ended_by(log.lost.max(told), log.tail))
    }

    /// The chunks of a log at which a stream can begin, in order.
    pub fn chunks(&self, id: LogId) -> impl Iterator<Item = ChunkRef> {
        let blocks = self.logs.get(&id).map_or(&[][..], |log| &log.blocks);
        let starts = blocks.iter().enumerate().filter(|(_, b)| b.flags & FLAG_CHUNK_START != 0);
        starts.map(|(at, block)| ChunkRef {
            sync: Timestamp::new(block.sync_ns),
            position: block.position,
            raw_bytes: block.raw_bytes,
            block: at,
        })
    }

    /// One log from chunk `from` up to, but without, chunk `to` (`None`: to its end).
    pub fn chunk_stream(
        &self,
        id: LogId,
        from: ChunkRef,
        to: Option<ChunkRef>,
    ) -> Option<LogStream<'_>> {
        let log = self.logs.get(&id)?;
        let end = to.map_or(log.blocks.len(), |to| to.block);
        let stream =
            LogStream::new(self.file, id, log.blocks.get(from.block..end)?, self.context());
        Some(if to.is_none() { stream.ended_by(log.lost, log.tail) } else { stream })
    }

    /// The words of all logs as slices, in order of position within each log; blocks that cannot
    /// be read are left out. For whoever writes the file again.
    pub fn slices<S: SliceSink>(&self, out: &mut S) -> Result<(), S::Error> {
        let mut buffer = Vec::new();
        for (id, log) in &self.logs {
            for block in &log.blocks {
                let Some(words) = block.payload(self.file, &mut buffer) else { continue };
                slices_of(*id, block, words, out)?;
            }
        }
        Ok(())
    }

    /// The blocks of logs whose payload is not what was written: every byte of the file is looked at, and nothing is
    /// decoded.
    pub fn damaged_blocks(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        for (id, log) in &self.logs {
            for block in &log.blocks {
                if let Err(what) = block.stored(self.file) {
                    problems.add(block.payload_at, Some(*id), what);
                }
            }
        }
        problems.as_slice().to_vec()
    }

    fn context(&self) -> Context {
        let mut context = Context {
            isa: self.header.isa(),
            words: self.header.words(),
            devices: Vec::new(),
            stacks_from: self.stacks_from,
        };
        for (number, name) in self.names.devices() {
            context.name_device(number.into(), name);
        }
        context
    }

    fn index(&mut self, mut at: usize) {
        while at < self.file.len() {
            let Some(header) = BlockHeader::parse(&self.file[at..]) else {
                at = self.skip_to_block(at);
                continue;
            };
            let payload_at = at + BLOCK_HEADER_BYTES;
            let end = payload_at + header.stored_bytes as usize;
            if let Some(what) = header.fault() {
                at = self.faulty_block(at, &header, what);
                continue;
            }
            if let Some(payload) = self.file.get(payload_at..end) {
                self.block(&header, payload_at as u64, payload);
            } else {
                let missing_bytes = (end - self.file.len()) as u64;
                self.cut_block(at, &header, missing_bytes);
            }
            at = end.next_multiple_of(8);
        }
        self.check_ends();
    }

    /// A log that the totals say is longer than its blocks, or that has none, ends with blocks that are missing. The
    /// totals of a flight recorder's snapshot are some events later than its blocks: there it takes a problem, too.
    /// Without totals, blocks are missing at the end of any log, if any are missing at all.
    fn check_ends(&mut self) {
        let end_of = |log: &Log| {
            log.blocks.last().map_or(0, |block| block.position + u64::from(block.raw_bytes))
        };
        let has_problems = !self.problems.as_slice().is_empty();
        match &self.totals {
            Some(_) if self.header.overwrite && !has_problems => {}
            Some(totals) => {
                for row in totals.logs.iter().filter(|row| row.bytes > 0) {
                    let id = LogId { cpu: CpuId(row.cpu), side: row.side };
                    if self.logs.get(&id).map_or(0, end_of) < row.bytes {
                        let log = self.logs.entry(id).or_default();
                        log.tail = log.tail.or(Some(LostCause::Damaged));
                    }
                }
            }
            None if has_problems => {
                for log in self.logs.values_mut() {
                    log.tail = log.tail.or(Some(LostCause::Truncated));
                }
            }
            None => {}
        }
    }

    /// Bytes that are no block: goes on to the next that is.
    fn skip_to_block(&mut self, at: usize) -> usize {
        let file = self.file;
        let rest = &file[at..];
        if rest.len() < BLOCK_HEADER_BYTES && rest.starts_with(&BLOCK_MAGIC[..rest.len().min(4)]) {
            let missing_bytes = (BLOCK_HEADER_BYTES - rest.len()) as u64;
            self.problems.add(at as u64, None, What::Truncated { missing_bytes });
            return file.len();
        }
        let found = rest
            .chunks(8)
            .enumerate()
            .find(|(n, bytes)| {
                bytes.starts_with(&BLOCK_MAGIC) && BlockHeader::parse(&rest[n * 8..]).is_some()
            })
            .map_or(file.len(), |(n, _)| at + n * 8);
        let skipped_bytes = (found - at) as u64;
        if skipped_bytes > 0 {
            self.problems.add(at as u64, None, What::NoBlock { skipped_bytes });
        }
        found
    }

    /// A header whose checksum is right but which cannot be: its lengths are believed only where
    /// they lead to the next block.
    fn faulty_block(&mut self, at: usize, header: &BlockHeader, what: &'static str) -> usize {
        let mut log = None;
        if header.kind == BlockKind::Words {
            log = Some(header.log());
            self.logs.entry(header.log()).or_default().tail = Some(LostCause::Damaged);
        }
        self.problems.add(at as u64, log, What::BlockHeader { what });
        let end = at + BLOCK_HEADER_BYTES + header.stored_bytes as usize;
        let next = end.next_multiple_of(8);
        let leads_on = self.file.get(next..).is_some_and(|rest| BlockHeader::parse(rest).is_some());
        if leads_on || end == self.file.len() {
            return next;
        }
        self.skip_to_block(at + BLOCK_HEADER_BYTES)
    }

    fn cut_block(&mut self, at: usize, header: &BlockHeader, missing_bytes: u64) {
        let mut log = None;
        if header.kind == BlockKind::Words {
            log = Some(header.log());
            self.logs.entry(header.log()).or_default().tail = Some(LostCause::Truncated);
        }
        self.problems.add(at as u64, log, What::Truncated { missing_bytes });
    }

    fn block(&mut self, header: &BlockHeader, payload_at: u64, payload: &[u8]) {
        match header.kind {
            BlockKind::Words => self.words(header, payload_at),
            BlockKind::Names | BlockKind::End | BlockKind::Note => {
                if let Err(what) = self.told(header, payload) {
                    self.problems.add(payload_at, None, what);
                }
            }
            BlockKind::Other(kind) => {
                self.problems.add(payload_at, None, What::UnknownBlock { kind });
            }
        }
    }

    fn words(&mut self, header: &BlockHeader, payload_at: u64) {
        let log = self.logs.entry(header.log()).or_default();
        log.lost = log.lost.max(header.lost);
        log.tail = None;
        log.blocks.push(BlockRef {
            payload_at,
            stored_bytes: header.stored_bytes,
            raw_bytes: header.raw_bytes,
            position: header.position,
            sync_ns: header.sync_ns,
            lost: header.lost,
            payload_crc: header.payload_crc,
            flags: header.flags,
        });
    }

    /// A block that is not words of a log.
    fn told(&mut self, header: &BlockHeader, stored: &[u8]) -> Result<(), What> {
        if crc32fast::hash(stored) != header.payload_crc {
            return Err(What::Checksum);
        }
        let mut expanded = Vec::new();
        let payload = if header.flags & FLAG_ZSTD != 0 {
            squeeze::expand(stored, header.raw_bytes as usize, false, &mut expanded)
                .ok_or(What::Compressed)?;
            &expanded
        } else {
            stored
        };
        match header.kind {
            BlockKind::Names => self.names.read(payload),
            BlockKind::End => {
                self.totals = Some(serde_json::from_slice(payload).map_err(|_| What::Text)?);
            }
            _ if self.notes.len() >= MAX_NOTES => return Err(What::TooMany { what: "notes" }),
            _ => self.notes.push(str::from_utf8(payload).map_err(|_| What::Text)?.to_owned()),
        }
        Ok(())
    }
}

/// Is this the beginning of a compact file? For whoever has to tell formats apart.
pub fn is_compact(file: &[u8]) -> bool {
    file.starts_with(crate::header::MAGIC)
}
