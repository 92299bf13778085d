//! The integration tests of this crate in one program, so that its libraries are linked once.
#![allow(clippy::disallowed_methods, reason = "tests make files as other programs do")]

mod bounds;
mod common;
mod files;
mod kinds;
mod truth;
