//! The daemon: this host's windows for everybody who looks.
//!
//! **What.** [`Daemon::start`] takes windows from one source, for as long as the process lives, and
//! gives them to all: to HTTP clients (JSON, Arrow), to the history on disk, to metrics, to
//! triggers. docs/reference/serve.md is what its users see.
//!
//! **Data flow.**
//! ```text
//! Source ─▶ window thread ─▶ hub (newest + last minutes) ─▶ /now, /history
//!                         ├▶ counters ─▶ /metrics
//!                         ├▶ triggers ─▶ snapshots ◀─ POST
//!                         └▶ queue ─▶ history thread ─▶ files ─▶ /history
//! connection ─▶ request ─▶ auth ─▶ routes ─▶ api │ page │ view
//! ```
//!
//! **Design constraints.**
//! - A window is taken once, whoever looks. The window thread waits for nobody: not for the disk, not for a
//!   client, not for a snapshot.
//! - Everything is bounded: windows in memory, bytes on disk, names in metrics, snapshots,
//!   connections, clients that wait, readers of history.
//! - Questions of timelines have limits for each client ([`fairness`]), which is a user of this machine or an
//!   address ([`http::Peer`]): one client cannot take all places or all time.
//! - Routes are one table, of which the description is made, too.

mod api;
mod auth;
mod brake;
mod config;
mod descriptions;
mod fairness;
mod hub;
mod metrics;
mod notify;
mod openapi;
mod reload;
mod routes;
mod rows;
mod snapshots;
mod storm;
pub mod tables;
mod triggers;
mod views;

#[cfg(test)]
mod api_page;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, DEFAULT_ADDRESS, Limits, OpenAccess};
pub use snapshots::{Recorded, Recorder};
pub use triggers::Trigger;
pub use views::Open;

use config::values as config_values;

use auth::{Access, Auth, Scope};
use brake::Brake;
use fairness::Fairness;
use hub::Hub;
use metrics::Counters;
use routes::Call;
use snapshots::{Snapshots, Wish};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use storm::Storm;
use transect_ask::Client;
use transect_history::{self as history, Index, Opened, Queue};
use transect_http as http;
use transect_http::{
    self, Answer, Caller, Handler, Made, Peer, Places, Quota, Request, Response, Spool,
};
use transect_live::Source;
use triggers::Watch;

/// Answers of the history that are made at once.
const READERS: usize = 4;
const READERS_PER_CLIENT: usize = 2;
/// Those that are half made and wait for their clients, because the spool is full: each has a frame of windows in memory.
const PAUSED: usize = 16;
const PAUSED_PER_CLIENT: usize = 4;
/// Answers that are made and not sent yet, in files of the data directory, bytes.
const SPOOL_BYTES: usize = 512 << 20;
const SPOOL_BYTES_PER_CLIENT: usize = 128 << 20;
/// Lookups of timelines that are answered at once; a browser has six connections.
const LOOKUPS: usize = 16;
const LOOKUPS_PER_CLIENT: usize = 6;
/// Memory of timelines' answers that are not sent yet.
const UNSENT_BYTES: usize = 128 << 20;
const UNSENT_BYTES_PER_CLIENT: usize = 48 << 20;
/// A window that is read too late is lost, an answer is only late.
const CLIENTS_GIVE_WAY: i32 = 5;
const WINDOWS_FIRST: i32 = -5;

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
    address: SocketAddr,
    has_tls: bool,
    /// Where the control token is, if one was made.
    control_token: Option<PathBuf>,
    service: Arc<Service>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What all connections share.
pub(crate) struct Service {
    hub: Arc<Hub>,
    index: Option<Arc<Index>>,
    auth: RwLock<Arc<Auth>>,
    snapshots: Arc<Snapshots>,
    watches: Mutex<Vec<Watch>>,
    counters: Mutex<Counters>,
    views: views::Views,
    fairness: Fairness,
    brake: Brake,
    /// Answers of the history that are being made.
    readers: Quota,
    /// Those whose clients have to be waited for.
    paused: Quota,
    /// Bytes of unsent answers in files.
    spool: Quota,
    spool_dir: Arc<Path>,
    /// Lookups of timelines that are being answered.
    lookups: Quota,
    /// Memory of timelines' answers that are not sent yet.
    unsent_bytes: Quota,
    counts: Arc<http::Counts>,
    storm: Storm,
    /// Answers by class: 2xx, 3xx, 4xx, 5xx.
    answers: [AtomicU64; 4],
    /// Questions that were answered with 429: a limit of one client was reached.
    refused_questions: AtomicU64,
    host_name: String,
    /// What is configured, and whether all of it holds.
    settings: Mutex<reload::Settings>,
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
            Auth::new(&auth_wishes(config, address, has_tls)).map_err(DaemonError::Cannot)?;
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
            views: views::Views::new(
                parts.open,
                config.children_per_client,
                config.require_sandbox,
            ),
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
            settings: Mutex::new(reload::Settings::new(config.clone(), address, tls)),
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

fn auth_wishes(config: &Config, address: SocketAddr, has_tls: bool) -> auth::Wishes<'_> {
    auth::Wishes {
        address,
        has_tls,
        insecure: config.insecure,
        open_access: config.open_access,
        read_tokens: config.read_tokens.as_deref(),
        control_tokens: config.control_tokens.as_deref(),
        host_names: &config.host_names,
        data: &config.data,
    }
}

