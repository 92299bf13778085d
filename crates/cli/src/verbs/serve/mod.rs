//! `transect serve`: this host's windows for everybody who looks, as a daemon.
//!
//! **Data flow.** configuration (file, then flags) → live source, flight recorder → `transect-serve` → until a
//! signal, or until the source ends.

mod log;
mod memory;
mod recorder;

use crate::terminal::{self, say};
use crate::verbs::{sandbox, view};
use anyhow::{Context as _, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _, stdin};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use transect_live::{LivePlan, SourceKind};
use transect_serve::service::{Config, Daemon, Parts};

/// How soon it is noticed that there are no more windows.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Where the configuration is looked for if nobody names it.
const CONFIG: &str = "/etc/transect/serve.toml";

/// Arguments of `transect serve`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect serve                                   on http://127.0.0.1:9619/\n  \
    transect serve --data ./live --listen 127.0.0.1:0\n  \
    transect serve --config serve.toml --check-config\n  \
    transect serve --print-config > serve.toml       all settings with their descriptions\n  \
    curl -s 'localhost:9619/api/v1/history?from=-5m&step=10s&tables=windows' | jq .\n  \
    curl -s -X POST -H \"Authorization: Bearer $(cat control.token)\" localhost:9619/api/v1/snapshots\n\n\
    The API, history, triggers and how to run it: docs/reference/serve.md; metrics: docs/reference/metrics.md.")]
pub(crate) struct Args {
    /// Configuration file [default: /etc/transect/serve.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, report the first error with its line and field, and exit
    #[arg(long)]
    check_config: bool,
    /// Print all settings with their current values and descriptions, and exit
    #[arg(long, conflicts_with = "check_config")]
    print_config: bool,
    /// Address and port to listen on, instead of the setting
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Directory for history and snapshots, instead of the setting
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Source of the windows, instead of the setting: bpf, tracefs, xen or auto
    #[arg(long, value_name = "WHICH")]
    source: Option<SourceKind>,
    /// Listen on non-loopback addresses without tokens or TLS
    #[arg(long)]
    insecure: bool,
    /// Refuse to start if a wall around SQL queries is missing on this machine
    #[arg(long)]
    require_sandbox: bool,
}

impl Args {
    /// Settings of the file, and of the flags.
    fn config(&self) -> anyhow::Result<(Config, Option<PathBuf>)> {
        let found = PathBuf::from(CONFIG);
        let path = self.config.clone().or_else(|| found.exists().then_some(found));
        let mut config = match &path {
            // What is not valid by itself may be with the flags: that is checked behind them.
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if let Some(data) = &self.data {
            config.data = std::path::absolute(data)?;
        }
        if let Some(source) = self.source {
            config.source = source;
        }
        config.insecure |= self.insecure;
        config.require_sandbox |= self.require_sandbox;
        let whose = path.as_ref().map(|path| path.display().to_string());
        let whose = whose.unwrap_or_else(|| "command line".to_owned());
        config.check().map_err(|why| anyhow::anyhow!("{whose}: {why}"))?;
        Ok((config, path))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (config, path) = args.config()?;
    if args.print_config {
        terminal::page().write_all(config.print().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.check_config {
        let from = path.map_or("the defaults".to_owned(), |path| path.display().to_string());
        say!("{from}: valid");
        return Ok(ExitCode::SUCCESS);
    }
    memory::keep_little();
    let mut signals = Signals::listen()?;
    let tell = log::start();
    sandbox::check_sandbox(config.require_sandbox, &*tell)?;
    let daemon = start(&config, Arc::clone(&tell))?;
    tell(&format!("serving {}", daemon.url()));
    if let Some(token) = daemon.control_token() {
        tell(&format!("the control token, for snapshots, is in {}", token.display()));
    }
    let why = loop {
        match signals.next()? {
            Come::End => break None,
            Come::Reload => reload(&daemon, args, &*tell),
            Come::Nothing => {}
        }
        if let Some(why) = daemon.ended() {
            break Some(why);
        }
    };
    daemon.stop();
    match why {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => bail!("no more windows: {why}"),
    }
}

/// Reads the configuration again; one that is not valid is told, and nothing changes.
fn reload(daemon: &Daemon, args: &Args, tell: &dyn Fn(&str)) {
    let read = args.config().map_err(|error| crate::errors::one_line(&error));
    let done = match read {
        Ok((config, _)) => daemon.reload(&config),
        Err(why) => {
            daemon.reload_failed(&why);
            Err(why)
        }
    };
    match done {
        Err(why) => {
            tell(&format!("cannot reload the configuration, the old one stays in effect: {why}"))
        }
        Ok(later) if later.is_empty() => tell("configuration reloaded"),
        Ok(later) => {
            let later = later.join(", ");
            tell(&format!("configuration reloaded; these settings need a restart: {later}"));
        }
    }
}

fn start(config: &Config, tell: Arc<dyn Fn(&str) + Send + Sync>) -> anyhow::Result<Daemon> {
    let window_ns = u64::try_from(config.window.as_nanos()).unwrap_or(u64::MAX);
    let plan = LivePlan { window_ns, io: config.io, ..LivePlan::default() };
    // First, because it takes its time to load: windows that nobody takes meanwhile would be missed.
    let recorder = recorder::start(config);
    let source = transect_live::open(config.source, &plan)?;
    if let Err(why) = &recorder {
        tell(&format!("snapshots are not available: {why}"));
    }
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let open = Box::new(view::shown);
    let give_back = memory::give_back;
    let parts = Parts { source, recorder, open, tell, host_name, give_back };
    Daemon::start(config, parts).context("cannot serve")
}

/// What a signal wants.
enum Come {
    Nothing,
    Reload,
    End,
}

/// Signals, as bytes of a pipe: nothing has to wake up to look for them.
struct Signals {
    come: UnixStream,
    is_to_end: Arc<AtomicBool>,
    is_to_reload: Arc<AtomicBool>,
    /// Was it started by hand? A hang-up of its terminal ends it then.
    had_terminal: bool,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let (come, to) = UnixStream::pair().context("cannot install signal handlers")?;
        come.set_read_timeout(Some(LOOK_EVERY))?;
        let (is_to_end, is_to_reload) = (Arc::<AtomicBool>::default(), Arc::default());
        for signal in [SIGINT, SIGTERM] {
            // The second one ends the process at once; the kernel takes the programs out.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&is_to_end))?;
            flag::register(signal, Arc::clone(&is_to_end))
                .context("cannot install signal handlers")?;
            pipe::register(signal, to.try_clone()?).context("cannot install signal handlers")?;
        }
        flag::register(SIGHUP, Arc::clone(&is_to_reload))
            .context("cannot install signal handlers")?;
        pipe::register(SIGHUP, to).context("cannot install signal handlers")?;
        Ok(Signals { come, is_to_end, is_to_reload, had_terminal: stdin().is_terminal() })
    }

    /// Waits a while for one.
    fn next(&mut self) -> anyhow::Result<Come> {
        match self.come.read(&mut [0]) {
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(error).context("cannot install signal handlers"),
            },
        }
        if self.is_to_end.load(Relaxed) {
            return Ok(Come::End);
        }
        if !self.is_to_reload.swap(false, Relaxed) {
            return Ok(Come::Nothing);
        }
        // A terminal that hung up is none any more.
        let is_hung_up = self.had_terminal && !stdin().is_terminal();
        Ok(if is_hung_up { Come::End } else { Come::Reload })
    }
}
