//! `manifest.json`: what a recording is, whom it observed, what is missing and what it cost.
//!
//! Written whole at the start (`finished: false`), whenever a source or machine is added, and at
//! the end; always to a temporary file that is renamed over the old one, so that a reader (or a
//! crash) sees one version or the other. Its last member is its checksum. Fields may be added within one [`FORMAT`]; unknown
//! fields are ignored by readers, absent ones take their default.

mod entries;
mod file;

pub use entries::{
    CgroupEntry, Cost, Excerpt, FORMAT, FileEntry, FilterEntry, Gap, IrqLineEntry, LostCount,
    MachineEntry, Manifest, NotKept, SnapshotEntry, SourceEntry, SourceFormat, ThreadEntry,
    TscToNs, VcpuEntry,
};
pub use file::{COPIES, FILE_NAME};
pub use transect_model::ids::MachineKind;

pub(crate) use file::why;
