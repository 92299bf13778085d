//! Every machine's clock onto one trace time, each conversion with its error bound.

pub mod affine;
mod clock_kind;
mod converter;
mod corridor;
mod curve;
mod edge;
mod error;
pub mod evidence;
pub mod exchange;
mod graph;
mod hop;
mod time_shift;

pub use clock_kind::{ClockKind, clock_kind};
pub use converter::Converter;
pub use edge::Method;
pub use error::ClockError;
pub use evidence::Evidence;
pub use graph::{ClockGraph, ClockOptions, Unit};
