//! Events of one kind as they came, until they become a row group.

use super::schema::EventColumns;
use super::value::{Getter, Value, of_field, of_xen};
use crate::error::StoreError;
use crate::tables::group::GroupEncoder;
use crate::tables::part::{Buffer, GROUP_ROWS};
use crate::tables::pool::Rows;
use crate::tables::transpose::sorting;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use transect_model::column::ColumnType;
use transect_model::event::CoreEvent;

/// One event on its way into a buffer.
#[derive(Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) ts: i64,
    pub(super) machine: u32,
    pub(super) cpu: u32,
    pub(super) tid: i32,
    pub(super) source: u16,
    pub(super) what: What<'a>,
}

/// Its own fields, in whichever form the source has them.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    /// An ftrace record; of Xen, event number and words.
    Record(&'a [u8]),
    /// A core event.
    Core(CoreEvent),
}

#[derive(Clone, Copy)]
struct Head {
    ts: i64,
    machine: u32,
    cpu: u32,
    tid: i32,
    source: u16,
    bytes: u16,
    /// Where its bytes are, or which core event it is.
    at: u32,
}

/// Records' bytes of one buffer at most, so that a place in them fits 32 bits.
const MAX_BYTES: usize = 256 << 20;

/// A buffer of events of one kind.
pub(super) struct EventBuffer {
    columns: Arc<EventColumns>,
    heads: Vec<Head>,
    bytes: Vec<u8>,
    core: Vec<CoreEvent>,
}

impl EventBuffer {
    pub(super) fn new(columns: Arc<EventColumns>) -> Self {
        EventBuffer { columns, heads: Vec::new(), bytes: Vec::new(), core: Vec::new() }
    }

    fn value<'s>(&'s self, head: &Head, getter: &Getter) -> Value<'s> {
        match getter {
            Getter::Missing => Value::Null,
            Getter::Field(field, machine) => of_field(field, *machine, self.payload(head)),
            Getter::Xen(table, name) => of_xen(table, name, self.payload(head)),
            Getter::Core(get) => self.core.get(head.at as usize).map_or(Value::Null, get),
        }
    }

    fn payload(&self, head: &Head) -> &[u8] {
        let at = head.at as usize;
        self.bytes.get(at..at + usize::from(head.bytes)).unwrap_or_default()
    }
}

impl Buffer for EventBuffer {
    type Row<'a> = Event<'a>;

    fn fresh(&self) -> Self {
        EventBuffer::new(Arc::clone(&self.columns))
    }

    #[inline]
    fn push(&mut self, event: Event<'_>) {
        let (at, bytes) = match event.what {
            What::Record(payload) => {
                let at = self.bytes.len();
                // A ring buffer's record is shorter than its sub-buffer, at most 64 KiB.
                let payload = payload.get(..usize::from(u16::MAX)).unwrap_or(payload);
                self.bytes.extend_from_slice(payload);
                (at, payload.len())
            }
            What::Core(core) => {
                self.core.push(core);
                (self.core.len() - 1, 0)
            }
        };
        self.heads.push(Head {
            ts: event.ts,
            machine: event.machine,
            cpu: event.cpu,
            tid: event.tid,
            source: event.source,
            bytes: u16::try_from(bytes).unwrap_or(u16::MAX),
            at: u32::try_from(at).unwrap_or(u32::MAX),
        });
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.heads.len() < self.heads.capacity()
    }

    fn grow(&mut self) {
        let rows = (self.heads.len() * 2).clamp(256, GROUP_ROWS.max(self.heads.len() + 1));
        self.heads.reserve_exact(rows - self.heads.len());
    }

    fn is_full(&self) -> bool {
        self.heads.len() >= GROUP_ROWS || self.bytes.len() >= MAX_BYTES
    }

    fn held_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<Head>()
            + self.bytes.capacity()
            + self.core.capacity() * size_of::<CoreEvent>()
    }
}

impl Rows for EventBuffer {
    fn len(&self) -> usize {
        self.heads.len()
    }

    fn encode(&mut self, group: &mut GroupEncoder<'_>) -> Result<(), StoreError> {
        let stamps: Vec<i64> = self.heads.iter().map(|head| head.ts).collect();
        if let Some(order) = sorting(&stamps) {
            self.heads = order.iter().map(|at| self.heads[*at as usize]).collect();
        }
        let heads = &self.heads;
        group.column::<Int64Type>(&collect(heads, |head| head.ts), None)?;
        group.column::<Int32Type>(&collect(heads, |head| head.machine.cast_signed()), None)?;
        group.column::<Int32Type>(&collect(heads, |head| head.cpu.cast_signed()), None)?;
        group.column::<Int32Type>(&collect(heads, |head| head.tid), None)?;
        for at in 0..self.columns.fields.len() {
            self.field(at, group)?;
        }
        Ok(())
    }
}

fn collect<T>(heads: &[Head], get: impl Fn(&Head) -> T) -> Vec<T> {
    heads.iter().map(get).collect()
}

impl EventBuffer {
    fn field(&self, at: usize, group: &mut GroupEncoder<'_>) -> Result<(), StoreError> {
        match self.columns.fields[at].ty {
            ColumnType::Bool => self.plain::<BoolType>(at, group, |v| v.bool()),
            ColumnType::I32 | ColumnType::U32 => self.plain::<Int32Type>(at, group, |v| v.i32()),
            ColumnType::I64 | ColumnType::U64 | ColumnType::F64 => {
                self.plain::<Int64Type>(at, group, |v| v.i64())
            }
            ColumnType::Text => self.text(at, group),
        }
    }

    fn plain<D: DataType>(
        &self,
        at: usize,
        group: &mut GroupEncoder<'_>,
        convert: impl Fn(&Value<'_>) -> Option<D::T>,
    ) -> Result<(), StoreError> {
        self.write::<D>(at, group, |head, getter| convert(&self.value(head, getter)))
    }

    /// Names come again and again: each is made once per row group.
    fn text(&self, at: usize, group: &mut GroupEncoder<'_>) -> Result<(), StoreError> {
        let mut known: FxHashMap<&[u8], ByteArray> = FxHashMap::default();
        self.write::<ByteArrayType>(at, group, |head, getter| match self.value(head, getter) {
            Value::Raw(raw) if getter.is_plain_text() => {
                let text = || Value::Raw(raw).text().unwrap_or_default();
                Some(known.entry(raw).or_insert_with(text).clone())
            }
            other => other.text(),
        })
    }

    fn write<D: DataType>(
        &self,
        at: usize,
        group: &mut GroupEncoder<'_>,
        mut value: impl FnMut(&Head, &Getter) -> Option<D::T>,
    ) -> Result<(), StoreError> {
        let field = &self.columns.fields[at];
        let mut values = Vec::with_capacity(self.heads.len());
        let mut present = Vec::with_capacity(self.heads.len());
        for head in &self.heads {
            let value = value(head, field.getter(head.source));
            present.push(i16::from(value.is_some()));
            values.extend(value);
        }
        group.column::<D>(&values, Some(&present))
    }
}
