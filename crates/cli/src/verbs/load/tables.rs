//! A recording's tables as files, made when they are first asked for.
//!
//! **Data flow.** The engine runs once with the tables' writer as its sink, then the sources are
//! read once more for the events themselves. Both take only what their buffers hold of memory.
//! The result stays beside the recording, or in the cache directory where that cannot be written
//! (bare files, somebody else's recording).

use super::progress::{Read, Tell};
use super::{Opened, Plan, SourceArgs, SourceFile, directory, files, losses};
use crate::terminal::{self, note};
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use transect_clock::ClockGraph;
use transect_integrity::{Damage, Folder, LIST_FILE_NAME, damage_in};
use transect_model::table::{Row, TableDoc, TableSink};
use transect_store::tables::{
    Basis, EventSource, Problems, SourceEvents, TablesFolder, TablesWriter, Written, cache_for,
    write_events,
};
use transect_store::{Mapping, Recording, StoreError};

/// The tables of the recording at `path` (a directory, a trace.dat, or an xentrace file): those that are there, or
/// new ones if they are stale or damaged. Shows its progress on a terminal.
pub(crate) fn ensure(path: &Path, args: &SourceArgs) -> anyhow::Result<TablesFolder> {
    ensure_and_tell(path, args, None)
}

/// The same; `tell` is told how far it is instead of the terminal.
pub(crate) fn ensure_and_tell(
    path: &Path,
    args: &SourceArgs,
    tell: Option<Tell<'_>>,
) -> anyhow::Result<TablesFolder> {
    let note = |damage: &Damage| note!("{damage}: {MADE_AGAIN}");
    ensure_noting(path, args, tell, &note)
}

/// The same after damage was found and reported.
pub(crate) fn ensure_again(
    path: &Path,
    args: &SourceArgs,
    tell: Option<Tell<'_>>,
) -> anyhow::Result<TablesFolder> {
    ensure_noting(path, args, tell, &|_| ())
}

/// Has `work` read the tables. If it finds damage, they are made again, once, and read again from the beginning.
pub(crate) fn with<T>(
    path: &Path,
    args: &SourceArgs,
    tell: Option<Tell<'_>>,
    mut work: impl FnMut(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let tables = ensure_and_tell(path, args, tell)?;
    let done = work(&tables.path);
    let damage = done.as_ref().err().and_then(|error| damage_in(error.as_ref()));
    match damage.filter(|_| tables.can_be_made_again()) {
        None => done,
        Some(damage) => {
            note!("{damage}: {MADE_AGAIN}");
            Folder::distrust(&tables.path);
            work(&ensure_again(path, args, tell)?.path)
        }
    }
}

const MADE_AGAIN: &str = "the recording's tables are made again";

fn ensure_noting(
    path: &Path,
    args: &SourceArgs,
    tell: Option<Tell<'_>>,
    note: &dyn Fn(&Damage),
) -> anyhow::Result<TablesFolder> {
    if let Some(excerpt) = super::excerpt::at(path)? {
        return excerpt.tables(args).with_context(|| path.display().to_string());
    }
    let basis = basis(path, args)?;
    let parent = parent(path)?;
    let make = |dir: &Path, damage: Option<&Damage>| {
        damage.into_iter().for_each(note);
        make(path, args, dir, tell)
    };
    transect_store::tables::ensure(&parent, path, &basis, make)
        .with_context(|| path.display().to_string())
}

/// Reports what the recording's sources lost, one line each.
pub(crate) fn note_problems(tables: &TablesFolder) {
    losses::report(&tables.stamp.problems, "SELECT * FROM import_log");
}

/// Everything the tables of this recording depend on.
fn basis(path: &Path, args: &SourceArgs) -> anyhow::Result<Basis> {
    let sources = if path.is_dir() {
        // A recording, or an error that says what is missing.
        Recording::open(path)?;
        files_in(path)?
    } else {
        files::map(path)?;
        let path = path.canonicalize()?;
        vec![(path.to_string_lossy().into_owned(), path)]
    };
    let options = format!("{args:?}");
    let sources = sources.iter().map(|(name, path)| (name.clone(), path.as_path()));
    Ok(Basis::new(&program(), &options, sources)?)
}

/// The files of a recording that its rows depend on, by their names.
fn files_in(dir: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let failed = |source| StoreError::Io { action: "list", path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        // Reserved space, files under way, and checksums, which say what is lost and not what is there.
        let is_other = name.starts_with('.') || name.ends_with(".tmp") || name == LIST_FILE_NAME;
        if !is_other && path.is_file() {
            files.push((name, path));
        }
    }
    files.sort();
    Ok(files)
}

/// This program: its version, and which build of it, for two builds of one version may differ.
fn program() -> String {
    let build = std::env::current_exe().and_then(fs::metadata).ok().and_then(|exe| {
        let built = exe.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!(" {} {}", exe.len(), built.as_nanos()))
    });
    format!("{}{}", env!("CARGO_PKG_VERSION"), build.unwrap_or_default())
}

