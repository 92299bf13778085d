//! The integration tests of this crate in one program, so that its libraries are linked once.

mod access;
mod bench_support;
mod damage;
mod excerpt;
mod explain;
mod faces;
mod flame;
mod guests;
mod host;
mod processes;
mod record_support;
mod slow;
mod sql;
mod tables;
mod terminal;
mod verify;
mod view;
mod view_stats;
mod view_support;
mod wall;
mod xen;
mod xen_files;
mod xen_kernels;
mod xen_ticks;
