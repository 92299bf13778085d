//! What all parts of the benchmark speak of.
//!
//! - [`metric`]: what is measured, with its unit, and [`Distribution`]s of it;
//! - [`Refusal`] and [`Fault`]: what is not done and why, and what went wrong;
//! - [`protocol`]: jobs and their results, between the procedure and the worker inside a machine;
//! - [`samples`]: what a sampler saw, the limiter's input;
//! - [`About`]: what a workload is, and [`crew`]: several machines in one cell;
//! - [`toml`]: plans and maps, as they are written;
//! - [`this_machine`]: CPUs and memory of the machine that this is called on.

mod about;
pub mod crew;
mod distribution;
mod lever;
pub mod metric;
pub mod protocol;
pub mod refusal;
pub mod samples;
mod series;
pub mod this_machine;
pub mod toml;

pub use about::{About, Family};
pub use distribution::QUANTILES;
pub use lever::Lever;
pub use metric::{Better, Distribution, Metric, Unit};
pub use protocol::{CacheProof, CacheState, Job, RunResult};
pub use refusal::{Fault, Kind, Refusal};
pub use series::Series;
