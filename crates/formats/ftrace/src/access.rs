//! Precompiled access to fields: one lookup by name when a table is loaded, none per record.

use crate::{
    endian::Endian,
    field::{Field, FieldKind},
    format::EventFormat,
    value::Machine,
};
use transect_model::event::Comm;

/// Reads one integer field.
#[derive(Clone, Copy, Debug)]
pub struct IntAccess {
    offset: usize,
    size: usize,
    is_signed: bool,
    endian: Endian,
}

impl IntAccess {
    /// For the first of `names` the event has as an integer: fields were renamed between kernels.
    pub fn new(event: &EventFormat, names: &[&str], machine: Machine) -> Option<Self> {
        let field =
            names.iter().find_map(|name| event.fields.iter().find(|f| &*f.name == *name))?;
        Self::of(field, machine)
    }

    /// For a field that every event of the kernel has (`common_flags`).
    pub fn common(event: &EventFormat, name: &str, machine: Machine) -> Option<Self> {
        Self::of(event.common.iter().find(|field| &*field.name == name)?, machine)
    }

    fn of(field: &Field, machine: Machine) -> Option<Self> {
        let is_int = matches!(
            field.kind,
            FieldKind::Int | FieldKind::Bool | FieldKind::Enum | FieldKind::Pointer
        );
        (is_int && matches!(field.size_bytes, 1 | 2 | 4 | 8)).then_some(IntAccess {
            offset: field.offset_bytes,
            size: field.size_bytes,
            is_signed: field.is_signed,
            endian: machine.endian,
        })
    }

    /// The value as 64 bits, sign-extended if the field is signed.
    #[inline]
    pub fn u64(&self, payload: &[u8]) -> Option<u64> {
        // What nearly every kernel has, without asking more than this.
        if self.size == 8 && self.endian == Endian::NATIVE {
            return Some(u64::from_ne_bytes(*self.chunk(payload)?));
        }
        self.any(payload)
    }

    /// The value as a signed number.
    #[inline]
    pub fn i64(&self, payload: &[u8]) -> Option<i64> {
        self.u64(payload).map(u64::cast_signed)
    }

    /// The low 32 bits, which is what a C assignment to `u32` keeps.
    #[inline]
    pub fn u32(&self, payload: &[u8]) -> Option<u32> {
        if self.size == 4 && self.endian == Endian::NATIVE {
            return Some(u32::from_ne_bytes(*self.chunk(payload)?));
        }
        self.any(payload).map(|v| (v & 0xffff_ffff) as u32)
    }

    /// The low 32 bits as a signed number.
    #[inline]
    pub fn i32(&self, payload: &[u8]) -> Option<i32> {
        self.u32(payload).map(u32::cast_signed)
    }

    #[inline]
    fn chunk<'a, const N: usize>(&self, payload: &'a [u8]) -> Option<&'a [u8; N]> {
        payload.get(self.offset..)?.first_chunk()
    }

    /// Any size, sign and byte order.
    fn any(&self, payload: &[u8]) -> Option<u64> {
        if self.is_signed {
            self.endian.int(payload, self.offset, self.size).map(i64::cast_unsigned)
        } else {
            self.endian.uint(payload, self.offset, self.size)
        }
    }

    /// Is it not zero?
    #[inline]
    pub fn bool(&self, payload: &[u8]) -> Option<bool> {
        self.u64(payload).map(|v| v != 0)
    }
}

/// Reads a thread name, fixed (`char comm[16]`) or located (`__data_loc char[] comm`, 6.17).
#[derive(Clone, Debug)]
pub struct CommAccess {
    field: Field,
    machine: Machine,
}

impl CommAccess {
    /// For the first of `names` the event has as text.
    pub fn new(event: &EventFormat, names: &[&str], machine: Machine) -> Option<Self> {
        let field =
            names.iter().find_map(|name| event.fields.iter().find(|f| &*f.name == *name))?;
        let is_text = matches!(field.kind, FieldKind::Str | FieldKind::Dynamic { .. });
        is_text.then(|| CommAccess { field: field.clone(), machine })
    }

    /// The name.
    #[inline]
    pub fn get(&self, payload: &[u8]) -> Option<Comm> {
        let bytes = match self.field.kind {
            // The kernel's usual field needs no search for the end: all 16 bytes are the name.
            FieldKind::Str if self.field.size_bytes == 16 => {
                let chunk = payload.get(self.field.offset_bytes..)?.first_chunk::<16>()?;
                return Some(Comm::from_kernel(*chunk));
            }
            _ => self.machine.located(&self.field, payload)?,
        };
        Some(Comm::new(bytes))
    }
}
