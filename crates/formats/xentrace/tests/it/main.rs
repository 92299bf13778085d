//! The integration tests of this crate in one program, so that its libraries are linked once.

mod broken;
mod common;
mod corpus;
mod damage;
mod host;
mod readme;
mod roundtrip;