/// The folder that `tables/` is in.
pub(crate) fn parent(path: &Path) -> anyhow::Result<PathBuf> {
    let writable = path.is_dir()
        && rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .is_ok();
    if writable { Ok(path.to_owned()) } else { Ok(cache_for(path)?) }
}

fn make(
    path: &Path,
    args: &SourceArgs,
    dir: &Path,
    tell: Option<Tell<'_>>,
) -> anyhow::Result<Written> {
    if path.is_dir() {
        let recording = Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        let opened = || Ok(directory::opened(path, &recording));
        Mapping::read_through(&maps, || write(opened, args, dir, tell))
    } else {
        let map = files::map(path)?;
        Mapping::read_through(&[&map], || {
            write(|| files::opened(&[(path, &map)], &args.xen), args, dir, tell)
        })
    }
}

/// Both passes: the engine's tables, then the events.
fn write<'a>(
    open: impl Fn() -> anyhow::Result<Opened<'a>>,
    args: &SourceArgs,
    dir: &Path,
    tell: Option<Tell<'_>>,
) -> anyhow::Result<Written> {
    let opened = open()?;
    let read = Read::default();
    let mut sink = Counting {
        writer: TablesWriter::create(dir, opened.topology.machines.len())?,
        rows: 0,
        problems: Problems::default(),
        read: &read,
        progress: Progress::new(MAKING, "rows", tell),
    };
    let plan = Plan::default();
    super::run(opened, args, &plan, &mut sink, Some(&read))?;
    sink.progress.end();
    let Counting { writer, problems, .. } = sink;
    let mut written = Written { problems, ..writer.finish()? };
    written.extend(events(open()?, args, dir, tell, read.events())?);
    Ok(written)
}

fn events(
    opened: Opened<'_>,
    args: &SourceArgs,
    dir: &Path,
    tell: Option<Tell<'_>>,
    expected: u64,
) -> anyhow::Result<Written> {
    let clocks = ClockGraph::from_evidence(&opened.evidence, args.clock_options())?;
    // What cannot be read was told in the first pass.
    let traces = super::parse(&opened.sources, &mut Vec::new())?;
    let sources: Vec<EventSource<'_, '_>> = traces
        .iter()
        .map(|(source, trace)| EventSource {
            machine: source.machine,
            events: match trace {
                SourceFile::Dat(dat) => SourceEvents::Dat(dat),
                SourceFile::Compact(file) => SourceEvents::Compact(file),
                SourceFile::Xen(file) => SourceEvents::Xen(file),
            },
        })
        .collect();
    let mut progress = Progress::new(MAKING, "events", tell);
    let rows = write_events(dir, &sources, &clocks, |events| {
        progress.show(events, (events, expected));
    });
    progress.end();
    Ok(rows?)
}

/// What the terminal is told.
const MAKING: &str = "making the recording's tables";

/// The writer, with its progress shown.
struct Counting<'t> {
    writer: TablesWriter,
    rows: u64,
    problems: Problems,
    read: &'t Read,
    progress: Progress<'t>,
}

impl TableSink for Counting<'_> {
    fn row(&mut self, row: Row) {
        self.rows += 1;
        if let Row::ImportLog(row) = &row {
            self.problems.add(row);
        }
        if self.rows.is_multiple_of(1 << 16) {
            self.progress.show(self.rows, self.read.share());
        }
        self.writer.row(row);
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.writer.wants(table)
    }
}

/// A line on the terminal that tells how far it is, once it takes longer than a second; or whoever
/// else wants to know.
pub(crate) struct Progress<'t> {
    doing: &'static str,
    what: &'static str,
    tell: Option<Tell<'t>>,
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl<'t> Progress<'t> {
    pub(crate) fn new(doing: &'static str, what: &'static str, tell: Option<Tell<'t>>) -> Self {
        let is_terminal = terminal::shows_progress();
        Progress { doing, what, tell, begun: Instant::now(), shown: None, is_terminal }
    }

    /// So many rows or events; `done` of how much in all, where that is known.
    pub(crate) fn show(&mut self, count: u64, (done, total): (u64, u64)) {
        // A total that was passed is none.
        let total = if done <= total { total } else { 0 };
        if let Some(tell) = self.tell {
            return tell(self.what, if total > 0 { done } else { count }, total);
        }
        let last = self.shown.map_or(self.begun + Duration::from_secs(1), |shown| {
            shown + Duration::from_millis(200)
        });
        if !self.is_terminal || Instant::now() < last {
            return;
        }
        self.shown = Some(Instant::now());
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let (millions, share) = (count as f64 / 1e6, 100.0 * done as f64 / total.max(1) as f64);
        let share = if total > 0 { format!("({share:.0} %) ") } else { String::new() };
        // A terminal that went away is no reason to stop.
        let (doing, what) = (self.doing, self.what);
        terminal::progress(&format!("{doing}: {millions:.1} M {what} {share}"));
    }

    pub(crate) fn end(&mut self) {
        if self.shown.take().is_some() {
            terminal::clear_progress();
        }
    }
}
