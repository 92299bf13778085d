//! Tier `make test`: clocks of this host.

mod real_clocks;
