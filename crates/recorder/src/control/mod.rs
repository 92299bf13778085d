//! Running recorders: how `transect record` makes itself known, and how `transect snapshot` and `stop` reach it.
//!
//! A recorder leaves `PID.json` (who it is, what it writes) and listens on `PID.sock` in a
//! directory only its user can enter. One command line in, one reply line out:
//!
//! ```text
//! snapshot [WINDOW]   → ok DIRECTORY | error WHY        when the snapshot is complete
//! stop                → ok DIRECTORY | error WHY        when the recording is complete
//! ```
//! WINDOW is `all`, or the length of the window, as in `--last`.
//!
//! **Why not signals?** They carry no reply. (`SIGUSR2` takes a snapshot all the same, for
//! scripts that only have a pid.)

mod client;
mod place;
mod server;
mod stale;
mod state;

pub use client::{Choice, Found, absolute, ask, find, running};
pub use server::{ControlServer, Pending};
pub use stale::{Killed, remove_stale};
pub use state::{RecorderState, Request};
