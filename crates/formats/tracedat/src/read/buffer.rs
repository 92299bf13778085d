//! Buffers: the top one and named instances, each with data per CPU.

use super::cursor::{Cursor, Cut};
use crate::timing::Timing;
use transect_ftrace::PageLayout;

/// One CPU's data of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// The CPU.
    pub cpu: u32,
    /// Offset in the file.
    pub offset_bytes: u64,
    /// Bytes in the file, as the file says. For compressed data trace-cmd leaves the headers of
    /// the chunks out; the chunks say themselves where they end.
    pub size_bytes: u64,
}

/// One trace buffer: what one instance of the kernel's tracer recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The instance's name; empty for the top buffer.
    pub name: String,
    /// The trace clock its stamps come from.
    pub clock: String,
    /// Layout of its pages.
    pub layout: PageLayout,
    /// CPUs with data, in the file's order.
    pub cpus: Vec<CpuData>,
    /// Are the pages compressed in chunks?
    pub is_compressed: bool,
    /// What the file says about its stamps.
    pub timing: Timing,
}

impl Buffer {
    /// The CPUs with data, in the file's order.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().map(|data| data.cpu)
    }
}

/// A BUFFER option as it stands in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferOption {
    pub(crate) at_bytes: u64,
    /// Version 7: offset of the section. Version 6: of the CPU list.
    pub(crate) section_offset: u64,
    pub(crate) name: String,
    pub(crate) clock: String,
    pub(crate) page_bytes: u32,
    pub(crate) cpus: Vec<CpuData>,
}

impl BufferOption {
    /// Version 6: offset and name; everything else stands at the offset.
    pub(crate) fn parse_v6(cursor: &mut Cursor<'_>) -> Result<Self, Cut> {
        let at_bytes = cursor.offset();
        let section_offset = cursor.u64("buffer offset")?;
        let name = cursor.string("buffer name")?;
        Ok(BufferOption { at_bytes, section_offset, name, ..Self::default() })
    }

    /// Version 7.
    pub(crate) fn parse_v7(cursor: &mut Cursor<'_>) -> Result<Self, Cut> {
        let mut option = Self::parse_v6(cursor)?;
        option.clock = cursor.string("buffer clock")?;
        option.page_bytes = cursor.u32("buffer page size")?;
        for _ in 0..cursor.u32("buffer CPU count")? {
            option.cpus.push(CpuData {
                cpu: cursor.u32("CPU")?,
                offset_bytes: cursor.u64("CPU data offset")?,
                size_bytes: cursor.u64("CPU data size")?,
            });
        }
        Ok(option)
    }
}
