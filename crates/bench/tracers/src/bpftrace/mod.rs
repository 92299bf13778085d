//! `bpftrace` counting events: what a one-liner costs. See `README.md`.

use crate::{
    tools::{
        END_PATIENCE, START_PATIENCE,
        child::Running,
        events::{self, Event},
        params::Params,
        program,
    },
    tracer::{Scene, Tracer, Tracing},
};
use std::{process::Command, time::Duration};
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// Said by the probe that is attached last.
const READY: &str = "all probes are attached";

/// A SIGINT that comes while it is not in `epoll_wait` sets a flag that is only looked at when another signal interrupts
/// that (`BPFtrace::poll_perf_events`, src/bpftrace.cpp of 0.17): it would count for ever.
const TOLD_AGAIN_EVERY: Duration = Duration::from_secs(1);

/// The arm.
#[derive(Debug)]
pub(super) struct Bpftrace;

impl Tracer for Bpftrace {
    fn name(&self) -> &'static str {
        "bpftrace"
    }

    fn about(&self) -> &'static str {
        "bpftrace: @ = count() for each event"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        vec![events::param()]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let params = Params::of(self, job)?;
        program::find(self.name(), "bpftrace", "bpftrace")?;
        program::need_root(self.name())?;
        let tracefs = events::tracefs(self.name())?;
        events::present(self.name(), &tracefs, params.text("events")).map(drop)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let bpftrace = program::find(self.name(), "bpftrace", "bpftrace")?;
        let params = Params::of(self, scene.job)?;
        let (_, events) = events::here(self.name(), params.text("events"))?;
        let mut command = Command::new(&bpftrace);
        command.args(["-B", "line", "-e", &program_text(&events)]);
        let version = program::version(&bpftrace)?;
        let running = Running::start("bpftrace", &mut command, scene.folder)?;
        let mut running = running.told_again_every(TOLD_AGAIN_EVERY);
        running.wait_until("attached probes", START_PATIENCE, |it| it.said().contains(READY))?;
        running.traces_now();
        Ok(Box::new(Counting { running, probes: events.len(), version }))
    }
}

/// The program. Probes are attached in the order they are written (`BPFtrace::run`, src/bpftrace.cpp of 0.17): when the
/// last one fires, all the others do. It costs four timers a second.
fn program_text(events: &[Event]) -> String {
    let probe = |(number, event): (usize, &Event)| {
        format!("tracepoint:{event} {{ @events{number} = count(); }}\n")
    };
    let counting: String = events.iter().enumerate().map(probe).collect();
    format!("{counting}interval:ms:250 /!@said/ {{ @said = 1; printf(\"{READY}\\n\"); }}\n")
}

struct Counting {
    running: Running,
    probes: usize,
    version: String,
}

impl Tracing for Counting {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let said = self.running.said();
        let (maps, events) = sum(&said);
        // A map of an event that never happened is not printed; more than there are would be another program's.
        if maps > self.probes || !said.contains("@said: 1") {
            return Err(self.running.fault("bpftrace printed no counters"));
        }
        Ok(TracerCost {
            events: Some(events),
            bytes: Some(0),
            // Counted in place, on each CPU.
            lost_events: Some(0),
            version: self.version,
            ..ended.cost()
        })
    }
}

/// Counters printed, and their sum.
fn sum(said: &str) -> (usize, u64) {
    let counts = said.lines().filter_map(|line| {
        line.strip_prefix("@events")?.split_once(": ")?.1.trim().parse::<u64>().ok()
    });
    counts.fold((0, 0), |(maps, sum), count| (maps + 1, sum + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_a_counter_for_each_event_and_the_sign_last() {
        let event = |name: &str| Event { system: "irq".into(), name: name.into() };
        let text = program_text(&[event("a"), event("b")]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "tracepoint:irq:b { @events1 = count(); }");
        assert!(lines[2].starts_with("interval:"), "{text}");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn counters_are_added_up() {
        let said = "Attaching 3 probes...\nall probes are attached\n\n\n@events0: 13500\n@events1: 5138\n@said: 1\n";
        assert_eq!(sum(said), (2, 18638));
    }
}
