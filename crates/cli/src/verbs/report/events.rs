//! `--view events`: every event of every machine, in the order of trace time.
//!
//! The lines are those of `trace-cmd report -R -t` (names and numbers of the fields, stamps in
//! nanoseconds), with the machine in front where there is more than one, so that tools and eyes
//! used to that find their way. Lost events and unreadable places are lines of their own, never
//! silence.

use crate::{records::write_json_str, verbs::load::Loaded};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt::Write as _,
    io::{self, Write},
};
use transect_clock::{ClockError, Converter, Unit};
use transect_ftrace::{EventTable, Names, RawText};
use transect_model::{
    ids::{CpuId, Tid},
    time::{Timestamp, Trace},
};
use transect_tracedat::{Item, Stream, TraceDat};

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line per event, for people and for comparison with trace-cmd.
    Text,
    /// A JSON object per line.
    JsonLines,
    /// Comma-separated, with a header; the fields are one column.
    Csv,
}

/// Writes the events of the machines that `wanted` accepts, at most `top` of them.
pub(super) fn write(
    loaded: &Loaded<'_>,
    wanted: impl Fn(&str) -> bool,
    form: Form,
    top: Option<usize>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut taps = Vec::new();
    let mut texts: Vec<RawText<'_>> =
        loaded.traces.iter().map(|(_, _, dat)| RawText::new(dat.events(), names(dat))).collect();
    for (file, (machine, name, dat)) in loaded.traces.iter().enumerate() {
        if !wanted(name) {
            continue;
        }
        for buffer in dat.buffers() {
            for cpu in buffer.cpus() {
                let converter = loaded.clocks.converter(*machine, CpuId(cpu))?;
                let Some(stream) = dat.stream(buffer, cpu) else { continue };
                taps.push(Tap::new(file, name, dat, cpu, stream, converter));
            }
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
        writeln!(page.out, "ts,machine,cpu,tid,comm,name,fields")?;
    }
    let mut left = top.unwrap_or(usize::MAX);
    let mut order: BinaryHeap<_> = taps
        .iter_mut()
        .enumerate()
        .filter_map(|(at, tap)| Some(Reverse((tap.advance()?, at))))
        .collect();
    while let Some(Reverse((_, at))) = order.pop() {
        let Some(tap) = taps.get_mut(at) else { continue };
        if left == 0 {
            break;
        }
        left -= 1;
        let Some(text) = texts.get_mut(tap.file) else { continue };
        page.write(tap, text)?;
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

/// What a stream gives next.
enum Head {
    Event,
    Lost(Option<u64>),
    Problem(String),
}

/// One stream and its next item. Items borrow from the stream, so a record waits as a copy.
struct Tap<'t, 'd> {
    file: usize,
    machine: &'t str,
    dat: &'t TraceDat<'d>,
    cpu: u32,
    stream: Stream<'d>,
    converter: Converter,
    ts: Timestamp<Trace>,
    head: Head,
    record: Vec<u8>,
}

impl<'t, 'd> Tap<'t, 'd> {
    fn new(
        file: usize,
        machine: &'t str,
        dat: &'t TraceDat<'d>,
        cpu: u32,
        stream: Stream<'d>,
        converter: Converter,
    ) -> Self {
        Tap {
            file,
            machine,
            dat,
            cpu,
            stream,
            converter,
            ts: Timestamp::MIN,
            head: Head::Event,
            record: Vec::new(),
        }
    }

    /// Takes the next item; its time, or none at the end. What has no stamp of its own (an
    /// unreadable place) comes at the time of the item before it.
    fn advance(&mut self) -> Option<Timestamp<Trace>> {
        let stamp = match self.stream.next()? {
            Item::Event { ts, payload } => {
                self.record.clear();
                self.record.extend_from_slice(payload);
                self.head = Head::Event;
                Some(self.converter.follow(ts))
            }
            Item::Lost { count, before } => {
                self.head = Head::Lost(count);
                Some(self.converter.follow(before))
            }
            Item::Problem(problem) => {
                self.head = Head::Problem(problem.to_string());
                None
            }
        };
        match stamp {
            Some(Ok(ts)) => self.ts = ts,
            Some(Err(error)) => self.head = Head::Problem(unplaced(&error)),
            None => {}
        }
        Some(self.ts)
    }

    fn events(&self) -> &'t EventTable {
        self.dat.events()
    }

    fn tid(&self) -> Tid {
        self.events().tid_of(&self.record).unwrap_or(Tid::IDLE)
    }

    fn comm(&self, tid: Tid) -> String {
        match self.dat.comm(tid) {
            Some(comm) => comm.to_str().into_owned(),
            None if tid.is_idle() => "<idle>".to_owned(),
            None => "<...>".to_owned(),
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
    fn write(&mut self, tap: &Tap<'_, '_>, text: &mut RawText<'_>) -> io::Result<()> {
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
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn stamp(&self, ts: Timestamp<Trace>) -> String {
        let ts = ts.get();
        if self.in_ticks {
            return format!("{ts:>15}");
        }
        format!("{:>5}.{:09}", ts.div_euclid(1_000_000_000), ts.rem_euclid(1_000_000_000))
    }

    /// `machine: comm-tid [cpu] seconds.nanoseconds: name: field=value …`
    fn text(&mut self, tap: &Tap<'_, '_>, text: &mut RawText<'_>) {
        let tid = tap.tid();
        let comm = tap.comm(tid);
        if self.machines > 1 {
            let _ = write!(self.line, "{:>10}: ", tap.machine);
        }
        let name = event_name(tap);
        let stamp = self.stamp(tap.ts);
        let _ = write!(
            self.line,
            "{comm:>16}-{:<7} [{:03}] {}: {:<20}",
            tid.0,
            tap.cpu,
            stamp,
            format!("{name}:"),
        );
        text.fields(&tap.record, &mut self.line);
    }

    fn json(&mut self, tap: &Tap<'_, '_>, text: &mut RawText<'_>) -> io::Result<()> {
        let tid = tap.tid();
        write!(self.out, "{{\"ts\":{},\"machine\":", tap.ts)?;
        write_json_str(self.out, tap.machine)?;
        write!(self.out, ",\"cpu\":{},\"tid\":{tid},\"comm\":", tap.cpu)?;
        write_json_str(self.out, &tap.comm(tid))?;
        self.out.write_all(b",\"name\":")?;
        write_json_str(self.out, &event_name(tap))?;
        self.out.write_all(b",\"fields\":")?;
        text.fields(&tap.record, &mut self.line);
        write_json_str(self.out, self.line.trim_start())?;
        self.out.write_all(b"}\n")
    }

    fn csv(&mut self, tap: &Tap<'_, '_>, text: &mut RawText<'_>) -> io::Result<()> {
        let tid = tap.tid();
        text.fields(&tap.record, &mut self.line);
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        writeln!(
            self.out,
            "{},{},{},{tid},{},{},{}",
            tap.ts,
            quoted(tap.machine),
            tap.cpu,
            quoted(&tap.comm(tid)),
            quoted(&event_name(tap)),
            quoted(self.line.trim_start()),
        )
    }

    fn remark(&mut self, form: Form, machine: &str, what: &str) -> io::Result<()> {
        match form {
            Form::Text => writeln!(self.out, "{machine}: {what}"),
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
                writeln!(self.out, ",\"{machine}\",,,,missing,{quoted}")
            }
        }
    }
}

fn event_name(tap: &Tap<'_, '_>) -> String {
    match tap.events().event_of(&tap.record) {
        Some(event) => event.name.to_string(),
        None => match tap.events().id_of(&tap.record) {
            Some(id) => format!("[unknown event {id}]"),
            None => "[unknown event]".to_owned(),
        },
    }
}
