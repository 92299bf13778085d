//! Reads trace.dat files of versions 6 and 7.

pub mod buffer;
mod compress;
mod cursor;
mod header;
mod metadata;
pub mod option;
mod parts;
mod reader;
mod recover;
mod section;
mod span;
pub mod stream;
mod v6;
mod v7;

pub use buffer::{Buffer, CpuData};
pub use compress::Compression;
pub use header::{Header, MAGIC};
pub use option::{CpuStat, Guest, Options};
pub use stream::{Item, Stream};

use crate::{
    metadata::Metadata,
    problem::{Error, Place, Problem, Problems},
};
use cursor::Cursor;
use header::read_header;
use parts::{Parts, Text};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};
use transect_ftrace::EventTable;
use transect_model::{event::Comm, ids::Tid};

/// A trace.dat file, its metadata read, its records ready to be streamed.
#[derive(Clone, Debug)]
pub struct TraceDat<'d> {
    file: &'d [u8],
    header: Header,
    events: EventTable,
    options: Options,
    buffers: Vec<Buffer>,
    comms: HashMap<i32, Comm>,
    kallsyms: Text,
    printk: Text,
    /// All metadata but kallsyms and printk formats, verbatim.
    raw: Metadata,
    problems: Problems,
    /// Ranges that are not what was written.
    damage: Arc<[Range<u64>]>,
}

impl<'d> TraceDat<'d> {
    /// Reads a file's metadata. `file` is the whole file (the caller maps it).
    ///
    /// Whatever is wrong with a part of the file becomes one of [`TraceDat::problems`] as long as
    /// something of use is left.
    ///
    /// # Errors
    /// It is no trace.dat, or nothing of it can be read.
    pub fn parse(file: &'d [u8]) -> Result<Self, Error> {
        let (header, cursor) = read_header(file)?;
        let mut parts = Parts::new(&header);
        if header.version == 6 {
            v6::read(file, cursor, &mut parts)?;
        } else {
            v7::read(file, cursor, &header, &mut parts)?;
        }
        parts.finish(file, header)
    }

    /// Version, byte order, compression.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The events of the traced kernel.
    pub fn events(&self) -> &EventTable {
        &self.events
    }

    /// Facts about the recording.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The top buffer, if it has data, and the instances.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The records of one CPU of one buffer; `None` if the buffer has no such CPU.
    pub fn stream(&self, buffer: &Buffer, cpu: u32) -> Option<Stream<'d>> {
        let data = buffer.cpus.iter().find(|data| data.cpu == cpu)?;
        let damage = Arc::clone(&self.damage);
        Some(Stream::new(self.file, buffer, data, self.header.compression, damage))
    }

    /// The same file, of which these ranges are not what was written, as checksums beside it tell: in order,
    /// apart from one another, and each within [`TraceDat::event_ranges`] of the undamaged file. Streams leave
    /// out the pages that are in them.
    #[must_use]
    pub fn with_damage(self, damage: &[Range<u64>]) -> Self {
        TraceDat { damage: damage.into(), ..self }
    }

    /// Where in the file the events are, in order: everything else describes them. Padding between the data of two
    /// CPUs belongs to the events.
    pub fn event_ranges(&self) -> Vec<Range<u64>> {
        let page = u64::from(self.header.page_bytes.max(1));
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for buffer in &self.buffers {
            let is_packed = buffer.is_compressed && self.header.compression != Compression::None;
            ranges.extend(buffer.cpus.iter().filter(|data| data.size_bytes > 0).map(|data| {
                let end = match is_packed {
                    true => self.end_of_chunks(data),
                    false => data.offset_bytes.saturating_add(data.size_bytes),
                };
                // The next CPU's data begins with a page of its own, if there is one.
                data.offset_bytes..end
            }));
        }
        let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
        for range in &mut ranges {
            let padded = range.end.checked_next_multiple_of(page).unwrap_or(range.end);
            let is_followed = starts.contains(&padded) || padded == self.file.len() as u64;
            if is_followed && self.is_blank(range.end..padded) {
                range.end = padded;
            }
        }
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let follows = next.start <= range.end;
            range.end = if follows { range.end.max(next.end) } else { range.end };
            follows
        });
        ranges
    }

    /// Is there nothing but padding? Behind the compressed data of a buffer, the next section may begin at any byte.
    fn is_blank(&self, range: Range<u64>) -> bool {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let between = self.file.get(at(range.start)..at(range.end));
        between.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    }

    /// Where a CPU's compressed data ends, as its chunks tell.
    fn end_of_chunks(&self, data: &CpuData) -> u64 {
        let start = usize::try_from(data.offset_bytes).unwrap_or(usize::MAX);
        let rest = self.file.get(start..).unwrap_or_default();
        let mut cursor = Cursor::new(rest, data.offset_bytes, self.header.endian);
        let Ok(chunks) = cursor.u32("number of chunks") else { return data.offset_bytes };
        for _ in 0..chunks {
            let (Ok(packed), Ok(_)) = (cursor.u32("size"), cursor.u32("size")) else { break };
            if cursor.take(u64::from(packed), "chunk").is_err() {
                return self.file.len() as u64;
            }
        }
        cursor.offset()
    }

    /// The CPUs of whose data the file lacks the end, each of a buffer by its name.
    pub fn cut_cpus(&self) -> impl Iterator<Item = (&str, u32)> {
        let end = self.file.len() as u64;
        let cpus = self
            .buffers
            .iter()
            .flat_map(|buffer| buffer.cpus.iter().map(|data| (buffer.name.as_str(), data)));
        let is_cut = move |data: &CpuData| {
            data.size_bytes > 0 && data.offset_bytes.saturating_add(data.size_bytes) > end
        };
        cpus.filter(move |(_, data)| is_cut(data)).map(|(buffer, data)| (buffer, data.cpu))
    }

    /// A thread's name as it was known when recording ended; the idle threads and threads the
    /// kernel had forgotten have none.
    pub fn comm(&self, tid: Tid) -> Option<Comm> {
        self.comms.get(&tid.0).copied()
    }

    /// All known thread names.
    pub fn comms(&self) -> impl Iterator<Item = (Tid, Comm)> + '_ {
        self.comms.iter().map(|(tid, comm)| (Tid(*tid), *comm))
    }

    /// The traced kernel's symbols (`/proc/kallsyms`), some megabytes; read (and decompressed)
    /// at each call. Empty if the file has none.
    pub fn kallsyms(&self) -> Cow<'d, [u8]> {
        self.text(self.kallsyms)
    }

    /// Addresses and texts of `trace_printk()` formats (`printk_formats`).
    pub fn printk_formats(&self) -> Cow<'d, [u8]> {
        self.text(self.printk)
    }

    /// The traced kernel's description of itself, verbatim: to write it into another file.
    pub fn metadata(&self) -> Metadata {
        Metadata {
            kallsyms: self.kallsyms().into_owned(),
            printk_formats: self.printk_formats().into_owned(),
            ..self.raw.clone()
        }
    }

    /// What could not be read of the metadata. Streams report their own problems as items.
    pub fn problems(&self) -> &[Problem] {
        self.problems.as_slice()
    }

    fn text(&self, text: Text) -> Cow<'d, [u8]> {
        match text {
            Text::Absent => Cow::Borrowed(&[]),
            Text::Plain(offset, size) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let rest = self.file.get(start..).unwrap_or_default();
                Cow::Borrowed(&rest[..size.min(rest.len())])
            }
            Text::Section(section) => {
                let Header { endian, compression, .. } = self.header;
                let (bytes, _) = section.bytes(self.file, endian, compression);
                match bytes {
                    Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(4..).unwrap_or_default()),
                    Cow::Owned(mut bytes) => {
                        bytes.drain(..bytes.len().min(4));
                        Cow::Owned(bytes)
                    }
                }
            }
        }
    }
}

