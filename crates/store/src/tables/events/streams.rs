//! Reading the sources' streams in the order of time.

use super::EventsWriter;
use super::buffer::{Event, What};
use super::kinds;
use super::schema::{Schema, XenSlots};
use crate::error::StoreError;
use crate::tables::written::Written;
use std::path::Path;
use transect_clock::{ClockGraph, Converter};
use transect_compact::Compact;
use transect_ftrace::EventTable;
use transect_model::event::CoreEvent;
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_model::time::{Source, Timestamp};
use transect_tracedat::{Item, TraceDat};
use transect_xentrace::{Record, XenTrace};

/// One source of a recording and the machine whose events it holds.
pub struct EventSource<'t, 'd> {
    /// The machine.
    pub machine: MachineId,
    /// Its events.
    pub events: SourceEvents<'t, 'd>,
}

/// A parsed source.
pub enum SourceEvents<'t, 'd> {
    /// A trace.dat.
    Dat(&'t TraceDat<'d>),
    /// A compact file.
    Compact(&'t Compact<'d>),
    /// What xentrace wrote.
    Xen(&'t XenTrace<'d>),
}

/// Compact events decoded at a time: a few dozen KiB.
const BATCH_EVENTS: usize = 512;
/// An event number and the most words a record of Xen can have.
const XEN_RECORD_BYTES: usize = 32;
/// Events between two calls of `progress`.
const PROGRESS_EVENTS: u64 = 1 << 18;

/// Writes every event of `sources` below the folder `tables`, in trace time. Rows of each event,
/// as `events/NAME`, and the checksums of all files. `progress` hears now and then how many there were
/// so far.
///
/// Events whose stamps cannot be converted, or whose format the source does not have, are left
/// out, as they are by the state machines (the import log has them).
///
/// # Errors
/// A file cannot be written.
pub fn write_events(
    tables: &Path,
    sources: &[EventSource<'_, '_>],
    clocks: &ClockGraph,
    mut progress: impl FnMut(u64),
) -> Result<Written, StoreError> {
    let mut schema = Schema::default();
    let mut streams = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let number = u16::try_from(at).unwrap_or(u16::MAX);
        streams.extend(source.streams(number, clocks, &mut schema));
    }
    let mut writer = EventsWriter::new(tables, schema);
    streams.iter_mut().for_each(Stream::turn);
    let mut told = 0;
    // Few streams, and runs of events between two turns: a scan is as good as a heap.
    while let Some((at, until)) = next(&streams) {
        streams[at].advance(until, &mut writer);
        if writer.written - told >= PROGRESS_EVENTS {
            told = writer.written;
            progress(told);
            if writer.pool.has_failed() {
                break;
            }
        }
    }
    writer.finish()
}

