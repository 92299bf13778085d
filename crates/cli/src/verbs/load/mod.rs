//! A recording as verbs open it: its options on the command line, and what the terminal shows meanwhile.

mod progress;

pub(crate) use progress::{Progress, Tell, Terminal};
pub(crate) use transect_recording::{Loaded, display_name, folder::parent, losses::Noting};

use crate::terminal::note;
use std::path::Path;
use transect_model::table::{TableSink, Tables};
use transect_model::time::Span;
use transect_recording::Facts;
use transect_recording::{Options, XenOptions, folder, losses, xen};
use transect_store::tables::{Problems, TablesFolder};

/// How a recording is to be read.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceArgs {
    /// TSC frequency of the host in Hz, for files in ticks without a frequency (all xentrace files; 'xl
    /// info' in dom0 prints it as cpu_mhz)
    #[arg(long, visible_alias = "cpu-hz", value_name = "HZ")]
    tsc_hz: Option<u64>,
    /// Ignore the exact TSC offsets and estimate the guests' clocks from the channel
    #[arg(long)]
    no_tsc_offset: bool,
    #[command(flatten)]
    xen: XenArgs,
}

/// Facts that a trace of Xen lacks.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct XenArgs {
    /// Xen version that wrote the xentrace file; records differ little between versions
    #[arg(long, value_name = "4.N", value_parser = xen::minor)]
    xen_version: Option<u8>,
    /// Name of a Xen domain, as in 'xl list'; repeat it for several domains
    #[arg(long, value_name = "ID=NAME", value_parser = xen::named)]
    domain: Vec<(u16, String)>,
}

impl SourceArgs {
    fn options(&self) -> Options {
        let SourceArgs { tsc_hz, no_tsc_offset, ref xen } = *self;
        Options { tsc_hz, no_tsc_offset, xen: xen.options() }
    }
}

impl XenArgs {
    pub(crate) fn options(&self) -> XenOptions {
        XenOptions { version: self.xen_version, domains: self.domain.clone() }
    }
}

/// Reads a recording into tables, which hold all of it in memory.
pub(crate) fn tables(
    path: &Path,
    args: &SourceArgs,
    window_ns: Option<i64>,
) -> anyhow::Result<(Facts, Tables)> {
    transect_recording::tables(path, &args.options(), window_ns)
}

/// Reads a recording and hands each row to `sink` as soon as it is known.
pub(crate) fn rows(
    path: &Path,
    args: &SourceArgs,
    window_ns: Option<i64>,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    transect_recording::rows(path, &args.options(), window_ns, sink)
}

/// The same for a sink that keeps rows, in a thread of its own.
pub(crate) fn kept<S: TableSink + Send>(
    path: &Path,
    args: &SourceArgs,
    window_ns: Option<i64>,
    sink: S,
) -> anyhow::Result<(Facts, S)> {
    transect_recording::kept(path, &args.options(), window_ns, sink)
}

/// The same with windows that begin at multiples of their length, as live ones do.
pub(crate) fn rows_in_aligned_windows(
    path: &Path,
    args: &SourceArgs,
    window_ns: i64,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    transect_recording::rows_in_aligned_windows(path, &args.options(), window_ns, sink)
}

/// Makes the windows of a stretch of a recording: rows of that table alone.
pub(crate) fn windows_in(
    path: &Path,
    args: &SourceArgs,
    stretch: Span,
    sink: &mut dyn TableSink,
) -> anyhow::Result<()> {
    transect_recording::windows_in(path, &args.options(), stretch, sink)
}

/// Opens a recording without running the engine over it.
pub(crate) fn events(
    path: &Path,
    args: &SourceArgs,
    show: impl FnOnce(&Loaded<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    transect_recording::events(path, &args.options(), show)
}

/// Facts about a recording without running the engine; the window is set for excerpts only.
pub(crate) fn about(path: &Path, args: &SourceArgs) -> anyhow::Result<Facts> {
    transect_recording::about(path, &args.options())
}

/// The tables of a recording as files, made if they are missing. `tell` is told how far it is; else the terminal shows it.
pub(crate) fn ensure(
    path: &Path,
    args: &SourceArgs,
    tell: Option<Tell<'_>>,
) -> anyhow::Result<TablesFolder> {
    folder::ensure(path, &args.options(), &Terminal::new(tell))
}

/// The same after damage was found and reported.
pub(crate) fn ensure_again(path: &Path, args: &SourceArgs) -> anyhow::Result<TablesFolder> {
    folder::ensure_again(path, &args.options(), &Terminal::new(None))
}

/// Has `work` read the tables. If it finds damage, they are made again, once, and read again from the beginning.
pub(crate) fn with_tables<T>(
    path: &Path,
    args: &SourceArgs,
    tell: Option<Tell<'_>>,
    work: impl FnMut(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    folder::with(path, &args.options(), &Terminal::new(tell), work)
}

/// Reports what the recording's sources lost, one line each.
pub(crate) fn note_problems(tables: &TablesFolder) {
    note_losses(&tables.stamp.problems, "SELECT * FROM import_log");
}

/// Reports losses on standard error, one line each; `more` says where the others are.
pub(crate) fn note_losses(problems: &Problems, more: &str) {
    for line in losses::lines(problems, more) {
        note!("{line}");
    }
}
