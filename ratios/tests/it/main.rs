//! The integration tests of this crate in one program, so that its libraries are linked once.

mod host;
