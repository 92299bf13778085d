//! Emulated machines that die or hang of their emulator: a boot is tried twice, and the runner of the tests is told.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;

/// A line of the output of a test: the failure is the emulator's. Counted by `tests/house/summary.py`, as is the next.
pub(crate) const MACHINE_FAILED: &str = "testbed: an emulated machine died or hung";
/// A line of the output of a test: a machine did not come up, or died, and another one took its place.
pub(crate) const BOOTED_AGAIN: &str = "testbed: booted again";

/// Prints one of these lines where nextest runs the tests (it sets `NEXTEST`); other programs print what they want.
#[allow(clippy::print_stderr, reason = "the runner reads the output of a test")]
pub(crate) fn report_to_runner(what: &str, why: &dyn Display) {
    if std::env::var_os("NEXTEST").is_some() {
        eprintln!("{what} ({why})");
    }
}

/// What did not come up, with the folder that has its logs.
pub(crate) type BootFailure = (anyhow::Error, PathBuf);

/// Boots a machine, and once more if it does not come up, because an emulated one may hang of its emulator; the second
/// failure counts. An error of `boot` itself is one of the preparations, which another attempt would not mend.
pub(crate) fn boot_twice<T>(boot: impl Fn() -> Result<Result<T, BootFailure>>) -> Result<T> {
    let (first, logs) = match boot()? {
        Ok(machine) => return Ok(machine),
        Err(failure) => failure,
    };
    match boot()? {
        Ok(machine) => {
            report_to_runner(BOOTED_AGAIN, &first.root_cause());
            // The machine is up: the logs of the first attempt have served.
            drop(fs::remove_dir_all(logs));
            Ok(machine)
        }
        Err((second, logs)) => {
            report_to_runner(MACHINE_FAILED, &logs.display());
            Err(second.context(format!("and before that: {first:#}")))
        }
    }
}
