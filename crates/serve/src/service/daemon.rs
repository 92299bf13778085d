//! The daemon's start, its threads, and its end.

use super::auth::{Auth, Wishes};
use super::brake::Brake;
use super::config::Config;
use super::fairness::Fairness;
use super::hub::Hub;
use super::metrics::Counters;
use super::notify;
use super::settings::Settings;
use super::shared::Service;
use super::snapshots::{Recorder, Snapshots};
use super::storm::{self, Storm};
use super::triggers::Watch;
use super::views::{Open, Views};
use super::windows::Windows;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use transect_history::{self as history, Opened};
use transect_http::{self as http, Places, Quota};
use transect_live::Source;

/// Answers of the history that are made at once.
const READERS: usize = 4;
pub(super) const READERS_PER_CLIENT: usize = 2;
/// Those that are half made and wait for their clients, because the spool is full: each has a frame of windows in memory.
const PAUSED: usize = 16;
pub(super) const PAUSED_PER_CLIENT: usize = 4;
/// Answers that are made and not sent yet, in files of the data directory, bytes.
const SPOOL_BYTES: usize = 512 << 20;
pub(super) const SPOOL_BYTES_PER_CLIENT: usize = 128 << 20;
/// Lookups of timelines that are answered at once; a browser has six connections.
const LOOKUPS: usize = 16;
const LOOKUPS_PER_CLIENT: usize = 6;
/// Memory of timelines' answers that are not sent yet.
const UNSENT_BYTES: usize = 128 << 20;
const UNSENT_BYTES_PER_CLIENT: usize = 48 << 20;
/// A window that is read too late is lost, an answer is only late.
const CLIENTS_GIVE_WAY: i32 = 5;

