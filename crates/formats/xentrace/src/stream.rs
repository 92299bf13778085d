//! The records of one pCPU, in order of time.

use crate::{
    event::{EventTaker, Kept, Lost, Raw, XenEvent, typed},
    index::Window,
    problem::{Problem, Problems, What},
    records::{Field, Kind, RecordDef, Table, Value},
    word::Head,
};
use std::ops::Range;
use transect_model::ids::CpuId;

/// A record. Borrows from the file; nothing is copied or allocated for it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Byte of the file it begins at.
    pub at_bytes: u64,
    /// Its stamp, raw. Without one of its own, that of the record before it on this CPU; at the
    /// beginning of a CPU's records, that of the first one with a stamp.
    pub tsc: u64,
    /// Does it have a stamp of its own?
    pub stamped: bool,
    /// Event number.
    pub event: u32,
    /// Its words, little-endian.
    pub extra: &'a [u8],
    /// Its row.
    pub row: &'static RecordDef,
}

impl<'a> Record<'a> {
    /// What it says, typed.
    pub fn typed(&self) -> XenEvent {
        let mut kept = Kept(XenEvent::Other);
        if self.extra.len() >= usize::from(self.row.min_words) * 4 {
            let Record { row, event, tsc, extra, .. } = *self;
            typed(Raw { kind: row.kind, row, event, tsc, extra }, &mut kept);
        }
        kept.0
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// Its fields, as far as they are in it.
    pub fn fields(&self) -> impl Iterator<Item = (&'static Field, Value)> + use<'a> {
        let (event, extra) = (self.event, self.extra);
        self.row.fields.iter().filter_map(move |field| Some((field, field.value(event, extra)?)))
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<Value> {
        let field = self.row.fields.iter().find(|field| field.name == name)?;
        field.value(self.event, self.extra)
    }
}

/// What a stream has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records, WRAP_BUFFER and unknown ones too; without CPU_CHANGE, which
    /// [`crate::Index::changes`] counts.
    pub records: u64,
    /// WRAP_BUFFER records among them.
    pub wraps: u64,
    /// Records of unknown events among them.
    pub unknown: u64,
    /// LOST_RECORDS records among them.
    pub lost_records: u64,
    /// Records Xen had no room for, as those say.
    pub lost: u64,
    /// Bytes of records that could not be read.
    pub left_out_bytes: u64,
}

impl Totals {
    /// Of several streams together.
    pub fn add(&mut self, other: &Totals) {
        self.records += other.records;
        self.wraps += other.wraps;
        self.unknown += other.unknown;
        self.lost_records += other.lost_records;
        self.lost += other.lost;
        self.left_out_bytes += other.left_out_bytes;
    }
}

/// Where a stream is, to go on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which of the CPU's windows.
    pub window: usize,
    /// Bytes read of it.
    pub bytes: usize,
    /// The last stamp; None before the first.
    pub tsc: Option<u64>,
}

/// Iterator over the records of one pCPU, in the order they were written. WRAP_BUFFER and unknown
/// records are counted and left out; LOST_RECORDS comes as [`XenEvent::Lost`].
#[derive(Clone, Debug)]
pub struct Stream<'a> {
    file: &'a [u8],
    table: &'static Table,
    cpu: CpuId,
    windows: &'a [Window],
    /// The window after the one being read.
    next_window: usize,
    /// The first window that is not to be read.
    end_window: usize,
    /// What is left of the window being read.
    rest: &'a [u8],
    /// Where in the file that ends.
    end: usize,
    tsc: Option<u64>,
    totals: Totals,
    problems: Problems,
    /// Unknown events and wrong word counts reported so far; each is reported once.
    reported: Vec<u32>,
}

/// Most different complaints of the "reported once" kind.
const MAX_REPORTED: usize = 64;

