//! Xen as a live source: what dom0 can see of the hypervisor, and its trace.
//!
//! **What.** Says whether this kernel is a dom0 and what is missing to record Xen ([`detect`]); gathers the facts
//! that a trace does not hold ([`Facts`]: version, TSC rate, scheduler, the domains' names and weights, how each
//! sees the TSC) and follows domains that come and go ([`XenStore`]); and moves Xen's trace records from its own
//! tool `xentrace` to whoever wants them ([`Collector`]).
//!
//! **Data flow.** Xen's per-pCPU buffers → `xentrace`, which polls them → a pipe → [`Collector`], which looks twenty
//! times a second and hands over *whole windows* (a stretch of one pCPU's records, as `xentrace` frames them) →
//! [`TraceSink`]. Records stay as Xen wrote them; the `xentrace` codec decodes them later.
//!
//! **Design constraints.**
//! * Xen's tools are used, never its hypercalls: their interface changes with every version, the tools' output has
//!   not for a decade. Each run of a tool has a deadline.
//! * What reaches the sink can be read at any moment: half a window, as a killed `xentrace` leaves it, is not handed
//!   over, and neither is one that its successor sends again.
//! * `xentrace` may die. Xen goes on tracing into its buffers meanwhile, so that its successor finds the records
//!   there; if they ran full, Xen says how many were lost and for how long. Only an `xentrace` that was told to end
//!   switches tracing off, and then the [`Ending`] says so.
//! * Nothing is left behind: `xentrace` ends with its recorder, and one that could not is found at the next start
//!   ([`end_leftovers`]).
//!
//! ```no_run
//! use std::{io, time::Duration};
//! use transect_xen::*;
//! struct Count(usize);
//! impl TraceSink for Count {
//!     fn windows(&mut self, windows: &[u8]) -> io::Result<()> {
//!         self.0 += windows.len();
//!         Ok(())
//!     }
//!     fn ended(&mut self, _ending: &Ending) {}
//! }
//! # fn main() -> Result<(), XenError> {
//! let Place::Dom0(dom0) = detect() else { return Ok(()) };
//! end_leftovers();
//! let xentrace = dom0.tools.find("xentrace")?;
//! let plan = TracePlan { xentrace, mask: EventMask::default(), buffer_bytes_per_cpu: 1 << 20 };
//! let collector = Collector::start(plan, Box::new(Count(0)))?;
//! std::thread::sleep(Duration::from_secs(1));
//! let finished = collector.stop();
//! assert!(finished.failure.is_none());
//! # Ok(())
//! # }
//! ```

mod classes;
mod collector;
mod detect;
mod error;
mod facts;
mod framer;
mod leftovers;
mod process;
mod sink;
mod tools;
mod version;
mod xenstore;

pub use classes::{CLASSES, EventMask};
pub use collector::{Collector, DEFAULT_BUFFER_BYTES, Finished, TracePlan};
pub use detect::{Dom0, Lack, Place, detect, detect_below};
pub use error::XenError;
pub use facts::{
    CpuHz, Domain, DomainTsc, Facts, Info, Reliability, TscFacts, TscMode, domains_in_list, info,
    printed_rate, tsc, weights_in,
};
pub use leftovers::{Leftover, end_leftovers, other_xentrace};
pub use process::CpuNs;
pub use sink::{Ending, How, TraceSink};
pub use tools::Tools;
pub use version::Version;
pub use xenstore::{Named, XenStore};
