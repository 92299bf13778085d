//! On this machine's kernel.

mod handle;
