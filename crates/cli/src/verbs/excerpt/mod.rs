//! A stretch of a recording's time: its rows for other formats, or a smaller recording of it.
//!
//! **Data flow.** recording → its tables, made if they are missing → rows that meet the stretch (for
//! `export` and the page's Perfetto file) │ files cut to it, with windows made anew by the engine → a
//! directory (`transect_store::ExcerptWriter`) → a tar of it, for the page and for pipes.

pub(crate) mod pack;
mod part;

pub(crate) use part::Part;

use super::load::{self, Progress, SourceArgs, Tell};
use crate::moment::{Moment, RangeArgs, Timebase, trace_text};
use anyhow::{Context as _, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use transect_explain::Gathered;
use transect_model::table::{Machine, Row, Selected, TableDoc, TableSink, Vcpu, WallClock, Window};
use transect_model::time::{Span, Timestamp};
use transect_model::wall::WallMap;
use transect_recording::{Facts, TimeUnit};
use transect_store::manifest::{Excerpt, MachineEntry, VcpuEntry};
use transect_store::tables::{Cut, Range, TablesWriter, read_rows, span_of};
use transect_store::{ExcerptWriter, Manifest};

/// What of which recording.
pub(crate) struct Stretch<'a> {
    pub(crate) path: &'a Path,
    pub(crate) source: &'a SourceArgs,
    /// Open ends are those of the recording.
    pub(crate) range: RangeArgs,
}

/// A smaller recording that was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) path: PathBuf,
    pub(crate) rows: u64,
    pub(crate) events: u64,
    pub(crate) window: Span,
    pub(crate) unit: TimeUnit,
}

/// A stretch that is known to be one of the recording's.
struct Found {
    facts: Facts,
    /// The ends are open where they are the recording's.
    range: Range,
    /// The part of the recording's window.
    window: Span,
}

