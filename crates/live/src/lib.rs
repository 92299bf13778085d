//! What every VM, container, vCPU and thread is doing now: windows of rows, for any live face.
//!
//! **What.** A [`Source`] gives a [`Snapshot`] per window: the rows of the tables' `windows` for vCPUs, VMs
//! and control groups, the same sums of single threads and CPUs, exits by reason and waits with
//! their distributions, who was in whose way, I/O – and what of all that cannot be had here, with
//! the reason ([`Missing`]).
//!
//! **Data flow.** [`HostSource`]: BPF programs count in the kernel ([`transect_bpf::live`]), this crate
//! knows VMs (the discovery that recordings use), control groups and names, and adds up.
//! [`TracefsSource`] and [`XenSource`] read a stream of events and put it through the engine of recordings,
//! window by window. [`open`] takes the best there is.
//!
//! [`Snapshot::findings`] judges a window by the rules of [`transect_explain::detect::rules`].
//!
//! **Design constraints.** Faces look at snapshots and nothing else. A live row equals the row of a
//! recording of the same time: counts exactly, times but for the stamps' differences (both take
//! their own). Memory is bounded: a source keeps no history. What is missing is named, never zero:
//! faces show a column as null where [`Snapshot::lacks`] it.
//!
//! ```no_run
//! use transect_live::{HostSource, LivePlan, Source};
//! # fn main() -> Result<(), transect_live::LiveError> {
//! let mut source = HostSource::start(&LivePlan::default())?;
//! loop {
//!     let now = source.take()?;
//!     for actor in now.actors.iter().filter(|actor| actor.window.vcpu.is_some()) {
//!         println!("{:?} waited {} ns", actor.window.vcpu, actor.window.waited_ns);
//!     }
//! }
//! # }
//! ```

mod assemble;
mod by_number;
mod cgroups;
mod choose;
mod containers;
mod error;
mod extend;
mod findings;
mod groups;
mod histogram;
mod host;
pub mod lines;
mod missing;
mod network;
mod pressure;
mod record;
mod rows;
mod snapshot;
mod stream;
mod total;
mod tracefs;
mod xen;

pub use choose::{SOURCES, SourceKind, open};
pub use error::LiveError;
pub use findings::FindingWindow;
pub use groups::{ContainerWindow, PressureWindow};
pub use histogram::Histogram;
pub use host::HostSource;
pub use missing::{Metric, Missing, everything};
pub use rows::{TABLES, is_derived};
pub use snapshot::{
    ActorWindow, Antagonist, CpuWindow, ExitWindow, Health, IoWindow, Snapshot, ThreadWindow,
    WindowDetail,
};
pub use tracefs::TracefsSource;
pub use transect_bpf::live::{LivePlan, MAX_WINDOW_NS, MIN_WINDOW_NS, monotonic_ns};
pub use xen::{XenSource, XenWindows};

/// Where snapshots come from. One per process: all faces share it.
pub trait Source: Send {
    /// Length of its windows, ns.
    fn window_ns(&self) -> u64;

    /// When the window that [`Self::take`] gives next ends, ns of CLOCK_MONOTONIC; none where that is not
    /// known.
    fn next_edge_ns(&self) -> Option<u64>;

    /// What cannot be had, as far as is known now. Also in every snapshot.
    fn missing(&self) -> Vec<Missing>;

    /// Gives the next window: waits for its end, and for what is needed to read it exactly (some
    /// 10 ms). To be called once per window; who comes late is told what was missed.
    ///
    /// # Errors
    /// The source is gone.
    fn take(&mut self) -> Result<Snapshot, LiveError>;
}
