//! A trace of tracks and events, packet by packet.
//!
//! Field numbers are those of `protos/perfetto/trace/perfetto_trace.proto`, each named where it is
//! written. Names, categories and annotation names are interned: written once, then referred to.

use crate::wire::Message;
use std::collections::HashMap;
use std::io::{self, Write};

/// All packets come from one sequence, so that one set of interned names serves them all.
const SEQUENCE_ID: u64 = 1;
/// `BUILTIN_CLOCK_REALTIME`, `BUILTIN_CLOCK_MONOTONIC` and `BUILTIN_CLOCK_BOOTTIME` of `BuiltinClock`.
const CLOCK_REALTIME: u64 = 1;
const CLOCK_MONOTONIC: u64 = 3;
const CLOCK_BOOTTIME: u64 = 6;
/// `SequenceFlags`.
const SEQ_INCREMENTAL_STATE_CLEARED: u64 = 1;
const SEQ_NEEDS_INCREMENTAL_STATE: u64 = 2;
/// `TrackEvent.Type`.
const TYPE_SLICE_BEGIN: u64 = 1;
const TYPE_SLICE_END: u64 = 2;
const TYPE_INSTANT: u64 = 3;
const TYPE_COUNTER: u64 = 4;
/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`.
const ORDERING_EXPLICIT: u64 = 3;

/// A line of the timeline, or a group of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Track<'a> {
    /// Its number; unique and not 0.
    pub uuid: u64,
    /// The group it belongs to.
    pub parent: Option<u64>,
    /// Its name.
    pub name: &'a str,
    /// What it shows, in a sentence.
    pub description: &'a str,
    /// Its place among its siblings.
    pub rank: u32,
    /// Set for tracks of numbers instead of slices.
    pub counter: Option<CounterUnit>,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Nanoseconds.
    TimeNs,
    /// Things.
    Count,
}

/// What happens on a track at a moment. Begin and end of slices nest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The slice's name; a begin or an instant has one.
    pub name: &'a str,
    /// Its category: the table it comes from.
    pub category: &'static str,
    /// Flows (arrows) that leave here.
    pub flow_out: Option<u64>,
    /// Flows that end here.
    pub flow_in: Option<u64>,
    /// Its other columns.
    pub notes: &'a [(&'static str, Note<'a>)],
}

/// The value of an annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note<'a> {
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// An address, shown in hexadecimal.
    Pointer(u64),
    /// A truth value.
    Bool(bool),
    /// A word; interned.
    Str(&'a str),
}

/// Names seen so far, and those the next packet must introduce.
#[derive(Debug, Default)]
struct Interned {
    ids: HashMap<String, u64>,
    fresh: Vec<(u64, String)>,
}

impl Interned {
    fn id(&mut self, name: &str) -> u64 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.ids.len() as u64 + 1;
        self.ids.insert(name.to_owned(), id);
        self.fresh.push((id, name.to_owned()));
        id
    }

    /// Writes the new entries as repeated field `field` of `InternedData`: iid = 1, name = 2.
    fn introduce(&mut self, data: &mut Message, field: u32) {
        for (id, name) in self.fresh.drain(..) {
            data.message(field, |entry| {
                entry.uint(1, id);
                entry.string(2, &name);
            });
        }
    }
}

/// Writes a trace to `out`.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    packet: Message,
    names: Interned,
    categories: Interned,
    note_names: Interned,
    note_values: Interned,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace. `first_ts_ns` is a moment of it, at which the clocks are stated: Perfetto's
    /// own trace time and the stamps of this trace are one clock.
    ///
    /// # Errors
    /// What `out` refuses; as everywhere here.
    pub fn new(out: W, first_ts_ns: u64) -> io::Result<Self> {
        let mut writer = TraceWriter {
            out,
            packet: Message::default(),
            names: Interned::default(),
            categories: Interned::default(),
            note_names: Interned::default(),
            note_values: Interned::default(),
        };
        writer.clock_snapshot(first_ts_ns, None)?;
        writer.start_sequence()?;
        Ok(writer)
    }

    /// States the wall clock at a moment of the trace, ns since 1970 (UTC). Moments must not run backwards.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn wall_clock(&mut self, ts_ns: u64, unix_ns: u64) -> io::Result<()> {
        self.clock_snapshot(ts_ns, Some(unix_ns))
    }

    /// `ClockSnapshot` (packet field 6): clocks = 1 { clock_id = 1, timestamp = 2 },
    /// primary_trace_clock = 2.
    fn clock_snapshot(&mut self, ts_ns: u64, unix_ns: Option<u64>) -> io::Result<()> {
        let clocks = [(CLOCK_MONOTONIC, Some(ts_ns)), (CLOCK_BOOTTIME, Some(ts_ns))];
        let clocks = clocks.into_iter().chain([(CLOCK_REALTIME, unix_ns)]);
        self.packet.message(6, |snapshot| {
            for (clock, time_ns) in clocks {
                let Some(time_ns) = time_ns else { continue };
                snapshot.message(1, |entry| {
                    entry.uint(1, clock);
                    entry.uint(2, time_ns);
                });
            }
            snapshot.uint(2, CLOCK_MONOTONIC);
        });
        self.finish_packet()
    }

    /// `trace_packet_defaults` = 59 { timestamp_clock_id = 58 }, `sequence_flags` = 13.
    fn start_sequence(&mut self) -> io::Result<()> {
        self.packet.uint(13, SEQ_INCREMENTAL_STATE_CLEARED);
        self.packet.message(59, |defaults| defaults.uint(58, CLOCK_MONOTONIC));
        self.finish_packet()
    }

    /// Declares a track: `track_descriptor` = 60 { uuid = 1, name = 2, parent_uuid = 5,
    /// counter = 8 { unit = 3 }, child_ordering = 11, sibling_order_rank = 12, description = 14 }.
    /// Must come before the track's first event.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        self.packet.message(60, |descriptor| {
            descriptor.uint(1, track.uuid);
            descriptor.string(2, track.name);
            if let Some(parent) = track.parent {
                descriptor.uint(5, parent);
            }
            if let Some(unit) = track.counter {
                let unit = if unit == CounterUnit::TimeNs { 1 } else { 2 };
                descriptor.message(8, |counter| counter.uint(3, unit));
            }
            descriptor.uint(11, ORDERING_EXPLICIT);
            descriptor.uint(12, u64::from(track.rank));
            if !track.description.is_empty() {
                descriptor.string(14, track.description);
            }
        });
        self.finish_packet()
    }

    /// A slice begins.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn begin(&mut self, track: u64, ts_ns: u64, sample: &Sample<'_>) -> io::Result<()> {
        self.named_event(TYPE_SLICE_BEGIN, track, ts_ns, sample)
    }

    /// The innermost open slice of the track ends.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn end(&mut self, track: u64, ts_ns: u64) -> io::Result<()> {
        self.event_packet(ts_ns, |event| {
            event.uint(9, TYPE_SLICE_END);
            event.uint(11, track);
        })
    }

    /// Something happens at a moment.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn instant(&mut self, track: u64, ts_ns: u64, sample: &Sample<'_>) -> io::Result<()> {
        self.named_event(TYPE_INSTANT, track, ts_ns, sample)
    }

    /// A counter has a value from here on: `counter_value` = 30.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn counter(&mut self, track: u64, ts_ns: u64, value: i64) -> io::Result<()> {
        self.event_packet(ts_ns, |event| {
            event.uint(9, TYPE_COUNTER);
            event.uint(11, track);
            event.int(30, value);
        })
    }

    /// `TrackEvent`: category_iids = 3, debug_annotations = 4, type = 9, name_iid = 10,
    /// track_uuid = 11, flow_ids = 47, terminating_flow_ids = 48.
    fn named_event(
        &mut self,
        kind: u64,
        track: u64,
        ts_ns: u64,
        sample: &Sample<'_>,
    ) -> io::Result<()> {
        let name = self.names.id(sample.name);
        let category = self.categories.id(sample.category);
        let mut notes = Message::default();
        for (note, value) in sample.notes {
            self.annotation(&mut notes, note, *value);
        }
        self.introduce();
        self.event_packet(ts_ns, |event| {
            event.uint(3, category);
            event.append(&notes);
            event.uint(9, kind);
            event.uint(10, name);
            event.uint(11, track);
            if let Some(flow) = sample.flow_out {
                event.fixed64(47, flow);
            }
            if let Some(flow) = sample.flow_in {
                event.fixed64(48, flow);
            }
        })
    }

    /// `DebugAnnotation`: name_iid = 1, bool_value = 2, uint_value = 3, int_value = 4,
    /// pointer_value = 7, string_value_iid = 17.
    fn annotation(&mut self, event: &mut Message, name: &str, value: Note<'_>) {
        let name = self.note_names.id(name);
        event.message(4, |note| {
            note.uint(1, name);
            match value {
                Note::Bool(v) => note.bool(2, v),
                Note::Uint(v) => note.uint(3, v),
                Note::Int(v) => note.int(4, v),
                Note::Pointer(v) => note.uint(7, v),
                Note::Str(v) => note.uint(17, self.note_values.id(v)),
            }
        });
    }

    /// `interned_data` = 12 { event_categories = 1, event_names = 2, debug_annotation_names = 3,
    /// debug_annotation_string_values = 29 } with the names the coming event is the first to use.
    fn introduce(&mut self) {
        let fresh = |interned: &Interned| !interned.fresh.is_empty();
        let all = [&self.categories, &self.names, &self.note_names, &self.note_values];
        if !all.into_iter().any(fresh) {
            return;
        }
        self.packet.message(12, |data| {
            self.categories.introduce(data, 1);
            self.names.introduce(data, 2);
            self.note_names.introduce(data, 3);
            self.note_values.introduce(data, 29);
        });
    }

    /// `timestamp` = 8, `track_event` = 11, `sequence_flags` = 13.
    fn event_packet(&mut self, ts_ns: u64, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.packet.uint(8, ts_ns);
        self.packet.message(11, fill);
        self.packet.uint(13, SEQ_NEEDS_INCREMENTAL_STATE);
        self.finish_packet()
    }

    /// `trusted_packet_sequence_id` = 10; then the packet becomes `Trace.packet` = 1.
    fn finish_packet(&mut self) -> io::Result<()> {
        self.packet.uint(10, SEQUENCE_ID);
        let mut length = Message::default();
        length.length_prefix(1, self.packet.as_bytes().len());
        self.out.write_all(length.as_bytes())?;
        self.out.write_all(self.packet.as_bytes())?;
        self.packet.clear();
        Ok(())
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// What the sink refuses.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
