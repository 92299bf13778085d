//! The events of one kernel, found by the number in their records.

use crate::{
    endian::Endian,
    error::FormatError,
    field::Field,
    format::EventFormat,
    value::{Machine, Value},
};
use std::collections::HashMap;
use transect_model::ids::Tid;

/// Where the common fields are; the same in every event of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommonLayout {
    type_offset: usize,
    flags_offset: Option<usize>,
    preempt_offset: Option<usize>,
    pid_offset: usize,
}

/// The fields every record begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Which event this is.
    pub id: u16,
    /// `TRACE_FLAG_*`: interrupts off, need-resched, hard or soft interrupt context.
    pub flags: u8,
    /// Preemption (low four bits) and migration-disable (high four bits) depth.
    pub preempt_count: u8,
    /// The current thread.
    pub tid: Tid,
}

/// All events of one kernel.
#[derive(Clone, Debug)]
pub struct EventTable {
    machine: Machine,
    common: Option<CommonLayout>,
    events: Vec<EventFormat>,
    /// Position in `events` by event id; `u32::MAX` where there is none.
    by_id: Vec<u32>,
    by_name: HashMap<Box<str>, u32>,
}

impl EventTable {
    /// An empty table for a kernel of this byte order and size of `long`.
    pub fn new(endian: Endian, long_bytes: usize) -> Self {
        EventTable {
            machine: Machine { endian, long_bytes },
            common: None,
            events: Vec::new(),
            by_id: Vec::new(),
            by_name: HashMap::new(),
        }
    }

    /// Adds an event from its `format` file. One that is there already (same system, name and
    /// number) is replaced: trace.dat may list an event twice.
    ///
    /// # Errors
    /// The file cannot be read, contradicts the common fields of the others, or claims another
    /// event's number. The table stays as it was.
    pub fn add(&mut self, system: &str, text: &[u8]) -> Result<(), FormatError> {
        self.add_format(EventFormat::parse(system, text, self.machine.long_bytes)?)
    }

    /// Adds an event whose `format` file has been parsed.
    ///
    /// # Errors
    /// As [`EventTable::add`].
    pub fn add_format(&mut self, event: EventFormat) -> Result<(), FormatError> {
        let common = common_layout(&event)?;
        if let Some(known) = self.common
            && let Some(field) = known.first_difference(&common)
        {
            return Err(FormatError::CommonField { event: event.full_name(), field });
        }
        let id = usize::from(event.id);
        if let Some(first) = self.get(event.id) {
            if (&first.system, &first.name) != (&event.system, &event.name) {
                return Err(FormatError::DuplicateId {
                    id: event.id,
                    first: first.full_name(),
                    second: event.full_name(),
                });
            }
            let at = self.by_id[id] as usize;
            self.events[at] = event;
            return Ok(());
        }
        let Ok(at) = u32::try_from(self.events.len()) else { return Ok(()) };
        self.common = Some(common);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, u32::MAX);
        }
        self.by_id[id] = at;
        self.by_name.insert(event.full_name().into(), at);
        self.events.push(event);
        Ok(())
    }

    /// Byte order and word size of the machine.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The event with this number.
    #[inline]
    pub fn get(&self, id: u16) -> Option<&EventFormat> {
        let at = *self.by_id.get(usize::from(id))?;
        self.events.get(at as usize)
    }

    /// The event of this system and name.
    pub fn find(&self, system: &str, name: &str) -> Option<&EventFormat> {
        let at = *self.by_name.get(format!("{system}:{name}").as_str())?;
        self.events.get(at as usize)
    }

    /// All events, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &EventFormat> {
        self.events.iter()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// No event at all?
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Number of the event a record is of; `None` if the record is too short to say.
    #[inline]
    pub fn id_of(&self, payload: &[u8]) -> Option<u16> {
        self.machine.endian.u16(payload, self.common?.type_offset)
    }

    /// The event a record is of; `None` if its number is unknown.
    #[inline]
    pub fn event_of(&self, payload: &[u8]) -> Option<&EventFormat> {
        self.get(self.id_of(payload)?)
    }

    /// The thread that was current when the record was written.
    #[inline]
    pub fn tid_of(&self, payload: &[u8]) -> Option<Tid> {
        let bits = self.machine.endian.u32(payload, self.common?.pid_offset)?;
        Some(Tid(bits.cast_signed()))
    }

    /// All common fields of a record.
    pub fn common(&self, payload: &[u8]) -> Option<Common> {
        let layout = self.common?;
        let byte = |at: Option<usize>| at.and_then(|at| payload.get(at)).copied().unwrap_or(0);
        Some(Common {
            id: self.id_of(payload)?,
            flags: byte(layout.flags_offset),
            preempt_count: byte(layout.preempt_offset),
            tid: self.tid_of(payload)?,
        })
    }

    /// A field of a record; `None` if the record ends before it.
    pub fn value<'a>(&self, field: &Field, payload: &'a [u8]) -> Option<Value<'a>> {
        self.machine.value(field, payload)
    }

    /// Every own field of a record with its value (`None`: cut off).
    pub fn values<'a, 't>(
        &'t self,
        payload: &'a [u8],
    ) -> impl Iterator<Item = (&'t Field, Option<Value<'a>>)> {
        let fields = self.event_of(payload).map_or(&[][..], |event| &event.fields);
        fields.iter().map(move |field| (field, self.value(field, payload)))
    }
}

impl CommonLayout {
    fn first_difference(&self, other: &CommonLayout) -> Option<&'static str> {
        if self.type_offset != other.type_offset {
            Some("common_type")
        } else if self.pid_offset != other.pid_offset {
            Some("common_pid")
        } else if self.flags_offset != other.flags_offset {
            Some("common_flags")
        } else if self.preempt_offset != other.preempt_offset {
            Some("common_preempt_count")
        } else {
            None
        }
    }
}

fn common_layout(event: &EventFormat) -> Result<CommonLayout, FormatError> {
    let offset = |field: &'static str, size_bytes: usize| {
        let found = event.common.iter().find(|f| &*f.name == field)?;
        (found.size_bytes == size_bytes).then_some(found.offset_bytes)
    };
    let needed = |field, size_bytes| {
        offset(field, size_bytes)
            .ok_or_else(|| FormatError::CommonField { event: event.full_name(), field })
    };
    Ok(CommonLayout {
        type_offset: needed("common_type", 2)?,
        pid_offset: needed("common_pid", 4)?,
        flags_offset: offset("common_flags", 1),
        preempt_offset: offset("common_preempt_count", 1),
    })
}
