//! Whole files written and read again: metadata, options and pages of any kind.
#![allow(clippy::expect_used, clippy::panic, reason = "test code")]

use proptest::{collection::vec, option::of, prelude::*};
use std::io::{Cursor, Write};
use transect_ftrace::{Endian, PageLayout, encode::PageBuilder};
use transect_tracedat::{
    BufferSpec, Compression, CpuSpec, CpuStat, FileSpec, Guest, Item, Metadata, Options, Piece,
    ShiftSample, TimeShift, TraceDat, Tsc2Nsec,
};

const FORMAT: &str = "name: mark\nID: 7\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:u64 value;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"%llu\", REC->value\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

/// Events of one CPU: distance to the one before, value.
type Marks = Vec<(u64, u64)>;

/// Name, bytes of a sub-buffer, CPUs.
type BufferOf = (String, usize, Vec<(u32, Marks)>);

#[derive(Clone, Debug)]
struct Recording {
    endian: Endian,
    compression: Compression,
    options: Options,
    buffers: Vec<BufferOf>,
}

fn text() -> impl Strategy<Value = String> {
    "[ -~]{0,40}"
}

fn samples() -> impl Strategy<Value = Vec<ShiftSample>> {
    vec((0..1u64 << 62, any::<i64>(), any::<u64>(), 0..64u64), 0..5).prop_map(|list| {
        let mut list: Vec<_> = list
            .into_iter()
            .map(|(time, offset, scaling, fraction)| ShiftSample {
                time,
                offset,
                scaling,
                fraction,
            })
            .collect();
        list.sort_by_key(|sample| sample.time);
        list.dedup_by_key(|sample| sample.time);
        list
    })
}

fn options() -> impl Strategy<Value = Options> {
    let texts = (of(text()), of(text()), of(text()), of(text()), of(text()));
    let lists = (vec(text(), 0..3), vec(text(), 0..3), vec(text(), 0..3));
    let time = of((any::<u64>(), any::<u32>(), vec(samples(), 0..4)));
    let guests = vec((text(), any::<u64>(), vec(any::<(u32, i32)>(), 0..4)), 0..3);
    let numbers = (of(any::<u32>()), of(any::<u64>()), of(any::<(u32, u32, u64)>()));
    (texts, lists, time, guests, numbers).prop_map(|(texts, lists, time, guests, numbers)| {
        Options {
            date: texts.0,
            offset: texts.1,
            trace_clock: texts.2,
            uname: texts.3,
            version: texts.4,
            hooks: lists.0,
            proc_maps: lists.1,
            cpu_stats: lists.2.iter().map(|text| CpuStat::parse(text)).collect(),
            time_shift: time.map(|(peer_trace_id, flags, cpus)| TimeShift {
                peer_trace_id,
                flags,
                cpus,
            }),
            guests: guests
                .into_iter()
                .map(|(name, trace_id, cpus)| Guest { name, trace_id, cpus })
                .collect(),
            cpu_count: numbers.0,
            trace_id: numbers.1,
            tsc2nsec: numbers.2.map(|(mult, shift, offset_ns)| Tsc2Nsec { mult, shift, offset_ns }),
            unknown: Vec::new(),
        }
    })
}

fn recording() -> impl Strategy<Value = Recording> {
    let endian = prop_oneof![Just(Endian::Little), Just(Endian::Big)];
    let compression =
        prop_oneof![Just(Compression::None), Just(Compression::Zlib), Just(Compression::Zstd)];
    let marks = vec((0..1u64 << 30, any::<u64>()), 0..600);
    let page_bytes = prop_oneof![Just(1024usize), Just(4096), Just(16384)];
    let cpus = proptest::collection::btree_map(0..9u32, marks, 0..4)
        .prop_map(|cpus| cpus.into_iter().collect::<Vec<_>>());
    let names = proptest::collection::btree_set("[a-z]{0,3}", 0..4);
    let buffers = names.prop_flat_map(move |names| {
        names
            .into_iter()
            .map(|name| (Just(name), page_bytes.clone(), cpus.clone()))
            .collect::<Vec<_>>()
    });
    (endian, compression, options(), buffers).prop_map(|(endian, compression, options, buffers)| {
        Recording { endian, compression, options, buffers }
    })
}

