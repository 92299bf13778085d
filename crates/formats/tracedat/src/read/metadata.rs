//! The parts both versions share, whatever they are wrapped in: header info, event formats,
//! command lines.

use super::cursor::{Cursor, Cut};
use crate::metadata::Metadata;
use crate::problem::{Place, Problems};
use std::collections::HashMap;
use transect_ftrace::{EventFormat, EventTable, FormatError, PageLayout, check_header_event};
use transect_model::event::Comm;

/// Reads `header_page` and `header_event`.
pub(crate) fn header_info(
    cursor: &mut Cursor<'_>,
    raw: &mut Metadata,
) -> Result<Result<PageLayout, FormatError>, Cut> {
    let page = named(cursor, b"header_page\0")?;
    let event = named(cursor, b"header_event\0")?;
    raw.header_page = page.unwrap_or_default().to_vec();
    raw.header_event = event.unwrap_or_default().to_vec();
    let parse = |page: &[u8], event: &[u8]| {
        check_header_event(event)?;
        PageLayout::parse(page, cursor.endian)
    };
    let missing = |name: &str| FormatError::HeaderPage(format!("no {name} in the file"));
    Ok(match (page, event) {
        (Some(page), Some(event)) => parse(page, event),
        (None, _) => Err(missing("header_page")),
        (_, None) => Err(missing("header_event")),
    })
}

/// A name and a sized text; `None` if another name is there.
fn named<'a>(cursor: &mut Cursor<'a>, name: &'static [u8]) -> Result<Option<&'a [u8]>, Cut> {
    if cursor.take(name.len() as u64, "header name")? != name {
        return Ok(None);
    }
    let size = cursor.u64("header size")?;
    cursor.take(size, "header text").map(Some)
}

/// Reads a list of sized `format` files of one system into the table. A file that is no good
/// becomes a problem; its events' records stay unknown.
fn formats(
    cursor: &mut Cursor<'_>,
    count: u32,
    system: &str,
    table: &mut EventTable,
    place: &Place,
    (raw, problems): (&mut Vec<Vec<u8>>, &mut Problems),
) -> Result<(), Cut> {
    for _ in 0..count {
        let size = cursor.u64("format file size")?;
        let at_bytes = cursor.offset();
        let text = cursor.take(size, "format file")?;
        if text.len() <= EventFormat::MAX_TEXT_BYTES {
            raw.push(text.to_vec());
        }
        if let Err(err) = table.add(system, text) {
            problems.add(at_bytes, place.clone(), format!("{err}; its events cannot be decoded"));
        }
    }
    Ok(())
}

/// The FTRACE EVENT FORMATS part: the tracers' own record types.
pub(crate) fn ftrace_events(
    cursor: &mut Cursor<'_>,
    table: &mut EventTable,
    raw: &mut Metadata,
    problems: &mut Problems,
) -> Result<(), Cut> {
    let count = cursor.u32("ftrace event count")?;
    let to = (&mut raw.ftrace_events, problems);
    formats(cursor, count, "ftrace", table, &Place::Section("FTRACE_EVENTS"), to)
}

/// The EVENT FORMATS part: systems, each with its events.
pub(crate) fn event_formats(
    cursor: &mut Cursor<'_>,
    table: &mut EventTable,
    raw: &mut Metadata,
    problems: &mut Problems,
) -> Result<(), Cut> {
    for _ in 0..cursor.u32("event system count")? {
        let system = cursor.string("event system name")?;
        let count = cursor.u32("event count")?;
        let mut texts = Vec::new();
        let to = (&mut texts, &mut *problems);
        let place = Place::Section("EVENT_FORMATS");
        let result = formats(cursor, count, &system, table, &place, to);
        raw.systems.push((system, texts));
        result?;
    }
    Ok(())
}

/// A text with a 32-bit size (kallsyms, printk formats).
pub(crate) fn text32<'a>(cursor: &mut Cursor<'a>, what: &'static str) -> Result<&'a [u8], Cut> {
    let size = cursor.u32(what)?;
    cursor.take(u64::from(size), what)
}

/// Thread names: `saved_cmdlines`, lines of `TID NAME`. What is cut off is left out.
pub(crate) fn command_lines(
    cursor: &mut Cursor<'_>,
    raw: &mut Metadata,
) -> Result<HashMap<i32, Comm>, Cut> {
    let size = cursor.u64("command lines' size")?;
    let text = cursor.take(size, "command lines")?;
    raw.saved_cmdlines = text.to_vec();
    Ok(parse_command_lines(text))
}

fn parse_command_lines(text: &[u8]) -> HashMap<i32, Comm> {
    text.split(|b| *b == b'\n').filter_map(command_line).collect()
}

fn command_line(line: &[u8]) -> Option<(i32, Comm)> {
    let line = line.trim_ascii_start();
    let space = line.iter().position(|b| *b == b' ')?;
    let tid = std::str::from_utf8(&line[..space]).ok()?.parse().ok()?;
    Some((tid, Comm::new(&line[space + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_keep_spaces_in_names() {
        let comms = parse_command_lines(b"162 CPU 0/KVM\n   7 a\nnonsense\n9\n");
        assert_eq!(comms[&162].to_str(), "CPU 0/KVM");
        assert_eq!(comms[&7].to_str(), "a");
        assert_eq!(comms.len(), 2);
    }
}
