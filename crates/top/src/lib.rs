//! The screen of `transect top`.
//!
//! **What.** VMs, containers and control groups as rows, down to single vCPUs and threads; who has the
//! CPUs, who waits, and behind whom ([`App`]). `docs/reference/top.md` is what its users read.
//!
//! **Data flow.** Windows ([`transect_live::Snapshot`], live or of a [`Log`]) and keys change an [`App`];
//! [`draw`] makes a terminal's cells of it; [`run()`] has the terminal and the thread that takes windows.
//!
//! **Constraints.** The state and its drawing are pure: no clock, no terminal, so that a test shows what a
//! user sees. Memory is bounded ([`Ring`] by bytes; logs are read where they are looked at). Whatever ends the
//! screen, the terminal is as it was before. What is missing is a dash with a reason, never a zero.
//!
//! ```
//! use ratatui::{buffer::Buffer, layout::Rect};
//! use transect_live::Snapshot;
//! use transect_top::{App, Key, Looks, Moment, Past, Ring, draw};
//! let mut app = App::new(Past::Seen(Ring::default()), Looks::default());
//! app.push(Moment::new(Snapshot { dur: 1_000_000_000, ..Snapshot::default() }));
//! app.key(Key::Char('t'));
//! let area = Rect::new(0, 0, 80, 24);
//! let mut buffer = Buffer::empty(area);
//! draw(&app, area, &mut buffer);
//! assert_eq!(buffer[(0, 0)].symbol(), "t");
//! ```

mod app;
mod draw;
mod help;
mod level;
mod moment;
mod number;
mod part;
mod past;
mod run;
mod sums;
mod table;
mod text;
mod views;
mod who;

pub use app::{After, App, Key, Looks};
pub use draw::draw;
pub use moment::Moment;
pub use past::{Log, LogError, Past, Ring};
pub use run::{Feed, ScreenError, check_terminal, run};
pub use views::View;
pub use who::Who;
