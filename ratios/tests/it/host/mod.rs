//! Tier `make test`: the roles of the harness on this host.

mod roles;
