//! Processes made and ended.

use crate::{
    looped::{Operation, timed},
    support::{
        asked,
        forked::{CommandLine, Forked},
    },
    workload::Place,
};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use transect_bench_core::{Fault, Job, Kind, Refusal, protocol::Param};

const SHELL: &str = "/bin/sh";

pub(super) fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![(
        "program",
        Param::Text("/bin/true".into()),
        "the program to execute; it must exit with 0",
    )]
}

pub(super) fn can_exec(job: &Job) -> Result<(), Refusal> {
    let program = asked::word(job, "program")?;
    for needed in [program, SHELL] {
        if !Path::new(needed).is_file() {
            let why = format!("{needed} does not exist");
            return Err(Refusal::new(Kind::Missing, format!("workload {}", job.workload), why));
        }
    }
    Ok(())
}

struct Process {
    /// `None`: it ends at once.
    command: Option<CommandLine>,
    programs: Vec<PathBuf>,
}

impl Operation for Process {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        timed(times, || {
            let child = Forked::start(|| self.command.as_ref().map_or(0, CommandLine::exec))?;
            match child.wait()? {
                0 => Ok(()),
                code => Err(io::Error::other(format!("it ended with {code}"))),
            }
        })
    }

    fn programs(&self) -> Vec<PathBuf> {
        self.programs.clone()
    }
}

fn make(words: &[&str], programs: &[&str]) -> Result<Box<dyn Operation>, Fault> {
    let command = (!words.is_empty()).then(|| CommandLine::new(words)).transpose();
    let command = command.map_err(|error| Fault::failed(format!("a command line: {error}")))?;
    Ok(Box::new(Process { command, programs: programs.iter().map(PathBuf::from).collect() }))
}

pub(super) fn make_fork(_: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    make(&[], &[])
}

pub(super) fn make_exec(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let program = asked::word(place.job, "program")?;
    make(&[program], &[program])
}

pub(super) fn make_sh(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let program = asked::word(place.job, "program")?;
    // A shell that is told only one command may become it; behind a second one it forks, as LMbench's had to.
    let line = format!("{program}; exit $?");
    make(&[SHELL, "-c", &line], &[SHELL, program])
}
