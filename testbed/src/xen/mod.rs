//! A Xen host under emulation: Xen, dom0 and domUs, all from Debian packages.
//!
//! QEMU's TCG boots Xen, Xen boots dom0 (Debian's kernel and this machine's root over 9p, with Xen's tools laid over it),
//! and dom0 takes orders as a nested host does. domUs are Debian's kernel with the PID 1 and the workloads of every
//! other guest of the testbed; what they say on their consoles is what `wait_for` sees.

mod domains;
mod domu;
mod host;
mod image;
mod tools;

pub use domains::Domain;
pub use domu::{DomU, DomUPlan, TscMode};
pub use host::{Scheduler, XenHost, XenOptions};
pub(crate) use host::{in_cache, prepared};
pub(crate) use image::of_fitted_domu;
pub use tools::{missing, tool};
