//! Records a host, its guests and Xen into a recording directory, continuously or as a flight recorder.
//!
//! A [`Recorder`] says what to record. [`Recorder::start`] records in a thread of its own until [`Running::stop`]:
//!
//! ```no_run
//! use std::{thread, time::Duration};
//! use transect_recorder::Recorder;
//! use transect_tracefs::Profile;
//!
//! # fn main() -> anyhow::Result<()> {
//! let running = Recorder::new("run.transect").profile(Profile::Sched).start()?;
//! thread::sleep(Duration::from_secs(5));
//! let outcome = running.stop()?;
//! println!("{} events are in {}", outcome.numbers.events, outcome.dir.display());
//! # Ok(())
//! # }
//! ```
//!
//! A flight recorder keeps events in memory, and each [`Running::snapshot`] makes a recording of what it holds:
//!
//! ```no_run
//! use std::time::Duration;
//! use transect_recorder::{FlightPlan, Recorder, SnapshotWindow};
//!
//! # fn main() -> anyhow::Result<()> {
//! let running = Recorder::new("slow.transect").flight_recorder(FlightPlan::default()).start()?;
//! let last = SnapshotWindow::Last(Duration::from_secs(5));
//! println!("{}", running.snapshot(Some(last))?.display()); // slow.1.transect
//! running.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! A program that waits for other things than its own calls takes the steps one by one, as `transect record` does:
//! [`Recorder::plan`] chooses the collector, [`Planned::set_up`] prepares the kernel, and [`Ready::run`] records until
//! its [`Driver`] ends it, and reports to its [`Observer`].
//!
//! **Data flow.** `recorder` (what to record) → `plan` and `choose` (which collector) → `host` with a kernel (`compact`, `full`) and
//! `xen` → `continuous` or `flight` → the recording's files (`transect-store`). `guests` adds the kernels of guests,
//! `wall` the readings of the wall clock, `vms` the machines.
//!
//! This library prints nothing. The texts of errors name the options of `transect record`, as a user writes them.

mod choose;
mod compact;
mod compact_file;
mod continuous;
pub mod control;
mod driver;
pub mod ending;
mod evidence;
mod facts;
mod flight;
mod full;
mod guest_sink;
mod guests;
mod host;
mod kernel;
pub mod leftovers;
mod narrow;
mod newest;
mod numbers;
mod observer;
mod plan;
mod recorder;
mod running;
mod service;
mod settings;
mod spool_sink;
mod trigger;
pub mod units;
mod vms;
mod wall;
mod window;
mod xen;

pub use driver::{Driver, Hurry, Reply, Wake, look_every};
pub use flight::{FlightPlan, numbered};
pub use narrow::Narrow;
pub use numbers::{Numbers, Outcome};
pub use observer::{Observer, Snapshot, Status};
pub use plan::{Planned, Ready};
pub use recorder::Recorder;
pub use running::Running;
pub use service::{FlightService, Taken};
pub use trigger::Trigger;
pub use window::SnapshotWindow;
pub use xen::{XenPart, XenSettings};
