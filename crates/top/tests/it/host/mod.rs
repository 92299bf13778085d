//! Tier `make test`: the screen in a terminal of tmux.

mod panic;
