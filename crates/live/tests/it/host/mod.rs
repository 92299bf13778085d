//! Tier `make test`: live windows of this host's own kernel.

mod containers;
mod tracefs;
