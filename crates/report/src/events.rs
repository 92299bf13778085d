//! `--view events`: every event of every machine, in the order of trace time.
//!
//! The lines are those of `trace-cmd report -R -t` (names and numbers of the fields, stamps in
//! nanoseconds), with the machine in front where there is more than one, so that tools and eyes
//! used to that find their way. Lost events and unreadable places are lines of their own, never
//! silence.

use crate::records::write_json_str;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt::Write as _,
    io::{self, Write},
};
use transect_clock::{ClockError, Converter, Unit};
use transect_compact as compact;
use transect_ftrace::{Names, RawText};
use transect_model::{
    cell::Cell,
    escape::{one_line, terminal},
    event::CoreEvent,
    event_fields::CORE_EVENTS,
    ids::{CpuId, Tid},
    time::{Source as Stamp, Timestamp, Trace},
};
use transect_recording::{Loaded, SourceFile as File};
use transect_store::tables::Range;
use transect_tracedat::{Item, Stream, TraceDat};
use transect_xentrace as xentrace;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line per event, for people and for comparison with trace-cmd.
    Text,
    /// A JSON object per line.
    JsonLines,
    /// Comma-separated, with a header; the fields are one column.
    Csv,
}

/// Which events are written, and how.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// How they are written.
    pub form: Form,
    /// At most so many.
    pub top: Option<usize>,
    /// Those in it.
    pub range: Range,
}

/// Writes the events of the machines that `wanted` accepts.
///
/// # Errors
/// A stream cannot be placed in time, or the output fails.
pub fn write(
    loaded: &Loaded<'_>,
    wanted: impl Fn(&str) -> bool,
    shown: Shown,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Shown { form, top, range } = shown;
    let mut taps = Vec::new();
    let mut texts: Vec<Texts<'_>> =
        loaded.traces.iter().map(|(.., file)| Texts::of(file)).collect();
    for (file, (machine, name, trace)) in loaded.traces.iter().enumerate() {
        if !wanted(name) {
            continue;
        }
        let before = loaded.traces.iter().take(file).filter(|(other, ..)| other == machine);
        let boot = loaded.clocks.boot_of_source(*machine, before.count());
        for (cpu, source) in sources(trace) {
            let converter = loaded.clocks.converter_of_boot(*machine, CpuId(cpu), boot)?;
            taps.push(Tap::new(file, name, cpu, source, converter));
        }
    }
    let mut page = Page {
        form,
        machines: loaded.traces.len(),
        in_ticks: loaded.clocks.unit() == Unit::Ticks,
        line: String::new(),
        out,
    };
    if form == Form::Csv {
        let unit = if page.in_ticks { ",time_unit" } else { "" };
        writeln!(page.out, "ts,machine,cpu,tid,comm,name,fields{unit}")?;
    }
    let mut left = top.unwrap_or(usize::MAX);
    let mut order: BinaryHeap<_> = taps
        .iter_mut()
        .enumerate()
        .filter_map(|(at, tap)| Some(Reverse((tap.advance()?, at))))
        .collect();
    while let Some(Reverse((ts, at))) = order.pop() {
        let Some(tap) = taps.get_mut(at) else { continue };
        if left == 0 || ts.get() >= range.until {
            break;
        }
        let Some(text) = texts.get_mut(tap.file) else { continue };
        if ts.get() >= range.from {
            left -= 1;
            page.write(tap, text)?;
        }
        // Names are also those of events before the range.
        text.learn(tap);
        if let Some(next) = tap.advance() {
            order.push(Reverse((next, at)));
        }
    }
    Ok(())
}

/// Names behind addresses, as far as the file carries them.
fn names(dat: &TraceDat<'_>) -> Names {
    Names::new().with_printk_formats(&dat.printk_formats()).with_kallsyms(&dat.kallsyms())
}

/// What writes the events of one file.
enum Texts<'t> {
    /// By the kernel's own formats.
    Dat(Box<RawText<'t>>),
    /// By the core events' fields, with the names known so far.
    Compact(compact::Names),
    /// Xen's records have none.
    Xen,
}

