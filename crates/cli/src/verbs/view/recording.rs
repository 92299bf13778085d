//! A recording as the server sees it: it can be opened, and a range of it written as a file.

use crate::moment::{Moment, RangeArgs};
use crate::verbs::excerpt::{self, Stretch, pack};
use crate::verbs::flame;
use crate::verbs::load::{self, SourceArgs};
use anyhow::{Context as _, bail};
use std::fs::File;
use std::io::{BufWriter, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use transect_model::time::Span;
use transect_serve::{Exported, Opened, Recording};

/// Bytes of a smaller recording's tables at most: a browser takes what it downloads by `fetch` into
/// its own memory or temporary folder first.
const MAX_BYTES: u64 = 1 << 30;

/// The recording at a path.
pub(super) struct Shown {
    path: PathBuf,
    source: SourceArgs,
}

impl Shown {
    pub(super) fn new(path: PathBuf, source: SourceArgs) -> Self {
        Shown { path, source }
    }

    fn exported(&self, from: i64, to: i64, format: &str) -> anyhow::Result<Exported> {
        let stretch = Stretch {
            path: &self.path,
            source: &self.source,
            range: RangeArgs { from: Some(Moment::Plain(from)), until: Some(Moment::Plain(to)) },
        };
        let name = format!("{}-{from}-{to}", excerpt::stem_of(&self.name()));
        match format {
            "perfetto" => traced(&stretch, &name),
            "recording" => packed(&stretch, &name),
            "flame" => flames(&stretch, &name),
            _ => bail!("unknown format {format}: use perfetto, recording or flame"),
        }
    }
}

impl Recording for Shown {
    fn name(&self) -> String {
        excerpt::name_of(&self.path)
    }

    fn open(&self, progress: load::Tell<'_>) -> Result<Opened, String> {
        open(&self.path, &self.source, progress).map_err(|error| crate::errors::one_line(&error))
    }

    fn export(&self, from: i64, to: i64, format: &str) -> Result<Exported, String> {
        self.exported(from, to, format).map_err(|error| crate::errors::one_line(&error))
    }
}

/// A Perfetto trace.
fn traced(stretch: &Stretch<'_>, name: &str) -> anyhow::Result<Exported> {
    exported_by(format!("{name}.perfetto-trace"), |out| excerpt::perfetto(stretch, out).map(drop))
}

/// A page of flame graphs.
fn flames(stretch: &Stretch<'_>, name: &str) -> anyhow::Result<Exported> {
    exported_by(format!("{name}-stacks.html"), |out| flame::page_of(stretch, out))
}

/// What is written, in an unnamed temporary file: it may be larger than the recording.
fn exported_by(
    name: String,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<Exported> {
    let file = tempfile::tempfile().with_context(|| format!("no temporary file for {name}"))?;
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let mut file = out.into_inner().with_context(|| format!("cannot write {name}"))?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Exported { name, file })
}

/// A smaller recording as a tar in a file that is nobody's and gone when it is closed.
fn packed(stretch: &Stretch<'_>, name: &str) -> anyhow::Result<Exported> {
    let scratch =
        tempfile::tempdir().context("cannot create a temporary folder for the excerpt")?;
    let folder = format!("{}.transect", plain(name));
    let written = stretch.write(&scratch.path().join(&folder), MAX_BYTES, None)?;
    let file = tempfile::tempfile().context("cannot create a temporary file for the excerpt")?;
    let mut file = pack::tar(&written.path, &folder, file).context("cannot pack the excerpt")?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Exported { name: format!("{folder}.tar"), file })
}

/// A name that every shell and file system takes as it is.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    // Neither an option nor a hidden file.
    format!("{}{name}", if name.starts_with(['-', '.']) { "_" } else { "" })
}

fn open(path: &Path, source: &SourceArgs, tell: load::Tell<'_>) -> anyhow::Result<Opened> {
    let tables = load::ensure(path, source, Some(tell))?;
    load::note_problems(&tables);
    let can_be_made_again = tables.can_be_made_again();
    let facts = load::about(path, source)?;
    let mut notes = facts.notes;
    if !facts.finished {
        notes.push(
            "the recorder did not shut down cleanly: the end of the recording is missing"
                .to_owned(),
        );
    }
    if let Some(of) = facts.excerpt_of {
        let (Span { start, end }, unit) = (facts.window, facts.unit.as_str());
        notes.push(format!("excerpt of {of}, from {start} until {end} {unit}"));
    }
    if let Some(snapshot) = facts.snapshot {
        notes.push(format!("flight recorder snapshot, {snapshot}"));
    }
    let (unit, filter) = (facts.unit.as_str(), facts.filter);
    let parent = load::parent(path)?;
    Ok(Opened { tables: tables.path, can_be_made_again, parent, unit, filter, notes })
}
