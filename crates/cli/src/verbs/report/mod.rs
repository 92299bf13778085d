//! `transect report`: the arguments, and where the report goes ([`transect_report`] makes it).

mod view;

use super::excerpt::{Part, Stretch};
use crate::moment::RangeArgs;
use crate::terminal;
use anyhow::bail;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use transect_model::guard::Syntax;
use transect_report::{
    Gather, Report, Style, View, Zone, events, write_csv, write_json, write_text,
};
use transect_store::tables::Range;

/// Lines per list in the text report without `--top`.
const DEFAULT_TOP: usize = 10;

/// Arguments of `transect report`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect report demo.transect                        every section\n  \
    transect report demo.transect --view antagonists     one section\n  \
    transect report demo.transect --vm web --top 30      one VM, longer lists\n  \
    transect report demo.transect --window 100ms         metrics per window of 100 ms\n  \
    transect report demo.transect --from +1s --until +2s  one second of it\n  \
    transect report demo.transect --json | jq '.exits'   for scripts (values in ns)\n  \
    transect report demo.transect --view exits --csv\n\n\
    Every column is described in docs/reference/report.md.")]
pub(crate) struct Args {
    /// Recording to read: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: PathBuf,
    /// Section to print; repeat it for several [default: every view except windows and events]
    #[arg(long, value_name = "VIEW", value_parser = view::parser())]
    view: Vec<View>,
    /// Length of a metrics window (1s, 100ms, …) [default: 1s; the whole recording if its time is in ticks]; also
    /// prints the windows view
    #[arg(long, value_name = "T", value_parser = window_ns, conflicts_with_all = ["from", "until"])]
    window: Option<i64>,
    #[command(flatten)]
    range: RangeArgs,
    /// VM to report, by name or machine number; repeat it for several [default: all]
    #[arg(long, value_name = "NAME")]
    vm: Vec<String>,
    /// Maximum lines per list [default: 10; all with --json and --csv]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Print JSON: every view, or those of --view; all times in ns (in ticks if time_unit states it)
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print one view as CSV (needs --view)
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    source: super::load::SourceArgs,
}

impl Args {
    fn stretch(&self) -> Stretch<'_> {
        Stretch { path: &self.recording, source: &self.source, range: self.range }
    }
}

/// Runs `transect report`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.csv && args.view.len() != 1 {
        let why = "--csv prints one view: select it with one --view\n";
        clap::Error::raw(clap::error::ErrorKind::WrongNumberOfValues, why).exit();
    }
    if args.view.contains(&View::Events) {
        return write_events(&args);
    }
    let mut gather = match views(&args, true).contains(&View::Findings) {
        // A range of a large recording can be small.
        true if args.range.is_given() => Gather::with_findings(0),
        true => Gather::with_findings(source_bytes(&args.recording)),
        false => Gather::default(),
    };
    let facts = if args.range.is_given() {
        Part::write(&args.stretch())?.rows(&args.recording, &mut gather)?
    } else {
        super::load::rows(&args.recording, &args.source, args.window, &mut gather)?
    };
    let report = gather.report(facts, &args.vm)?;
    let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(match (args.json, args.csv) {
        (true, _) => Box::new(terminal::data(Syntax::Json)),
        (_, true) => Box::new(terminal::data(Syntax::Csv)),
        _ => Box::new(terminal::unguarded()),
    });
    write(&report, &args, &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes of the recording's own files, as far as they can be read; what makes it unreadable is found later.
fn source_bytes(recording: &Path) -> u64 {
    let bytes = |path: &Path| {
        path.metadata().map_or(0, |about| if about.is_file() { about.len() } else { 0 })
    };
    match recording.read_dir() {
        Ok(files) => files.flatten().map(|file| bytes(&file.path())).sum(),
        Err(_) => bytes(recording),
    }
}

/// Events are not a section of the report but the recording itself: they are streamed.
fn write_events(args: &Args) -> anyhow::Result<ExitCode> {
    if args.view.len() != 1 {
        bail!("--view events cannot be combined with other views");
    }
    let form = match (args.json, args.csv) {
        (true, _) => events::Form::JsonLines,
        (_, true) => events::Form::Csv,
        _ => events::Form::Text,
    };
    let wanted = |name: &str| args.vm.is_empty() || args.vm.iter().any(|vm| vm == name);
    let range = if args.range.is_given() { args.stretch().resolve()?.0 } else { Range::ALL };
    let shown = events::Shown { form, top: args.top, range };
    let stdout = match form {
        events::Form::Text => terminal::page(),
        events::Form::JsonLines => terminal::data(Syntax::Json),
        events::Form::Csv => terminal::data(Syntax::Csv),
    };
    let mut out = BufWriter::with_capacity(1 << 16, stdout);
    super::load::events(&args.recording, &args.source, |loaded| {
        events::write(loaded, wanted, shown, &mut out)
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn write(report: &Report, args: &Args, out: &mut dyn Write) -> io::Result<()> {
    if args.csv {
        return write_csv(report, args.view[0], args.top, out);
    }
    if args.json {
        return write_json(report, &views(args, true), args.top, out);
    }
    let mut views = views(args, false);
    if args.view.is_empty() && !report.has_domains() {
        views.retain(|view| *view != View::Domains);
    }
    write_text(report, &views, style(args), out)
}

fn views(args: &Args, all: bool) -> Vec<View> {
    if !args.view.is_empty() {
        return args.view.clone();
    }
    let mut views = View::DEFAULT.to_vec();
    if all || args.window.is_some() {
        views.push(View::Windows);
    }
    views
}

fn style(args: &Args) -> Style {
    let terminal = terminal::is_stdout_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style {
        width: if terminal { terminal_width() } else { None },
        bold: terminal && !no_color,
        top: args.top.unwrap_or(DEFAULT_TOP),
        zone: Zone::Local,
    }
}

fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Parses a length of time as `250ms`, `1s`, `2m` (bare numbers are seconds).
fn window_ns(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let unit_ns = match &text[digits.len()..] {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        "m" | "min" => 60e9,
        other => return Err(format!("unknown unit '{other}': use ns, us, ms, s or m")),
    };
    let ns = digits.parse::<f64>().map_err(|_| "not a duration such as 100ms or 1s")? * unit_ns;
    if !(1_000.0..=1e18).contains(&ns) {
        return Err("a window must be at least 1us and at most 30 years long".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 1e18, checked above")]
    Ok(ns.round() as i64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn windows_are_parsed_with_their_units() {
        assert_eq!(super::window_ns("100ms"), Ok(100_000_000));
        assert_eq!(super::window_ns("1.5"), Ok(1_500_000_000));
        assert_eq!(super::window_ns("250us"), Ok(250_000));
        assert!(super::window_ns("0").is_err());
        assert!(super::window_ns("5 parsecs").is_err());
        assert!(super::window_ns("NaN").is_err());
    }
}
