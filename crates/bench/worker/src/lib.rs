//! The side of the benchmark inside a machine: takes jobs, says what was measured.
//!
//! # Processes
//! ```text
//! keeper            what the platform starts; waits, and when it ends nothing of it is left
//! └─ worker         speaks the protocol on the keeper's standard input and output
//!    ├─ one         runs one job's workload; new for every job, so that its memory is gone afterwards
//!    │  └─ …        the workload's programs
//!    └─ …           the tracer arm's programs
//! ```
//! All are this same program, told apart by a last argument ([`Mode`]).
//!
//! # Why
//! - Keeper and worker are *child subreapers* (Linux ≥ 3.4, `prctl(2)`): a daemon that a workload leaves behind becomes
//!   their child, so what is to be ended is found, whatever session it moved to. Control groups would do it too, but
//!   not every guest has them.
//! - The worker killed by force: the keeper kills the rest. The keeper killed by force: the worker gets SIGTERM from the
//!   kernel (`PR_SET_PDEATHSIG`), ends its tracer in an orderly way and kills the rest.
//! - The workload's process is there and waits before the tracer starts, so that a tracer can attach to it.
//!
//! # Constraints
//! - Waits are on channels and pipes, never in a loop over the clock: the worker must not disturb what it measures.
//! - An answer follows every job, and after every answer the machine is as before: no process, no folder.

pub mod caches;
mod child;
mod error;
mod events;
mod facts;
mod family;
mod hashes;
mod job;
mod keeper;
mod one;
mod own;
mod params;
mod service;
mod watch;

pub use error::WorkerError;
pub use own::{Mode, Own};

use std::{
    io::{BufRead, Write},
    process::ExitCode,
};
use transect_model::escape::indented;

/// Is the worker, in any of its processes, on standard input and output.
///
/// Exit code 0: told to end, or nobody is there any more. 1: it could not go on. 2: it was told nonsense.
#[must_use]
pub fn run(mode: Mode, own: &Own) -> ExitCode {
    let input = std::io::BufReader::new(std::io::stdin());
    let ended = match mode {
        Mode::Keeper => keeper::keep(own),
        Mode::Serve => family::die_with_parent()
            .and_then(|()| serve(input, std::io::stdout(), own))
            .map(|()| 0),
        Mode::One => one::run(input).map(|()| 0),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nobody may be listening any more.
            let told = indented(&error.to_string());
            let _ = writeln!(std::io::stderr(), "transect bench worker: {told}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Takes jobs until it is told to end, the input ends, or a signal asks for it (SIGTERM, SIGINT, SIGHUP).
///
/// The process becomes a child subreaper, and kills all its descendants after every job: run it in a process of its
/// own.
pub fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write,
    own: &Own,
) -> Result<(), WorkerError> {
    service::Service::start(input, output, own)?.serve()
}
