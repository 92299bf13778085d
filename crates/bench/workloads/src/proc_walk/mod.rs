//! What walking `/proc` costs. See README.md.

use super::{
    looped::{Counts, Looped, Operation, everywhere, timed},
    support::{asked, forked::Forked},
    workload::{Place, Workload},
};
use rustix::{
    fs::{Dir, Mode, OFlags, openat},
    io::Errno,
};
use std::{
    io::{self, PipeWriter, Read},
    os::fd::OwnedFd,
    time::Duration,
};
use transect_bench_core::{CacheState, Fault, Metric, Unit, protocol::Param};

/// It.
pub(crate) const PROC_WALK: &dyn Workload = &Looped {
    name: "proc-walk",
    text: "reading /proc/PID/stat of every process, as ps and top do",
    source: "the cost of polling against the number of guests or processes (XenMon's argument for tracing)",
    counts: Counts::Operations,
    caches: &[CacheState::Any],
    params,
    can_run: everywhere,
    make,
};

fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![("processes", Param::Int(0), "sleeping processes added to the existing ones")]
}

struct Walk {
    proc: OwnedFd,
    buffer: Vec<u8>,
    seen: u64,
    _sleepers: Vec<Forked>,
    _wakes: PipeWriter,
}

impl Walk {
    fn start(processes: u64) -> io::Result<Self> {
        let (asleep, wakes) = io::pipe()?;
        let mut sleepers = Vec::new();
        for _ in 0..processes {
            let mut asleep = asleep.try_clone()?;
            sleepers.push(Forked::start(move || {
                // Until it is killed: this process holds the other end too.
                let _ = asleep.read(&mut [0]);
                0
            })?);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty())?;
        Ok(Self { proc, buffer: vec![0; 4096], seen: 0, _sleepers: sleepers, _wakes: wakes })
    }
}

/// One walk. Gives the processes that it saw.
fn walk(proc: &OwnedFd, buffer: &mut [u8]) -> io::Result<u64> {
    let mut seen = 0;
    let mut path = String::with_capacity(32);
    for entry in Dir::read_from(proc)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if !name.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        path.clear();
        path.push_str(name);
        path.push_str("/stat");
        let read = openat(proc, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| rustix::io::read(&file, &mut *buffer));
        match read {
            Ok(_) => seen += 1,
            // It ended meanwhile.
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(seen)
}

impl Operation for Walk {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        timed(times, || {
            self.seen = walk(&self.proc, &mut self.buffer)?;
            Ok(())
        })
    }

    fn besides(&mut self, walk_ns: f64) -> io::Result<Vec<Metric>> {
        #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 processes")]
        let seen = self.seen.max(1) as f64;
        Ok(vec![
            Metric::new("processes", Unit::Count, transect_bench_core::Better::Less, seen),
            Metric::nanoseconds("time_per_process", walk_ns / seen),
        ])
    }
}

fn make(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let processes = asked::number(place.job, "processes", 0..=10_000)?;
    let walk = Walk::start(processes);
    Ok(Box::new(
        walk.map_err(|error| Fault::failed(format!("cannot start the added processes: {error}")))?,
    ))
}