impl Parts {
    fn finish<'d>(mut self, file: &'d [u8], header: Header) -> Result<TraceDat<'d>, Error> {
        if self.buffers.is_empty()
            && let Some((at_bytes, place)) = self.cut
        {
            return Err(Error::Cut { at_bytes, place });
        }
        drop_repeated(&mut self.buffers, &mut self.problems);
        clip_overlaps(&mut self.buffers, &mut self.problems);
        for buffer in &self.buffers {
            note_cut_data(file, buffer, &mut self.problems);
        }
        Ok(TraceDat {
            file,
            header,
            events: self.events,
            options: self.options,
            buffers: self.buffers,
            comms: self.comms,
            kallsyms: self.kallsyms,
            printk: self.printk,
            raw: self.raw,
            problems: self.problems,
            damage: Arc::default(),
        })
    }
}

/// The same data listed twice would give the same events twice, under two CPUs.
fn drop_repeated(buffers: &mut [Buffer], problems: &mut Problems) {
    let mut seen = HashSet::new();
    for buffer in buffers {
        let name = buffer.name.clone();
        buffer.cpus.retain(|data| {
            let is_new = seen.insert(data.offset_bytes);
            if !is_new {
                let place = Place::Cpu { buffer: name.clone(), cpu: data.cpu };
                problems.add(
                    data.offset_bytes,
                    place,
                    "its data belongs to another CPU and is skipped",
                );
            }
            is_new
        });
    }
}

/// A size that reaches into the next CPU's data would give one CPU's events to another.
fn clip_overlaps(buffers: &mut [Buffer], problems: &mut Problems) {
    let mut starts: Vec<u64> =
        buffers.iter().flat_map(|buffer| &buffer.cpus).map(|data| data.offset_bytes).collect();
    starts.sort_unstable();
    for buffer in buffers.iter_mut().filter(|buffer| !buffer.is_compressed) {
        for data in &mut buffer.cpus {
            let next = starts.partition_point(|start| *start <= data.offset_bytes);
            let Some(room) = starts.get(next).map(|start| start - data.offset_bytes) else {
                continue;
            };
            if data.size_bytes > room {
                let place = Place::Cpu { buffer: buffer.name.clone(), cpu: data.cpu };
                let what = format!(
                    "its {} bytes would overlap another CPU's data; {room} are read",
                    data.size_bytes
                );
                problems.add(data.offset_bytes, place, what);
                data.size_bytes = room;
            }
        }
    }
}

/// CPU data that lies (partly) behind the file's end. Told here once, not by the stream again.
fn note_cut_data(file: &[u8], buffer: &Buffer, problems: &mut Problems) {
    let len = file.len() as u64;
    for data in &buffer.cpus {
        let have = len.saturating_sub(data.offset_bytes);
        let size = data.size_bytes;
        let what = if have == 0 && size > 0 {
            format!(
                "its {size} bytes are beyond the end of the file at byte {len}: none can be read"
            )
        } else if size > have {
            format!("the file ends at byte {len}: {} of {size} bytes are missing", size - have)
        } else {
            continue;
        };
        let place = Place::Cpu { buffer: buffer.name.clone(), cpu: data.cpu };
        problems.add(data.offset_bytes, place, what);
    }
}
