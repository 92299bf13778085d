//! One compact file of a recording while it is written: the host's or a guest's.

use transect_compact::{
    CHUNK_BYTES, FileHeader, Names, Slice, Totals, count_events, end_block, names_blocks,
    note_block, slice_header, stack_notes,
};
use transect_model::{ids::MachineId, stack::Stacks};
use transect_store::{
    AppendFile, RecordingWriter, StoreError,
    manifest::{SourceEntry, SourceFormat},
};

/// The clock of `bpf_ktime_get_ns`.
pub(super) const COMPACT_CLOCK: &str = "mono";

/// A file of blocks. Clones write to the same one.
#[derive(Clone)]
pub(super) struct CompactFile(AppendFile);

/// What the manifest says about a compact file.
pub(super) struct CompactEntry {
    pub(super) machine: MachineId,
    pub(super) file: String,
    pub(super) cpu_count: u32,
    pub(super) trace_id: u64,
    pub(super) uname: String,
}

impl CompactFile {
    /// Makes the file: its header, and the names known so far.
    pub(super) fn begin(
        writer: &RecordingWriter,
        entry: CompactEntry,
        header: &FileHeader,
        names: &Names,
    ) -> Result<Self, StoreError> {
        let file = writer.add_compact(SourceEntry {
            machine_id: entry.machine,
            file: entry.file,
            format: SourceFormat::Compact,
            spooled: false,
            clock: COMPACT_CLOCK.to_owned(),
            tsc_to_ns: None,
            // 32 KiB.
            sub_buffer_bytes: u32::try_from(CHUNK_BYTES).unwrap_or(u32::MAX),
            cpu_count: entry.cpu_count,
            // The format's own, whatever the kernel's are.
            long_bytes: 8,
            big_endian: false,
            trace_id: entry.trace_id,
            uname: entry.uname,
        })?;
        file.append(&[&header.to_bytes(), &names_blocks(names)])?;
        Ok(CompactFile(file))
    }

    /// Appends a slice of a log; returns the events and the bytes it came to.
    pub(super) fn slice(&self, slice: &Slice<'_>) -> Result<(u64, u64), StoreError> {
        let header = slice_header(slice);
        self.0.append(&[&header, slice.words])?;
        // usize is at most 64 bits wide on every target.
        Ok((count_events(slice.words), (header.len() + slice.words.len()) as u64))
    }

    /// Ends it in order, with names learnt meanwhile and the frames of stacks.
    pub(super) fn end(
        &self,
        names: &Names,
        stacks: &Stacks,
        totals: &Totals,
    ) -> Result<(), StoreError> {
        let notes: Vec<u8> = stack_notes(stacks).iter().flat_map(|note| note_block(note)).collect();
        self.0.append(&[&names_blocks(names), &notes, &end_block(totals)])
    }
}