/// What a daemon is made of, besides its configuration.
pub struct Parts {
    /// Where windows come from.
    pub source: Box<dyn Source>,
    /// The flight recorder, or why there is none.
    pub recorder: Result<Box<dyn Recorder>, String>,
    /// Opens snapshots as timelines.
    pub open: Open,
    /// Takes the lines of the log.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// The name of this host.
    pub host_name: String,
    /// Gives memory that is free back to the system.
    pub give_back: fn(),
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// Tokens, certificate, history or snapshots: which file, and what is wrong with it.
    #[error("{0}")]
    Cannot(String),
    /// There is no thread.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

/// A daemon that runs, until it is stopped or the process ends.
pub struct Daemon {
    pub(super) address: SocketAddr,
    has_tls: bool,
    /// Where the control token is, if one was made.
    control_token: Option<PathBuf>,
    pub(super) service: Arc<Service>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Daemon {
    /// Listens, opens the history, and takes windows from then on.
    ///
    /// # Errors
    /// The address is taken, a file cannot be read or written, another daemon has the directory.
    pub fn start(config: &Config, parts: Parts) -> Result<Self, DaemonError> {
        config.check().map_err(DaemonError::Cannot)?;
        own(&config.data).map_err(DaemonError::Cannot)?;
        let tls = match (&config.tls_certificate, &config.tls_key) {
            (Some(certificate), Some(key)) => {
                let read = http::tls::config(certificate, key).map_err(DaemonError::Cannot)?;
                Some(http::tls::Tls::new(read))
            }
            _ => None,
        };
        let (address, has_tls) = (config.listen, tls.is_some());
        let places = Places { all: config.connections, per_client: config.connections_per_client };
        let server = http::Server::bind_to(address, places, tls.clone(), "serve-client");
        let server = server.map_err(|source| DaemonError::Listen { address, source })?;
        let server = server.giving_way(CLIENTS_GIVE_WAY);
        let address = server.address();
        let run = unix_now_ms();
        let window_ns = parts.source.window_ns();
        let opened = open_history(config, run, window_ns).map_err(DaemonError::Cannot)?;
        let (auth, control_token) =
            Auth::new(&Wishes::new(config, address, has_tls)).map_err(DaemonError::Cannot)?;
        if let Some(warning) = auth.warning(address, has_tls) {
            (parts.tell)(&warning);
        }
        let (recorder, cannot) = match parts.recorder {
            Ok(recorder) => (Some(recorder), None),
            Err(why) => (None, Some(why)),
        };
        let dir = config.data.join("snapshots");
        let (keep, limit) = (config.snapshots_keep, config.snapshots_limit_bytes);
        let (snapshots, wishes) =
            Snapshots::open(dir, keep, limit, cannot).map_err(DaemonError::Cannot)?;
        snapshots.told.iter().for_each(|line| (parts.tell)(line));
        let service = Arc::new(Service {
            hub: Arc::new(Hub::new(run, window_ns, config.waiting)),
            index: opened.as_ref().map(|opened| Arc::clone(&opened.index)),
            auth: RwLock::new(Arc::new(auth)),
            snapshots: Arc::new(snapshots),
            watches: Mutex::new(config.triggers.iter().cloned().map(Watch::new).collect()),
            counters: Mutex::new(Counters::new(&config.metrics)),
            views: Views::new(parts.open, config.children_per_client, config.require_sandbox),
            fairness: Fairness::new(config.questions_per_minute),
            brake: Brake::default(),
            readers: Quota::new(READERS_PER_CLIENT, READERS),
            paused: Quota::new(PAUSED_PER_CLIENT, PAUSED),
            spool: Quota::new(SPOOL_BYTES_PER_CLIENT, SPOOL_BYTES),
            spool_dir: config.data.as_path().into(),
            lookups: Quota::new(LOOKUPS_PER_CLIENT, LOOKUPS),
            unsent_bytes: Quota::new(UNSENT_BYTES_PER_CLIENT, UNSENT_BYTES),
            counts: server.counts(),
            storm: Storm::default(),
            answers: Default::default(),
            refused_questions: AtomicU64::new(0),
            host_name: parts.host_name,
            settings: Mutex::new(Settings::new(config.clone(), address, tls)),
        });
        let mut threads = Vec::new();
        let stop = Arc::new(AtomicBool::new(false));
        let mut queue = None;
        if let Some(Opened { queue: into, writer, told, index }) = opened {
            told.iter().for_each(|line| (parts.tell)(line));
            queue = Some(into);
            let tell = Arc::clone(&parts.tell);
            threads.push(named("serve-history", move || writer.run(&*tell))?);
            index.tell_to(Arc::clone(&parts.tell));
            let ends = Arc::clone(&stop);
            threads.push(named("serve-scrub", move || {
                http::give_way(CLIENTS_GIVE_WAY);
                history::scrub(&index, &|wait| {
                    thread::park_timeout(wait);
                    ends.load(Relaxed)
                });
            })?);
        }
        if let Some(mut recorder) = recorder {
            let (snapshots, tell) = (Arc::clone(&service.snapshots), Arc::clone(&parts.tell));
            let work = move || snapshots.run(&wishes, recorder.as_mut(), &*tell);
            threads.push(named("serve-snapshots", work)?);
        }
        let (watched, ends) = (Arc::clone(&service), Arc::clone(&stop));
        threads.push(named("serve-memory", move || {
            while !ends.load(Relaxed) {
                thread::park_timeout(storm::LOOK_EVERY);
                if watched.storm.is_over(watched.counts.open.load(Relaxed)) {
                    (parts.give_back)();
                }
            }
        })?);
        let windows = Windows {
            source: parts.source,
            service: Arc::clone(&service),
            queue,
            stop: Arc::clone(&stop),
            tell: parts.tell,
        };
        threads.push(named("serve-windows", move || windows.run())?);
        let handler = Arc::clone(&service);
        thread::Builder::new()
            .name("serve-listener".to_owned())
            .spawn(move || -> () { server.run(&handler) })?;
        Ok(Daemon { address, has_tls, control_token, service, stop, threads })
    }

    /// Where it is to be reached.
    pub fn url(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }

    /// Where the control token is that was made because none is configured.
    pub fn control_token(&self) -> Option<&Path> {
        self.control_token.as_deref()
    }

    /// Why no more windows come.
    pub fn ended(&self) -> Option<String> {
        self.service.hub.ended()
    }

    /// Takes over what of another configuration can change while it runs; tokens, certificate and key are read
    /// again. Gives the names of settings that were changed and hold only after a restart.
    ///
    /// # Errors
    /// One line: something in it is not valid, or cannot be read. Then everything stays as it was.
    pub fn reload(&self, config: &Config) -> Result<Vec<String>, String> {
        self.service.reload(config)
    }

    /// Nothing was taken over, because there is no valid configuration: for the status.
    pub fn reload_failed(&self, why: &str) {
        self.service.settings().failed(why);
    }

    /// Ends in order: what was taken is written.
    pub fn stop(self) {
        notify::tell("STOPPING=1", Duration::from_secs(1));
        self.stop.store(true, Relaxed);
        self.service.snapshots.end();
        self.service.hub.end("the daemon is shutting down".to_owned());
        for thread in self.threads {
            thread.thread().unpark();
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Makes a directory of data with mode 0700, because it names other users' processes; or checks that no other user can
/// change what is in it.
fn own(dir: &Path) -> Result<(), String> {
    transect_access::own_dir(dir).map_err(|error| error.to_string())
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn unix_now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn open_history(config: &Config, run: u64, window_ns: u64) -> Result<Option<Opened>, String> {
    if !config.history {
        return Ok(None);
    }
    let plan = history::Plan {
        dir: config.data.join("history"),
        window_ns,
        bytes_limit: config.history_limit_bytes,
        windows_ns: nanos(config.history_windows_for),
        ten_seconds_ns: nanos(config.history_ten_seconds_for),
        keep_ns: nanos(config.history_keep),
        flush: config.history_flush,
        run,
    };
    plan.open().map(Some)
}
