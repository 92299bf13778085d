//! The configuration: every setting in one table, from which the file is read, checked and printed.
//!
//! A setting that is not known, or makes no sense, is an error that names the line and the field;
//! nothing is guessed.

mod fields;
mod read;
mod settings;
pub(crate) mod values;

pub use read::ConfigError;
pub use settings::{Config, DEFAULT_ADDRESS, Limits, OpenAccess};

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