impl Stretch<'_> {
    /// The range as `ts` values of the tables, open where it is the recording's, and the part of the
    /// recording's window. Makes the tables if there are none.
    ///
    /// # Errors
    /// The range is not one of the recording's.
    pub(crate) fn resolve(&self) -> anyhow::Result<(Range, Span)> {
        self.with_tables(None, |tables| {
            let found = self.find(tables)?;
            Ok((found.range, found.window))
        })
    }

    fn name(&self) -> String {
        name_of(self.path)
    }

    /// Hands out the rows that meet the stretch, whole. What is known about the recording.
    pub(crate) fn rows(&self, sink: &mut dyn TableSink) -> anyhow::Result<Facts> {
        let found = self.with_tables(None, |tables| {
            let found = self.find(tables)?;
            // Rows that were handed out cannot be taken back: damage must be found before the first.
            read_rows(tables, found.range, &mut Unused(sink))?;
            Ok(found)
        })?;
        let tables = load::ensure(self.path, self.source, None)?.path;
        read_rows(&tables, found.range, sink)?;
        Ok(Facts { window: found.window, ..found.facts })
    }

    /// The rows of these tables that meet the stretch, whole, and what is known about the recording. They are read once: what was
    /// read before damage was found is dropped.
    pub(crate) fn gathered(&self, wanted: &[TableDoc]) -> anyhow::Result<(Facts, Gathered)> {
        self.with_tables(None, |tables| {
            let Found { facts, range, window } = self.find(tables)?;
            let read = |part: &mut Gathered| read_rows(tables, range, part).map(drop);
            Ok((Facts { window, ..facts }, Gathered::by_table(wanted, read)?))
        })
    }

    /// Writes the stretch as a recording of its own, the directory `to`.
    pub(crate) fn write(
        &self,
        to: &Path,
        max_bytes: u64,
        tell: Option<Tell<'_>>,
    ) -> anyhow::Result<Written> {
        // A place that is taken is an error before tables are made.
        drop(ExcerptWriter::create(to)?);
        self.with_tables(tell, |tables| self.write_from(tables, to, max_bytes, tell))
    }

    fn write_from(
        &self,
        tables: &Path,
        to: &Path,
        max_bytes: u64,
        tell: Option<Tell<'_>>,
    ) -> anyhow::Result<Written> {
        let writer = ExcerptWriter::create(to)?;
        let Found { facts, range, window } = self.find(tables)?;
        let is_whole = range == Range::ALL;
        let with_windows = is_whole || facts.excerpt_of.is_some();
        let dir = writer.tables();
        let cut = Cut { tables, to: &dir, range, with_windows, max_bytes };
        let mut progress = Progress::new("writing the excerpt", "rows read", tell);
        let written = cut.write(&mut |rows| progress.show(rows, (rows, 0)));
        progress.end();
        let mut written = written?;
        if !with_windows {
            written.extend(self.windows(tables, &dir, range)?);
        }
        let mut manifest = self.manifest(tables)?;
        if with_windows && !is_whole {
            manifest.notes.push(NO_NEW_WINDOWS.to_owned());
        }
        let is_event = |name: &String| name.starts_with("events/");
        let rows = &written.rows;
        let events = rows.iter().filter(|(name, _)| is_event(name)).map(|(_, rows)| rows).sum();
        let excerpt = Excerpt {
            of: facts.excerpt_of.unwrap_or_else(|| name_of(self.path)),
            from: window.start.get(),
            until: window.end.get(),
            unit: facts.unit.as_str().to_owned(),
            transect: env!("CARGO_PKG_VERSION").to_owned(),
            made_unix_ns: now_unix_ns(),
            events,
        };
        let all: u64 = rows.values().sum();
        let path = writer.finish(manifest, excerpt, written)?;
        Ok(Written { path, rows: all - events, events, window, unit: facts.unit })
    }

    /// Has tables made if there are none, or if they turn out to be damaged.
    fn with_tables<T>(
        &self,
        tell: Option<Tell<'_>>,
        work: impl FnMut(&Path) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        load::with_tables(self.path, self.source, tell, work)
    }

    /// Finds the stretch in the recording.
    fn find(&self, tables: &Path) -> anyhow::Result<Found> {
        let facts = load::about(self.path, self.source)?;
        let (start, end) = match (&facts.excerpt_of, span_of(tables)?) {
            (None, Some(span)) => span,
            _ => (facts.window.start.get(), facts.window.end.get()),
        };
        let whole = Span { start: Timestamp::new(start), end: Timestamp::new(end) };
        let wall = if self.range.is_wall() { wall_map(tables)? } else { WallMap::default() };
        let base = Timebase { unit: facts.unit, window: whole, wall: &wall };
        let moment = |moment: Option<Moment>, open: i64| match moment {
            Some(moment) => moment.resolve(base).with_context(|| self.path.display().to_string()),
            None => Ok(open),
        };
        let from = moment(self.range.from, i64::MIN)?;
        let until = moment(self.range.until, i64::MAX)?;
        let text = |ts| trace_text(ts, facts.unit);
        ensure!(
            from < until,
            "the range is empty: its start {} is not before its end {}",
            text(from.max(start)),
            text(until.min(end))
        );
        ensure!(
            from < end && start < until || start == end,
            "{}: no data in the range: the recording's window is {} to {}",
            self.path.display(),
            text(start),
            text(end)
        );
        let range = Range {
            from: if from <= start { i64::MIN } else { from },
            until: if until >= end { i64::MAX } else { until },
        };
        let window =
            Span { start: Timestamp::new(from.max(start)), end: Timestamp::new(until.min(end)) };
        Ok(Found { facts, range, window })
    }

    /// Has the engine make the windows of the range.
    fn windows(
        &self,
        tables: &Path,
        to: &Path,
        range: Range,
    ) -> anyhow::Result<transect_store::tables::Written> {
        let mut machines = Selected::new(&[Machine::TABLE]);
        read_rows(tables, Range::ALL, &mut machines)?;
        let machines = machines.into_tables().machines.len();
        let mut sink = OnlyWindows(TablesWriter::create(to, machines)?);
        let stretch = Span { start: Timestamp::new(range.from), end: Timestamp::new(range.until) };
        load::windows_in(self.path, self.source, stretch, &mut sink)?;
        Ok(sink.0.finish()?)
    }

    /// The whole recording's manifest; for a bare file one that says what its tables say.
    fn manifest(&self, tables: &Path) -> anyhow::Result<Manifest> {
        if self.path.is_dir() {
            return Ok(Manifest::read(self.path)?);
        }
        let mut kept = Selected::new(&[Machine::TABLE, Vcpu::TABLE]);
        read_rows(tables, Range::ALL, &mut kept)?;
        let kept = kept.into_tables();
        let mut manifest = Manifest { finished: true, ..Manifest::new(0, Vec::new()) };
        manifest.transect.clear();
        manifest.recorder_pid = None;
        let mut machines: BTreeMap<_, _> =
            kept.machines.into_iter().map(|machine| (machine.machine_id, machine)).collect();
        while let Some((id, machine)) = machines.pop_first() {
            let own = kept.vcpus.iter().filter(|vcpu| vcpu.machine_id == id);
            let vcpus = own.map(|v| VcpuEntry { vcpu: v.vcpu, vmm_tid: v.vmm_tid }).collect();
            manifest.add_machine(entry_of(machine, vcpus));
        }
        Ok(manifest)
    }
}

