//! Tier `make test`: the tracefs of this host's own kernel.

mod live;
