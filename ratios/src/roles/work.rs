//! Loops of one operation. What a tracer costs is what an operation takes longer under it, so the
//! loop is pinned to one CPU (the harness also puts it under `SCHED_FIFO`) and timed in batches,
//! whose median does not see the odd interrupt.

use super::protocol;
use anyhow::Context;
use clap::{Args, ValueEnum};
use rustix::{
    event::{EventfdFlags, eventfd},
    fd::OwnedFd,
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use serde::{Deserialize, Serialize};

/// Which loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loop {
    /// The cheapest system call: two events an operation, entry and exit.
    Getppid,
    /// Two threads on one CPU wake each other: one switch an operation.
    Eventfd,
    /// The same at a fixed rate, 50,000 switches a second, and idle in between.
    Paced,
}

/// `ratios role work`.
#[derive(Debug, Args)]
pub struct Work {
    /// Which loop.
    #[arg(value_enum)]
    operation: Loop,
    /// The CPU it runs on.
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Operations in a batch.
    #[arg(long)]
    ops: u32,
    /// How many batches.
    #[arg(long, default_value_t = 9)]
    batches: u32,
}

/// Cost of the loop, in ns of CPU time per operation, batch by batch.
#[derive(Debug, Serialize, Deserialize)]
pub struct Timed {
    /// One number a batch.
    pub cpu_ns: Vec<f64>,
}

impl Work {
    pub(super) fn play(&self) -> anyhow::Result<()> {
        pin(self.cpu)?;
        let cpu_ns = match self.operation {
            Loop::Getppid => self.batches_of(|| {
                std::hint::black_box(rustix::process::getppid());
                Ok(())
            })?,
            Loop::Eventfd => self.ping_pong(|| Ok(()))?,
            Loop::Paced => self.ping_pong(Pacer::begin()?.of_trips())?,
        };
        protocol::told(&Timed { cpu_ns })
    }

    /// The first batch only warms up.
    fn batches_of(&self, mut op: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<f64>> {
        let mut cpu_ns = Vec::new();
        for _ in 0..=self.batches {
            let begun = cpu_time_ns();
            for _ in 0..self.ops {
                op()?;
            }
            cpu_ns.push((cpu_time_ns() - begun) / f64::from(self.ops));
        }
        cpu_ns.remove(0);
        Ok(cpu_ns)
    }

    /// A round trip is two switches, so two operations.
    /// `pause` is called before each trip.
    fn ping_pong(&self, mut pause: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<f64>> {
        let (there, back) = (pair()?, pair()?);
        let trips = self.ops / 2;
        let halves = Work { operation: self.operation, cpu: 0, ops: trips, batches: self.batches };
        let all = u64::from(trips) * (u64::from(self.batches) + 1);
        std::thread::scope(|scope| {
            let echo = scope.spawn(|| -> anyhow::Result<()> {
                for _ in 0..all {
                    take(&there)?;
                    give(&back)?;
                }
                Ok(())
            });
            let per_trip = halves.batches_of(|| {
                pause()?;
                give(&there)?;
                take(&back)
            });
            echo.join().map_err(|_| anyhow::anyhow!("the echoing thread panicked"))??;
            Ok(per_trip?.into_iter().map(|ns| ns / 2.0).collect())
        })
    }
}

/// Keeps a fixed rate, independent of the time of a trip.
struct Pacer {
    /// When the next burst is due, ns of CLOCK_MONOTONIC.
    due_ns: i64,
    trips: u32,
}

impl Pacer {
    /// A burst each millisecond: 25 trips are 50 switches.
    const EVERY_NS: i64 = 1_000_000;
    const TRIPS: u32 = 25;

    fn begin() -> anyhow::Result<Self> {
        let now = clock_gettime(ClockId::Monotonic);
        Ok(Pacer { due_ns: now.tv_sec * 1_000_000_000 + now.tv_nsec, trips: 0 })
    }

    fn of_trips(mut self) -> impl FnMut() -> anyhow::Result<()> {
        move || {
            self.trips += 1;
            if self.trips < Self::TRIPS {
                return Ok(());
            }
            self.trips = 0;
            self.due_ns += Self::EVERY_NS;
            let (tv_sec, tv_nsec) = (self.due_ns / 1_000_000_000, self.due_ns % 1_000_000_000);
            let due = rustix::time::Timespec { tv_sec, tv_nsec };
            rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &due)?;
            Ok(())
        }
    }
}

/// Threads started after this inherit it.
pub(super) fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPU {cpu}"))
}

fn pair() -> anyhow::Result<OwnedFd> {
    eventfd(0, EventfdFlags::empty()).context("no eventfd")
}

fn give(to: &OwnedFd) -> anyhow::Result<()> {
    rustix::io::write(to, &1u64.to_ne_bytes())?;
    Ok(())
}

fn take(from: &OwnedFd) -> anyhow::Result<()> {
    rustix::io::read(from, &mut [0u8; 8])?;
    Ok(())
}

/// All threads': the two of the ping-pong never run at the same time.
#[expect(clippy::cast_precision_loss, reason = "seconds of CPU time fit")]
fn cpu_time_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
