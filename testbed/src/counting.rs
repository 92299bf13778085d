//! The counting guest (`guest/counting.c`): exactly N hypercalls, port writes and halts.
//!
//! | what the guest does | exits | reason on AMD | on Intel | exact |
//! |---|---|---|---|---|
//! | hypercall | 1 each, and one `kvm:kvm_hypercall` each | `SVM_EXIT_VMMCALL` | `VMCALL` | yes |
//! | port write | 1 each | `SVM_EXIT_IOIO` | `IO_INSTRUCTION` | yes |
//! | halt | 1 each | `SVM_EXIT_HLT` | `HLT` | yes |
//! | touches memory first, ends | a few | `SVM_EXIT_NPF` | `EPT_VIOLATION`, `EPT_MISCONFIG` | no |
//! | is interrupted by the host | as it happens | `SVM_EXIT_INTR` | `EXTERNAL_INTERRUPT` | no |

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::compile;
use crate::host::KvmHost;

/// Number of each kind of exit to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hypercalls (`vmmcall` or `vmcall`).
    pub hypercalls: u64,
    /// Writes to an I/O port.
    pub port_writes: u64,
    /// `hlt` instructions.
    pub halts: u64,
}

/// What the VMM says it did.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Counted {
    /// `amd` or `intel`.
    pub vendor: String,
    /// Hypercalls made.
    pub hypercalls: u64,
    /// Their number (the guest's `eax`).
    pub hypercall_nr: u64,
    /// Port writes made.
    pub port_writes: u64,
    /// Halts made.
    pub halts: u64,
    /// Port writes that `KVM_RUN` returned for.
    pub seen_port_writes: u64,
    /// Halts that `KVM_RUN` returned for.
    pub seen_halts: u64,
    /// The VMM's process (and only thread), as its host counts.
    pub pid: u32,
}

impl Counts {
    /// Carries the VMM onto the host and gives the command that makes these exits, to be run alone or as the
    /// command of a recorder.
    pub fn command(&self, host: &KvmHost) -> Result<String> {
        host.put(compile::COUNTING.binary()?, "counting")?;
        let Self { hypercalls, port_writes, halts } = self;
        let program = host.scratch().join("counting");
        Ok(format!(
            "{} hypercalls={hypercalls} port_writes={port_writes} halts={halts}",
            program.display()
        ))
    }
}

impl Counted {
    /// Finds the VMM's line in a command's output, and checks that it did what it was asked.
    pub fn in_output(stdout: &str) -> Result<Self> {
        let line = stdout.lines().find(|line| line.starts_with("{\"vendor\""));
        let line = line.context("the counting guest said nothing")?;
        let counted: Self = serde_json::from_str(line).context("the counting guest's line")?;
        ensure!(counted.seen_port_writes == counted.port_writes, "port writes differ: {line}");
        ensure!(counted.seen_halts == counted.halts, "halts differ: {line}");
        Ok(counted)
    }
}
