//! What opening a recording gives, whether it is a directory or a file: everything that the engine needs, not decoded.

use crate::{
    SourceBytes,
    endings::Endings,
    facts::Facts,
    window::{RawWindow, Written},
};
use std::path::{Path, PathBuf};
use transect_clock::Evidence;
use transect_engine::{Filter, LostCause, StreamKey, Topology};
use transect_model::ids::MachineId;
use transect_model::table::ImportLog;

/// A recording, opened but not decoded.
pub(crate) struct Opened<'a> {
    pub(crate) facts: Facts,
    pub(crate) topology: Topology,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) sources: Vec<SourceBytes<'a>>,
    pub(crate) gaps: Vec<RawGap>,
    /// What the recorders of its machines let through.
    pub(crate) filters: Vec<(MachineId, Filter)>,
    /// The window, if it is not that of the events.
    pub(crate) window: Option<RawWindow>,
    /// The events' window as it was written, if that is known.
    pub(crate) written: Option<Written>,
    /// Events lost per CPU, by the kernels' own count.
    pub(crate) lost: Vec<(StreamKey, u64)>,
    /// How the streams end, where that is not with everything that was recorded.
    pub(crate) endings: Endings,
    pub(crate) remarks: Vec<ImportLog>,
}

/// A stretch in which a machine was not recorded, in the host's own clock.
pub(crate) struct RawGap {
    pub(crate) machine: MachineId,
    pub(crate) from: Option<u64>,
    pub(crate) until: Option<u64>,
    pub(crate) cause: LostCause,
}

/// A recording's name for people: as given, without a trailing slash.
pub fn display_name(path: &Path) -> String {
    path.components().collect::<PathBuf>().display().to_string()
}
