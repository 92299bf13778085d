//! Tier `make test`: the analysis with the shipped `transect`, which `make build` makes.

mod analysis;
