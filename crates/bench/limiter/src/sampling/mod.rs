//! What a machine did while a workload ran: the limiter's input.
//!
//! # What
//! A [`Sampler`] is a thread that reads the kernel's own counters every few milliseconds, on whatever machine the worker
//! is (host, guest, container, UML). [`Samples`](transect_bench_core::samples::Samples) is what remains: differences over the measured part and a short series.
//!
//! # Data flow
//! ```text
//! /proc, /sys ──files kept open──▶ snapshot ──▶ (begin … end) differences ─▶ Samples ─▶ limiter
//!                 every tick ────▶ watched threads: CPU, run-queue wait, where they sleep
//!                 now and then ──▶ other threads: who else had the CPUs
//! ```
//!
//! # Design constraints
//! - Everything is optional: what a kernel does not show is in `Samples::missing` with its reason, never a zero.
//! - It must not be what it measures: files stay open, buffers are reused, and its own CPU time is in `Samples::own`.
//! - Parsers ([`parse`]) do no I/O and accept any bytes.

mod control_group;
mod machine;
mod others;
pub mod parse;
mod sampler;
mod series;
mod source;
mod watch;

pub use sampler::{Sampler, Watch};

pub(crate) use control_group::{Controller, Hierarchies};
