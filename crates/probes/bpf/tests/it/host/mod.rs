//! Tier `make test`: the BPF programs on this host's own kernel.

mod causes;
mod contexts;
mod interrupts;
mod live;
mod live_windows;
mod stacks;
mod support;
mod taking;
