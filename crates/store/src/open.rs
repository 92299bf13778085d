//! Opening a recording, whatever became of its recorder.

use crate::{
    assemble, checksums,
    error::{StoreError, io_error},
    manifest::{COPIES, FileEntry, Manifest, SourceEntry, SourceFormat},
    mapping::Mapping,
    writer::CLOCKS_FILE_NAME,
};
use std::{
    fs::{self, File},
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use transect_clock::evidence::{Evidence, RateSource};
use transect_integrity::{FileSums, Seal, seal_of_line};
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

/// Something worth a line in the import log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenProblem {
    /// The file.
    pub file: String,
    /// What was found, and what was done about it.
    pub message: String,
    /// Are events missing because of it?
    pub data_loss: bool,
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

/// The evidence of a recording; that of its copy, if the file is not what was written.
fn evidence_of(
    dir: &Path,
    manifest: &Manifest,
    problems: &mut Vec<OpenProblem>,
) -> Result<Vec<Evidence>, StoreError> {
    let mut found = Vec::new();
    let evidence = read_evidence(dir, &mut found);
    let copies = dir.join(COPIES);
    let has_other_length = problems.iter().any(|problem| problem.file == CLOCKS_FILE_NAME);
    if evidence.is_ok() && found.is_empty() && !has_other_length {
        return evidence;
    }
    let written = manifest.files.get(CLOCKS_FILE_NAME).map(|entry| entry.bytes);
    let is_whole =
        fs::metadata(copies.join(CLOCKS_FILE_NAME)).is_ok_and(|facts| Some(facts.len()) == written);
    let mut of_copy = Vec::new();
    match read_evidence(&copies, &mut of_copy) {
        Ok(copy) if is_whole && of_copy.is_empty() => {
            problems.retain(|problem| problem.file != CLOCKS_FILE_NAME);
            problems.push(OpenProblem {
                file: CLOCKS_FILE_NAME.to_owned(),
                message: "damaged: its copy is used; transect verify --repair restores it"
                    .to_owned(),
                data_loss: false,
            });
            Ok(copy)
        }
        _ => {
            problems.extend(found);
            evidence
        }
    }
}

pub(crate) fn read_evidence(
    dir: &Path,
    problems: &mut Vec<OpenProblem>,
) -> Result<Vec<Evidence>, StoreError> {
    let path = dir.join(CLOCKS_FILE_NAME);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(io_error("read", path)(e)),
    };
    let has_seals = text.lines().any(|line| seal_of_line(line) == Seal::Whole);
    let mut evidence = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = match seal_of_line(line) {
            Seal::Broken => Err("its checksum is wrong".to_owned()),
            Seal::None if has_seals => Err("its checksum is missing".to_owned()),
            Seal::Whole | Seal::None => serde_json::from_str(line).map_err(|why| why.to_string()),
        };
        match record {
            Ok(record) => evidence.push(record),
            Err(why) => problems.push(OpenProblem {
                file: CLOCKS_FILE_NAME.to_owned(),
                message: format!(
                    "line {} is skipped: {why}: timestamps may be converted with a larger error",
                    at + 1
                ),
                data_loss: true,
            }),
        }
    }
    Ok(best_rates(evidence))
}

/// A rate measured again over a longer span replaces the former ones of its machine: only the
/// best is kept, in the place of the first.
fn best_rates(evidence: Vec<Evidence>) -> Vec<Evidence> {
    let mut kept: Vec<Evidence> = Vec::with_capacity(evidence.len());
    for record in evidence {
        let Some((machine, ppm)) = rate_of(&record) else {
            kept.push(record);
            continue;
        };
        let former = kept.iter_mut().find(|k| rate_of(k).is_some_and(|(m, _)| m == machine));
        match former {
            Some(former) if rate_of(former).is_some_and(|(_, former)| ppm <= former) => {
                *former = record;
            }
            Some(_) => {}
            None => kept.push(record),
        }
    }
    kept
}

fn rate_of(record: &Evidence) -> Option<(transect_model::ids::MachineId, f64)> {
    match record {
        Evidence::TscRate { machine, how: RateSource::Measured, error_ppm, .. } => {
            Some((*machine, *error_ppm))
        }
        Evidence::TscRate { machine, .. } => Some((*machine, 0.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::MachineId;

    fn rate(machine: u32, mult: u32, error_ppm: f64) -> Evidence {
        let how = RateSource::Measured;
        Evidence::TscRate {
            machine: MachineId(machine),
            mult,
            shift: 31,
            offset_ns: 0,
            how,
            error_ppm,
        }
    }

    #[test]
    fn the_best_measured_rate_wins_per_machine() {
        let restart = Evidence::ClockRestart { machine: MachineId(1), at_host: 5 };
        let all = vec![
            rate(0, 1, 2.0),
            restart.clone(),
            rate(1, 7, 1.0),
            rate(0, 2, 0.1),
            rate(0, 3, 9.0),
        ];
        assert_eq!(best_rates(all), [rate(0, 2, 0.1), restart, rate(1, 7, 1.0)]);
    }
}
