//! Both ends of a session over a Unix socket: the real recorder side, the real agent side, and a
//! made-up machine whose pages can be checked byte by byte.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)] // A failed expectation is the report.

mod bounds;
mod limits;
mod links;
mod machine;
mod notebook;
mod refusals;
mod scene;
mod wire;

use transect_guest::stamp::StampClock;

fn mono() -> u64 {
    StampClock::Mono.now().unwrap()
}