/// The thread that takes windows.
struct Windows {
    source: Box<dyn Source>,
    service: Arc<Service>,
    queue: Option<Queue>,
    stop: Arc<AtomicBool>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Windows {
    fn run(mut self) {
        http::give_way(WINDOWS_FIRST);
        let mut is_ready = false;
        while self.wait_for_edge() {
            let window = match self.source.take() {
                Ok(window) => window,
                Err(error) => {
                    (self.tell)(&format!("no more windows: {error}"));
                    self.service.hub.end(error.to_string());
                    return;
                }
            };
            self.service.counters().add(&window);
            self.look_for_triggers(&window);
            let kept = self.service.hub.publish(window);
            if let Some(queue) = &self.queue {
                queue.push(&kept);
            }
            // Windows wait for nobody: what it has no room for now is said after the next one.
            let told =
                notify::tell(if is_ready { "WATCHDOG=1" } else { "READY=1" }, Duration::ZERO);
            is_ready |= told;
        }
    }

    /// False: it is to end.
    fn wait_for_edge(&self) -> bool {
        loop {
            if self.stop.load(Relaxed) {
                return false;
            }
            let Some(edge_ns) = self.source.next_edge_ns() else { return true };
            let left = edge_ns.saturating_sub(transect_live::monotonic_ns());
            if left == 0 {
                return true;
            }
            // Whoever ends the daemon wakes it.
            thread::park_timeout(Duration::from_nanos(left));
        }
    }

    fn look_for_triggers(&self, window: &transect_live::Snapshot) {
        for watch in self.service.watches().iter_mut() {
            let Some(reason) = watch.look(window) else { continue };
            let trigger = Some(watch.trigger.name.clone());
            let wish = Wish { seconds: watch.trigger.seconds, reason, trigger };
            // Nobody waits here for the snapshot.
            if let Err(why) = self.service.snapshots.ask(wish) {
                (self.tell)(&format!("trigger {}: no snapshot: {why:?}", watch.trigger.name));
            }
        }
    }
}

impl Service {
    fn auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Room for unsent answers of a client.
    fn spool(&self, peer: Peer) -> Spool {
        Spool { dir: Arc::clone(&self.spool_dir), room: self.spool.clone(), peer }
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request without the rights for it: 401 if it has shown no token, 403 if its token lacks the scope.
    fn refuse_scope(&self, needed: Scope, access: Access) -> Response {
        let scope = needed.words().last().copied().unwrap_or_default();
        let what = format!("this request needs a token with the scope {scope}");
        let hint = "send Authorization: Bearer TOKEN, or log in; if no token is configured, use the one in \
                    control.token in the data directory";
        let refusal = Response::refusal(401, &what, hint);
        if access.has_token {
            return refusal.status(403);
        }
        refusal.with("WWW-Authenticate", "Bearer")
    }

    fn route(&self, request: &Request, caller: &Caller, auth: &Auth) -> Result<Answer, Response> {
        let shown = auth.shown(request)?;
        let access = auth.access(self.brake.scope_of(&caller.peer, auth, shown)?);
        let (route, id) = match routes::find(request.method, &request.path) {
            Ok(found) => found,
            Err(true) => {
                let hint = "GET /openapi.json describes the API";
                return Err(Response::refusal(405, "method not allowed for this path", hint));
            }
            Err(false) => return api::page::answer(self, request, access, caller),
        };
        if access.scope < route.scope {
            return Err(self.refuse_scope(route.scope, access));
        }
        routes::check_params(route, request)?;
        (route.handler)(self, &Call { request, route, caller, scope: access.scope, id })
    }
}

impl Handler for Service {
    fn answer(&self, request: &Request, caller: &Caller) -> Answer {
        self.storm.add(self.counts.open.load(Relaxed));
        let auth = self.auth();
        let answer = self.route(request, caller, &auth).unwrap_or_else(Answer::Whole);
        // A browser does not show a cookie again that is not valid any more.
        let answer = match auth.has_stale_cookie(request) && !answer.sets_cookie() {
            true => answer.with("Set-Cookie", auth.clear_cookie()),
            false => answer,
        };
        let status = match &answer {
            Answer::Whole(head) | Answer::Stream(Made { head, .. }) => head.status,
            Answer::Events(_) => 200,
        };
        let class = usize::from(status / 100).saturating_sub(2);
        if let Some(count) = self.answers.get(class) {
            count.fetch_add(1, Relaxed);
        }
        if status == 429 {
            self.refused_questions.fetch_add(1, Relaxed);
        }
        answer
    }

    fn gone(&self, caller: &Caller) {
        self.views.end_client(&Client::connection(&caller.peer.to_string(), caller.address));
        self.storm.end_one();
    }
}
