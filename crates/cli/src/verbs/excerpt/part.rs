//! A range of a recording as a recording of its own, while a verb reads it.

use super::{Stretch, stem_of};
use crate::verbs::load::{self, SourceArgs};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use transect_model::table::TableSink;
use transect_recording::Facts;

/// The excerpt that `export --to recording` writes for the range, in a temporary directory. So every
/// verb has the same numbers for a range as for an excerpt of it.
pub(crate) struct Part {
    /// Removed when it is dropped.
    _scratch: TempDir,
    path: PathBuf,
}

impl Part {
    /// Writes the excerpt.
    ///
    /// # Errors
    /// The range is not one of the recording's, or there is no space for the excerpt.
    pub(crate) fn write(stretch: &Stretch<'_>) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new().prefix("transect-range-").tempdir();
        let scratch =
            scratch.context("cannot create a temporary directory for the range (see TMPDIR)")?;
        let path = scratch.path().join(format!("{}.transect", stem_of(&stretch.name())));
        stretch.write(&path, u64::MAX, None)?;
        Ok(Part { _scratch: scratch, path })
    }

    /// The folder of its tables.
    pub(crate) fn tables(&self) -> anyhow::Result<PathBuf> {
        Ok(load::ensure(&self.path, &SourceArgs::default(), None)?.path)
    }

    /// Its rows; the facts are those of the excerpt, with the path of the whole recording.
    pub(crate) fn rows(&self, whole: &Path, sink: &mut dyn TableSink) -> anyhow::Result<Facts> {
        let facts = load::rows(&self.path, &SourceArgs::default(), None, sink)?;
        Ok(Facts { path: load::display_name(whole), ..facts })
    }
}
