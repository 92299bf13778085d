//! Tier `make test`: tracers and workloads of the benchmark on this host, and SciPy beside its statistics.

mod scipy;
mod tracers;
mod worker;