impl<'t> Texts<'t> {
    fn of(file: &'t File<'_>) -> Self {
        match file {
            File::Dat(dat) => Texts::Dat(Box::new(RawText::new(dat.events(), names(dat)))),
            File::Compact(file) => Texts::Compact(file.names().clone()),
            File::Xen(_) => Texts::Xen,
        }
    }

    /// Writes ` name=value …`.
    fn fields(&mut self, tap: &Tap<'_, '_>, line: &mut String) {
        match (self, &tap.source) {
            (Texts::Dat(text), Source::Dat { record, .. }) => text.fields(record, line),
            (Texts::Compact(_), Source::Compact { event: Some(event), .. }) => {
                event.each_field(&mut |name, cell| write_field(name, &cell, line));
            }
            (Texts::Xen, Source::Xen { record: Some(record), .. }) => {
                for (field, value) in record.fields() {
                    let _ = write!(line, " {}={}", field.name, field.show(value));
                }
            }
            _ => {}
        }
    }

    fn comm(&self, tap: &Tap<'_, '_>, tid: Tid) -> String {
        let known = match (self, &tap.source) {
            (Texts::Compact(names), _) => names.of(tid),
            (_, Source::Dat { dat, .. }) => dat.comm(tid),
            _ => None,
        };
        match known {
            Some(comm) if !comm.as_bytes().is_empty() => comm.to_str().into_owned(),
            _ if matches!(self, Texts::Xen) => "xen".to_owned(),
            _ if tid.is_idle() => "<idle>".to_owned(),
            _ => "<...>".to_owned(),
        }
    }

    /// Learns the names an event tells, once it has been written.
    fn learn(&mut self, tap: &Tap<'_, '_>) {
        if let (Texts::Compact(names), Source::Compact { event: Some(event), .. }) =
            (self, &tap.source)
        {
            names.learn(event);
        }
    }
}

/// What is not told is left out.
fn write_field(name: &str, cell: &Cell<'_>, line: &mut String) {
    let _ = match cell {
        Cell::Null => return,
        Cell::Bool(value) => write!(line, " {name}={}", u8::from(*value)),
        Cell::I64(value) => write!(line, " {name}={value}"),
        Cell::U64(value) if *value > 0xffff_ffff => write!(line, " {name}=0x{value:x}"),
        Cell::U64(value) => write!(line, " {name}={value}"),
        Cell::F64(value) => write!(line, " {name}={value}"),
        Cell::Str(value) => write!(line, " {name}={value}"),
    };
}

/// The streams of a file, with their CPUs.
fn sources<'t, 'd>(file: &'t File<'d>) -> Vec<(u32, Source<'t, 'd>)> {
    match file {
        File::Dat(dat) => {
            let mut all = Vec::new();
            for buffer in dat.buffers() {
                let streams = buffer.cpus().filter_map(|cpu| Some((cpu, dat.stream(buffer, cpu)?)));
                all.extend(streams.map(|(cpu, stream)| {
                    (cpu, Source::Dat { dat, stream: Box::new(stream), record: Vec::new() })
                }));
            }
            all
        }
        File::Compact(file) => file
            .cpus()
            .filter_map(|cpu| Some((cpu, file.stream(cpu)?)))
            .map(|(cpu, stream)| {
                (cpu.0, Source::Compact { stream: Box::new(stream), tid: Tid::IDLE, event: None })
            })
            .collect(),
        File::Xen(file) => file
            .cpus()
            .map(|cpu| (cpu.0, Source::Xen { stream: Box::new(file.stream(cpu)), record: None }))
            .collect(),
    }
}

/// What a stream gives next.
enum Head {
    Event,
    Lost(Option<u64>),
    Problem(String),
}

