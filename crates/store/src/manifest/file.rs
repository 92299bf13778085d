//! The manifest as a file: read, checked, written; and its copy.

use super::entries::{Excerpt, FORMAT, Manifest, SourceFormat};
use crate::error::{StoreError, io_error};
use crate::problem::OpenProblem;
use crate::replace::replace;
use serde::Deserialize;
use std::{fs, io, path::Path};
use transect_integrity::{Seal, seal, seal_of};

/// The manifest's file name in the recording directory.
pub const FILE_NAME: &str = "manifest.json";

/// The folder of a finished recording that has a second copy of the manifest and of the clock evidence: few bytes, by
/// which all others are understood.
pub const COPIES: &str = "copies";

impl Manifest {
    /// Is there a manifest in the directory, or a copy of one?
    pub fn is_at(dir: &Path) -> bool {
        dir.join(FILE_NAME).exists() || dir.join(COPIES).join(FILE_NAME).exists()
    }

    /// Reads the manifest of a recording directory; its copy, if it is damaged.
    pub fn read(dir: &Path) -> Result<Self, StoreError> {
        Self::read_noting(dir, &mut Vec::new())
    }

    /// The same; that the copy was read is a problem.
    pub(crate) fn read_noting(
        dir: &Path,
        problems: &mut Vec<OpenProblem>,
    ) -> Result<Self, StoreError> {
        let error = match Self::read_file(&dir.join(FILE_NAME)) {
            Ok(manifest) => return Ok(manifest),
            Err(error) => error,
        };
        let Ok(manifest) = Self::read_file(&dir.join(COPIES).join(FILE_NAME)) else {
            return Err(match error {
                StoreError::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                    let contents = names_in(dir);
                    StoreError::NotARecording { dir: dir.to_owned(), contents }
                }
                error => error,
            });
        };
        problems.push(OpenProblem {
            file: FILE_NAME.to_owned(),
            message: format!(
                "{}: its copy is used; transect verify --repair restores it",
                why(&error)
            ),
            data_loss: false,
        });
        Ok(manifest)
    }

    pub(crate) fn read_file(path: &Path) -> Result<Self, StoreError> {
        let damaged =
            |reason: String| StoreError::DamagedManifest { path: path.to_owned(), reason };
        let bytes = fs::read(path).map_err(io_error("read the manifest", path))?;
        let text =
            String::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8 text".to_owned()))?;
        let seal = seal_of(&text);
        if seal == Seal::Broken {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
        let manifest = Self::parse(&text)
            .map_err(|reason| StoreError::Manifest { path: path.to_owned(), reason })?;
        // Whoever wrote the list of files has sealed it.
        match seal == Seal::None && !manifest.files.is_empty() {
            true => Err(damaged("its checksum is missing".to_owned())),
            false => Ok(manifest),
        }
    }

    /// Parses and checks a manifest's text; the error names the line or field.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        // The version first: a newer layout must not be reported as a missing field.
        let version: Version = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if version.format > FORMAT {
            return Err(format!(
                "layout version {} is newer than the supported version {FORMAT}: use a newer transect",
                version.format
            ));
        }
        let manifest: Manifest = serde_json::from_str(text).map_err(|e| e.to_string())?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if let Some(excerpt) = &self.excerpt {
            excerpt.check()?;
            if !self.sources.is_empty() {
                return Err("an excerpt has no sources, but it lists some".to_owned());
            }
        }
        for (at, machine) in self.machines.iter().enumerate() {
            if usize::try_from(machine.id.0) != Ok(at) {
                return Err(format!("machines[{at}] has id {}, expected {at}", machine.id));
            }
        }
        let machines = self.machines.len();
        for source in &self.sources {
            crate::names::check_file(&source.file).map_err(|e| e.to_string())?;
            if usize::try_from(source.machine_id.0).is_ok_and(|id| id >= machines) {
                return Err(format!(
                    "source {} names machine {}, but there are {machines} machines",
                    source.file, source.machine_id
                ));
            }
            // What Xen wrote has none.
            let has_pages = source.format != SourceFormat::Xentrace;
            if has_pages && source.sub_buffer_bytes < 64 || source.sub_buffer_bytes > 1 << 28 {
                return Err(format!(
                    "source {} has an impossible sub-buffer size of {} bytes",
                    source.file, source.sub_buffer_bytes
                ));
            }
        }
        Ok(())
    }

    /// Writes the manifest into `dir`, replacing the old one in one step.
    pub fn write(&self, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(FILE_NAME);
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| StoreError::Manifest { path: path.clone(), reason: e.to_string() })?;
        replace(&path, seal(&text).as_bytes())
    }
}

/// What is wrong with a manifest, without its path and without what to do.
pub(crate) fn why(error: &StoreError) -> String {
    match error {
        StoreError::DamagedManifest { reason, .. } | StoreError::Manifest { reason, .. } => {
            reason.clone()
        }
        StoreError::Io { source, .. } => format!("cannot be read: {source}"),
        other => other.to_string(),
    }
}

/// The files of a directory, by name.
fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Excerpt {
    fn check(&self) -> Result<(), String> {
        if self.from > self.until {
            return Err(format!("the excerpt ends at {} before {}", self.until, self.from));
        }
        if self.unit != "ns" && self.unit != "ticks" {
            return Err(format!(
                "the excerpt's time unit is {:?}, expected ns or ticks",
                self.unit
            ));
        }
        Ok(())
    }
}
