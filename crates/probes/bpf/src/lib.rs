//! The compact collector: BPF programs that write records of 8 to 24 bytes into per-CPU logs.
//!
//! **What.** CO-RE programs on BTF tracepoints (`bpf/`, one file per event family) write the core
//! events in the compact format (`crates/formats/compact`) into memory that this process has
//! mapped. No wakeup per event, no copy in the kernel, names once, pairs folded into one record.
//!
//! **Data flow.** [`Plan`] → [`Compact::load`] (fits the embedded object to this kernel, leaves out
//! what it lacks) → [`Compact::consume`] (a thread gives slices of the logs to a [`LogSink`]) →
//! [`Compact::attach`] … [`Compact::stop`]. A flight recorder has no consumer:
//! [`Compact::snapshot`] pauses the writers and gives all that the logs hold.
//!
//! **Design constraints.** What a plan does not want is not loaded; what a filter does not need is
//! removed by the verifier. Nothing is lost silently: every log counts its losses with their time
//! range, and programs that the kernel skipped are counted too ([`Stats`]). A sink that fails ends
//! the taking, never the machine. No compiler is needed where the binary runs.
//!
//! ```no_run
//! use std::io;
//! use transect_bpf::{Compact, Family, LogSink, Plan};
//! use transect_model::ids::CpuId;
//! struct Count(u64);
//! impl LogSink for Count {
//!     fn slice(&mut self, _: CpuId, _: u8, _: u64, _: u64, _: u64, words: &[u8]) -> io::Result<()> {
//!         self.0 += words.len() as u64;
//!         Ok(())
//!     }
//! }
//! # fn main() -> Result<(), transect_bpf::BpfError> {
//! let mut compact = Compact::load(&Plan::of(&[Family::Sched, Family::Irq]))?;
//! let consumer = compact.consume(Count(0))?;
//! compact.attach()?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let finished = compact.stop(consumer)?;
//! println!("{} bytes, {} events lost", finished.sink.0, finished.stats.lost());
//! # Ok(())
//! # }
//! ```

mod can_run;
mod choice;
mod collector;
mod consumer;
mod error;
mod filter;
mod kernel;
mod layout;
pub mod live;
mod load;
mod maps;
mod memory;
mod monotonic;
mod plan;
mod preempt;
mod program;
mod running;
mod said;
mod sink;
mod stacks;
mod stats;

pub use can_run::{Capabilities, can_run};
pub use choice::{KvmExitMethod, exit_isa};
pub use collector::{Compact, Finished, Pause, Pulled};
pub use consumer::Consumer;
pub use error::{BpfError, WhyNot};
pub use filter::cgroup_path;
pub use layout::CHUNK_BYTES;
pub use plan::{Filters, Mode, Plan, SyscallMode, Trigger, TriggerEvent};
pub use program::{FAMILIES, Family, PROGRAMS, Program};
pub use sink::LogSink;
pub use stats::{LogStats, Stats};