impl Recording {
    fn layout(&self, page_bytes: usize) -> PageLayout {
        PageLayout { endian: self.endian, ..PageLayout::native(page_bytes) }
    }

    fn pages(&self, page_bytes: usize, marks: &Marks) -> Vec<u8> {
        let (mut ts, mut pages) = (1000, Vec::new());
        let mut builder = PageBuilder::new(self.layout(page_bytes), ts);
        for (delta, value) in marks {
            ts += delta;
            let mut record = self.endian.bytes_u16(7).to_vec();
            record.extend([0; 6]);
            record.extend(self.endian.bytes_u64(*value));
            if !builder.push(ts, &record) {
                let full =
                    std::mem::replace(&mut builder, PageBuilder::new(self.layout(page_bytes), ts));
                pages.extend(full.finish());
                assert!(builder.push(ts, &record));
            }
        }
        if !marks.is_empty() {
            pages.extend(builder.finish());
        }
        pages
    }

    fn spec(&self) -> FileSpec {
        let buffers = self.buffers.iter().map(|(name, page_bytes, cpus)| BufferSpec {
            name: name.clone(),
            clock: "mono".into(),
            page_bytes: u32::try_from(*page_bytes).expect("small"),
            cpus: cpus
                .iter()
                .map(|(cpu, marks)| CpuSpec {
                    cpu: *cpu,
                    size_bytes: self.pages(*page_bytes, marks).len() as u64,
                })
                .collect(),
        });
        FileSpec {
            endian: self.endian,
            long_bytes: 8,
            page_bytes: 4096,
            compression: self.compression,
            metadata: metadata(),
            options: self.options.clone(),
            buffers: buffers.collect(),
        }
    }

    fn data(&self, buffer: usize, cpu: u32) -> Vec<u8> {
        let (_, page_bytes, cpus) = &self.buffers[buffer];
        let marks = cpus.iter().find(|(id, _)| *id == cpu).map(|(_, marks)| marks);
        self.pages(*page_bytes, marks.expect("an announced CPU"))
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        self.spec()
            .write(&mut out, |buffer, cpu| Ok(Cursor::new(self.data(buffer, cpu))))
            .expect("a valid specification");
        out.into_inner()
    }
}

fn metadata() -> Metadata {
    Metadata {
        header_page: HEADER_PAGE.into(),
        header_event: HEADER_EVENT.into(),
        ftrace_events: Vec::new(),
        systems: vec![("odd".into(), vec![FORMAT.into()])],
        kallsyms: b"10 T here\n".to_vec(),
        printk_formats: b"0x20 : \"there\"\n".to_vec(),
        saved_cmdlines: b"5 five\n".to_vec(),
    }
}

/// The marks of one CPU as they are read.
fn read_marks(trace: &TraceDat<'_>, name: &str, cpu: u32) -> Vec<(u64, u64)> {
    let Some(buffer) = trace.buffers().iter().find(|buffer| buffer.name == name) else {
        return Vec::new();
    };
    let Some(mut stream) = trace.stream(buffer, cpu) else { return Vec::new() };
    let mut marks = Vec::new();
    while let Some(item) = stream.next() {
        let Item::Event { ts, payload } = item else { panic!("{item:?}") };
        marks.push((ts.get(), value_of(trace, payload)));
    }
    marks
}

