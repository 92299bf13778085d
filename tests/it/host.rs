//! Tier `make test`: the shipped programs on this host's own kernel, the agent beside the recorder.

mod chaos;
mod endings;
mod hostile;
pub(crate) mod support;
