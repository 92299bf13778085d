//! Tier `make test-guests`: what takes long and boots no machine.

mod chaos;