fn value_of(trace: &TraceDat<'_>, payload: &[u8]) -> u64 {
    let values: Vec<_> = trace.events().values(payload).collect();
    values[0].1.and_then(|value| value.as_u64()).expect("a value")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(recording in recording()) {
        let file = recording.write();
        let trace = TraceDat::parse(&file).expect("our own file");
        prop_assert_eq!(trace.problems(), []);
        prop_assert_eq!(trace.options(), &recording.options);
        prop_assert_eq!(trace.header().compression, recording.compression);
        let read = trace.metadata();
        let written = metadata();
        prop_assert_eq!(read.header_page, written.header_page);
        prop_assert_eq!(read.systems, written.systems);
        prop_assert_eq!(read.kallsyms, written.kallsyms);
        prop_assert_eq!(read.printk_formats, written.printk_formats);
        prop_assert_eq!(read.saved_cmdlines, written.saved_cmdlines);
        for (name, page_bytes, cpus) in &recording.buffers {
            let buffer = trace.buffers().iter().find(|buffer| buffer.name == *name);
            prop_assert_eq!(buffer.map(|b| b.layout.page_bytes), Some(*page_bytes));
            for (cpu, marks) in cpus {
                let mut ts = 1000;
                let expected: Vec<_> = marks
                    .iter()
                    .map(|(delta, value)| {
                        ts += delta;
                        (ts, *value)
                    })
                    .collect();
                prop_assert_eq!(read_marks(&trace, name, *cpu), expected);
            }
        }
    }

    /// Putting the pieces of a plan in place gives the file that `write` gives.
    #[test]
    fn the_ends_tell_the_span(recording in recording()) {
        let file = recording.write();
        let trace = TraceDat::parse(&file).expect("ours");
        let mut stamps = Vec::new();
        for buffer in trace.buffers() {
            for cpu in buffer.cpus() {
                stamps.extend(read_marks(&trace, &buffer.name, cpu).into_iter().map(|(ts, _)| ts));
            }
        }
        let all = stamps.iter().min().copied().zip(stamps.iter().max().copied());
        let span = trace.span("mono").map(|(first, last)| (first.get(), last.get()));
        prop_assert_eq!(span, all);
        prop_assert_eq!(trace.span("boot"), None);
    }

    #[test]
    fn a_plan_is_the_file(recording in recording()) {
        let recording = Recording { compression: Compression::None, ..recording };
        let plan = recording.spec().plan().expect("a plan");
        let mut file = vec![0; usize::try_from(plan.file_bytes).expect("small")];
        for piece in &plan.pieces {
            let (offset, bytes) = match piece {
                Piece::Bytes { offset_bytes, bytes } => (*offset_bytes, bytes.clone()),
                Piece::CpuData { offset_bytes, size_bytes, buffer, cpu } => {
                    let page_bytes = recording.buffers[*buffer].1 as u64;
                    prop_assert_eq!(offset_bytes % page_bytes.max(4096), 0);
                    let bytes = recording.data(*buffer, *cpu);
                    prop_assert_eq!(bytes.len() as u64, *size_bytes);
                    (*offset_bytes, bytes)
                }
            };
            let start = usize::try_from(offset).expect("small");
            let mut place = &mut file[start..];
            place.write_all(&bytes).expect("within the planned length");
        }
        prop_assert!(file == recording.write());
    }

    /// Whatever stands where the events are: the description of the file is the same.
    #[test]
    fn ranges_of_events_hold_no_description(recording in recording()) {
        let mut file = recording.write();
        let whole = TraceDat::parse(&file).expect("a readable file");
        let named = |trace: &TraceDat<'_>| {
            trace.buffers().iter().map(|buffer| (buffer.name.clone(), buffer.cpus().collect::<Vec<_>>())).collect::<Vec<_>>()
        };
        let (described, ranges) = (named(&whole), whole.event_ranges());
        for range in ranges {
            let at = |offset: u64| usize::try_from(offset).expect("small").min(file.len());
            let (from, to) = (at(range.start), at(range.end));
            file[from..to].fill(0xa5);
        }
        prop_assert_eq!(named(&TraceDat::parse(&file).expect("an undamaged head")), described);
    }

    /// Damaged pages are left out, and nothing else is missing.
    #[test]
    fn damaged_pages_are_holes(recording in recording(), pages in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut file = recording.write();
        let ranges = TraceDat::parse(&file).expect("a readable file").event_ranges();
        let parts = ranges.iter().flat_map(|range| {
            let starts = range.clone().step_by(1024);
            starts.map(|start| start..(start + 1024).min(range.end))
        });
        let places: Vec<std::ops::Range<u64>> = parts.collect();
        if places.is_empty() {
            return Ok(());
        }
        let mut chosen: Vec<_> = pages.iter().map(|(at, byte)| (at.index(places.len()), *byte)).collect();
        chosen.sort();
        chosen.dedup_by_key(|(place, _)| *place);
        let mut damage: Vec<std::ops::Range<u64>> = Vec::new();
        for (place, byte) in chosen {
            let std::ops::Range { start, end } = places[place].clone();
            let at = |offset: u64| usize::try_from(offset).expect("small").min(file.len());
            let (from, to) = (at(start), at(end));
            file[from..to].fill(byte);
            match damage.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => damage.push(start..end),
            }
        }
        let trace = TraceDat::parse(&file).expect("an undamaged head").with_damage(&damage);
        for (name, _, cpus) in &recording.buffers {
            for (cpu, marks) in cpus {
                let mut ts = 1000;
                let mut left = marks.iter().map(|(delta, value)| {
                    ts += delta;
                    (ts, *value)
                });
                let buffer = trace.buffers().iter().find(|b| b.name == *name).expect("the buffer");
                let Some(mut stream) = trace.stream(buffer, *cpu) else { continue };
                let mut in_hole = false;
                while let Some(item) = stream.next() {
                    match item {
                        Item::Event { ts, payload } => {
                            let given = (ts.get(), value_of(&trace, payload));
                            let skipped = left.by_ref().take_while(|mark| *mark != given).count();
                            prop_assert!(skipped == 0 || in_hole, "{skipped} missing before {given:?}");
                            in_hole = false;
                        }
                        Item::Problem(_) | Item::Lost { .. } => in_hole = true,
                    }
                }
                prop_assert!(left.next().is_none() || in_hole, "missing at the end");
            }
        }
    }

    #[test]
    fn a_cut_file_gives_a_beginning(recording in recording(), part in 0..1000usize) {
        let file = recording.write();
        let cut = &file[..file.len() * part / 1000];
        let Ok(trace) = TraceDat::parse(cut) else { return Ok(()) };
        for (name, _, cpus) in &recording.buffers {
            for (cpu, marks) in cpus {
                let Some(buffer) = trace.buffers().iter().find(|b| b.name == *name) else { continue };
                let Some(mut stream) = trace.stream(buffer, *cpu) else { continue };
                let mut count = 0;
                while let Some(item) = stream.next() {
                    count += usize::from(matches!(item, Item::Event { .. }));
                }
                // Compressed files are numbered in order when the last options are lost.
                if recording.compression == Compression::None {
                    prop_assert!(count <= marks.len());
                }
            }
        }
    }

    #[test]
    fn any_bytes_behind_the_magic_end(bytes in vec(any::<u8>(), 0..3000), version in 6..8u8) {
        let mut file = b"\x17\x08\x44tracing".to_vec();
        file.extend([b'0' + version, 0, 0, 8, 0, 16, 0, 0]);
        file.extend(bytes);
        if let Ok(trace) = TraceDat::parse(&file) {
            for buffer in trace.buffers() {
                for cpu in buffer.cpus() {
                    let mut stream = trace.stream(buffer, cpu).expect("a listed CPU");
                    while stream.next().is_some() {}
                }
            }
        }
    }
}

