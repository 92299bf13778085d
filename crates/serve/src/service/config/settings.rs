//! All settings with their defaults, and which of them go together.

use crate::service::triggers::Trigger;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use transect_live::SourceKind;

/// Where the daemon is to be reached if nobody says otherwise.
pub const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9619);

/// All settings of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The directory that everything is kept in.
    pub data: PathBuf,
    /// Length of windows.
    pub window: Duration,
    /// Are block requests and packets counted?
    pub io: bool,
    /// Where windows come from.
    pub source: SourceKind,
    /// Names besides this machine's own that a `Host` may have on 127.0.0.1.
    pub host_names: Vec<String>,
    /// Read access without a token on 127.0.0.1.
    pub open_access: OpenAccess,
    /// Tokens that may read, one a line.
    pub read_tokens: Option<PathBuf>,
    /// Tokens that may read and take snapshots.
    pub control_tokens: Option<PathBuf>,
    /// May another address than this machine's be served without TLS or tokens?
    pub insecure: bool,
    /// Is a missing wall around SQL queries a reason not to start?
    pub require_sandbox: bool,
    /// The certificate and what it is signed by, PEM.
    pub tls_certificate: Option<PathBuf>,
    /// Its key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Connections at once.
    pub connections: usize,
    /// Connections of one client at once.
    pub connections_per_client: usize,
    /// Clients that wait for a window at once.
    pub waiting: usize,
    /// Questions of snapshots' timelines that one client may ask a minute.
    pub questions_per_minute: usize,
    /// Processes of the SQL engine that one client may have.
    pub children_per_client: usize,
    /// Is there a history?
    pub history: bool,
    /// Bytes it may take.
    pub history_limit_bytes: u64,
    /// How long it goes back.
    pub history_keep: Duration,
    /// How far back single windows go.
    pub history_windows_for: Duration,
    /// How far back steps of 10 s go.
    pub history_ten_seconds_for: Duration,
    /// How often a frame is written.
    pub history_flush: Duration,
    /// VMs, vCPUs, control groups, devices and pairs of antagonists that have metrics of their own.
    pub metrics: Limits,
    /// Is there a flight recorder?
    pub recorder: bool,
    /// What it records: sched, vm or io.
    pub recorder_profile: String,
    /// What it holds, for each CPU, bytes.
    pub recorder_buffer_bytes: u64,
    /// Snapshots that are kept.
    pub snapshots_keep: usize,
    /// Bytes that they may have together.
    pub snapshots_limit_bytes: u64,
    /// When snapshots are taken without anybody asking.
    pub triggers: Vec<Trigger>,
}

/// Read access of a client without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAccess {
    /// Windows, history and metrics.
    Windows,
    /// Raw traces, too: snapshots and their timelines.
    All,
    /// None: every reader needs a token.
    Token,
}

impl OpenAccess {
    pub(super) const ALL: [OpenAccess; 3] =
        [OpenAccess::Windows, OpenAccess::All, OpenAccess::Token];

    /// As the configuration has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            OpenAccess::Windows => "windows",
            OpenAccess::All => "all",
            OpenAccess::Token => "token",
        }
    }
}

/// How many of each kind have metrics of their own; the others are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// VMs.
    pub vms: usize,
    /// vCPUs.
    pub vcpus: usize,
    /// Control groups.
    pub cgroups: usize,
    /// Devices.
    pub devices: usize,
    /// Exit reasons.
    pub reasons: usize,
    /// Pairs of who waited and who was in the way.
    pub antagonists: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { vms: 200, vcpus: 500, cgroups: 200, devices: 64, reasons: 32, antagonists: 200 }
    }
}

impl Default for Config {
    fn default() -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        Config {
            listen: DEFAULT_ADDRESS,
            data: PathBuf::from("/var/lib/transect"),
            window: Duration::from_secs(1),
            io: true,
            source: SourceKind::Auto,
            host_names: Vec::new(),
            open_access: OpenAccess::Windows,
            read_tokens: None,
            control_tokens: None,
            insecure: false,
            require_sandbox: false,
            tls_certificate: None,
            tls_key: None,
            connections: 512,
            connections_per_client: 128,
            waiting: 256,
            questions_per_minute: 300,
            children_per_client: 2,
            history: true,
            history_limit_bytes: 2 << 30,
            history_keep: hours(24),
            history_windows_for: hours(1),
            history_ten_seconds_for: hours(6),
            history_flush: Duration::from_secs(5),
            metrics: Limits::default(),
            recorder: true,
            recorder_profile: "vm".to_owned(),
            recorder_buffer_bytes: 16 << 20,
            snapshots_keep: 20,
            snapshots_limit_bytes: 1 << 30,
            triggers: Vec::new(),
        }
    }
}

impl Config {
    /// Settings that make no sense together.
    ///
    /// # Errors
    /// Names the fields.
    pub fn check(&self) -> Result<(), String> {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            return Err("tls: set both certificate and key, or neither".to_owned());
        }
        if self.history_windows_for > self.history_keep
            || self.history_ten_seconds_for > self.history_keep
        {
            let field = "history: windows_for and ten_seconds_for cannot be longer than keep";
            return Err(field.to_owned());
        }
        if self.listen.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        if self.tls_certificate.is_none() {
            return Err(format!(
                "listen: {} is not a loopback address: set [tls] certificate and key, or set \
                 access.insecure = true (--insecure) if something else protects it",
                self.listen
            ));
        }
        if self.read_tokens.is_none() && self.control_tokens.is_none() {
            return Err(format!(
                "listen: {} is not a loopback address: set access.read_tokens or \
                 access.control_tokens, or set access.insecure = true (--insecure)",
                self.listen
            ));
        }
        Ok(())
    }

    /// Takes over what holds at once.
    pub(crate) fn take_from(&mut self, other: &Config) {
        self.host_names.clone_from(&other.host_names);
        self.open_access = other.open_access;
        self.read_tokens.clone_from(&other.read_tokens);
        self.control_tokens.clone_from(&other.control_tokens);
        self.questions_per_minute = other.questions_per_minute;
        self.children_per_client = other.children_per_client;
        self.snapshots_keep = other.snapshots_keep;
        self.snapshots_limit_bytes = other.snapshots_limit_bytes;
        self.triggers.clone_from(&other.triggers);
        if self.tls_certificate.is_some() && other.tls_certificate.is_some() {
            self.tls_certificate.clone_from(&other.tls_certificate);
            self.tls_key.clone_from(&other.tls_key);
        }
    }
}
