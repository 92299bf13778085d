//! `--xen only`: dom0's own kernel is not recorded. Its clock is still the recording's: the TSC, which is Xen's.

use super::super::{
    evidence::{Rate, rate_evidence},
    kernel::{HostKernel, KernelNumbers, KernelTotals},
};
use std::sync::Arc;
use transect_model::ids::MachineId;
use transect_store::{RecordingWriter, StoreError};
use transect_tracefs::X86_TSC;

/// A kernel of which nothing is recorded.
pub(in super::super) struct NoKernel {
    rate: Rate,
    host: MachineId,
    notes: [String; 1],
}

impl NoKernel {
    pub(in super::super) fn new() -> Self {
        NoKernel {
            rate: Rate::begin(X86_TSC),
            host: MachineId(0),
            notes: ["dom0's own kernel is not recorded (--xen only)".to_owned()],
        }
    }
}

impl HostKernel for NoKernel {
    fn clock(&self) -> &str {
        X86_TSC
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn events(&self) -> Vec<String> {
        Vec::new()
    }

    fn begin(&mut self, writer: &Arc<RecordingWriter>, host: MachineId) -> anyhow::Result<()> {
        self.host = host;
        if let Some(rate) = self.rate.now() {
            writer.evidence(&rate_evidence(host, &rate))?;
        }
        Ok(())
    }

    fn start(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn switch_on(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn numbers(&self) -> KernelNumbers {
        KernelNumbers::default()
    }

    fn stop(&mut self) -> (KernelTotals, Option<anyhow::Error>) {
        Default::default()
    }

    fn end_source(&mut self, writer: &RecordingWriter) -> Vec<StoreError> {
        let rate = self.rate.now().map(|rate| rate_evidence(self.host, &rate));
        rate.and_then(|rate| writer.evidence(&rate).err()).into_iter().collect()
    }

    fn freeze(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn is_triggered(&self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn dump(&mut self) -> anyhow::Result<KernelTotals> {
        Ok(KernelTotals::default())
    }
}
