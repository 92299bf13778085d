//! The events of all sources of a recording, each with one set of columns.
//!
//! Machines have different kernels, and sources different formats: what they call by one name is
//! one table, whose columns are those of all of them.

use super::kinds::KINDS;
use super::value::{Getter, is_plain_text, type_of, type_of_xen, wider};
use crate::tables::schema::FileColumn;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use transect_ftrace::EventTable;
use transect_model::column::ColumnType;
use transect_xentrace::{RecordDef, records::Table};

/// The columns that every event has, before its own.
pub(super) const COMMON: [(&str, ColumnType); 4] = [
    ("ts", ColumnType::I64),
    ("machine_id", ColumnType::U32),
    ("cpu", ColumnType::U32),
    ("tid", ColumnType::I32),
];

/// One event of the recording.
#[derive(Clone, Debug)]
pub(super) struct EventColumns {
    pub(super) name: String,
    pub(super) fields: Vec<EventField>,
}

/// One of its own columns.
#[derive(Clone, Debug)]
pub(super) struct EventField {
    pub(super) name: String,
    pub(super) ty: ColumnType,
    /// How each source tells it; sources beyond the end do not.
    pub(super) getters: Vec<Getter>,
}

impl EventColumns {
    pub(super) fn file_columns(&self) -> Vec<FileColumn> {
        let common = COMMON.iter().map(|(name, ty)| FileColumn {
            name: (*name).to_owned(),
            ty: *ty,
            nullable: false,
        });
        let own = self.fields.iter().map(|field| FileColumn {
            name: field.name.clone(),
            ty: field.ty,
            nullable: true,
        });
        common.chain(own).collect()
    }
}

impl EventField {
    pub(super) fn getter(&self, source: u16) -> &Getter {
        self.getters.get(usize::from(source)).unwrap_or(&Getter::Missing)
    }
}

/// Where records of Xen go, by their row (which is one of a table that never moves).
#[derive(Clone, Debug, Default)]
pub(super) struct XenSlots(FxHashMap<usize, u32>);

impl XenSlots {
    #[inline]
    pub(super) fn of(&self, row: &'static RecordDef) -> u32 {
        self.0.get(&(std::ptr::from_ref(row) as usize)).copied().unwrap_or(u32::MAX)
    }
}

/// All events, while sources are added.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) events: Vec<EventColumns>,
    by_name: HashMap<String, usize>,
}

impl Schema {
    /// Adds the events of an ftrace source; the place of each by its number (`u32::MAX`: none).
    pub(super) fn add_formats(&mut self, source: u16, formats: &EventTable) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut own = HashMap::new();
        for format in formats.iter() {
            // Two systems of one kernel may use one name.
            let name = match own.insert(&*format.name, format.id) {
                None => format.name.to_string(),
                Some(_) => format!("{}_{}", format.system, format.name),
            };
            let slot = self.event(&name);
            for field in &format.fields {
                let getter = Getter::Field(Box::new(field.clone()), formats.machine());
                self.field(slot, &field.name, type_of(field), source, getter);
            }
            let id = usize::from(format.id);
            if slots.len() <= id {
                slots.resize(id + 1, u32::MAX);
            }
            slots[id] = u32::try_from(slot).unwrap_or(u32::MAX);
        }
        slots
    }

    /// Adds the core events of a compact source; the place of each by its number.
    pub(super) fn add_core(&mut self, source: u16) -> Vec<u32> {
        let add = |kind: &super::kinds::Kind| {
            let slot = self.event(kind.name);
            for field in kind.fields {
                self.field(slot, field.name, field.ty, source, Getter::Core(field.get));
            }
            u32::try_from(slot).unwrap_or(u32::MAX)
        };
        KINDS.iter().map(add).collect()
    }

    /// Adds the records of Xen; the place of each by its row in the table of records. They are
    /// called as Xen calls them, behind `xen_`, for Linux has a `sched_switch`, too.
    pub(super) fn add_xen(&mut self, source: u16, table: &'static Table) -> XenSlots {
        let mut slots = XenSlots::default();
        for row in table.rows() {
            let slot = self.event(&format!("xen_{}", row.name));
            for field in row.fields {
                self.field(
                    slot,
                    field.name,
                    type_of_xen(field),
                    source,
                    Getter::Xen(table, field.name),
                );
            }
            slots
                .0
                .insert(std::ptr::from_ref(row) as usize, u32::try_from(slot).unwrap_or(u32::MAX));
        }
        slots
    }

    fn event(&mut self, name: &str) -> usize {
        let name = plain(name);
        if let Some(slot) = self.by_name.get(&name) {
            return *slot;
        }
        let slot = self.events.len();
        self.events.push(EventColumns { name: name.clone(), fields: Vec::new() });
        self.by_name.insert(name, slot);
        slot
    }

    fn field(&mut self, slot: usize, name: &str, ty: ColumnType, source: u16, getter: Getter) {
        let name = column_name(name);
        let fields = &mut self.events[slot].fields;
        let at = fields.iter().position(|field| field.name == name).unwrap_or_else(|| {
            fields.push(EventField { name, ty, getters: Vec::new() });
            fields.len() - 1
        });
        let field = &mut fields[at];
        field.ty = wider(field.ty, ty);
        let source = usize::from(source);
        if field.getters.len() <= source {
            field.getters.resize(source + 1, Getter::Missing);
        }
        field.getters[source] = getter;
    }
}

impl Getter {
    /// Are equal bytes of the field equal text?
    pub(super) fn is_plain_text(&self) -> bool {
        matches!(self, Getter::Field(field, _) if is_plain_text(field))
    }
}

/// A field that is called like a common column keeps out of its way.
fn column_name(field: &str) -> String {
    match COMMON.iter().any(|(name, _)| *name == field) {
        true => format!("arg_{field}"),
        false => field.to_owned(),
    }
}

/// Names come from files, which may hold anything; none becomes a path elsewhere.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().take(100).map(plain).collect()
}
