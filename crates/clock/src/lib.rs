//! Every machine's clock onto one trace time, each conversion with its error bound.
//!
//! A recording holds stamps of many clocks: the host's TSC, each guest's TSC (offset, perhaps
//! scaled, reset at every boot), kernels' `mono` clocks that NTP steers. This crate turns any of
//! those stamps into trace time, and says how wrong the result may be. It never averages and
//! never guesses: a bound is what the evidence proves, and evidence that contradicts itself is
//! reported, not smoothed.
//!
//! # Concepts
//!
//! - *Clock*: one counter as one machine reads it, such as `(guest 1, x86-tsc)`. Stamps of
//!   different clocks are different types of number even when both are called "TSC".
//! - *Evidence* ([`Evidence`]): one raw observation made while recording. An offset read from KVM,
//!   one question and answer over the guest channel, the kernel's ticks-to-nanoseconds numbers.
//!   Kept in the recording, one line each; everything else here is derived from it.
//! - *Reference*: the host's trace clock. *Trace time* is that clock in nanoseconds, exactly the
//!   number `trace-cmd report` prints for the host's file. Ticks that nobody gave a rate for stay
//!   ticks ([`Unit::Ticks`]).
//! - *Edge*: a way from one clock to its parent's, by one method. Best first: 1.
//!   [`Method::TscOffset`], exact: `host = (guest - offset) * 2^frac / ratio`, the inverse of what
//!   the CPU does for the guest. Streams stamped with a kernel's `mono` come to it, and leave it on
//!   the host's side, by [`Method::TscReading`]: both clocks of one machine read side by side
//!   (`readings.rs`), bound by the width of the readings. 2. [`Method::TimeShift`]: what trace-cmd
//!   found and wrote into an imported guest file. 3. [`Method::Exchange`], estimated: brackets and
//!   the corridor of lines through them ([`exchange`]). 4. [`Method::Causality`], estimated: a
//!   kernel's stamps lie where its hypervisor had its vCPU running ([`ran`]).
//! - *Piece*: the host time in which one map of an edge holds. A reboot, a live migration or a
//!   write to the TSC ends a piece.
//! - *Wall clock*: CLOCK_REALTIME of the reference's machine, from readings between two of its trace
//!   clock ([`ClockGraph::wall_clock`]): straight pieces with a bound each, and no piece where the
//!   clock was set.
//! - *Error bound*: the truth lies within ± this of the converted stamp.
//!
//! # Structures
//!
//! ```text
//! evidence ──▶ ClockGraph ── converter(machine, cpu) ──▶ Converter ──▶ (trace time, bound)
//!                 │                                          │
//!                 ├ nodes: (machine, its stamps' clock        └ hops: one per edge on the way,
//!                 │         or its TSC)                         each a list of pieces;
//!                 ├ edges: machine → parent, per vCPU;          composed into one table;
//!                 │        clock ↔ TSC of one machine           then ticks → ns
//!                 └ routes: smallest sum of bounds
//!
//! guest mono ──readings──▶ guest TSC ──KVM's offset──▶ host TSC ──readings──▶ host mono
//! ```
//!
//! The graph is small (machines, not events) and built once. A [`Converter`] is made once per
//! stream and holds everything looked up: the usual one subtracts a constant and multiplies once,
//! about 2.5 ns; a way of several steps is one table of straight pieces, about 3.5 ns
//! (`examples/convert_speed.rs`).
//!
//! # What the bound covers
//!
//! - Between clocks that count the same counter (host and guest TSC, unscaled), the bound is 0:
//!   the same tick gets the same nanosecond on both sides. Rounding a tick down to its nanosecond
//!   is part of what trace time *is* and not an error.
//! - A guest TSC slower than the host's shows one value for several host ticks: the bound is those
//!   ticks.
//! - An estimate's bound is half the width of what its brackets leave possible at that moment. It
//!   covers any delay and asymmetry of the channel, the rounding of both counters and of the
//!   arithmetic, and for clocks that kernels steer a rate that wanders by
//!   [`exchange::WANDER_PPM`]. Outside the sampled span it grows with the uncertainty of the rate.
//! - A `mono` stamp that comes by its TSC: the half width of the readings on both sides, about
//!   four times (their own, and what they leave open of the rate between them); where a kernel
//!   steered its clock, what that moved it by between two readings. It rests on kernels changing a
//!   clock's rate once a second at most (`kernel/time/ntp.c`).
//! - It does not cover the length of the second: a rate that was measured and not told by the
//!   kernel stretches all of trace time alike; see the `tsc_rate` row of `clock_edges`.
//!
//! # Example
//!
//! A host at 2 GHz; its guest was booted when the host's TSC showed 6,000,000,000. Three exchanges
//! were made, and the offset was read from KVM's debugfs.
//!
//! ```text
//!  host TSC   10,000,000,000 ──ask──▶ guest 4,000,080,000 ──answer──▶ 10,000,100,000   (width 100,000)
//!             12,000,000,000 ──ask──▶ guest 6,000,010,000 ──answer──▶ 12,000,030,000   (width  30,000)
//!             16,000,000,000 ──ask──▶ guest 10,000,025,000 ─answer──▶ 16,000,040,000   (width  40,000)
//! ```
//!
//! Host minus guest is at least 5,999,920,000, 5,999,990,000 and 5,999,975,000 by the asking
//! stamps, and at most 6,000,020,000, 6,000,020,000 and 6,000,015,000 by the answers'. Six seconds
//! of them prove that the rates are within 250 ppm, closer than KVM ever scales: the rate is 1. So
//! the offset lies in [5,999,990,000, 6,000,015,000]: the middle is 6,000,002,500 ± 12,500
//! ticks, 6.25 µs. Half the tightest bracket alone would be 15,000 ticks. The offset that KVM
//! states, 6,000,000,000, is inside.
//!
//! ```
//! use transect_clock::{ClockGraph, ClockOptions, Evidence, evidence::RateSource};
//! use transect_model::{ids::{CpuId, MachineId, VcpuId}, time::Timestamp};
//!
//! let (host, guest) = (MachineId(0), MachineId(1));
//! let ask = |host_send, guest_stamp, host_recv| Evidence::Exchange {
//!     machine: guest, parent: host, host_send, guest: guest_stamp, host_recv,
//! };
//! let evidence = [
//!     Evidence::Reference { machine: host, clock: "x86-tsc".into() },
//!     // 2 GHz: half a nanosecond a tick.
//!     Evidence::TscRate {
//!         machine: host, mult: 1 << 31, shift: 32, offset_ns: 0,
//!         how: RateSource::PerfMmap, error_ppm: 0.0,
//!     },
//!     ask(10_000_000_000, 4_000_080_000, 10_000_100_000),
//!     ask(12_000_000_000, 6_000_010_000, 12_000_030_000),
//!     ask(16_000_000_000, 10_000_025_000, 16_000_040_000),
//!     Evidence::TscOffset {
//!         machine: guest, parent: host, vcpu: VcpuId(0), offset: -6_000_000_000,
//!         ratio: None, frac_bits: None, at_host: 16_100_000_000,
//!     },
//! ];
//! let event = Timestamp::new(8_000_000_000); // in a stream of the guest's CPU 0
//!
//! // The exact edge wins: guest + 6,000,000,000 ticks, halved to nanoseconds.
//! let graph = ClockGraph::from_evidence(&evidence, ClockOptions::default())?;
//! let (ts, bound) = graph.converter(guest, CpuId(0))?.trace_from_source(event)?;
//! assert_eq!((ts.get(), bound.0), (7_000_000_000, 0));
//!
//! // Without it, the exchanges: 1.25 us off, and known to be at most about 6.25 us off.
//! let options = ClockOptions { use_tsc_offset: false, ..ClockOptions::default() };
//! let graph = ClockGraph::from_evidence(&evidence, options)?;
//! let (ts, bound) = graph.converter(guest, CpuId(0))?.trace_from_source(event)?;
//! assert_eq!(ts.get(), 7_000_001_250);
//! assert!((6_250..6_255).contains(&bound.0));
//! # Ok::<(), transect_clock::ClockError>(())
//! ```
//!
//! # Design constraints
//!
//! - No I/O and no clocks read: evidence in, numbers out, so all of it runs in tests.
//! - Integers only on the way of a stamp; nothing saturates or wraps, a stamp that does not fit is
//!   [`ClockError::OutOfRange`]. Floating point appears in printed rates and in limits.
//! - Evidence is untrusted input: any of it ends in an answer or an error, in time that grows
//!   about linearly with its amount.
//! - Offline estimates from causal pairs in the traces (kick and exit, injection and interrupt)
//!   will be one more method; the corridor already takes one-sided gates in all but name.
//!
//! Sources: KVM's arithmetic `arch/x86/kvm/x86.c` (Linux 6.18); trace-cmd 3.4
//! `lib/trace-cmd/trace-input.c` and `trace-timesync-*.c`; the convex-hull fit is Duda, Harrus,
//! Haddad and Bernard, "Estimating global time in distributed systems" (ICDCS 1987), which LTTng's
//! trace synchronisation also uses.

pub mod affine;
mod building;
mod clock_kind;
mod composed;
mod converter;
mod corridor;
mod curve;
mod edge;
mod error;
pub mod evidence;
pub mod exchange;
mod graph;
mod hop;
mod leg;
mod node;
mod options;
pub mod ran;
mod rate;
mod readings;
mod route;
mod time_shift;
mod wall;

pub use clock_kind::{ClockKind, clock_kind};
pub use converter::Converter;
pub use edge::Method;
pub use error::ClockError;
pub use evidence::Evidence;
pub use graph::{ClockGraph, Unit};
pub use options::ClockOptions;
