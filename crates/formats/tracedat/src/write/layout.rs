//! Where the buffers of a file go.

use super::spec::BufferSpec;

/// trace-cmd maps CPU data with `mmap`, which wants offsets at this granularity.
const MMAP_ALIGN_BYTES: u64 = 4096;

/// A buffer as it will be written.
pub(super) struct Checked {
    /// Its index in [`FileSpec::buffers`](super::spec::FileSpec::buffers); `None` for an added top buffer.
    pub(super) index: Option<usize>,
    /// With a line for every CPU from 0 on: trace-cmd indexes the list by CPU.
    pub(super) spec: BufferSpec,
}

/// Where a buffer's parts are.
#[derive(Clone, Debug, Default)]
pub(super) struct BufferPlace {
    pub(super) header_offset: u64,
    pub(super) cpu_offsets: Vec<u64>,
    /// First byte behind its section.
    pub(super) end: u64,
}

/// Where the buffers are.
#[derive(Clone, Debug, Default)]
pub(super) struct DataLayout {
    pub(super) buffers: Vec<BufferPlace>,
    pub(super) file_bytes: u64,
}

impl DataLayout {
    pub(super) fn new(buffers: &[Checked], head_bytes: u64) -> Self {
        let mut at = head_bytes;
        let mut places = Vec::new();
        for buffer in buffers {
            let header_offset = at;
            at += 16;
            let align = alignment(&buffer.spec);
            let mut cpu_offsets = Vec::new();
            for cpu in &buffer.spec.cpus {
                if cpu.size_bytes > 0 {
                    at = at.next_multiple_of(align);
                }
                cpu_offsets.push(at.next_multiple_of(align));
                at += cpu.size_bytes;
            }
            places.push(BufferPlace { header_offset, cpu_offsets, end: at });
        }
        DataLayout { buffers: places, file_bytes: at }
    }
}

pub(super) fn alignment(spec: &BufferSpec) -> u64 {
    u64::from(spec.page_bytes).max(MMAP_ALIGN_BYTES)
}
