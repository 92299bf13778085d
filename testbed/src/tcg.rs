//! A Linux guest under TCG on this machine: no KVM, no vsock, a real kernel in some 3 s.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::direct::Direct;
use crate::guest::GuestPlan;
use crate::job::Place;
use crate::qemu::Accelerator;

/// Entry point for plain emulated guests; the booted guest is a [`crate::Guest`].
pub struct TcgGuest;

impl TcgGuest {
    /// A guest that lives at most ten minutes.
    pub fn plan(name: &str) -> Result<GuestPlan> {
        Self::plan_for(name, Duration::from_secs(600))
    }

    /// A guest that lives at most so long.
    pub fn plan_for(name: &str, lifetime: Duration) -> Result<GuestPlan> {
        let place = Direct::new(lifetime)?;
        place.run().note_emulation();
        Ok(GuestPlan::new(Arc::new(place), Accelerator::Tcg, name))
    }
}
