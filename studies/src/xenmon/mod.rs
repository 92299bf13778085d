//! The XenMon study: how much CPU dom0 should get beside a domU that serves requests over the network.
//!
//! *XenMon: QoS Monitoring and Performance Profiling Tool* (Gupta, Gardner, Cherkasova, HP Laboratories, HPL-2005-187,
//! 2005) gave dom0 half, once, twice and ten times the weight of a domU with a web server, and found the server fastest
//! where dom0 had least. `docs/reference/studies/xenmon.md` has what comes out today.

pub mod analysis;
mod charts;
mod claims;
mod figures;
pub mod page;
pub mod plan;
mod published;
pub mod record;
pub mod results;
mod scene;
