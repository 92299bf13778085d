//! What several workloads need.

pub(crate) mod asked;
pub(crate) mod forked;
pub(crate) mod mapped;
pub(crate) mod programs;
pub(crate) mod random;
pub(crate) mod spread;
pub(crate) mod tree;
