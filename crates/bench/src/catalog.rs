//! Who is there, by name.

use crate::{
    Kind, Refusal,
    platforms::{self, Platform},
    tracers::{self, Tracer},
    workloads::{self, Workload},
};

/// The platform of this name.
pub fn platform(name: &str) -> Result<&'static dyn Platform, Refusal> {
    let all = platforms::registry();
    let found = all.iter().find(|platform| platform.name() == name);
    found
        .copied()
        .ok_or_else(|| unknown("platform", name, all.iter().map(|platform| platform.name())))
}

/// The tracer of an arm's name, and whether it runs on the host below the machines (`perf@below`) instead of in them.
#[must_use]
pub fn arm(name: &str) -> (&str, bool) {
    match name.strip_suffix("@below") {
        Some(tracer) => (tracer, true),
        None => (name, false),
    }
}

/// The tracer of this arm.
pub fn tracer(name: &str) -> Result<&'static dyn Tracer, Refusal> {
    let (name, all) = (arm(name).0, tracers::registry());
    let found = all.iter().find(|tracer| tracer.name() == name);
    found.copied().ok_or_else(|| unknown("tracer", name, all.iter().map(|tracer| tracer.name())))
}

/// The workload of this name.
pub fn workload(name: &str) -> Result<&'static dyn Workload, Refusal> {
    let all = workloads::registry();
    let found = all.iter().find(|workload| workload.about().name == name);
    found
        .copied()
        .ok_or_else(|| unknown("workload", name, all.iter().map(|workload| workload.about().name)))
}

fn unknown<'a>(kind: &str, name: &str, all: impl Iterator<Item = &'a str>) -> Refusal {
    let all: Vec<&str> = all.collect();
    let refusal = Refusal::new(Kind::Plan, format!("{kind} {name}"), "no such name");
    refusal.mend(format!("there are {}", all.join(", ")))
}
