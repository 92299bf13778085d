//! No tiny VM is written for this architecture: the KVM check says so instead of guessing.

use std::process::ExitCode;

/// Port writes the tiny guest makes before it halts.
pub(super) const PORT_WRITES: u8 = 0;

pub(super) fn run() -> anyhow::Result<ExitCode> {
    anyhow::bail!("the tiny VM of this check does not exist for this architecture; try `make demo`")
}
