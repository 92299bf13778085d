//! Guests as a live source: the channel to `transect-agent`, clock exchange, discovery of VMs.
//!
//! **What.** A guest's kernel is recorded by an agent inside it and streamed to the recorder on
//! the host. This crate is both ends of that stream and what the host can learn about VMs without
//! any agent: [`proto`] (frames, no I/O), [`transport`] (AF_VSOCK, virtio-serial), [`serve`] (the
//! agent's side of a session), [`session`] (the recorder's side), [`describe`] (names and totals of
//! compact guests), [`settings`] (scheduler, interrupts, control groups of guests), [`exchange`], [`stamp`] and [`wall`] (clock brackets and readings), [`discover`] (VMM processes, vCPU threads, KVM's TSC offsets).
//!
//! **Data flow.**
//! ```text
//! guest: BPF logs      ─▶ serve::TraceRun ─▶ Words frames ─▶ vsock / virtio-serial
//!        tracefs pages ─▶                    Data frames
//! host:  session::GuestSession ─▶ GuestSink (spools, clock evidence, gaps) ─▶ the recording
//!        discover ─▶ machines, vCPU threads, TSC offsets ─▶ the recording
//! ```
//!
//! **Design constraints.** The recorder never waits for a guest without a deadline; a guest that
//! dies costs only its own missing interval, and that interval is marked. What a guest may use of the
//! host is one policy, [`bounds`], for every channel. The agent side is small (no serde, no async
//! runtime): it is carried into guests.
//!
//! ```no_run
//! use transect_guest::discover;
//! for vm in discover::vms().vms {
//!     println!("{} (pid {}): {} vCPUs", vm.name, vm.pid, vm.vcpus.len());
//! }
//! ```

pub mod bounds;
pub mod describe;
pub mod discover;
pub mod exchange;
pub mod proto;
pub mod serve;
pub mod session;
pub mod settings;
pub mod stamp;
pub mod transport;
pub mod wall;