/// The stream with the earliest event, and the stamp of the earliest of the others.
fn next(streams: &[Stream<'_>]) -> Option<(usize, i64)> {
    let mut first: Option<(i64, usize)> = None;
    let mut second = i64::MAX;
    for (at, stream) in streams.iter().enumerate() {
        let Some(ts) = stream.head else { continue };
        match first {
            Some((best, _)) if ts >= best => second = second.min(ts),
            _ => {
                second = first.map_or(i64::MAX, |(best, _)| best);
                first = Some((ts, at));
            }
        }
    }
    first.map(|(_, at)| (at, second))
}

impl<'t, 'd> EventSource<'t, 'd> {
    fn streams(&self, number: u16, clocks: &ClockGraph, schema: &mut Schema) -> Vec<Stream<'t>> {
        let clock = clocks.clock(self.machine);
        let mut streams = Vec::new();
        let mut add = |cpu, slots: &[u32], input| {
            if let Ok(converter) = clocks.converter(self.machine, CpuId(cpu)) {
                streams.push(Stream {
                    machine: self.machine.0,
                    cpu,
                    source: number,
                    slots: slots.to_vec(),
                    clock: converter,
                    head: None,
                    input,
                });
            }
        };
        match &self.events {
            SourceEvents::Dat(dat) => {
                let slots = schema.add_formats(number, dat.events());
                let same = |name: &str| name.is_empty() || name == clock;
                for buffer in dat.buffers().iter().filter(|buffer| same(&buffer.clock)) {
                    for cpu in buffer.cpus() {
                        let Some(stream) = dat.stream(buffer, cpu) else { continue };
                        let formats = dat.events();
                        add(cpu, &slots, Input::Dat { formats, stream, ahead: Vec::new() });
                    }
                }
            }
            SourceEvents::Compact(file) if file.header().clock == clock => {
                let slots = schema.add_core(number);
                for cpu in file.cpus() {
                    let Some(stream) = file.stream(cpu) else { continue };
                    add(cpu.0, &slots, Input::Compact { stream, batch: Batch::default() });
                }
            }
            SourceEvents::Compact(_) => {}
            SourceEvents::Xen(file) => {
                let slots = schema.add_xen(number, file.table());
                for cpu in file.cpus() {
                    let stream = file.stream(cpu);
                    add(cpu.0, &[], Input::Xen { stream, slots: slots.clone(), ahead: None });
                }
            }
        }
        streams
    }
}

/// One CPU's events on their way out.
struct Stream<'t> {
    machine: u32,
    cpu: u32,
    source: u16,
    /// Where each event goes, by its number in the source.
    slots: Vec<u32>,
    clock: Converter,
    /// Stamp of the event that comes next; none at the end.
    head: Option<i64>,
    input: Input<'t>,
}

#[expect(clippy::large_enum_variant, reason = "there are as many as CPUs")]
enum Input<'t> {
    Dat {
        formats: &'t EventTable,
        stream: transect_tracedat::Stream<'t>,
        /// The record that comes next: it lay in a page that may have been turned.
        ahead: Vec<u8>,
    },
    Compact {
        stream: transect_compact::Stream<'t>,
        batch: Batch,
    },
    Xen {
        stream: transect_xentrace::Stream<'t>,
        slots: XenSlots,
        /// The record that comes next.
        ahead: Option<Record<'t>>,
    },
}

