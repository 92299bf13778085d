//! `transect view`: a recording's timeline in the browser, served by this program.
//!
//! **Data flow.** arguments → a recording that can be opened ([`recording`]) → a server on this
//! machine (`transect-serve`), which has tables and tiles made while the page is there already →
//! the browser. It serves until ^C.
//!
//! Exit code 2 says that this program was built without the page.

mod browser;
mod recording;

use super::excerpt::Stretch;
use super::load::SourceArgs;
use super::sandbox;
use crate::moment::RangeArgs;
use crate::terminal::{self, note, say};
use anyhow::Context as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use transect_model::time::Span;
use transect_serve::{Options, Server};

/// Arguments of `transect view`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect view demo.transect                      open it in the browser\n  \
    transect view demo.transect --no-browser         only print the address\n  \
    transect view demo.transect --from +1s --until +2s   open it at this range\n  \
    ssh -L 8000:localhost:8000 HOST transect view --listen 127.0.0.1:8000 demo.transect\n\n\
    The page is part of this program and needs no internet access. The address contains a token:\n\
    anyone with the address can read the recording while it is served.\n\
    Keys and panels: docs/reference/view.md.")]
pub(crate) struct Args {
    /// Recording to show: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: PathBuf,
    /// Address and port to listen on: 127.0.0.1 or ::1; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Print the address without opening a browser
    #[arg(long)]
    no_browser: bool,
    /// Serve the HTTP API although this program was built without the page (for tests)
    #[arg(long, hide = true)]
    api_only: bool,
    /// Memory limit for sorting, grouping and joining in one query
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = transect_ask::memory::parse)]
    memory: usize,
    /// Refuse to start if a wall around SQL queries is missing on this machine
    #[arg(long)]
    require_sandbox: bool,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl Args {
    /// What the address must contain for the page to open at the range.
    fn fragment(&self) -> anyhow::Result<String> {
        if !self.range.is_given() {
            return Ok(String::new());
        }
        let (path, source, range) = (self.recording.as_path(), &self.source, self.range);
        let (_, Span { start, end }) = Stretch { path, source, range }.resolve()?;
        Ok(format!("#v={start}-{end}"))
    }
}

/// Runs `transect view`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !transect_serve::is_built() && !args.api_only {
        note!("built without the page; run make build");
        return Ok(ExitCode::from(2));
    }
    let path = &args.recording;
    anyhow::ensure!(path.exists(), "{}: recording not found", path.display());
    let fragment = args.fragment()?;
    let stop = interrupted()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    sandbox::check_sandbox(args.require_sandbox, &terminal::print_note)?;
    let options = Options {
        address: args.listen,
        memory_bytes: args.memory,
        threads,
        require_sandbox: args.require_sandbox,
    };
    let shown = recording::Shown::new(path.clone(), args.source.clone());
    let server = Server::start(Box::new(shown), &options)?;
    let url = format!("{}{fragment}", server.url());
    say!("{url}");
    let wants_browser = !args.no_browser && !args.api_only;
    let _page = wants_browser.then(|| browser::open(&url));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(ExitCode::SUCCESS)
}

/// A recording as a server shows it.
pub(crate) fn shown(path: &std::path::Path) -> Box<dyn transect_serve::Recording> {
    Box::new(recording::Shown::new(path.to_owned(), SourceArgs::default()))
}

/// Set by ^C and by `kill`; a second one ends the program at once.
fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("cannot install signal handlers")?;
    }
    Ok(stop)
}