impl<'a> Stream<'a> {
    pub(crate) fn new(
        file: &'a [u8],
        table: &'static Table,
        cpu: CpuId,
        windows: &'a [Window],
        range: Range<usize>,
        tsc: Option<u64>,
    ) -> Stream<'a> {
        Stream {
            file,
            table,
            cpu,
            windows,
            next_window: range.start,
            end_window: range.end.min(windows.len()),
            rest: &[],
            end: 0,
            tsc,
            totals: Totals::default(),
            problems: Problems::default(),
            reported: Vec::new(),
        }
    }

    pub(crate) fn resume(
        file: &'a [u8],
        table: &'static Table,
        cpu: CpuId,
        windows: &'a [Window],
        position: Position,
    ) -> Stream<'a> {
        let range = position.window..windows.len();
        let mut stream = Stream::new(file, table, cpu, windows, range, position.tsc);
        if stream.open_window() {
            stream.rest = &stream.rest[position.bytes.min(stream.rest.len())..];
        }
        stream
    }

    /// Whose records these are.
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// What has been read so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What was wrong so far.
    pub fn problems(&self) -> &[Problem] {
        self.problems.as_slice()
    }

    /// Was something not read so far?
    pub fn is_partial(&self) -> bool {
        self.problems().iter().any(|problem| problem.what.loses())
    }

    /// How many windows are still to be read, to tell how far it is.
    pub fn left_windows(&self) -> usize {
        self.end_window.saturating_sub(self.next_window)
    }

    /// Where it is, for [`crate::XenTrace::resume`].
    pub fn position(&self) -> Position {
        match self.next_window.checked_sub(1).and_then(|at| Some((at, self.windows.get(at)?))) {
            Some((window, read)) => {
                Position { window, bytes: read.bytes - self.rest.len(), tsc: self.tsc }
            }
            None => Position { window: self.next_window, bytes: 0, tsc: self.tsc },
        }
    }

    fn open_window(&mut self) -> bool {
        let windows = self.windows.get(..self.end_window).unwrap_or(self.windows);
        let Some(window) = windows.get(self.next_window) else { return false };
        self.next_window += 1;
        self.end = window.at + window.bytes;
        self.rest = self.file.get(window.at..self.end).unwrap_or(&[]);
        true
    }

    /// The first stamp from here on.
    #[cold]
    fn first_stamp(&self) -> u64 {
        // Also in windows that are not to be read: every part of a CPU's records must give them the
        // same stamps.
        let mut ahead = Stream { end_window: self.windows.len(), ..self.clone() };
        loop {
            let Some((head, bytes, _)) = ahead.step() else { return 0 };
            if head.stamped() {
                return stamp(bytes);
            }
        }
    }

    /// The last stamp there is, from here on.
    pub(crate) fn last_stamp(mut self) -> Option<u64> {
        let mut last = None;
        while let Some((head, bytes, _)) = self.step() {
            if head.stamped() {
                last = Some(stamp(bytes));
            }
        }
        last
    }

    /// The next record as bytes, and where it begins.
    #[inline]
    fn step(&mut self) -> Option<(Head, &'a [u8], usize)> {
        loop {
            if let Some(head) = self.rest.first_chunk::<4>() {
                let head = Head(u32::from_le_bytes(*head));
                if let Some((record, rest)) = self.rest.split_at_checked(head.bytes()) {
                    let at = self.end - self.rest.len();
                    self.rest = rest;
                    return Some((head, record, at));
                }
            }
            if !self.leave_window() {
                return None;
            }
        }
    }

    /// Reports what is left of a window that no record fits in, and opens the next.
    #[cold]
    fn leave_window(&mut self) -> bool {
        if !self.rest.is_empty() {
            let event = Head(crate::word::word_at(self.rest, 0)).event();
            let left_out_bytes = self.rest.len() as u64;
            let at = self.end - self.rest.len();
            self.totals.left_out_bytes += left_out_bytes;
            self.problems.add(at, Some(self.cpu), What::CutRecord { event, left_out_bytes });
            self.rest = &[];
        }
        self.open_window()
    }

    #[cold]
    fn time_back(&mut self, at: usize, by_tsc: u64) {
        self.problems.add(at, Some(self.cpu), What::TimeBack { by_tsc });
    }

    #[cold]
    fn complain_once(&mut self, at: usize, key: u32, what: What) {
        if !self.reported.contains(&key) && self.reported.len() < MAX_REPORTED {
            self.reported.push(key);
            self.problems.add(at, Some(self.cpu), what);
        }
    }

    /// Records that are about the trace. Is it one to be given out?
    #[cold]
    fn about_the_trace(&mut self, record: &Record<'_>) -> bool {
        match record.row.kind {
            Kind::Wrap => {
                self.totals.wraps += 1;
                false
            }
            Kind::Lost => {
                self.totals.lost_records += 1;
                if let XenEvent::Lost(Lost { count, from_tsc, to_tsc, .. }) = record.typed() {
                    self.totals.lost += u64::from(count);
                    if let Some(by_tsc) = from_tsc.checked_sub(to_tsc).filter(|&by| by > 0) {
                        let what = What::LostBackward { by_tsc };
                        self.problems.add(at(record), Some(self.cpu), what);
                    }
                }
                true
            }
            _ => {
                // The index has read on behind this window, so this one does not begin another.
                self.problems.add(at(record), Some(self.cpu), What::StrayChange);
                false
            }
        }
    }
}

