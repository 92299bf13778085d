//! Speed against peers: what transect promises about its cost, measured beside what people use today.
//!
//! **What.** `make bench` prints a row for each promise: ours, the peer's, their ratio, the goal,
//! and whether it holds; `bench.json` beside the build output holds the same rows.
//!
//! **Data flow.**
//! ```text
//! scenarios ─start─▶ roles (loads, tracers, readers: processes of their own) and peers (perf, trace-cmd, …)
//!     └──────◀ timings, counts, bytes ──────┘ ─▶ stats (medians of ratios within rounds) ─▶ report (rows)
//! ```
//!
//! **Design constraints.**
//! - Only ratios within one run are judged: what is compared is measured in the same round, in an
//!   order that is drawn anew for each round. No absolute time is ever asserted.
//! - The harness measures itself: a load beside itself must give a ratio of 1 (`harness/…` rows).
//! - Everything timed is a process of its own, so that its memory and CPU time are its own.
//! - What is missing (a peer, a facility of the kernel) is a row that says so, never a silent gap.
//! - Whatever is switched on in the kernel is switched off again, also when the harness is killed:
//!   tracers end when their standard input does.
//!
//! ```no_run
//! use transect_ratios::{report::{Goal, Row}, stats::Paired};
//! let mut paired = Paired::default();
//! paired.push(116.0, 211.0); // ns per event: ours and the peer's of one round
//! println!("{}", Row::compared("cost/getppid/ftrace", "ns/event", &paired).goal(Goal::RatioAtMost(0.6)));
//! ```

pub mod bed;
pub mod docs;
pub mod machine;
pub mod process;
pub mod recordings;
pub mod report;
pub mod roles;
pub mod scenarios;
pub mod stats;
pub mod traced;
pub mod tracers;
pub mod watchers;
