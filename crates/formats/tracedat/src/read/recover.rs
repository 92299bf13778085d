//! Unfinished files of version 7: finds sections by walking them when the options do not tell.
//!
//! trace-cmd writes metadata, then options, then a buffer's data, and only then the options that
//! say where the data of which CPU is. A file cut within its data (full disk, power loss) has no
//! such options. Its sections still stand one behind the other, each with its size.

use super::{
    buffer::BufferOption, buffer::CpuData, cursor::Cursor, reader::Reader, section::Section,
};
use crate::{problem::Place, read::option::id};

/// Looks at the sections from `first` on (behind the file header) and takes up those the options
/// did not name.
pub(super) fn find_sections(reader: &mut Reader<'_, '_>, first: u64) {
    let mut at = first;
    let mut found = Vec::new();
    while let Ok(section) = Section::open(reader.file, at, reader.header.endian) {
        if section.id > id::BUFFER_TEXT + 3 {
            break;
        }
        found.push((at, section));
        match section.end() {
            Some(end) if section.size > 0 && end > at => at = end,
            _ => break,
        }
    }
    for (at, section) in found {
        take(reader, at, &section);
    }
}

fn take(reader: &mut Reader<'_, '_>, at: u64, section: &Section) {
    match section.id {
        id::DONE => {
            // Options that were read already are only facts; but do not list twice.
            if reader.parts.options == super::Options::default() {
                let _ = reader.option_section(section);
            }
        }
        id::BUFFER => take_buffer(reader, at, section),
        _ if reader.sections.iter().any(|(id, _)| *id == section.id) => {}
        _ => reader.sections.push((section.id, at)),
    }
}

/// A buffer's section whose option is lost.
fn take_buffer(reader: &mut Reader<'_, '_>, at: u64, section: &Section) {
    if reader.parts.buffer_options.iter().any(|known| known.section_offset == at) {
        return;
    }
    let page_bytes = reader.header.page_bytes;
    let cpus = if section.is_compressed {
        compressed_cpus(reader, section, u64::from(page_bytes))
    } else {
        plain_cpus(reader, section, u64::from(page_bytes))
    };
    let what = format!(
        "the file was not finished: it does not assign its data to CPUs; \
         {} ranges of data were found and numbered in order",
        cpus.len()
    );
    reader.parts.problems.add(at, Place::Section("BUFFER"), what);
    let option = BufferOption {
        at_bytes: at,
        section_offset: at,
        name: free_name(reader),
        clock: reader.parts.options.clock().unwrap_or("local").to_owned(),
        page_bytes,
        cpus,
    };
    reader.parts.buffer_options.push(option);
}

/// Buffers' names stand in the lost option: the top buffer's is empty, if it is not taken.
fn free_name(reader: &Reader<'_, '_>) -> String {
    let known = &reader.parts.buffer_options;
    match known.iter().any(|option| option.name.is_empty()) {
        true => format!("unnamed-{}", known.len()),
        false => String::new(),
    }
}

/// Chunked data says where it ends; each CPU's begins at a page boundary.
fn compressed_cpus(reader: &Reader<'_, '_>, section: &Section, page: u64) -> Vec<CpuData> {
    let mut cpus = Vec::new();
    let mut at = section.start.next_multiple_of(page);
    while let Some(size_bytes) = chunks_size(reader, at) {
        let cpu = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        cpus.push(CpuData { cpu, offset_bytes: at, size_bytes });
        at = (at + size_bytes).next_multiple_of(page);
    }
    cpus
}

/// Bytes of one CPU's chunks as far as they are there; `None` if none are.
fn chunks_size(reader: &Reader<'_, '_>, at: u64) -> Option<u64> {
    let bytes = reader.file.get(usize::try_from(at).ok()?..)?;
    let mut cursor = Cursor::new(bytes, at, reader.header.endian);
    let count = cursor.u32("number of chunks").ok().filter(|count| *count > 0)?;
    for _ in 0..count {
        let Ok(packed) = cursor.u32("size") else { break };
        if cursor.u32("size").is_err() || cursor.take(u64::from(packed), "chunk").is_err() {
            return Some(bytes.len() as u64);
        }
    }
    Some(cursor.offset() - at)
}

/// Plain pages: a CPU's pages ascend in time, so a page with an earlier stamp begins the next CPU.
fn plain_cpus(reader: &Reader<'_, '_>, section: &Section, page: u64) -> Vec<CpuData> {
    let mut cpus: Vec<CpuData> = Vec::new();
    let end = match section.size {
        0 => reader.file.len() as u64,
        _ => section.end().unwrap_or(u64::MAX).min(reader.file.len() as u64),
    };
    let mut at = section.start.next_multiple_of(page);
    let mut last = u64::MAX;
    while at < end {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let stamp = reader.header.endian.u64(reader.file, start).unwrap_or(0);
        if stamp < last || cpus.is_empty() {
            let cpu = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
            cpus.push(CpuData { cpu, offset_bytes: at, size_bytes: 0 });
        }
        last = stamp;
        let size = page.min(end - at);
        if let Some(data) = cpus.last_mut() {
            data.size_bytes += size;
        }
        at += size;
    }
    cpus
}
