//! The full collector: kernel events through a tracefs instance of our own.
//!
//! **What.** Finds (or mounts) tracefs, makes an instance that is ours alone, picks a clock,
//! enables events and filters, and moves the per-CPU ring-buffer pages to whoever wants them.
//! The same code runs on the host (`transect record`, pages spliced into files) and inside a
//! guest (`transect-agent`, pages as bytes into a channel).
//!
//! **Data flow.** [`Tracefs::find`] → [`clean_leftovers`] → [`Instance::create`] → clock, buffer
//! size, [`Selection`] of events → [`meta::at_start`] → [`Collector::start`] with a [`PageSink`]
//! → tracing on … [`Collector::stop`] → [`meta::Cmdlines`] → the instance is removed.
//! Pages stay as the kernel wrote them; the `ftrace` codec decodes them later.
//!
//! **Design constraints.** The global buffer, its clock and its `tracing_on` are never written:
//! other tracers of the machine keep theirs. Nothing is left behind: an instance goes with its
//! handle, and one whose process was killed is removed at the next start (its name holds pid and
//! start time, so that no living process's instance is taken). Every refusal of the kernel is
//! told with the file, the value and what to do. Few dependencies: this is in the guest agent.
//!
//! ```no_run
//! use std::{io, sync::Arc, time::Duration};
//! use transect_tracefs::*;
//! # use transect_model::ids::CpuId;
//! struct Count;
//! impl CpuSink for Count {
//!     fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
//!         assert_eq!(pages.len() % 4096, 0);
//!         Ok(())
//!     }
//! }
//! impl PageSink for Count {
//!     fn cpu(&self, _cpu: CpuId) -> io::Result<Box<dyn CpuSink>> {
//!         Ok(Box::new(Count))
//!     }
//! }
//! # fn main() -> Result<(), TracefsError> {
//! let tracefs = Tracefs::find()?;
//! clean_leftovers(&tracefs, "transect");
//! let instance = Instance::create(&tracefs, "transect")?;
//! let clock = choose_clock(&tracefs, None)?;
//! instance.set_clock(&clock.name)?;
//! instance.set_buffer_kb_per_cpu(8192)?;
//! let wishes: Vec<_> = EventRequest::from_profile(Profile::Vm).collect();
//! let selection = Selection::resolve(&tracefs, &wishes)?;
//! selection.enable(&instance)?;
//! let collector = Collector::start(&instance, Arc::new(Count))?;
//! instance.set_tracing(true)?;
//! std::thread::sleep(Duration::from_secs(1));
//! let totals = collector.stop(&instance)?;
//! assert_eq!(totals.lost(), 0);
//! instance.remove()?;
//! # Ok(())
//! # }
//! ```

pub mod cgroups;
mod clock;
mod collector;
mod cost;
pub mod cpus;
mod error;
mod files;
mod instance;
pub mod irq_lines;
mod leftovers;
pub mod meta;
mod mount;
pub mod namespaces;
mod posix;
mod process;
mod profile;
mod reader;
mod select;
mod sink;
mod stats;
pub mod threads;
pub mod tsc;

pub use clock::{ClockChoice, UserClock, X86_TSC, choose as choose_clock};
pub use collector::{Collector, Totals, dump};
pub use cost::CpuTime;
pub use error::TracefsError;
pub use instance::Instance;
pub use leftovers::{FoundInstance, OWN_PREFIX, Owner, clean_leftovers, found_instances};
pub use mount::Tracefs;
pub use namespaces::Namespaces;
pub use process::ProcessKey;
pub use profile::{PROFILES, Profile};
pub use reader::{CpuReader, Woken};
pub use select::{Condition, EventRequest, SelectedEvent, Selection};
pub use sink::{CpuSink, PageSink};
pub use stats::CpuStats;
