//! What reading gathers, whichever version the file is of.

use super::{
    buffer::{Buffer, BufferOption},
    cursor::{Cursor, Cut},
    header::Header,
    option::{self, Options},
    section::Section,
};
use crate::{
    metadata::Metadata,
    problem::{Place, Problems},
};
use std::collections::HashMap;
use transect_ftrace::{Endian, EventTable, PageLayout};
use transect_model::event::Comm;

/// A large text that is only read when asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Text {
    #[default]
    Absent,
    /// In the file as it is: offset and length.
    Plain(u64, u64),
    /// A section of version 7.
    Section(Section),
}

/// What reading gathers, before it is known whether it is enough.
pub(super) struct Parts {
    pub(super) events: EventTable,
    pub(super) layout: Option<PageLayout>,
    pub(super) options: Options,
    pub(super) buffer_options: Vec<BufferOption>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) comms: HashMap<i32, Comm>,
    pub(super) kallsyms: Text,
    pub(super) printk: Text,
    pub(super) raw: Metadata,
    pub(super) problems: Problems,
    /// First place at which the file turned out to be cut off.
    pub(super) cut: Option<(u64, Place)>,
}

impl Parts {
    pub(super) fn new(header: &Header) -> Self {
        Parts {
            events: EventTable::new(header.endian, usize::from(header.long_bytes)),
            layout: None,
            options: Options::default(),
            buffer_options: Vec::new(),
            buffers: Vec::new(),
            comms: HashMap::new(),
            kallsyms: Text::Absent,
            printk: Text::Absent,
            raw: Metadata::default(),
            problems: Problems::default(),
            cut: None,
        }
    }

    /// Notes that the file (or a section of it) ended within a place.
    pub(super) fn cut(&mut self, cut: Cut, place: Place) {
        let what = format!("ends within the {}; the rest is missing", cut.what);
        self.cut.get_or_insert((cut.at_bytes, place.clone()));
        self.problems.add(cut.at_bytes, place, what);
    }

    /// Takes the page layout; the kernel's `long` is what its commit word is made of.
    pub(super) fn set_layout(&mut self, layout: PageLayout) {
        let endian = layout.endian;
        if self.events.is_empty() {
            self.events = EventTable::new(endian, layout.commit_bytes);
        }
        self.layout = Some(layout);
    }

    /// The layout to use when the file does not tell: today's, with the file's page size.
    pub(super) fn layout_or_default(&mut self, header: &Header) -> PageLayout {
        if let Some(layout) = self.layout {
            return layout;
        }
        let long_bytes = usize::from(header.long_bytes);
        let layout = PageLayout {
            endian: header.endian,
            commit_bytes: long_bytes,
            commit_offset_bytes: 8,
            data_offset_bytes: 8 + long_bytes,
            page_bytes: header.page_bytes as usize,
        };
        self.problems.add(
            0,
            Place::Section("HEADER_INFO"),
            format!("missing or unreadable: assuming pages of {} bytes", header.page_bytes),
        );
        self.layout = Some(layout);
        layout
    }

    /// Takes an option in, whichever version it comes from.
    pub(super) fn option(
        &mut self,
        id: u16,
        data: &[u8],
        at_bytes: u64,
        endian: Endian,
        is_v7: bool,
    ) {
        let place = Place::Option(option::name(id));
        let mut cursor = Cursor::new(data, at_bytes, endian);
        let result = match id {
            option::id::BUFFER if is_v7 => {
                BufferOption::parse_v7(&mut cursor).map(|buffer| self.buffer_options.push(buffer))
            }
            option::id::BUFFER => BufferOption::parse_v6(&mut cursor).map(|buffer| {
                if !buffer.name.is_empty() {
                    self.buffer_options.push(buffer);
                }
            }),
            option::id::BUFFER_TEXT => {
                let what = "text of a latency tracer has no events and is skipped";
                self.problems.add(at_bytes, place.clone(), what);
                Ok(())
            }
            _ => match self.options.add(id, data, endian) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    self.options.unknown.push((id, data.len()));
                    Ok(())
                }
                Err(cut) => Err(Cut { at_bytes: at_bytes + cut.at_bytes, ..cut }),
            },
        };
        if let Err(cut) = result {
            let what = format!("too short for its {}; it is skipped", cut.what);
            self.problems.add(cut.at_bytes, place, what);
        }
    }
}