impl Stream<'_> {
    /// Goes to the first event.
    fn turn(&mut self) {
        match &mut self.input {
            Input::Dat { stream, ahead, .. } => {
                let head = &mut self.head;
                each_record(stream, &mut self.clock, |ts, payload| {
                    *head = Some(ts);
                    ahead.extend_from_slice(payload);
                    false
                });
            }
            Input::Compact { stream, batch } => self.head = batch.head(stream, &mut self.clock),
            Input::Xen { stream, ahead, .. } => {
                self.head = next_record(stream, ahead, &mut self.clock);
            }
        }
    }

    /// Hands out the events up to the stamp `until`, the first in any case.
    fn advance(&mut self, until: i64, writer: &mut EventsWriter) {
        let Some(mut ts) = self.head.take() else { return };
        let (machine, cpu, source) = (self.machine, self.cpu, self.source);
        let slots = &self.slots;
        match &mut self.input {
            Input::Dat { formats, stream, ahead } => {
                let mut push = |ts, payload: &[u8]| {
                    let id = formats.id_of(payload).unwrap_or(u16::MAX);
                    let slot = slots.get(usize::from(id)).copied().unwrap_or(u32::MAX);
                    let tid = formats.tid_of(payload).unwrap_or(Tid::IDLE).0;
                    let what = What::Record(payload);
                    writer.push(slot, Event { ts, machine, cpu, tid, source, what });
                };
                push(ts, ahead);
                let head = &mut self.head;
                let mut stopped = None;
                each_record(stream, &mut self.clock, |ts, payload| {
                    if ts <= until {
                        push(ts, payload);
                        return true;
                    }
                    *head = Some(ts);
                    stopped = Some(payload.to_vec());
                    false
                });
                *ahead = stopped.unwrap_or_default();
            }
            Input::Compact { stream, batch } => loop {
                if let Some((_, Tid(tid), event)) = batch.take() {
                    let slot = kinds::number(&event).and_then(|at| slots.get(at)).copied();
                    let what = What::Core(event);
                    let event = Event { ts, machine, cpu, tid, source, what };
                    writer.push(slot.unwrap_or(u32::MAX), event);
                }
                match batch.head(stream, &mut self.clock) {
                    Some(next) if next <= until => ts = next,
                    head => {
                        self.head = head;
                        return;
                    }
                }
            },
            Input::Xen { stream, slots, ahead } => {
                while let Some(record) = ahead {
                    let mut bytes = [0; XEN_RECORD_BYTES];
                    let what = What::Record(payload(record, &mut bytes));
                    let slot = slots.of(record.row);
                    writer.push(slot, Event { ts, machine, cpu, tid: 0, source, what });
                    match next_record(stream, ahead, &mut self.clock) {
                        Some(next) if next <= until => ts = next,
                        head => {
                            self.head = head;
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Takes the next record whose stamp can be converted; gives its stamp.
#[inline]
fn next_record<'t>(
    stream: &mut transect_xentrace::Stream<'t>,
    ahead: &mut Option<Record<'t>>,
    clock: &mut Converter,
) -> Option<i64> {
    for record in stream {
        if let Ok(ts) = clock.follow(Timestamp::<Source>::new(record.tsc)) {
            *ahead = Some(record);
            return Some(ts.get());
        }
    }
    *ahead = None;
    None
}

/// Event number and words of a record, one behind the other.
#[inline]
fn payload<'b>(record: &Record<'_>, bytes: &'b mut [u8; XEN_RECORD_BYTES]) -> &'b [u8] {
    let used = 4 + record.extra.len().min(XEN_RECORD_BYTES - 4);
    bytes[..4].copy_from_slice(&record.event.to_le_bytes());
    bytes[4..used].copy_from_slice(&record.extra[..used - 4]);
    &bytes[..used]
}

/// Calls `take` with each record whose stamp can be converted, until it says false. Holes and
/// problems are the import log's.
#[inline]
fn each_record(
    stream: &mut transect_tracedat::Stream<'_>,
    clock: &mut Converter,
    mut take: impl FnMut(i64, &[u8]) -> bool,
) {
    while let Some(item) = stream.next() {
        if let Item::Event { ts, payload } = item
            && let Ok(ts) = clock.follow(ts)
            && !take(ts.get(), payload)
        {
            return;
        }
    }
}

/// Compact events, decoded some at a time.
#[derive(Default)]
struct Batch {
    events: Vec<(Timestamp<Source>, Tid, CoreEvent)>,
    at: usize,
}

impl transect_compact::Sink for Batch {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        self.events.push((ts, tid, event));
    }

    fn lost(&mut self, _: transect_compact::Lost) {}

    fn problem(&mut self, _: transect_compact::Problem) {}
}

impl Batch {
    /// Stamp of the next event; decodes more if there is none.
    #[inline]
    fn head(
        &mut self,
        stream: &mut transect_compact::Stream<'_>,
        clock: &mut Converter,
    ) -> Option<i64> {
        loop {
            while let Some((ts, ..)) = self.events.get(self.at) {
                if let Ok(ts) = clock.follow(*ts) {
                    return Some(ts.get());
                }
                self.at += 1;
            }
            self.events.clear();
            self.at = 0;
            if !stream.fill(self, BATCH_EVENTS) && self.events.is_empty() {
                return None;
            }
        }
    }

    #[inline]
    fn take(&mut self) -> Option<(Timestamp<Source>, Tid, CoreEvent)> {
        let event = self.events.get(self.at).copied();
        self.at += 1;
        event
    }
}
