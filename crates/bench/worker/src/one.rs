//! The process of one job's workload, as seen from inside.
//!
//! ```text
//! worker                     one
//! Order (a line)      ──▶    takes its CPUs, prepares
//!                     ◀──    Ready, or Faulted
//! "go"                ──▶    runs
//!                     ◀──    Ran, or Faulted
//! (SIGUSR1: cancel)
//! (end of the input)  ──▶    the workload cleans up, the process ends
//! ```
//! It has one thread, so that what a workload forks is small, and no signal but SIGUSR1 is changed.

use super::WorkerError;
use serde::{Deserialize, Serialize};
use signal_hook::{consts::signal::SIGUSR1, flag, low_level::pipe};
use std::{
    fs::File,
    io::{self, BufRead, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use transect_bench_core::{Fault, Job, Metric, protocol::Role, this_machine::pin};
use transect_bench_workloads::{self as workloads, Place, Prepared};

/// What the process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The job, parameters complete.
    pub(crate) job: Job,
    /// See [`Place::folder`].
    pub(crate) folder: PathBuf,
    /// See [`Place::keep`].
    pub(crate) keep: PathBuf,
}

/// The word that starts the measured part.
pub(crate) const GO: &str = "go\n";

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum OneSays {
    /// It is on the brink.
    Ready {
        /// See [`Prepared::files`].
        files: Vec<PathBuf>,
        /// See [`Prepared::ports`].
        ports: Vec<u16>,
        /// See [`Prepared::programs`].
        programs: Vec<PathBuf>,
    },
    /// The measured part is over.
    Ran {
        /// `CLOCK_REALTIME` at its start, ns.
        started_realtime_ns: u64,
        /// Its length, ns.
        took_ns: u64,
        /// What was measured.
        metrics: Vec<Metric>,
        /// What people should know.
        notes: Vec<String>,
    },
    /// It does not go on.
    Faulted(Fault),
}

/// Is the process of one job.
pub(crate) fn run(mut input: impl BufRead) -> Result<(), WorkerError> {
    let mut output = private_output().map_err(WorkerError::system("redirect standard output"))?;
    let mut line = String::new();
    input.read_line(&mut line).map_err(WorkerError::system("read the job"))?;
    let order: Order = serde_json::from_str(&line).map_err(|error| WorkerError::Garbage {
        line: 1,
        why: error.to_string(),
        begins: line.chars().take(60).collect(),
    })?;
    let cancelled = Arc::new(AtomicBool::new(false));
    let (waker, by) = UnixStream::pair().map_err(WorkerError::system("make a pipe"))?;
    // The flag first: who is woken by the pipe finds it set.
    flag::register(SIGUSR1, Arc::clone(&cancelled))
        .and_then(|_| pipe::register(SIGUSR1, by))
        .map_err(WorkerError::system("handle SIGUSR1"))?;
    let place =
        Place { job: &order.job, folder: &order.folder, keep: &order.keep, cancelled: &cancelled };
    let mut prepared = match ready(&place, waker) {
        Ok(prepared) => prepared,
        Err(fault) => return say(&mut output, &OneSays::Faulted(fault)),
    };
    let (files, ports, programs) = (prepared.files(), prepared.ports(), prepared.programs());
    say(&mut output, &OneSays::Ready { files, ports, programs })?;
    line.clear();
    input.read_line(&mut line).map_err(WorkerError::system("read the start command"))?;
    if line == GO {
        say(&mut output, &measured(prepared.as_mut()))?;
        // Its processes stay as they are until tracer and sampler have ended.
        input
            .read_line(&mut line)
            .map_err(WorkerError::system("wait for the end of the workload"))?;
    }
    Ok(())
}

/// The real standard output for the protocol; what programs print goes where errors go.
#[expect(unsafe_code, reason = "a descriptor is replaced by its number")]
fn private_output() -> io::Result<File> {
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    // SAFETY: both are this process's standard descriptors, and nobody owns them as values.
    match unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(File::from(output)),
    }
}

fn say(output: &mut File, what: &OneSays) -> Result<(), WorkerError> {
    let line = serde_json::to_string(what).map_err(WorkerError::system("write an answer"))?;
    output.write_all(format!("{line}\n").as_bytes()).map_err(WorkerError::system("answer"))
}

fn ready<'a>(place: &Place<'a>, waker: UnixStream) -> Result<Box<dyn Prepared + 'a>, Fault> {
    pin(&place.job.cpus)?;
    if place.job.role == Role::Bystander {
        return Ok(Box::new(Waiting(waker)));
    }
    workloads::named(&place.job.workload)?.prepare(place)
}

fn measured(prepared: &mut dyn Prepared) -> OneSays {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let from = Instant::now();
    let ran = prepared.run();
    let took_ns = nanoseconds(from.elapsed());
    match ran.and_then(finite) {
        Ok(metrics) => OneSays::Ran {
            started_realtime_ns: nanoseconds(started),
            took_ns,
            metrics,
            notes: prepared.notes(),
        },
        Err(fault) => OneSays::Faulted(fault),
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// JSON has no word for what is not a number, and statistics have no use for it.
fn finite(metrics: Vec<Metric>) -> Result<Vec<Metric>, Fault> {
    let is_finite = |metric: &Metric| {
        let spread = metric.distribution.iter();
        let of_spread = spread.flat_map(|spread| {
            let quantiles = spread.quantiles.iter().map(|(_, value)| *value);
            [spread.min, spread.mean, spread.max].into_iter().chain(quantiles)
        });
        metric.value.is_finite() && of_spread.into_iter().all(f64::is_finite)
    };
    match metrics.iter().find(|metric| !is_finite(metric)) {
        Some(bad) => {
            Err(Fault::failed(format!("metric {} has the invalid value {bad:?}", bad.name)))
        }
        None => Ok(metrics),
    }
}

/// A bystander: there, and waiting.
struct Waiting(UnixStream);

impl Prepared for Waiting {
    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        self.0.read_exact(&mut [0]).map_err(|error| Fault::failed(format!("waiting: {error}")))?;
        Ok(Vec::new())
    }
}
