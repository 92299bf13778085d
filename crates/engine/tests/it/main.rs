//! The integration tests of this crate in one program, so that its libraries are linked once.

mod causes;
mod compact;
mod dsl;
mod feed;
mod filters;
mod host;
mod io;
mod packets;
mod ran;
mod recordings;
mod requests;
mod shards;
mod slow;
mod stories;
mod tiling;
mod truth;
mod wakers;
mod wanted;
mod xen_runs;
mod xen_tiling;
mod xen_waits;
