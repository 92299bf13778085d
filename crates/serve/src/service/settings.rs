//! What is configured, and whether all of it holds.

use super::config::Config;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use transect_http::tls::Tls;

/// What is configured.
pub(crate) struct Settings {
    /// As it holds now.
    pub(super) now: Config,
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Tls>,
    pub(super) loaded_unix_ns: u64,
    /// Why the last one was not taken over.
    pub(super) error: Option<String>,
    /// Settings that were changed and hold only after a restart.
    pub(super) needs_restart: Vec<String>,
}

impl Settings {
    pub(crate) fn new(now: Config, address: SocketAddr, tls: Option<Tls>) -> Self {
        let (error, needs_restart) = (None, Vec::new());
        Settings { now, address, tls, loaded_unix_ns: unix_now_ns(), error, needs_restart }
    }

    pub(crate) fn failed(&mut self, why: &str) {
        self.error = Some(why.to_owned());
    }

    /// For the status.
    pub(crate) fn json(&self) -> Value {
        json!({
            "loaded_unix_ns": self.loaded_unix_ns,
            "error": self.error,
            "needs_restart": self.needs_restart,
        })
    }
}

pub(super) fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
