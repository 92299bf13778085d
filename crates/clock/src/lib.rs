//! Every machine's clock onto one trace time, each conversion with its error bound.

pub mod affine;
pub mod error;
pub mod evidence;

pub use error::ClockError;
