//! The integration tests of this crate in one program, so that its libraries are linked once.
#![allow(clippy::disallowed_methods, reason = "tests make files as other programs do")]

mod damage;
mod events;
mod excerpt;
mod read;
mod recording;
mod rows;
mod tables;
mod tables_place;
