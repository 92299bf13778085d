//! Tier `make test`: SciPy beside the statistics.

mod scipy;
