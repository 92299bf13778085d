//! Opening a recording, whatever became of its recorder.

use crate::{
    assemble, checksums,
    error::{StoreError, io_error},
    evidence::evidence_of,
    manifest::{FileEntry, Manifest, SourceEntry, SourceFormat},
    mapping::Mapping,
    problem::OpenProblem,
};
use std::{
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use transect_clock::evidence::Evidence;
use transect_integrity::FileSums;
use transect_model::ids::CpuId;

/// An opened recording: everything mapped, nothing decoded.
#[derive(Debug)]
pub struct Recording {
    /// Its directory.
    pub dir: PathBuf,
    /// What it is.
    pub manifest: Manifest,
    /// Its sources, in the manifest's order. One that cannot be opened is a problem instead.
    pub sources: Vec<Source>,
    /// What was seen of the clocks, in order of time.
    pub evidence: Vec<Evidence>,
    /// What could not be read, and what was mended on the way.
    pub problems: Vec<OpenProblem>,
}

/// One file of events: the bytes of a trace.dat, a compact or an xentrace file, as its entry
/// says.
#[derive(Debug)]
pub struct Source {
    /// As the manifest has it.
    pub entry: SourceEntry,
    /// The file; a trace.dat may be spools behind a head made in memory.
    pub bytes: Mapping,
    /// What it was when the recording was finished, if that is known and its format does not tell.
    sums: Option<FileSums>,
    damage: OnceLock<Vec<Range<u64>>>,
    /// The file as it was when the recording was finished.
    written: Option<FileEntry>,
}

impl Source {
    /// The ranges of the file that are not what was written, where its format does not tell. The first call
    /// reads the whole file.
    pub fn damage(&self) -> &[Range<u64>] {
        self.damage
            .get_or_init(|| self.sums.as_ref().map_or_else(Vec::new, |s| s.damage(&self.bytes)))
    }

    /// Does it lack its end, as the manifest tells?
    pub fn is_cut(&self) -> bool {
        self.written.as_ref().is_some_and(|written| (self.bytes.len() as u64) < written.bytes)
    }

    /// Does it end otherwise than when the recording was finished? Then it was damaged, or another file is in its
    /// place; its format tells which.
    pub fn has_other_end(&self) -> bool {
        let written = self.written.as_ref().and_then(|written| Some((written.bytes, written.end?)));
        written.is_some_and(|(bytes, end)| checksums::end_of(&self.bytes, bytes) != end)
    }

    /// The logs that a compact file had when the recording was finished: CPU, number, and a stamp before which it had no
    /// event.
    pub fn logs(&self) -> &[(CpuId, u8, u64)] {
        self.written.as_ref().map_or(&[], |written| &written.logs)
    }

    /// The first byte of damage that makes all of its events doubtful, for it is in what describes them.
    pub fn damaged_head(&self) -> Option<u64> {
        let empty = Vec::new();
        let events = self.written.as_ref().map_or(&empty, |written| &written.events);
        let is_of_events = |damaged: &&Range<u64>| {
            events.iter().any(|(from, to)| *from <= damaged.start && damaged.end <= *to)
        };
        let is_dat = self.entry.format == SourceFormat::TraceDat;
        let damaged = self.damage().iter().find(|damaged| is_dat && !is_of_events(damaged));
        damaged.map(|damaged| damaged.start)
    }
}

impl Recording {
    /// Opens the recording in `dir`; reads only, writes nothing.
    ///
    /// # Errors
    /// No manifest, or one that cannot be understood. A source that cannot be opened is a
    /// [`OpenProblem`], unless there is no other.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let mut problems = Vec::new();
        let manifest = Manifest::read_noting(dir, &mut problems)?;
        if !manifest.finished {
            problems.push(OpenProblem {
                file: crate::manifest::FILE_NAME.to_owned(),
                message: "the recorder did not finish (killed, or still running): recovered up to the last whole sub-buffer of each CPU; counts of lost events and the recording's cost are unknown".to_owned(),
                data_loss: true,
            });
        }
        problems.extend(checksums::check_lengths(dir, &manifest));
        let mut list = checksums::read(dir, &manifest, &mut problems);
        let mut sources = Vec::new();
        let mut failed = None;
        for entry in &manifest.sources {
            match open_source(dir, &manifest, entry, &mut problems) {
                Ok(bytes) => {
                    let sums = list.files.remove(&entry.file).filter(|_| !entry.spooled);
                    let written = manifest.files.get(&entry.file).filter(|_| !entry.spooled);
                    sources.push(Source {
                        entry: entry.clone(),
                        bytes,
                        sums,
                        damage: OnceLock::new(),
                        written: written.cloned(),
                    });
                }
                Err(error) => {
                    problems.push(OpenProblem {
                        file: entry.file.clone(),
                        message: error.to_string(),
                        data_loss: true,
                    });
                    failed = Some(error);
                }
            }
        }
        if let (true, Some(error)) = (sources.is_empty(), failed) {
            return Err(error);
        }
        let evidence = evidence_of(dir, &manifest, &mut problems)?;
        Ok(Recording { dir: dir.to_owned(), manifest, sources, evidence, problems })
    }

    /// Was its recorder killed, so that this is what could be saved?
    pub fn is_recovered(&self) -> bool {
        !self.manifest.finished
    }
}

fn open_source(
    dir: &Path,
    manifest: &Manifest,
    entry: &SourceEntry,
    problems: &mut Vec<OpenProblem>,
) -> Result<Mapping, StoreError> {
    let path = dir.join(&entry.file);
    match File::open(&path) {
        // There first: a recorder killed between assembling and its last manifest has both.
        Ok(file) => return Mapping::of_file(&file).map_err(io_error("map", &path)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(io_error("open", &path)(e)),
    }
    if entry.format != SourceFormat::TraceDat || manifest.finished && !entry.spooled {
        return Err(StoreError::MissingSource(path));
    }
    let plan = assemble::plan(dir, manifest, entry)?;
    for spool in plan.spools.iter().filter(|spool| spool.torn_bytes > 0) {
        problems.push(OpenProblem {
            file: spool.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            message: format!(
                "its last {} bytes are an incomplete sub-buffer (from byte {}), which is skipped",
                spool.torn_bytes, spool.bytes
            ),
            data_loss: true,
        });
    }
    plan.map().map_err(io_error("map the spools of", &path))
}
