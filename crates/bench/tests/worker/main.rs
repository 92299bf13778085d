//! The worker as a platform sees it: a program with two pipes.

mod cache_states;
mod client;
mod endings;
mod workloads;