/// The map to the wall clock, of a folder of tables.
pub(crate) fn wall_map(tables: &Path) -> anyhow::Result<WallMap> {
    let mut kept = Selected::new(&[WallClock::TABLE]);
    read_rows(tables, Range::ALL, &mut kept)?;
    Ok(WallMap::new(kept.into_tables().wall_clock))
}

/// Why counts of windows are missing.
const NO_NEW_WINDOWS: &str = "made from an excerpt, which has no events to compute windows from: \
                              executions, allocations and I/O counts include only the windows that \
                              lie entirely inside it";

/// The stretch as a Perfetto file.
pub(crate) fn perfetto(stretch: &Stretch<'_>, out: impl std::io::Write) -> anyhow::Result<String> {
    let mut tables = transect_model::table::Tables::default();
    let facts = stretch.rows(&mut tables)?;
    tables.machines.sort_by_key(|machine| machine.machine_id);
    let written = transect_perfetto::timeline::write(&tables, facts.unit.as_str(), out)?;
    Ok(written_words(&written, facts.unit))
}

/// What a Perfetto file has.
pub(crate) fn written_words(
    written: &transect_perfetto::timeline::Written,
    unit: TimeUnit,
) -> String {
    let unit = match unit {
        TimeUnit::Ns => "",
        TimeUnit::Ticks => {
            "; times are in ticks of unknown length, and Perfetto shows a tick as 1 ns"
        }
    };
    format!(
        "{} slices, {} instants and {} counter values on {} tracks{unit}",
        written.slices, written.instants, written.counters, written.tracks
    )
}

/// Wants the rows that another sink wants, and drops them.
struct Unused<'s>(&'s dyn TableSink);

impl TableSink for Unused<'_> {
    fn row(&mut self, _: Row) {}

    fn wants(&self, table: &TableDoc) -> bool {
        self.0.wants(table)
    }
}

/// Lets through the windows and nothing else.
struct OnlyWindows(TablesWriter);

impl TableSink for OnlyWindows {
    fn row(&mut self, row: Row) {
        if matches!(row, Row::Window(_)) {
            self.0.row(row);
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        table.name == Window::TABLE.name
    }
}

fn entry_of(machine: Machine, vcpus: Vec<VcpuEntry>) -> MachineEntry {
    MachineEntry {
        id: machine.machine_id,
        parent: machine.parent_id,
        kind: machine.kind,
        name: machine.name,
        vmm_pid: machine.vmm_pid,
        cgroup: machine.cgroup,
        domid: machine.domid,
        uname: None,
        cpu_count: None,
        clock: machine.clock,
        vcpus,
    }
}

/// The last part of a path, which is what people call a recording.
pub(crate) fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The same path with what a recording's name ends with.
pub(crate) fn stem_of(name: &str) -> &str {
    name.strip_suffix(".transect").unwrap_or(name)
}

/// Checks that a directory for an excerpt was named.
pub(crate) fn directory(path: &Path) -> anyhow::Result<&Path> {
    path.file_name()
        .map(|_| path)
        .context("-o needs a directory name, for example -o small.transect")
}
