//! Version 6: everything in one fixed order, data offsets at the end of the metadata.

use super::{
    buffer::{Buffer, BufferOption, CpuData},
    cursor::{Cursor, Cut},
    metadata,
    option::{self, bracketed},
    parts::{Parts, Text},
};
use crate::{
    problem::{Error, Place},
    timing::Timing,
};
use transect_ftrace::PageLayout;

/// More CPUs than any kernel supports (`NR_CPUS` ≤ 8192 on x86).
const MAX_CPUS: u32 = 1 << 16;

pub(super) fn read(file: &[u8], mut cursor: Cursor<'_>, parts: &mut Parts) -> Result<(), Error> {
    let at_bytes = cursor.offset();
    match metadata::header_info(&mut cursor, &mut parts.raw) {
        Ok(Ok(layout)) => parts.set_layout(layout),
        Ok(Err(err)) => {
            let place = Place::Section("HEADER_INFO");
            return Err(Error::Layout { at_bytes, place, what: err.to_string() });
        }
        Err(cut) => {
            parts.cut(cut, Place::Section("HEADER_INFO"));
            return Ok(());
        }
    }
    if let Err((cut, place)) = read_rest(file, &mut cursor, parts)? {
        parts.cut(cut, place);
    }
    Ok(())
}

/// Attaches the place to a cut.
trait At<T> {
    fn at(self, name: &'static str) -> Result<T, (Cut, Place)>;
}

impl<T> At<T> for Result<T, Cut> {
    fn at(self, name: &'static str) -> Result<T, (Cut, Place)> {
        self.map_err(|cut| (cut, Place::Section(name)))
    }
}

type CutAt = (Cut, Place);

fn read_rest(
    file: &[u8],
    cursor: &mut Cursor<'_>,
    parts: &mut Parts,
) -> Result<Result<(), CutAt>, Error> {
    let cpus = match read_metadata(cursor, parts) {
        Ok(cpus) => cpus,
        Err(cut) => return Ok(Err(cut)),
    };
    let flavour = match read_flavour(cursor, parts) {
        Ok(flavour) => flavour,
        Err(cut) => return Ok(Err(cut)),
    };
    match flavour {
        [b'f', b'l', b'y', ..] => {}
        [b'l', b'a', b't', ..] => {
            return Err(Error::Latency { at_bytes: cursor.offset() - 10 });
        }
        other => {
            return Err(Error::Layout {
                at_bytes: cursor.offset() - 10,
                place: Place::Section("OPTIONS"),
                what: format!(
                    "expected \"options\", \"flyrecord\" or \"latency\", found {:?}",
                    String::from_utf8_lossy(&other)
                ),
            });
        }
    }
    let cpus = parts.options.cpu_count.unwrap_or(cpus);
    if cpus > MAX_CPUS {
        return Err(Error::Layout {
            at_bytes: cursor.offset(),
            place: Place::Section("OPTIONS"),
            what: format!("invalid number of CPUs {cpus}"),
        });
    }
    let top = BufferOption::default();
    let result = read_buffer(cursor, cpus, top, parts);
    for instance in std::mem::take(&mut parts.buffer_options) {
        read_instance(file, cpus, instance, parts);
    }
    Ok(result)
}

/// From the ftrace events to the CPU count.
fn read_metadata(cursor: &mut Cursor<'_>, parts: &mut Parts) -> Result<u32, CutAt> {
    let Parts { events, problems, raw, .. } = parts;
    metadata::ftrace_events(cursor, events, raw, problems).at("FTRACE_EVENTS")?;
    metadata::event_formats(cursor, events, raw, problems).at("EVENT_FORMATS")?;
    parts.kallsyms = plain_text(cursor, "kallsyms").at("KALLSYMS")?;
    parts.printk = plain_text(cursor, "printk formats").at("PRINTK")?;
    parts.comms = metadata::command_lines(cursor, &mut parts.raw).at("CMDLINES")?;
    cursor.u32("CPU count").at("CPUCOUNT")
}

fn plain_text(cursor: &mut Cursor<'_>, what: &'static str) -> Result<Text, Cut> {
    let text = metadata::text32(cursor, what)?;
    let size = text.len() as u64;
    Ok(Text::Plain(cursor.offset() - size, size))
}

/// Reads the options, if there are any, and says what kind of data follows.
fn read_flavour(cursor: &mut Cursor<'_>, parts: &mut Parts) -> Result<[u8; 10], CutAt> {
    let mut word = tag(cursor).at("OPTIONS")?;
    if word.starts_with(b"options") {
        while read_option(cursor, parts).at("OPTIONS")? {}
        word = tag(cursor).at("OPTIONS")?;
    }
    Ok(word)
}

fn tag(cursor: &mut Cursor<'_>) -> Result<[u8; 10], Cut> {
    let bytes = cursor.take(10, "kind of data")?;
    Ok(bytes.first_chunk().copied().unwrap_or_default())
}

fn read_option(cursor: &mut Cursor<'_>, parts: &mut Parts) -> Result<bool, Cut> {
    let id = cursor.u16("option id")?;
    if id == option::id::DONE {
        return Ok(false);
    }
    let size = cursor.u32("option size")?;
    let at_bytes = cursor.offset();
    let data = cursor.take(u64::from(size), "option")?;
    parts.option(id, data, at_bytes, cursor.endian, false);
    Ok(true)
}

/// The CPU list of one buffer, and its clock behind it.
fn read_buffer(
    cursor: &mut Cursor<'_>,
    cpus: u32,
    option: BufferOption,
    parts: &mut Parts,
) -> Result<(), CutAt> {
    let mut list = Vec::new();
    for cpu in 0..cpus {
        let offset_bytes = cursor.u64("CPU data offset").at("BUFFER")?;
        let size_bytes = cursor.u64("CPU data size").at("BUFFER")?;
        if size_bytes > 0 {
            list.push(CpuData { cpu, offset_bytes, size_bytes });
        }
    }
    let clock = trailing_clock(cursor);
    let clock = clock.or_else(|| parts.options.clock().map(str::to_owned));
    let clock = clock.unwrap_or_else(|| "local".to_owned());
    let Some(layout) = parts.layout else { return Ok(()) };
    if option.name.is_empty() || !list.is_empty() {
        let buffer = buffer(option.name, clock, layout, list, parts);
        parts.buffers.push(buffer);
    }
    Ok(())
}

/// Written behind the list since 2012: 64-bit length, `[clock]`.
fn trailing_clock(cursor: &mut Cursor<'_>) -> Option<String> {
    let size = cursor.u64("clock length").ok().filter(|size| *size < 1 << 12)?;
    let text = cursor.take(size, "clock").ok()?;
    bracketed(std::str::from_utf8(text).ok()?).map(str::to_owned)
}

fn buffer(
    name: String,
    clock: String,
    layout: PageLayout,
    cpus: Vec<CpuData>,
    parts: &Parts,
) -> Buffer {
    let timing = Timing {
        clock: clock.clone(),
        tsc2nsec: parts.options.tsc2nsec,
        time_shift: parts.options.time_shift.clone(),
        offset_ns: parts.options.offset_ns(),
        is_instance: !name.is_empty(),
    };
    Buffer { name, clock, layout, cpus, is_compressed: false, timing }
}

/// An instance's list stands at the offset its option names, behind the word "flyrecord".
fn read_instance(file: &[u8], cpus: u32, option: BufferOption, parts: &mut Parts) {
    let Some(layout) = parts.layout else { return };
    let offset = option.section_offset;
    let place = Place::Option("BUFFER");
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let Some(bytes) = file.get(start..).filter(|_| offset != 0) else {
        let what = format!("buffer {:?} lies at byte {offset}, outside the file", option.name);
        parts.problems.add(option.at_bytes, place, what);
        return;
    };
    let mut cursor = Cursor::new(bytes, offset, layout.endian);
    match tag(&mut cursor) {
        Ok(word) if word.starts_with(b"flyrecord") => {}
        Ok(_) | Err(_) => {
            let what = format!("no \"flyrecord\" where buffer {:?} should be", option.name);
            parts.problems.add(offset, place, what);
            return;
        }
    }
    if let Err((cut, place)) = read_buffer(&mut cursor, cpus, option, parts) {
        parts.cut(cut, place);
    }
}