proptest! {
    /// Whatever stands in a text of tracefs: it becomes a file that can be read, or is refused.
    #[test]
    fn any_text_becomes_a_file_or_is_refused(
        lines in vec("( *[a-z<>.\\-0-9]{1,20}-[0-9]{1,12}|CPU:[0-9]|.{0,9}) ?(\\[[0-9]{1,5}\\]|\\[LOST) [d.]{0,5} {0,2}[0-9.]{0,22}:? (sched_switch|sched_wakeup|x|):? ?[ -~]{0,90}", 0..30),
    ) {
        let text = format!("# tracer: nop\n{}\n", lines.join("\n"));
        if let Ok(made) = transect_tracedat::text::convert(text.as_bytes()) {
            let dat = TraceDat::parse(&made.file).expect("our own file");
            prop_assert!(dat.problems().is_empty(), "{:?}", dat.problems());
            let mut events = 0;
            for buffer in dat.buffers() {
                for cpu in buffer.cpus() {
                    let mut stream = dat.stream(buffer, cpu).expect("a stream");
                    while let Some(item) = stream.next() {
                        prop_assert!(!matches!(item, Item::Problem(_)), "{item:?}");
                        events += u64::from(matches!(item, Item::Event { .. }));
                    }
                }
            }
            prop_assert_eq!(events, made.events);
        }
    }
}
