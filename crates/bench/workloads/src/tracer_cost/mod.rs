//! What a tracer adds to one event, by two loops that do nothing but make events. See README.md.

use super::{
    looped::{Counts, Looped, Operation, timed},
    micro::Getppid,
    support::{asked, forked},
    workload::{Place, Workload},
};
use rustix::event::{EventfdFlags, eventfd};
use std::{io, os::fd::OwnedFd, time::Duration};
use transect_bench_core::{CacheState, Fault, Job, Kind, Refusal, protocol::Param};

const SOURCE: &str = "hypertracing (Benbachir): micro-benchmark of a system call, the worst case";
/// Above everything of the `other` class, below the kernel's own threads (50).
const PRIORITY: i32 = 10;

/// Both of them.
pub(crate) const ALL: [&dyn Workload; 2] = [
    &Looped {
        name: "tracer-cost/getppid",
        text: "getppid in a loop: two events per call for a tracer of system calls",
        source: SOURCE,
        counts: Counts::Operations,
        caches: &[CacheState::Any],
        params,
        can_run,
        make: make_getppid,
    },
    &Looped {
        name: "tracer-cost/eventfd",
        text: "two processes wake each other: a wakeup and a switch per turn, and system calls",
        source: SOURCE,
        counts: Counts::Operations,
        caches: &[CacheState::Any],
        params,
        can_run,
        make: make_eventfd,
    },
];

fn params() -> Vec<(&'static str, Param, &'static str)> {
    let text = "SCHED_FIFO: less noise, but a tracer's consumer on the same CPU has to wait";
    vec![("realtime", Param::Bool(false), text)]
}

fn can_run(job: &Job) -> Result<(), Refusal> {
    if !asked::switch(job, "realtime")? || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = format!("workload {}", job.workload);
    Err(Refusal::new(Kind::NotHere, what, "SCHED_FIFO requires root").mend("realtime = false"))
}

fn realtime_if_asked(place: &Place<'_>) -> Result<(), Fault> {
    if asked::switch(place.job, "realtime")? {
        // A control group without real-time budget refuses it too (CONFIG_RT_GROUP_SCHED).
        forked::be_realtime(PRIORITY).map_err(|error| {
            let why = format!("the kernel refuses SCHED_FIFO: {error}");
            Refusal::new(Kind::NotHere, format!("workload {}", place.job.workload), why)
                .mend("realtime = false")
        })?;
    }
    Ok(())
}

fn make_getppid(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    realtime_if_asked(place)?;
    Ok(Box::new(Getppid))
}

/// Two counters, and a process that answers one with the other.
struct Eventfds {
    there: OwnedFd,
    back: OwnedFd,
    _answering: forked::Forked,
}

fn pass(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut count = [0; 8];
    rustix::io::read(from, &mut count)?;
    rustix::io::write(to, &1u64.to_ne_bytes())?;
    Ok(())
}

impl Operation for Eventfds {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        let mut count = [0; 8];
        timed(times, || {
            rustix::io::write(&self.there, &1u64.to_ne_bytes())?;
            rustix::io::read(&self.back, &mut count)?;
            Ok(())
        })
    }

    /// There and back.
    fn weight(&self) -> u64 {
        2
    }
}

fn make_eventfd(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    realtime_if_asked(place)?;
    let start = || {
        let (there, back) =
            (eventfd(0, EventfdFlags::CLOEXEC)?, eventfd(0, EventfdFlags::CLOEXEC)?);
        let answering = forked::Forked::start(|| {
            while pass(&there, &back).is_ok() {}
            1
        })?;
        Ok(Eventfds { there, back, _answering: answering })
    };
    let made = start().map_err(|error: io::Error| Fault::failed(format!("eventfd: {error}")))?;
    Ok(Box::new(made))
}