/// One stream and the event it gave last. Records borrow from the stream, so one waits as a copy.
enum Source<'t, 'd> {
    Dat { dat: &'t TraceDat<'d>, stream: Box<Stream<'d>>, record: Vec<u8> },
    Compact { stream: Box<compact::Stream<'t>>, tid: Tid, event: Option<CoreEvent> },
    Xen { stream: Box<xentrace::Stream<'t>>, record: Option<xentrace::Record<'t>> },
}

impl Source<'_, '_> {
    /// The next item, and its stamp if it has one; none at the end.
    fn next(&mut self) -> Option<(Head, Option<Timestamp<Stamp>>)> {
        match self {
            Source::Dat { stream, record, .. } => Some(match stream.next()? {
                Item::Event { ts, payload } => {
                    record.clear();
                    record.extend_from_slice(payload);
                    (Head::Event, Some(ts))
                }
                Item::Lost { count, before } => (Head::Lost(count), Some(before)),
                Item::Problem(problem) => (Head::Problem(problem.to_string()), None),
            }),
            Source::Compact { stream, tid, event } => Some(match stream.next()? {
                compact::Item::Event { ts, tid: current, event: next } => {
                    (*tid, *event) = (current, Some(next));
                    (Head::Event, Some(ts))
                }
                compact::Item::Lost(lost) => {
                    (Head::Lost(lost.count), lost.span.map(|(_, last)| last))
                }
                compact::Item::Problem(problem) => (Head::Problem(problem.to_string()), None),
            }),
            Source::Xen { stream, record } => {
                let next = stream.next()?;
                *record = Some(next);
                let head = match next.typed() {
                    xentrace::XenEvent::Lost(lost) => Head::Lost(Some(lost.count.into())),
                    _ => Head::Event,
                };
                Some((head, Some(Timestamp::new(next.tsc))))
            }
        }
    }
}

/// One stream and its next item.
struct Tap<'t, 'd> {
    file: usize,
    machine: &'t str,
    cpu: u32,
    source: Source<'t, 'd>,
    converter: Converter,
    ts: Timestamp<Trace>,
    head: Head,
}

impl<'t, 'd> Tap<'t, 'd> {
    fn new(
        file: usize,
        machine: &'t str,
        cpu: u32,
        source: Source<'t, 'd>,
        converter: Converter,
    ) -> Self {
        Tap { file, machine, cpu, source, converter, ts: Timestamp::MIN, head: Head::Event }
    }

    /// Takes the next item; its time, or none at the end. What has no stamp of its own (an
    /// unreadable place) comes at the time of the item before it.
    fn advance(&mut self) -> Option<Timestamp<Trace>> {
        let (head, stamp) = self.source.next()?;
        self.head = head;
        match stamp.map(|stamp| self.converter.follow(stamp)) {
            Some(Ok(ts)) => self.ts = ts,
            Some(Err(error)) => self.head = Head::Problem(unplaced(&error)),
            None => {}
        }
        Some(self.ts)
    }

    fn tid(&self) -> Tid {
        match &self.source {
            Source::Dat { dat, record, .. } => dat.events().tid_of(record).unwrap_or(Tid::IDLE),
            Source::Compact { tid, .. } => *tid,
            Source::Xen { .. } => Tid::IDLE,
        }
    }

    fn event_name(&self) -> String {
        match &self.source {
            Source::Dat { dat, record, .. } => dat_event_name(dat, record),
            Source::Compact { event, .. } => {
                let doc = event.and_then(|event| CORE_EVENTS.get(event.kind()));
                doc.map_or("[unknown event]", |doc| doc.name).to_owned()
            }
            Source::Xen { record, .. } => {
                record.map_or("[unknown event]", |record| record.name()).to_owned()
            }
        }
    }
}

fn unplaced(error: &ClockError) -> String {
    format!("an event cannot be placed in time: {error}")
}

/// Where lines go.
struct Page<'o> {
    form: Form,
    machines: usize,
    /// Nobody told how long a tick is, so there are no seconds to print.
    in_ticks: bool,
    line: String,
    out: &'o mut dyn Write,
}

impl Page<'_> {
    fn write(&mut self, tap: &Tap<'_, '_>, text: &mut Texts<'_>) -> io::Result<()> {
        self.line.clear();
        match (&tap.head, self.form) {
            (Head::Event, Form::Text) => self.text(tap, text),
            (Head::Event, Form::JsonLines) => return self.json(tap, text),
            (Head::Event, Form::Csv) => return self.csv(tap, text),
            (Head::Lost(count), form) => {
                let count = count.map_or("an unknown number of".to_owned(), |c| c.to_string());
                let (machine, cpu, ts) = (tap.machine, tap.cpu, tap.ts);
                let what = format!("CPU {cpu}: {count} events lost before {ts}");
                return self.remark(form, machine, &what);
            }
            (Head::Problem(problem), form) => {
                let problem = problem.clone();
                return self.remark(form, tap.machine, &problem);
            }
        }
        writeln!(self.out, "{}", one_line(&self.line))
    }

