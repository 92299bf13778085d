//! Reads the sections of a file of version 7.

use super::{
    buffer::{Buffer, BufferOption},
    compress::Compression,
    cursor::{Cursor, Cut},
    header::Header,
    metadata,
    option::{self, id},
    parts::{Parts, Text},
    section::Section,
};
use crate::{
    problem::{Error, Place},
    timing::Timing,
};
use std::borrow::Cow;
use transect_ftrace::Endian;

/// More option sections than any writer makes; a chain longer than this is a loop.
const MAX_OPTION_SECTIONS: usize = 4096;

/// Reads one file of version 7.
pub(super) struct Reader<'a, 'd> {
    pub(super) file: &'d [u8],
    pub(super) header: &'a Header,
    pub(super) parts: &'a mut Parts,
    /// Sections of metadata: id and offset of the header.
    pub(super) sections: Vec<(u16, u64)>,
    /// The chain of options was read to its end.
    pub(super) is_complete: bool,
}

impl<'d> Reader<'_, 'd> {
    fn endian(&self) -> Endian {
        self.header.endian
    }

    /// Follows the chain from its first section.
    pub(super) fn option_chain(&mut self, first: u64) {
        let mut next = first;
        let mut seen = Vec::new();
        while next != 0 {
            let place = Place::Section("OPTIONS");
            if seen.contains(&next) || seen.len() >= MAX_OPTION_SECTIONS {
                self.parts.problems.add(next, place, "option sections form a loop");
                return;
            }
            seen.push(next);
            let section = match Section::open(self.file, next, self.endian()) {
                Ok(section) if section.id == id::DONE => section,
                Ok(section) => {
                    let what = format!("expected an option section, found section {}", section.id);
                    self.parts.problems.add(next, place, what);
                    return;
                }
                Err(cut) => return self.parts.cut(cut, place),
            };
            match self.option_section(&section) {
                Ok(following) => next = following,
                Err(cut) => return self.parts.cut(cut, place),
            }
        }
        self.is_complete = first != 0;
        if first == 0 {
            let what = "the file has no options: it was not finished";
            self.parts.cut = Some((self.file.len() as u64, Place::Section("OPTIONS")));
            self.parts.problems.add(0, Place::Header, what);
        }
    }

    /// Reads one section's options; gives the offset of the next section (0: none).
    pub(super) fn option_section(&mut self, section: &Section) -> Result<u64, Cut> {
        let (bytes, problem) = self.bytes(section);
        if let Some(what) = problem {
            self.parts.problems.add(section.start, Place::Section("OPTIONS"), what);
        }
        let base = section.start;
        let mut cursor = Cursor::new(&bytes, base, self.endian());
        loop {
            let id = cursor.u16("option id")?;
            let size = cursor.u32("option size")?;
            let at_bytes = cursor.offset();
            let data = cursor.take(u64::from(size), "option")?;
            if id == id::DONE {
                return Cursor::new(data, at_bytes, self.endian()).u64("next options' offset");
            }
            self.option(id, data, at_bytes);
        }
    }

    fn option(&mut self, id: u16, data: &[u8], at_bytes: u64) {
        match id {
            id::HEADER_INFO
            | id::FTRACE_EVENTS
            | id::EVENT_FORMATS
            | id::KALLSYMS
            | id::PRINTK
            | id::CMDLINES => match Cursor::new(data, at_bytes, self.endian()).u64("offset") {
                Ok(offset) => self.sections.push((id, offset)),
                Err(cut) => self.parts.cut(cut, Place::Option(option::name(id))),
            },
            _ => self.parts.option(id, data, at_bytes, self.endian(), true),
        }
    }

    pub(super) fn bytes(&self, section: &Section) -> (Cow<'d, [u8]>, Option<String>) {
        section.bytes(self.file, self.endian(), self.header.compression)
    }

    /// Reads the metadata sections, header info first: the others depend on its word size.
    pub(super) fn read_sections(&mut self) -> Result<(), Error> {
        let mut sections = std::mem::take(&mut self.sections);
        sections.sort_by_key(|(id, _)| *id);
        for (id, offset) in sections {
            let place = Place::Section(option::name(id));
            match Section::open(self.file, offset, self.endian()) {
                Ok(section) if section.id == id => self.section(&section)?,
                Ok(section) => {
                    let what = format!("expected {place}, found section {}", section.id);
                    self.parts.problems.add(offset, place, what);
                }
                Err(cut) => self.parts.cut(cut, place),
            }
        }
        Ok(())
    }

    fn section(&mut self, section: &Section) -> Result<(), Error> {
        let place = Place::Section(option::name(section.id));
        match section.id {
            id::KALLSYMS => self.parts.kallsyms = Text::Section(*section),
            id::PRINTK => self.parts.printk = Text::Section(*section),
            _ => {
                let (bytes, problem) = self.bytes(section);
                if let Some(what) = problem {
                    self.parts.problems.add(section.start, place.clone(), what);
                }
                let mut cursor = Cursor::new(&bytes, section.start, self.endian());
                if let Err(cut) = self.metadata(section, &mut cursor)? {
                    self.parts.cut(cut, place);
                }
            }
        }
        Ok(())
    }

    fn metadata(
        &mut self,
        section: &Section,
        cursor: &mut Cursor<'_>,
    ) -> Result<Result<(), Cut>, Error> {
        let Parts { events, problems, comms, raw, .. } = &mut *self.parts;
        Ok(match section.id {
            id::HEADER_INFO => match metadata::header_info(cursor, raw) {
                Ok(Ok(layout)) => {
                    self.parts.set_layout(layout);
                    Ok(())
                }
                Ok(Err(err)) => {
                    return Err(Error::Layout {
                        at_bytes: section.start,
                        place: Place::Section("HEADER_INFO"),
                        what: err.to_string(),
                    });
                }
                Err(cut) => Err(cut),
            },
            id::FTRACE_EVENTS => metadata::ftrace_events(cursor, events, raw, problems),
            id::EVENT_FORMATS => metadata::event_formats(cursor, events, raw, problems),
            id::CMDLINES => metadata::command_lines(cursor, raw).map(|found| *comms = found),
            _ => Ok(()),
        })
    }

    /// Turns BUFFER options into buffers.
    pub(super) fn make_buffers(&mut self) {
        for option in std::mem::take(&mut self.parts.buffer_options) {
            let is_compressed = match Section::open(self.file, option.section_offset, self.endian())
            {
                Ok(section) if section.id == id::BUFFER => section.is_compressed,
                // The section's header is not needed but for this flag: believe the file header.
                Ok(_) | Err(_) => self.header.compression != Compression::None,
            };
            self.make_buffer(option, is_compressed);
        }
    }

    fn make_buffer(&mut self, option: BufferOption, is_compressed: bool) {
        let layout = self.parts.layout_or_default(self.header);
        let layout = match layout.with_page_bytes(option.page_bytes as usize) {
            Ok(layout) => layout,
            Err(err) => {
                let what = format!("buffer {:?}: {err}; it cannot be read", option.name);
                return self.parts.problems.add(option.at_bytes, Place::Option("BUFFER"), what);
            }
        };
        let mut cpus = option.cpus;
        cpus.retain(|data| data.size_bytes > 0);
        let clock = option.clock;
        let timing = Timing {
            clock: clock.clone(),
            tsc2nsec: self.parts.options.tsc2nsec,
            time_shift: self.parts.options.time_shift.clone(),
            offset_ns: self.parts.options.offset_ns(),
            is_instance: !option.name.is_empty(),
        };
        self.parts.buffers.push(Buffer {
            name: option.name,
            clock,
            layout,
            cpus,
            is_compressed,
            timing,
        });
    }
}
