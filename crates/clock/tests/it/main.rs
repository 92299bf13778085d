//! The integration tests of this crate in one program, so that its libraries are linked once.

mod exchange;
mod graph;
mod host;
mod ran;
mod readings;
mod wall;
