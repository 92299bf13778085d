//! Where a recording is: a directory of transect's, or the file of another recorder.

use crate::{Options, directory, files, opened::Opened};
use anyhow::Context as _;
use std::path::Path;
use transect_store::{Mapping, Recording};

/// The mapped files of a recording.
pub(crate) enum Place<'p> {
    Directory(&'p Path, Box<Recording>),
    File(&'p Path, Mapping),
}

impl<'p> Place<'p> {
    /// # Errors
    /// There is nothing that could be a recording.
    pub(crate) fn at(path: &'p Path) -> anyhow::Result<Self> {
        Ok(match path.is_dir() {
            true => Place::Directory(path, Box::new(Recording::open(path)?)),
            false => Place::File(path, files::map(path)?),
        })
    }

    /// Everything that the engine needs to know about it.
    pub(crate) fn opened(&self, options: &Options) -> anyhow::Result<Opened<'_>> {
        match self {
            Place::Directory(path, recording) => Ok(directory::opened(path, recording)),
            Place::File(path, map) => files::opened(&[(path, map)], &options.xen),
        }
    }

    /// Has `work` read the files; the memory of what was read is given back meanwhile.
    pub(crate) fn read<T>(&self, work: impl FnOnce() -> T) -> T {
        let maps: Vec<&Mapping> = match self {
            Place::Directory(_, recording) => {
                recording.sources.iter().map(|source| &source.bytes).collect()
            }
            Place::File(_, map) => vec![map],
        };
        Mapping::read_through(&maps, work)
    }
}

/// Opens a recording and has `work` read it, in one go.
pub(crate) fn with_opened<T>(
    path: &Path,
    options: &Options,
    work: impl FnOnce(Opened<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let place = Place::at(path)?;
    place.read(|| work(place.opened(options)?)).with_context(|| path.display().to_string())
}
