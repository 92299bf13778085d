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
//!   address ([`transect_http::Peer`]): one client cannot take all places or all time.
//! - Routes are one table, of which the description is made, too.

mod api;
mod auth;
mod brake;
mod columns;
mod config;
mod daemon;
mod descriptions;
mod dispatch;
mod fairness;
mod hub;
mod metrics;
mod notify;
mod openapi;
mod reload;
mod route;
mod routes;
mod rows;
mod settings;
mod shared;
mod snapshots;
mod storm;
pub mod tables;
mod triggers;
mod views;
mod windows;

#[cfg(test)]
mod api_page;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, DEFAULT_ADDRESS, Limits, OpenAccess};
pub use daemon::{Daemon, DaemonError, Parts};
pub use snapshots::{Recorded, Recorder};
pub use triggers::Trigger;
pub use views::Open;
