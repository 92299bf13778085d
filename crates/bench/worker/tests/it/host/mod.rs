//! Tier `make test`: the worker and its workloads on this host.

mod worker;
