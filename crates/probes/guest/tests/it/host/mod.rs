//! Tier `make test`: guests discovered on this host.

mod discover;
