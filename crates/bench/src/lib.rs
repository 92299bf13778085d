//! What each layer and each tracer costs, with an interval and a suspected limiter.
//!
//! # What
//! A *plan* crosses platforms × tracer arms × cache states × workloads × guests. The *procedure* runs its cells in
//! randomised paired blocks and writes each run into a journal before the next one starts. *Statistics* make an
//! interval of the blocks' ratios, the *limiter* says what held the workload back, *reports* show both.
//!
//! # Data flow
//! ```text
//! plan ─▶ procedure ──opens──▶ platform ─▶ machine ──runs──▶ worker (the same binary, inside)
//!            │  Job ─────────────── JSON lines over a pipe ─────▶│ cache state, tracer arm, workload, sampling
//!            │◀──────────────────────────────────── RunResult ───│
//!            ▼
//!         journal ─▶ statistics + limiter ─▶ report · compare · gate · publish
//! ```
//!
//! # Design constraints
//! - One binary, two sides: inside a guest there is only the worker, and it knows nothing of plans or statistics.
//! - Nothing falls back silently: what cannot be had is a [`Refusal`] with its reason.
//! - A number is never dropped for its value, only for a recorded cause.
//! - A platform, a tracer arm and a workload are one folder each, and one line in their registry.

pub mod caches;
pub mod catalog;
pub mod crew;
pub mod design;
pub mod environment;
pub mod journal;
pub mod limiter;
pub mod metric;
pub mod plan;
pub mod platforms;
pub mod procedure;
pub mod protocol;
pub mod published;
pub mod refusal;
pub mod report;
pub mod sampling;
pub mod statistics;
pub mod tracers;
pub mod worker;
pub mod workloads;

mod distribution;

pub use distribution::QUANTILES;
pub use metric::{Better, Distribution, Metric, Unit};
pub use protocol::{CacheProof, CacheState, Job, RunResult};
pub use refusal::{Fault, Kind, Refusal};
