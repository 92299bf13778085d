//! What is served over HTTP: a recording's timeline on this machine (`transect view`), and this host's
//! windows, history, metrics and snapshots ([`service`], `transect serve`).
//!
//! **What.** [`Server::start`] listens on a port of this machine, has the recording's tables and
//! tiles made if they are not there, and answers the page: tracks, keys, tiles, facts and arrows
//! (`transect-timeline`), statistics and SQL (`transect-ask`: the engine is a process of its own). The addresses and
//! what they answer are in docs/reference/timeline-format.md.
//!
//! **Data flow.**
//! ```text
//! connection ─▶ request ─▶ guard (host, origin, token) ─▶ page │ api ─▶ answer
//!   (transect-http)                                                     └▶ view, tables (state) │ engine (sql)
//! builder thread: Recording::open ─▶ tables ─▶ tiles ─▶ state; the page sees how far it is
//! ```
//!
//! **Design constraints.**
//! - Threads, not an async runtime: a browser has six connections, and every answer is work of
//!   the CPU or a query that waits by itself.
//! - Who may ask is decided before anything is looked at (`guard`; of the daemon, `service::auth`). No path is ever opened: the
//!   page's files are part of the program.
//! - Requests, answers, connections and queries under way are bounded.
//! - What can be shown is shown: the page is there at once, and tracks as they are made.

mod api;
mod app;
mod builders;
mod guard;
mod page;
mod row;
pub mod service;
mod sql;
mod state;

pub use app::{Options, ServeError, Server};
pub use page::is_built;
pub use state::{Exported, Opened, Recording, Tell};
