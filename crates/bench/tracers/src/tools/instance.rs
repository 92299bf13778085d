//! An ftrace instance for one arm: its events on, its buffers apart from everybody else's, gone when dropped.

use super::{
    events::{self, Event},
    params::Params,
};
use transect_bench_core::Fault;
use transect_tracefs::{CpuStats, Instance, Tracefs, clean_leftovers, cpus};

/// Names of our instances begin so; one that a killed worker left is found by its pid and start time.
const PREFIX: &str = "transect-bench";

/// The instance, and what is to be recorded in it.
#[derive(Debug)]
pub(crate) struct Traced {
    /// The instance.
    pub(crate) instance: Instance,
    /// Its events.
    pub(crate) events: Vec<Event>,
    tracefs: Tracefs,
}

impl Traced {
    /// Makes it, with tracing off and no events on.
    pub(crate) fn make(arm: &'static str, params: &Params) -> Result<Self, Fault> {
        let (tracefs, events) = events::here(arm, params.text("events"))?;
        clean_leftovers(&tracefs, PREFIX);
        let instance = Instance::create(&tracefs, PREFIX).map_err(Fault::failed)?;
        if let Some(kib) = params.wish("buffer_kib") {
            instance.set_buffer_kb_per_cpu(kib).map_err(Fault::failed)?;
        }
        Ok(Self { instance, events, tracefs })
    }

    /// Switches its events on, each with `filter` if one is given.
    pub(crate) fn enable(&self, filter: Option<&str>) -> Result<(), Fault> {
        for Event { system, name } in &self.events {
            if let Some(filter) = filter {
                self.instance.set_filter(system, name, filter).map_err(Fault::failed)?;
            }
            self.instance.enable(system, Some(name)).map_err(Fault::failed)?;
        }
        Ok(())
    }

    /// Switches tracing on, and makes sure that it is, with all events.
    pub(crate) fn switch_on(&self) -> Result<(), Fault> {
        self.instance.set_tracing(true).map_err(Fault::failed)?;
        match self.is_on() {
            true => Ok(()),
            false => Err(Fault::failed(format!(
                "{}: tracing was enabled and is now off",
                self.instance.path().display()
            ))),
        }
    }

    /// Fails if somebody switched tracing or an event off.
    pub(crate) fn was_on(&self) -> Result<(), Fault> {
        match self.is_on() {
            true => Ok(()),
            false => Err(Fault::failed("ftrace: tracing was disabled before the end of the run")),
        }
    }

    /// Is tracing on, with all events?
    pub(crate) fn is_on(&self) -> bool {
        let folder = format!("instances/{}", self.instance.name());
        let on = self.events.iter().all(|event| {
            let file = format!("{folder}/events/{}/{}/enable", event.system, event.name);
            // "1*" with a trigger.
            self.tracefs.read(&file).is_ok_and(|text| text.starts_with('1'))
        });
        on && self.instance.is_tracing().unwrap_or(false)
    }

    /// Switches tracing off; the kernel's counters of all CPUs.
    pub(crate) fn switch_off(&self) -> Result<Vec<CpuStats>, Fault> {
        self.instance.set_tracing(false).map_err(Fault::failed)?;
        let cpus = cpus::possible().map_err(Fault::failed)?;
        let online = cpus.into_iter().filter_map(|cpu| self.instance.cpu_stats(cpu).ok());
        Ok(online.collect())
    }
}

/// The version of what traces when the kernel itself does.
pub(crate) fn version() -> String {
    format!("ftrace of Linux {}", super::program::kernel_release())
}