impl<'a> Stream<'a> {
    /// Gives the typed events of the next records to `to`, about `limit` of them; how many, and 0
    /// only at the end. The same as calling `next` and [`Record::typed`], at a fraction of the cost.
    #[inline]
    pub fn give(&mut self, limit: usize, to: &mut impl EventTaker) -> usize {
        let mut given = 0;
        while given < limit {
            given += self.give_plain(limit - given, to);
            // The end of a window, or a record that something is to be said about.
            let Some(record) = self.next() else { break };
            to.take(record.tsc, record.typed());
            given += 1;
        }
        given
    }

    /// The same for records that are as they should be, as far as the window has such.
    #[inline(always)]
    fn give_plain(&mut self, limit: usize, to: &mut impl EventTaker) -> usize {
        let Some(mut last) = self.tsc else { return 0 };
        let mut rest = self.rest;
        let mut given = 0;
        while given < limit {
            let Some(head) = rest.first_chunk::<4>() else { break };
            let head = Head(u32::from_le_bytes(*head));
            let Some((bytes, behind)) = rest.split_at_checked(head.bytes()) else { break };
            let (tsc, extra) = content(head, bytes, last);
            let event = head.event();
            let entry = self.table.entry(event);
            let Some(row) = entry.row else { break };
            if tsc < last || entry.plain >> head.words() & 1 == 0 {
                break;
            }
            rest = behind;
            last = tsc;
            given += 1;
            typed(Raw { kind: entry.kind, row, event, tsc, extra }, to);
        }
        self.rest = rest;
        self.tsc = Some(last);
        self.totals.records += given as u64;
        given
    }
}

/// Stamp (without one of its own, the `last` one) and words of a record.
#[inline(always)]
fn content(head: Head, record: &[u8], last: u64) -> (u64, &[u8]) {
    match head.stamped() {
        true => (stamp(record), record.get(12..).unwrap_or(&[])),
        false => (last, record.get(4..).unwrap_or(&[])),
    }
}

fn at(record: &Record<'_>) -> usize {
    usize::try_from(record.at_bytes).unwrap_or(usize::MAX)
}

/// The stamp of a record that has one.
#[inline]
fn stamp(record: &[u8]) -> u64 {
    match record.get(4..).and_then(|rest| rest.first_chunk()) {
        Some(tsc) => u64::from_le_bytes(*tsc),
        None => 0,
    }
}

impl<'a> Iterator for Stream<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        if self.tsc.is_none() {
            self.tsc = Some(self.first_stamp());
        }
        loop {
            let (head, bytes, at) = self.step()?;
            self.totals.records += 1;
            let last = self.tsc.unwrap_or(0);
            let (tsc, extra) = content(head, bytes, last);
            if tsc < last {
                self.time_back(at, last - tsc);
            }
            self.tsc = Some(tsc);
            let event = head.event();
            let entry = self.table.entry(event);
            let Some(row) = entry.row else {
                self.unknown(at, event);
                continue;
            };
            let record =
                Record { at_bytes: at as u64, tsc, stamped: head.stamped(), event, extra, row };
            if entry.plain >> head.words() & 1 == 0 && !self.not_plain(&record) {
                continue;
            }
            return Some(record);
        }
    }
}

impl Stream<'_> {
    #[cold]
    fn unknown(&mut self, at: usize, event: u32) {
        self.totals.unknown += 1;
        self.complain_once(at, event, What::Unknown { event });
    }

    /// A record with too few or too many words, or about the trace. Is it one to be given out?
    #[cold]
    fn not_plain(&mut self, record: &Record<'_>) -> bool {
        let row = record.row;
        let words = u8::try_from(record.extra.len() / 4).unwrap_or(u8::MAX);
        if words < row.min_words || words > row.max_words {
            let what =
                What::Words { name: row.name, words, min: row.min_words, max: row.max_words };
            // The key is not an event number: those have 28 bits.
            self.complain_once(at(record), row.id | 1 << 31, what);
        }
        !matches!(row.kind, Kind::Wrap | Kind::CpuChange | Kind::Lost)
            || self.about_the_trace(record)
    }
}
