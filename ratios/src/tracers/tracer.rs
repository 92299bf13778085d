//! What a tracer is to the harness: something that runs a load and says what it has traced.

use super::events::Events;
use crate::{bed::Bed, traced::Traced};
use anyhow::Result;

/// What is asked of a tracer.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// What it traces, on all CPUs.
    pub events: Events,
    /// Its buffer memory on each CPU.
    pub buffer_kib: u32,
    /// Whether its consumer has a CPU for itself (else it competes like any program).
    pub consumer_alone: bool,
}

impl Wish {
    pub(super) fn place(&self, words: Vec<String>) -> Vec<String> {
        if self.consumer_alone { crate::bed::on_consumer_cpu(words) } else { words }
    }
}

/// Something that traces.
pub trait Tracer {
    /// Its name in rows.
    fn name(&self) -> String;

    /// Why it cannot be had here.
    fn why_not(&self, _bed: &Bed) -> Option<String> {
        None
    }

    /// Which share of the events it is meant to see; `None` if it does not look.
    fn share(&self) -> Option<f64> {
        Some(1.0)
    }

    /// Runs `load` while tracing; gives the load's output and what was traced.
    ///
    /// # Errors
    /// If the tracer or the load fails.
    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)>;
}

/// No tracer: what is measured around it must be nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Tracer for Nothing {
    fn name(&self) -> String {
        "nothing".to_owned()
    }

    fn share(&self) -> Option<f64> {
        None
    }

    fn around(&self, _bed: &Bed, _wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        Ok((crate::bed::output(load)?, Traced::default()))
    }
}
