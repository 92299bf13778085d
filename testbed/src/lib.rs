//! # transect-testbed: real guests for tests and the demo
//!
//! **What.** Five kinds of machine, each a few seconds away, built from Debian packages only:
//!
//! * [`KvmHost`] — a Linux host on which KVM really works: this machine where it has usable KVM, else a
//!   *nested* one ("L1": QEMU's TCG emulates an AMD CPU with SVM, Debian's kernel loads `kvm-amd`).
//!   Commands run on it as on the machine itself: it sees this machine's file system, read only.
//! * [`Guest`] — a Linux guest of that host under real KVM ("L2"), with vhost-vsock, virtio-serial,
//!   the agent, and a workload that says what it did.
//! * [`counting`] — a guest that makes exactly N hypercalls, port writes and halts.
//! * [`TcgGuest`] — a Linux guest straight under TCG on this machine, for whatever needs a real guest kernel
//!   but no KVM.
//! * [`hostile`] — no machine: an agent that attacks the recorder over the guest channel.
//! * [`XenHost`] — Xen, its dom0 and PV and PVH domUs under TCG; dom0 takes commands as a nested host does.
//!
//! **Data flow.** [`kernel`] fetches and unpacks Debian's kernels once into the [`cache`]; [`initramfs`] adds
//! our own PID 1 and workload (`guest/*.c`, static); [`qemu`] writes the command line; [`rundir`] holds the
//! process, its logs and its deadline; `emulated` carries commands over a virtio-serial port and files over 9p.
//!
//! **Design constraints.**
//! * No residue: every process has a deadline and dies with the test that started it, however that one dies
//!   (see [`rundir`]); temporary folders go away on success and are kept, and named, on failure.
//! * Parallel-safe: no fixed port, path or (on a real host) CID.
//! * Nothing is installed: kernels are unpacked, never installed; the clone is never written to.
//! * Times under emulation are no measurements: use counts, orders and ratios.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use transect_testbed::KvmHost;
//! let host = KvmHost::boot()?;
//! let web = host.guest("web").vcpus(1).workload("periodic:period_ms=10:work_us=500").boot()?;
//! web.wait_for("lateness").within(60)?;
//! let out = host.run("perf stat -a -e kvm:kvm_exit sleep 1").within(30)?;
//! out.expect_success();
//! # Ok(())
//! # }
//! ```

mod again;
pub mod booting;
pub mod cache;
mod carry;
mod compile;
pub mod counting;
mod cpio;
pub mod demo;
mod direct;
mod emulated;
pub mod fitted;
mod guest;
mod host;
mod host_options;
pub mod hostile;
pub mod initramfs;
mod job;
pub mod kernel;
mod lateness;
mod linked;
mod lttng;
mod nested;
mod packages;
pub mod probe;
pub mod qemu;
pub mod rundir;
mod shared;
mod tcg;
mod wait;
pub mod xen;

pub use guest::{Guest, GuestPlan};
pub use host::KvmHost;
pub use host_options::HostOptions;
pub use job::{Job, JobPlan, Output};
pub use lateness::Lateness;
pub use shared::on_shared_host;
pub use tcg::TcgGuest;
pub use wait::WaitFor;
pub use xen::XenHost;
