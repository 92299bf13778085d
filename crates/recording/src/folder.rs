//! A recording's tables as files, made when they are first asked for.
//!
//! **Data flow.** The engine runs once with the tables' writer as its sink, then the sources are
//! read once more for the events themselves. Both take only what their buffers hold of memory.
//! The result stays beside the recording, or in the cache directory where that cannot be written
//! (bare files, somebody else's recording).

use crate::progress::Read;
use crate::{
    Options, Plan, SourceFile, Watcher, excerpt, files, opened::Opened, parse, place::Place,
    ready::run,
};
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use transect_clock::ClockGraph;
use transect_integrity::{Damage, Folder, LIST_FILE_NAME, damage_in};
use transect_model::table::{Row, TableDoc, TableSink};
use transect_store::tables::{
    Basis, EventSource, Problems, SourceEvents, TablesFolder, TablesWriter, Written, cache_for,
    write_events,
};
use transect_store::{Recording, StoreError};

/// The tables of the recording at `path` (a directory, a trace.dat, or an xentrace file): those that are there, or
/// new ones if they are stale or damaged.
///
/// # Errors
/// Nothing of it can be read, or tables cannot be written.
pub fn ensure(
    path: &Path,
    options: &Options,
    watcher: &dyn Watcher,
) -> anyhow::Result<TablesFolder> {
    let note = |damage: &Damage| watcher.note(&format!("{damage}: {MADE_AGAIN}"));
    ensure_noting(path, options, watcher, &note)
}

/// The same after damage was found and reported.
///
/// # Errors
/// As of [`ensure`].
pub fn ensure_again(
    path: &Path,
    options: &Options,
    watcher: &dyn Watcher,
) -> anyhow::Result<TablesFolder> {
    ensure_noting(path, options, watcher, &|_| ())
}

/// Has `work` read the tables. If it finds damage, they are made again, once, and read again from the beginning.
///
/// # Errors
/// As of [`ensure`], and those of `work`.
pub fn with<T>(
    path: &Path,
    options: &Options,
    watcher: &dyn Watcher,
    mut work: impl FnMut(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let tables = ensure(path, options, watcher)?;
    let done = work(&tables.path);
    let damage = done.as_ref().err().and_then(|error| damage_in(error.as_ref()));
    match damage.filter(|_| tables.can_be_made_again()) {
        None => done,
        Some(damage) => {
            watcher.note(&format!("{damage}: {MADE_AGAIN}"));
            Folder::distrust(&tables.path);
            work(&ensure_again(path, options, watcher)?.path)
        }
    }
}

const MADE_AGAIN: &str = "the recording's tables are made again";

fn ensure_noting(
    path: &Path,
    options: &Options,
    watcher: &dyn Watcher,
    note: &dyn Fn(&Damage),
) -> anyhow::Result<TablesFolder> {
    if let Some(excerpt) = excerpt::at(path)? {
        return excerpt.tables(options).with_context(|| path.display().to_string());
    }
    let basis = basis(path, options)?;
    let parent = parent(path)?;
    let make = |dir: &Path, damage: Option<&Damage>| {
        damage.into_iter().for_each(note);
        make(path, options, dir, watcher)
    };
    transect_store::tables::ensure(&parent, path, &basis, make)
        .with_context(|| path.display().to_string())
}

/// Everything the tables of this recording depend on.
fn basis(path: &Path, options: &Options) -> anyhow::Result<Basis> {
    let sources = if path.is_dir() {
        // A recording, or an error that says what is missing.
        Recording::open(path)?;
        files_in(path)?
    } else {
        files::map(path)?;
        let path = path.canonicalize()?;
        vec![(path.to_string_lossy().into_owned(), path)]
    };
    let words = format!("{options:?}");
    let sources = sources.iter().map(|(name, path)| (name.clone(), path.as_path()));
    Ok(Basis::new(&program(), &words, sources)?)
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
///
/// # Errors
/// It would be the cache, and there is none.
pub fn parent(path: &Path) -> anyhow::Result<PathBuf> {
    let writable = path.is_dir()
        && rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .is_ok();
    if writable { Ok(path.to_owned()) } else { Ok(cache_for(path)?) }
}

fn make(
    path: &Path,
    options: &Options,
    dir: &Path,
    watcher: &dyn Watcher,
) -> anyhow::Result<Written> {
    let place = Place::at(path)?;
    place.read(|| write(&place, options, dir, watcher))
}

/// Both passes: the engine's tables, then the events.
fn write(
    place: &Place<'_>,
    options: &Options,
    dir: &Path,
    watcher: &dyn Watcher,
) -> anyhow::Result<Written> {
    let opened = place.opened(options)?;
    let read = Read::default();
    watcher.begin(MAKING, "rows");
    let mut sink = Counting {
        writer: TablesWriter::create(dir, opened.topology.machines.len())?,
        rows: 0,
        problems: Problems::default(),
        read: &read,
        watcher,
    };
    let plan = Plan::default();
    run(opened, options, &plan, &mut sink, Some(&read))?;
    watcher.end();
    let Counting { writer, problems, .. } = sink;
    let mut written = Written { problems, ..writer.finish()? };
    written.extend(events(place.opened(options)?, options, dir, watcher, read.events())?);
    Ok(written)
}

fn events(
    opened: Opened<'_>,
    options: &Options,
    dir: &Path,
    watcher: &dyn Watcher,
    expected: u64,
) -> anyhow::Result<Written> {
    let clocks = ClockGraph::from_evidence(&opened.evidence, options.clock_options())?;
    // What cannot be read was told in the first pass.
    let traces = parse(&opened.sources, &mut Vec::new())?;
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
    watcher.begin(MAKING, "events");
    let rows =
        write_events(dir, &sources, &clocks, |events| watcher.at(events, (events, expected)));
    watcher.end();
    Ok(rows?)
}

/// What is going on.
const MAKING: &str = "making the recording's tables";

/// The writer, with its progress shown.
struct Counting<'t> {
    writer: TablesWriter,
    rows: u64,
    problems: Problems,
    read: &'t Read,
    watcher: &'t dyn Watcher,
}

impl TableSink for Counting<'_> {
    fn row(&mut self, row: Row) {
        self.rows += 1;
        if let Row::ImportLog(row) = &row {
            self.problems.add(row);
        }
        if self.rows.is_multiple_of(1 << 16) {
            self.watcher.at(self.rows, self.read.share());
        }
        self.writer.row(row);
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.writer.wants(table)
    }
}
