//! Tier `make test-guests`: what depends on more than this project.

mod perf_contexts;
