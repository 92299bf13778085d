//! Tier `make test`: the tracer arms on this host.

mod tracers;