    fn stamp(&self, ts: Timestamp<Trace>) -> String {
        let ts = ts.get();
        if self.in_ticks {
            return format!("{ts:>15}");
        }
        format!("{:>5}.{:09}", ts.div_euclid(1_000_000_000), ts.rem_euclid(1_000_000_000))
    }

    /// `machine: comm-tid [cpu] seconds.nanoseconds: name: field=value …`; a whole number of ticks instead
    /// of the seconds if their length is unknown, as in trace-cmd.
    fn text(&mut self, tap: &Tap<'_, '_>, text: &mut Texts<'_>) {
        let tid = tap.tid();
        let comm = text.comm(tap, tid);
        let comm = terminal(&comm);
        if self.machines > 1 {
            let _ = write!(self.line, "{:>10}: ", terminal(tap.machine));
        }
        let name = tap.event_name();
        let stamp = self.stamp(tap.ts);
        let _ = write!(
            self.line,
            "{comm:>16}-{:<7} [{:03}] {}: {:<20}",
            tid.0,
            tap.cpu,
            stamp,
            format!("{name}:"),
        );
        text.fields(tap, &mut self.line);
    }

    fn json(&mut self, tap: &Tap<'_, '_>, text: &mut Texts<'_>) -> io::Result<()> {
        let tid = tap.tid();
        write!(self.out, "{{\"ts\":{}", tap.ts)?;
        if self.in_ticks {
            self.out.write_all(b",\"time_unit\":\"ticks\"")?;
        }
        self.out.write_all(b",\"machine\":")?;
        write_json_str(self.out, tap.machine)?;
        write!(self.out, ",\"cpu\":{},\"tid\":{tid},\"comm\":", tap.cpu)?;
        write_json_str(self.out, &text.comm(tap, tid))?;
        self.out.write_all(b",\"name\":")?;
        write_json_str(self.out, &tap.event_name())?;
        self.out.write_all(b",\"fields\":")?;
        text.fields(tap, &mut self.line);
        write_json_str(self.out, self.line.trim_start())?;
        self.out.write_all(b"}\n")
    }

    fn csv(&mut self, tap: &Tap<'_, '_>, text: &mut Texts<'_>) -> io::Result<()> {
        let tid = tap.tid();
        text.fields(tap, &mut self.line);
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let unit = if self.in_ticks { ",ticks" } else { "" };
        writeln!(
            self.out,
            "{},{},{},{tid},{},{},{}{unit}",
            tap.ts,
            quoted(tap.machine),
            tap.cpu,
            quoted(&text.comm(tap, tid)),
            quoted(&tap.event_name()),
            quoted(self.line.trim_start()),
        )
    }

    fn remark(&mut self, form: Form, machine: &str, what: &str) -> io::Result<()> {
        match form {
            Form::Text => writeln!(self.out, "{}: {}", terminal(machine), one_line(what)),
            Form::JsonLines => {
                self.out.write_all(b"{\"machine\":")?;
                write_json_str(self.out, machine)?;
                self.out.write_all(b",\"missing\":")?;
                write_json_str(self.out, what)?;
                self.out.write_all(b"}\n")
            }
            // A table has no place for remarks; they must not pass as nothing either.
            Form::Csv => {
                let quoted = format!("\"{}\"", what.replace('"', "\"\""));
                let unit = if self.in_ticks { ",ticks" } else { "" };
                let machine = machine.replace('"', "\"\"");
                writeln!(self.out, ",\"{machine}\",,,,missing,{quoted}{unit}")
            }
        }
    }
}

fn dat_event_name(dat: &TraceDat<'_>, record: &[u8]) -> String {
    match dat.events().event_of(record) {
        Some(event) => event.name.to_string(),
        None => match dat.events().id_of(record) {
            Some(id) => format!("[unknown event {id}]"),
            None => "[unknown event]".to_owned(),
        },
    }
}
